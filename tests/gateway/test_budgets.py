"""Bounds, faults and refusals: each in the protocol's own form, and each remembered."""

import json
import socket
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import anthropic
import google.genai.errors
import httpx
import openai
import pytest

from clawloop.gateway.formats import Plain
from clawloop.gateway.server import Gateway
from clawloop.gateway.sessions import Budget, Session
from clawloop.policy.scripted import ScriptedPolicy
from clawloop.protocols import InfrastructureError, RequestError
from clawloop.types import Completion, Request, Stop

Agents = Callable[..., Any]
Sessions = Callable[..., Session]
DIALECTS = ("chat", "responses", "messages", "gemini")
PATHS = {
    "chat": "/v1/chat/completions",
    "responses": "/v1/responses",
    "messages": "/v1/messages",
    "gemini": "/v1beta/models/m:generateContent",
}
ERRORS = (openai.APIError, anthropic.APIError, google.genai.errors.APIError)
CALL = '<tool_call>{"name": "bash", "arguments": {"command": "ls"}}</tool_call>'


class Broken:
    """A policy that fails, or never answers."""

    version = "theta"

    def __init__(self, error: Exception | None = None) -> None:
        self.error, self.asked, self.free = error, threading.Event(), threading.Event()

    def complete(self, request: Request) -> Completion:
        self.asked.set()
        if self.error is not None:
            raise self.error
        self.free.wait(30)
        return Completion("late", (1,), (2,), (0.0,), "stop")


def status(error: Exception) -> int:
    return int(getattr(error, "status_code", None) or getattr(error, "code", 0) or 0)


def send(gateway: Gateway, dialect: str, body: Any, key: str, **more: Any) -> httpx.Response:
    headers = {"authorization": f"Bearer {key}", "x-goog-api-key": key}
    return httpx.post(gateway.url + PATHS[dialect], json=body, headers=headers, timeout=30, **more)


def minimal(dialect: str, **more: Any) -> dict[str, Any]:
    said = {
        "chat": {"model": "m", "messages": [{"role": "user", "content": "Go."}]},
        "responses": {"model": "m", "input": "Go."},
        "messages": {"model": "m", "max_tokens": 99, "messages": [{"role": "user", "content": "Go."}]},
        "gemini": {"contents": [{"role": "user", "parts": [{"text": "Go."}]}]},
    }
    return said[dialect] | more


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize(
    ("bounds", "stop", "answered"),
    [({"turns": 2}, Stop.TURNS, 2), ({"tokens": 2 * len(CALL) + 2}, Stop.TOKENS, 2)],
    ids=["turns", "tokens"],
)
def test_a_harness_without_a_cap_gets_one_here(
    dialect: str,
    bounds: dict[str, int],
    stop: Stop,
    answered: int,
    stream: bool,
    agent: Agents,
    opened: Sessions,
    gateway: Gateway,
) -> None:
    session = opened([CALL, CALL, CALL, CALL], **bounds)
    one = agent(dialect, session)
    started = time.monotonic()
    with pytest.raises(ERRORS, match="budget of this episode is used up") as caught:
        one.run("Go on for ever.", stream)
    assert status(caught.value) == 400
    assert time.monotonic() - started < 5
    record = gateway.close(session)
    sampled = [call.completion for call in record.calls if call.completion]
    assert (record.stop, len(sampled), len(record.calls)) == (stop, answered, answered + 1)
    assert sum(len(one.ids) for one in sampled) <= bounds.get("tokens", 10_000)
    assert record.error is None


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_policy_that_hangs_is_waited_for_until_the_wall_time(
    dialect: str, stream: bool, agent: Agents, opened: Sessions, gateway: Gateway
) -> None:
    """A whole reply is refused by a status. A stream that has shown signs of life ends with an error event."""
    hanging = Broken()
    session = opened(hanging, wall_s=1.0)
    started = time.monotonic()
    if dialect == "responses" and stream:
        client = openai.OpenAI(base_url=gateway.url + "/v1", api_key=session.key)
        *_, last = client.responses.create(model="m", input="Go.", stream=True)
        assert last.type == "response.failed" and "1 seconds" in last.response.error.message
    else:
        with pytest.raises(ERRORS, match="1 seconds"):
            agent(dialect, session).run("Go.", stream)
    assert 0.8 < time.monotonic() - started < 4
    hanging.free.set()
    record = gateway.close(session)
    assert (record.stop, record.calls[0].delivered, record.error) == (Stop.TIME, False, None)


def test_time_that_ran_out_on_an_engine_that_breaks_is_no_failure_of_the_agent(
    opened: Sessions, gateway: Gateway
) -> None:
    """The client is refused in time; whoever closes the session hears what the policy came to."""

    class Late(Broken):
        def complete(self, request: Request) -> Completion:
            super().complete(request)
            raise InfrastructureError("it hangs")

    hanging = Late()
    session = opened(hanging, wall_s=3.0)  # time enough for the call to reach the policy, on a busy machine too
    assert "3 seconds" in send(gateway, "chat", minimal("chat"), session.key).json()["error"]["message"]
    assert hanging.asked.is_set()
    threading.Timer(0.5, hanging.free.set).start()
    record = gateway.close(session)
    assert (record.stop, record.error) == (Stop.TIME, "InfrastructureError: it hangs")


def test_a_gateway_that_dies_is_no_failure_of_the_agent(tmp_path: Any) -> None:
    """Its thread or its socket goes in mid-episode: whoever closes the session or opens another hears of it."""
    budget = Budget(9, 99, 99, 9.0)
    with Gateway(Plain(), host=None, unix=tmp_path / "socket") as gateway:
        session = gateway.open(ScriptedPolicy(), budget, 1)
        (tmp_path / "socket").unlink()
        with pytest.raises(InfrastructureError, match=r"the gateway is gone: its socket .*/socket was removed\."):
            gateway.close(session)
    with Gateway(Plain()) as gateway:
        session = gateway.open(ScriptedPolicy(), budget, 1)
        gateway._server.should_exit = True
        gateway._thread.join(10)
        for deed in (lambda: gateway.close(session), lambda: gateway.open(ScriptedPolicy(), budget, 1)):
            with pytest.raises(InfrastructureError, match=r"the gateway is gone: its server has ended\."):
                deed()


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_broken_engine_is_a_server_error_once_and_voids_the_episode(
    dialect: str, opened: Sessions, gateway: Gateway
) -> None:
    session = opened(Broken(InfrastructureError("no memory")))
    assert send(gateway, dialect, minimal(dialect), session.key).status_code == 500
    assert send(gateway, dialect, minimal(dialect), session.key).status_code == 400
    record = gateway.close(session)
    assert (record.error, record.stop) == ("InfrastructureError: no memory", None)
    assert [call.completion for call in record.calls] == [None, None]


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_fault_of_the_program_reaches_whoever_closes_the_session(opened: Sessions, gateway: Gateway) -> None:
    session = opened(Broken(ZeroDivisionError("a bug")))
    assert send(gateway, "chat", minimal("chat"), session.key).status_code == 500
    with pytest.raises(ZeroDivisionError, match="a bug"):
        gateway.close(session)
    for thread in threading.enumerate():
        if thread.name == "call":
            thread.join(10)


def test_what_the_policy_cannot_do_is_refused_and_breaks_nothing(opened: Sessions, gateway: Gateway) -> None:
    session = opened(Broken(RequestError("stop: not here.")))
    answer = send(gateway, "chat", minimal("chat", stop="x"), session.key)
    assert (answer.status_code, answer.json()["error"]["message"]) == (400, "stop: not here.")
    record = gateway.close(session)
    assert (record.error, record.calls[0].refused) == (None, "stop: not here.")


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_prompt_beyond_the_context_is_said_in_words_that_clients_know(
    dialect: str, opened: Sessions, gateway: Gateway
) -> None:
    class Full:
        version = "theta"

        def complete(self, request: Request) -> Completion:
            long = len(request.messages[-1].content) > 10
            return (
                Completion("", (1,) * 99, (), (), "context") if long else Completion("ok", (1,), (2,), (0.0,), "stop")
            )

    session = opened(Full())
    body = minimal(dialect)
    long = json.loads(json.dumps(body).replace("Go.", "Go on and on."))
    answer = send(gateway, dialect, long, session.key)
    assert answer.status_code == 400 and "prompt is too long: 99 tokens" in answer.json()["error"]["message"]
    middle = session._stop
    assert send(gateway, dialect, body, session.key).status_code == 200
    assert (middle, gateway.close(session).stop) == (Stop.CONTEXT, None)


def test_closing_ends_what_waits_and_refuses_what_comes(opened: Sessions, gateway: Gateway) -> None:
    hanging = Broken()
    session = opened(hanging)
    answers: list[httpx.Response] = []
    asking = threading.Thread(target=lambda: answers.append(send(gateway, "chat", minimal("chat"), session.key)))
    asking.start()
    assert hanging.asked.wait(10)
    closing = ThreadPoolExecutor(1).submit(gateway.close, session)
    asking.join(10)
    hanging.free.set()
    record = closing.result()
    assert answers[0].status_code == 400 and "over" in answers[0].json()["error"]["message"]
    assert send(gateway, "chat", minimal("chat"), session.key).status_code == 401
    assert (len(record.calls), record.calls[0].delivered) == (1, False)


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
def test_a_client_that_dies_in_mid_call_leaves_an_undelivered_reply(
    stream: bool, opened: Sessions, gateway: Gateway
) -> None:
    hanging = Broken()
    session = opened(hanging, tokens=100, reply_tokens=60)
    with socket.create_connection((gateway.url[7:].split(":")[0], int(gateway.url.rpartition(":")[2]))) as client:
        body = json.dumps(minimal("chat", stream=stream)).encode()
        head = f"POST {PATHS['chat']} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {session.key}\r\n"
        client.sendall(f"{head}content-length: {len(body)}\r\n\r\n".encode() + body)
        assert hanging.asked.wait(10)
        time.sleep(0.5 if stream else 0.0)
    hanging.free.set()
    for _ in range(100):
        if session._calls[0].completion is not None:
            break
        time.sleep(0.02)
    again = send(gateway, "chat", minimal("chat"), session.key)
    record = gateway.close(session)
    assert again.json()["choices"][0]["message"]["content"] == "late"
    assert [(call.delivered, call.completion is not None) for call in record.calls] == [(False, True), (True, True)]
    assert (record.dropped, record.rewritten, session._reserved) == (0, 0, 0)


def test_parallel_calls_share_the_tokens_exactly(opened: Sessions, gateway: Gateway) -> None:
    session = opened(["x" * 500], tokens=130, reply_tokens=50)
    answers: list[httpx.Response] = []

    def ask() -> None:
        answers.append(send(gateway, "chat", minimal("chat"), session.key))

    threads = [threading.Thread(target=ask) for _ in range(8)]
    _ = [thread.start() for thread in threads], [thread.join(20) for thread in threads]
    record = gateway.close(session)
    lengths = sorted(len(call.completion.ids) for call in record.calls if call.completion)
    assert (lengths, record.stop) == ([30, 50, 50], Stop.TOKENS)
    assert sorted(answer.status_code for answer in answers) == [200] * 3 + [400] * 5


def test_a_reply_that_the_budget_cuts_says_so(opened: Sessions, gateway: Gateway) -> None:
    session = opened(["x" * 500], tokens=20)
    answer = send(gateway, "chat", minimal("chat"), session.key)
    assert (answer.json()["choices"][0]["finish_reason"], gateway.close(session).stop) == ("length", Stop.TOKENS)


def test_256_streams_at_once_and_none_is_lost(opened: Sessions, gateway: Gateway) -> None:
    class Slow(ScriptedPolicy):
        def complete(self, request: Request) -> Completion:
            time.sleep(0.5)
            return super().complete(request)

    policy = Slow([{"when": r"say (?P<x>\d+)", "say": "{x}"}], slip=0.0)
    sessions = [opened(policy) for _ in range(256)]
    said: dict[int, str] = {}

    def ask(at: int) -> None:
        body = minimal("chat", messages=[{"role": "user", "content": f"say {at}"}], stream=True)
        said[at] = send(gateway, "chat", body, sessions[at].key).text

    threads = [threading.Thread(target=ask, args=(at,)) for at in range(256)]
    _ = [thread.start() for thread in threads], [thread.join(60) for thread in threads]
    assert all(f'"content": "{at}"' in said[at] and said[at].endswith("[DONE]\n\n") for at in range(256))
    records = [gateway.close(session) for session in sessions]
    assert all(record.calls[0].delivered and record.calls[0].completion for record in records)


def test_the_noise_is_that_of_the_seed_and_the_number_of_the_call(opened: Sessions, gateway: Gateway) -> None:
    class Seeds(ScriptedPolicy):
        def complete(self, request: Request) -> Completion:
            return Completion(str(request.seed), (1,), (2,), (0.0,), "stop")

    def noise(seed: int) -> list[str]:
        session = opened(Seeds(), seed=seed)
        answers = [send(gateway, "chat", minimal("chat", seed=9), session.key) for _ in range(3)]
        return [answer.json()["choices"][0]["message"]["content"] for answer in answers]

    assert noise(1) == noise(1)
    assert len({*noise(1), *noise(2)}) == 6


def test_a_unix_socket_serves_where_there_is_no_network(tmp_path: Any) -> None:
    path = tmp_path / "gateway.sock"
    with Gateway(Plain(), host=None, unix=path) as gateway:
        session = gateway.open(ScriptedPolicy(), Budget(9, 99, 99, 9.0), 1)
        with httpx.Client(transport=httpx.HTTPTransport(uds=str(path)), base_url="http://box") as client:
            headers = {"authorization": f"Bearer {session.key}"}
            assert client.post(PATHS["chat"], json=minimal("chat"), headers=headers).status_code == 200
        assert len(gateway.close(session).calls) == 1
    assert not path.exists()


def test_a_conversation_is_kept_once_and_its_bodies_only_where_that_is_asked_for() -> None:
    with Gateway(Plain()) as gateway:
        session = gateway.open(ScriptedPolicy(), Budget(9, 999, 99, 9.0), 1)
        said = [{"role": "user", "content": "x" * 1000}]
        for _ in range(3):
            answer = send(gateway, "chat", {"model": "m", "messages": said}, session.key)
            said += [answer.json()["choices"][0]["message"], {"role": "user", "content": "Go on."}]
        calls = gateway.close(session).calls
    assert [call.received for call in calls] == [None] * 3
    assert all(call.messages[0] is calls[0].messages[0] for call in calls)
    assert calls[2].messages[2] is calls[1].messages[2]
