"""policy/endpoint: what it takes from real servers on this machine, and what it says of those that misbehave."""

import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request as HttpRequest
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from transformers import AutoTokenizer

from clawloop.gateway.formats import Hermes
from clawloop.gateway.server import Gateway
from clawloop.gateway.sessions import Budget
from clawloop.harness.shell.shell import Shell
from clawloop.policy import server
from clawloop.policy.endpoint import EndpointPolicy
from clawloop.policy.hf import HfPolicy
from clawloop.policy.scripted import ScriptedPolicy
from clawloop.protocols import InfrastructureError, RequestError
from clawloop.rollout.episode import Episode
from clawloop.rollout.grade import SandboxGrader
from clawloop.sandbox.bubblewrap import Bubblewrap
from clawloop.store.weights import find
from clawloop.training.advantage import GroupRelative
from clawloop.training.sequences import groups, successes
from clawloop.types import (
    Card,
    Contract,
    Deliverable,
    Message,
    Request,
    RolloutGroup,
    Task,
    TaskPool,
    Tool,
    Verifier,
    Workspace,
)

BASH = Tool("bash", "Runs a command.", json.dumps({"type": "object", "properties": {"command": {"type": "string"}}}))
TEMPLATE = r"""{%- if tools %}<|im_start|>system
{% for t in tools %}{{ t | tojson }}
{% endfor %}<|im_end|>
{% endif %}{% for m in messages %}<|im_start|>{{ m.role }}
{{ m.content }}{% for c in m.tool_calls or [] %}{{ "\n" }}<tool_call>
{{ {"name": c.function.name, "arguments": c.function.arguments} | tojson }}
</tool_call>{% endfor %}<|im_end|>
{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant
{% endif %}"""


def ask(text: str = "Count.", *more: Message, seed: int = 1, max_tokens: int = 16, **options: Any) -> Request:
    return Request((Message("user", text), *more), "s", seed, max_tokens, **options)


def ours(caplog: pytest.LogCaptureFixture) -> list[str]:
    """What this program said; how loud the libraries are depends on the tests before."""
    return [record.getMessage() for record in caplog.records if record.name.startswith("clawloop")]


@contextmanager
def serving(answer: Callable[[dict[str, Any]], Response]) -> Iterator[str]:
    """A real server whose completions `answer` makes; its address."""

    async def route(request: HttpRequest) -> Response:
        from starlette.concurrency import run_in_threadpool

        return await run_in_threadpool(answer, json.loads(await request.body()))

    app = Starlette(routes=[Route("/v1/chat/completions", route, methods=["POST"])])
    with socket.create_server(("127.0.0.1", 0)) as listener:
        server = uvicorn.Server(uvicorn.Config(app, log_level="error", timeout_graceful_shutdown=1))
        thread = threading.Thread(target=server.run, args=([listener],))
        thread.start()
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}/v1"
        finally:
            server.should_exit = True
            thread.join()


def said(text: str, finish: str = "stop", **message: Any) -> JSONResponse:
    choice = {"index": 0, "message": {"role": "assistant", "content": text, **message}, "finish_reason": finish}
    return JSONResponse({"object": "chat.completion", "choices": [choice]})


@pytest.fixture(scope="module")
def nano(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return find("nano", tmp_path_factory.mktemp("nano"))


@pytest.fixture
def endpoint(nano: Path) -> Callable[..., EndpointPolicy]:
    def make(url: str, **options: Any) -> EndpointPolicy:
        return EndpointPolicy(nano, url, "m", **{"retries": 2, "wait_s": 0.01, "timeout_s": 20.0, **options})

    return make


class Exact:
    """A server that says which tokens it read and sampled, over a model of its own; it can be made to read others."""

    def __init__(self, policy: HfPolicy, slip: tuple[int, ...] = ()) -> None:
        self.policy, self.slip = policy, slip
        self.bodies: list[dict[str, Any]] = []

    def __call__(self, body: dict[str, Any]) -> Response:
        self.bodies.append(body)
        messages = tuple(Message(m["role"], m["content"]) for m in body["messages"])
        reply = self.policy.complete(Request(messages, "s", body["seed"], body["max_tokens"]))
        finish = "length" if reply.finish != "stop" else "stop"
        logprobs = {"content": [{"token": "?", "logprob": one} for one in reply.logprobs or ()]}
        choice = {"message": {"content": reply.text}, "finish_reason": finish, "logprobs": logprobs}
        choice["token_ids"] = list(reply.ids)
        return JSONResponse({"choices": [choice], "prompt_token_ids": [*reply.prompt_ids, *self.slip]})


@pytest.fixture(scope="module")
def model(nano: Path) -> HfPolicy:
    return HfPolicy(nano, slots=4, context=512)


def test_tokens_and_their_log_probabilities_are_the_servers(
    model: HfPolicy, endpoint: Callable[..., EndpointPolicy], caplog: pytest.LogCaptureFixture
) -> None:
    server = Exact(model)
    with serving(server) as url:
        reply = endpoint(url).complete(ask("Count the lines.", seed=5))
    assert server.bodies[0]["return_token_ids"] and server.bodies[0]["logprobs"]
    assert reply == model.complete(ask("Count the lines.", seed=5))
    assert reply.logprobs is not None
    assert not ours(caplog)


def test_other_tokens_than_those_of_the_tokenizer_here_leave_no_log_probabilities(
    model: HfPolicy, endpoint: Callable[..., EndpointPolicy], caplog: pytest.LogCaptureFixture
) -> None:
    with serving(Exact(model, slip=(7,))) as url:
        policy = endpoint(url)
        replies = [policy.complete(ask(seed=seed)) for seed in range(3)]
    assert [reply.logprobs for reply in replies] == [None] * 3
    assert [reply.text for reply in replies] == [model.complete(ask(seed=seed)).text for seed in range(3)]
    (warning,) = ours(caplog)
    assert "read other tokens" in warning and "not GRPO" in warning


def test_at_another_temperature_log_probabilities_are_not_asked_for(
    endpoint: Callable[..., EndpointPolicy], caplog: pytest.LogCaptureFixture
) -> None:
    bodies: list[dict[str, Any]] = []

    def answer(body: dict[str, Any]) -> Response:
        bodies.append(body)
        return said("done")

    with serving(answer) as url:
        reply = endpoint(url, temperature=0.5).complete(ask())
    assert bodies[0]["temperature"] == 0.5 and "logprobs" not in bodies[0]
    assert reply.logprobs is None
    assert any("temperature 0.5" in line for line in caplog.messages)


def test_the_gateway_gives_none_and_its_rollouts_serve_sft_but_never_grpo(
    nano: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    check = (
        'import json, pathlib\nok = pathlib.Path("work/n.txt").exists()\n'
        'print(json.dumps({"fields": {"n": None if ok else "missing"}}))'
    )
    contract = Contract((), (Deliverable("n.txt", "text", {"n": "integer"}),))
    card = Card("capability", "audit/analysis", "analysis", "hives", 0, "text", 1, "l1")
    task = Task("t1", "Count.", Workspace({"a.txt": b"x\n"}), Verifier(check, '"1"', 5.0), contract, card)
    boxes = Bubblewrap()
    episode = Episode(Shell(max_turns=3), boxes, SandboxGrader(boxes))
    rollouts = []
    with Gateway(Hermes()) as gateway:
        for index, command in enumerate(("wc -l < a.txt > n.txt", "true")):
            inner = ScriptedPolicy([{"when": "Count", "say": f"```bash\n{command}\n```"}], slip=0.0)
            session = gateway.open(inner, Budget(turns=9, tokens=9_000, reply_tokens=900, wall_s=60.0), 1)
            monkeypatch.setenv("KEY_OF_THE_TEST", session.key)
            policy = EndpointPolicy(nano, gateway.url + "/v1", "m", key="KEY_OF_THE_TEST", retries=0)
            rollouts.append(episode(policy, task, index, 1))
            gateway.close(session)
    assert [rollout.reward for rollout in rollouts] == [1.0, 0.0]
    assert any("refuses to give token ids" in line for line in caplog.messages)
    kept = rollouts[0].trajectory
    assert kept is not None
    (trace,) = kept.traces
    assert trace.logprobs is None
    said = [i for i, mine in zip(trace.ids, trace.mask, strict=True) if mine]
    assert policy.tokenizer.decode(said, skip_special_tokens=True) == "```bash\nwc -l < a.txt > n.txt\n```done"
    assert said.count(policy.chat.end) == 2
    pool = TaskPool((RolloutGroup(task, tuple(rollouts)),))
    (sequence,) = successes(pool, 4096).sequences
    assert sequence.ids == trace.ids
    with pytest.raises(ValueError, match=r"trainer grpo: the log-probabilities of 2 rollouts \(t1#0"):
        groups(pool, 4096, GroupRelative(1e-4))


def test_tool_calls_come_back_into_the_text_and_go_out_with_their_results(
    nano: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tokenizer = AutoTokenizer.from_pretrained(nano)
    tokenizer.chat_template = TEMPLATE
    tokenizer.save_pretrained(tmp_path)
    texts = ['I look.\n<tool_call>\n{"name": "bash", "arguments": {"command": "ls"}}\n</tool_call>', "done"]
    inner = ScriptedPolicy(slip=0.0)
    monkeypatch.setattr(inner, "_reply", lambda request: texts[len(request.messages) // 3])
    with Gateway(Hermes()) as gateway:
        session = gateway.open(inner, Budget(turns=9, tokens=9_000, reply_tokens=900, wall_s=60.0), 1)
        monkeypatch.setenv("KEY_OF_THE_TEST", session.key)
        policy = EndpointPolicy(tmp_path, gateway.url + "/v1", "m", key="KEY_OF_THE_TEST", retries=0)
        first = policy.complete(ask(max_tokens=200, tools=(BASH,)))
        read = Hermes().read(first.text, (BASH,), lambda n: f"call_0_{n}")
        turn = Message("assistant", read.content, first.ids, read.calls)
        result = Message("tool", "a.txt", call_id="call_0_0")
        second = policy.complete(ask("Count.", turn, result, max_tokens=200, tools=(BASH,)))
        record = gateway.close(session)
    assert first.text == texts[0] and second.text == "done"
    assert "bash" in policy.tokenizer.decode(first.prompt_ids)
    assert [one.name for one in record.calls[-1].tools] == ["bash"]
    assert record.calls[-1].messages[2] == Message("tool", "a.txt", call_id="call_0_0")
    assert first.logprobs is None or second.logprobs is None


def test_a_server_that_is_busy_is_asked_again_after_the_pause_that_it_names(
    endpoint: Callable[..., EndpointPolicy],
) -> None:
    asked: list[float] = []

    def answer(body: dict[str, Any]) -> Response:
        asked.append(time.monotonic())
        return said("done") if len(asked) > 2 else Response("busy", 429, {"retry-after": "0.3"})

    with serving(answer) as url:
        assert endpoint(url).complete(ask()).text == "done"
    assert len(asked) == 3 and asked[2] - asked[0] >= 0.6


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (lambda body: JSONResponse({"error": {"message": "out of memory"}}, 500), "status 500: out of memory"),
        (lambda body: Response("<html>", media_type="text/html"), "an answer that is no JSON"),
        (lambda body: time.sleep(2.0) or said("late"), "no answer in time"),
    ],
    ids=["always 500", "garbage", "hangs"],
)
def test_a_server_that_stays_broken_is_an_infrastructure_failure_in_a_sentence(
    answer: Callable[[dict[str, Any]], Response], words: str, endpoint: Callable[..., EndpointPolicy]
) -> None:
    calls: list[int] = []

    def counted(body: dict[str, Any]) -> Response:
        calls.append(1)
        return answer(body)

    with serving(counted) as url, pytest.raises(InfrastructureError) as raised:
        endpoint(url, timeout_s=0.3).complete(ask())
    assert f"gave no answer in 3 tries; the last: {words}" in str(raised.value)
    assert len(calls) == 3


def test_nobody_at_the_address_is_an_infrastructure_failure(endpoint: Callable[..., EndpointPolicy]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    with pytest.raises(InfrastructureError, match="ConnectError"):
        endpoint(f"http://127.0.0.1:{port}/v1").complete(ask())


def test_what_may_have_started_a_server_anew_unseen_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """A try without an answer, an error of the server, and a silence; not a long answer that somebody waits for."""
    monkeypatch.setattr(server, "_SILENCE_S", 0.2)
    answers = iter([said("first"), Response(status_code=503), said("second"), said("third")])

    def answer(_: dict[str, Any]) -> Response:
        found = next(answers)
        if b"third" in found.body:
            time.sleep(0.5)
        return found

    with serving(answer) as url:
        client = server.Server(url, None, 5.0, 1, 0.01)
        client.call("POST", "/chat/completions", {})
        assert client.interruptions() == 0
        client.call("POST", "/chat/completions", {})
        assert client.interruptions() == 1
        with ThreadPoolExecutor(1) as pool:
            waiting = pool.submit(client.call, "POST", "/chat/completions", {})
            while not waiting.done():
                assert client.interruptions() == 1
                time.sleep(0.01)
        time.sleep(0.3)
        assert [client.interruptions(), client.interruptions()] == [2, 2]
    with pytest.raises(InfrastructureError):
        client.call("POST", "/chat/completions", {})
    assert client.interruptions() == 4


def test_json_that_is_no_completion_is_an_infrastructure_failure(endpoint: Callable[..., EndpointPolicy]) -> None:
    for body in ({"choices": []}, {"detail": "hello"}, [1], {"choices": [{"message": None, "finish_reason": "stop"}]}):
        with (
            serving(lambda _, body=body: JSONResponse(body)) as url,
            pytest.raises(InfrastructureError, match="this is no chat completion"),
        ):
            endpoint(url).complete(ask())


def test_what_a_server_refuses_is_no_broken_server(endpoint: Callable[..., EndpointPolicy]) -> None:
    asked: list[dict[str, Any]] = []

    def answer(body: dict[str, Any]) -> Response:
        asked.append(body)
        return JSONResponse({"error": {"message": "no such model: m"}}, 404)

    with serving(answer) as url, pytest.raises(RequestError, match="status 404: no such model: m"):
        endpoint(url).complete(ask())
    assert len(asked) == 1


def test_a_prompt_that_is_too_long_ends_the_conversation_here_or_at_the_server(
    endpoint: Callable[..., EndpointPolicy],
) -> None:
    words = "This model's maximum context length is 4096 tokens."
    with serving(lambda body: JSONResponse({"error": {"message": words}}, 400)) as url:
        assert endpoint(url).complete(ask()).finish == "context"
        assert endpoint("http://127.0.0.1:9", context=8).complete(ask("many words " * 9)).finish == "context"
    with serving(lambda body: said("cut", "length")) as url:
        policy = endpoint(url, context=24)
        assert policy.complete(ask(max_tokens=500)).finish == "context"
        assert policy.complete(ask(max_tokens=2)).finish == "length"


def test_weights_at_a_server_are_not_trained_renamed_or_kept(nano: Path, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="trainer: sft, grpo cannot train weights that are at a server"):
        EndpointPolicy(nano, "http://127.0.0.1:9/v1", "m", trainer=["sft", "grpo"])
    policy = EndpointPolicy(nano, "http://127.0.0.1:9/v1", "m")
    for act in (lambda: policy.renamed("x"), lambda: policy.save(tmp_path), lambda: policy.load(tmp_path, "x")):
        with pytest.raises(TypeError, match=r"the weights are at http://127\.0\.0\.1:9/v1"):
            act()


def test_a_trainer_over_an_endpoint_ends_before_any_work(
    command_line: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    code, _, err = command_line("+experiment=main", "scale=debug", "policy=endpoint")
    assert code == 2
    assert err.strip().startswith("trainer: sft, grpo cannot train weights that are at a server; choose trainer=[]")


def test_a_missing_key_and_a_wrong_address_are_named(nano: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KEY_OF_THE_TEST", raising=False)
    with pytest.raises(ValueError, match="environment variable KEY_OF_THE_TEST is not set"):
        EndpointPolicy(nano, "http://127.0.0.1:9/v1", "m", key="KEY_OF_THE_TEST")
    with pytest.raises(ValueError, match=r"policy.url: '127.0.0.1:9' is no address"):
        EndpointPolicy(nano, "127.0.0.1:9", "m")
