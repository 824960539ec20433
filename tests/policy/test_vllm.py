"""policy/vllm: engines that sample other weights are caught; with vLLM itself, tokens in and out and updates in place.

The tests marked `vllm` run where vLLM is: PYTHONPATH=. "$(scripts/vllm)" -m pytest -m vllm tests/policy
"""

import importlib.util
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from threading import Timer
from typing import Any

import httpx
import pytest
import torch
from safetensors.torch import load_file, save_file

from clawloop.harness.shell.shell import Shell
from clawloop.policy.adapter import attach, merge
from clawloop.policy.network import Network
from clawloop.policy.vllm.engine import Ask, Sampled, check_version
from clawloop.policy.vllm.local import WORKER, VllmPolicy
from clawloop.policy.vllm.remote import VllmServerPolicy
from clawloop.policy.vllm.sampler import SampledPolicy, token_logprobs
from clawloop.protocols import InfrastructureError, RequestError
from clawloop.rollout.collect import Collect
from clawloop.rollout.episode import Episode
from clawloop.rollout.grade import SandboxGrader
from clawloop.sandbox.bubblewrap import Bubblewrap
from clawloop.store.weights import find
from clawloop.training.fit import trainable
from clawloop.training.schedule import Cosine
from clawloop.training.sequences import Sequence
from clawloop.training.sft import Sft
from clawloop.types import Completion, Message, Outcome, Request
from tests.counting import TASK, Journal
from tests.twin import Twin

HERE = importlib.util.find_spec("vllm") is not None
ENVIRONMENT = {"VLLM_CPU_KVCACHE_SPACE": "1", "VLLM_LOGGING_LEVEL": "ERROR", "VLLM_NO_USAGE_STATS": "1"}


def vllm(test: Any) -> Any:
    """Marks a test that needs vLLM."""
    reason = 'vLLM is not in this environment: PYTHONPATH=. "$(scripts/vllm)" -m pytest -m vllm tests/policy'
    return pytest.mark.vllm(pytest.mark.skipif(not HERE, reason=reason)(test))


@pytest.fixture(scope="module")
def nano(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return find("nano", tmp_path_factory.mktemp("nano"))


def ask(text: str = "Count the lines.", seed: int = 0, max_tokens: int = 12, **options: Any) -> Request:
    return Request((Message("user", text),), "s", seed, max_tokens, **options)


def disturb(model: Any, seed: int = 0, by: float = 0.3) -> None:
    """Change the embeddings, and with them a head that is tied to them."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        weight = model.get_input_embeddings().weight
        weight += by * weight.std() * torch.randn(weight.shape, generator=generator)


def reference(policy: Network, reply: Completion) -> list[float]:
    """Log-probabilities of the sampled tokens by one plain forward pass over the whole sequence."""
    ids = torch.tensor([[*reply.prompt_ids, *reply.ids]])
    with torch.no_grad():
        table = torch.log_softmax(policy.model(ids).logits[0] / policy.temperature, -1)
    start = len(reply.prompt_ids)
    return [float(table[start + i - 1, token]) for i, token in enumerate(reply.ids)]


def over(engine: Twin, weights: Path, **options: Any) -> SampledPolicy:
    settings: dict[str, Any] = {"dtype": "float32", "tolerance": None, "threads": None, "tracker": None, **options}
    return SampledPolicy(engine, weights, "theta_0", 1.0, 512, **settings)


def test_an_update_puts_the_trained_weights_into_the_engine_once(nano: Path) -> None:
    engine = Twin(nano)
    policy = over(engine, nano)
    disturb(trainable(policy, "sft").model)
    trainable(policy, "sft")
    assert policy.renamed("theta_1").renamed("theta_1-again").version == "theta_1-again"
    assert engine.heard == ["sleep", "wake", "update"]
    assert engine.score((5, 6, 7)) == pytest.approx(token_logprobs(policy.model, (5, 6, 7)))


def test_an_engine_that_keeps_the_old_weights_ends_the_run_in_words(nano: Path) -> None:
    policy = over(Twin(nano, keeps="embed"), nano)
    disturb(trainable(policy, "sft").model)
    with pytest.raises(InfrastructureError, match=r"at theta_1 the engine's .* 0.001 is the tolerance"):
        policy.renamed("theta_1")


def test_an_engine_with_other_weights_is_refused_at_the_start(nano: Path, small_model: Path) -> None:
    if "qwen3" not in (small_model / "config.json").read_text():
        pytest.skip("one other model is enough")
    with pytest.raises(InfrastructureError, match="at theta_0 the engine's log-probabilities"):
        over(Twin(small_model), nano)


def test_an_engine_is_handed_an_adapter_alone_while_it_is_trained_and_all_weights_once_it_is_merged(nano: Path) -> None:
    pytest.importorskip("peft")
    engine = Twin(nano)
    policy = over(engine, nano)
    before = engine.score((5, 6, 7))
    attach(policy.model, 4, 8.0, "all-linear", 0)
    for step in (1, 2):
        with torch.no_grad():
            for name, p in trainable(policy, "grpo").model.named_parameters():
                if "lora_B" in name:
                    p.normal_(std=0.1 * step, generator=torch.Generator().manual_seed(0))
        policy.renamed(f"theta_1-grpo-{step}")
        assert engine.score((5, 6, 7)) == pytest.approx(token_logprobs(policy.model, (5, 6, 7)), abs=1e-4)
        assert engine.score((5, 6, 7)) != pytest.approx(before, abs=1e-2)
        policy.complete(ask())
    merge(policy.model)
    policy.renamed("theta_1")
    assert engine.heard == ["sleep", "wake", "adapt", "sample", "sleep", "wake", "adapt", "sample", "update"]
    assert engine.score((5, 6, 7)) == pytest.approx(token_logprobs(policy.model, (5, 6, 7)), abs=1e-4)


def test_nothing_is_sampled_between_training_and_the_update(nano: Path) -> None:
    engine = Twin(nano)
    policy = over(engine, nano)
    trainable(policy, "sft")
    with pytest.raises(InfrastructureError, match="the weights are in training"):
        policy.complete(ask())
    policy.renamed("theta_1").complete(ask())
    assert engine.heard[-1] == "sample"


def test_saved_weights_come_back_into_network_and_engine(nano: Path, tmp_path: Path) -> None:
    engine = Twin(nano)
    policy = over(engine, nano)
    before = engine.score((5, 6, 7))
    policy.save(tmp_path / "theta_0")
    disturb(trainable(policy, "sft").model)
    policy.renamed("theta_1")
    assert engine.score((5, 6, 7)) != pytest.approx(before)
    assert policy.load(tmp_path / "theta_0", "theta_0").version == "theta_0"
    assert engine.score((5, 6, 7)) == pytest.approx(before)


class Told(list[tuple[str, dict[str, Any]]]):
    """A tracker that keeps the events."""

    def event(self, name: str, detail: dict[str, Any]) -> None:
        self.append((name, detail))


def restarted(engine: Twin, weights: Path) -> None:
    """What kill -9 and a new start leave of it."""
    engine.network = Network(weights, "twin", 1.0, 512, None, device="cpu")
    engine.name, engine.doubts = "", engine.doubts + 1


def test_an_engine_that_was_started_anew_is_given_the_weights_before_its_replies_count(nano: Path) -> None:
    engine, told = Twin(nano), Told()
    policy = over(engine, nano, tracker=told)
    disturb(trainable(policy, "sft").model)
    policy.renamed("theta_1")
    engine.doubts += 1  # it was silent, and is the one that it was
    policy.complete(ask())
    assert engine.heard == ["sleep", "wake", "update", "sample"]

    sample, lives = engine.sample, [1]

    def dies_once(one: Any) -> Any:
        """The first reply is on its way while the engine is started anew."""
        found = sample(one)
        with suppress(IndexError):
            lives.pop()
            restarted(engine, nano)
        return found

    engine.sample = dies_once  # type: ignore[method-assign]
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda seed: policy.complete(ask(seed=seed)), range(4)))
    assert [name for name, _ in told] == ["engine/update", "engine/restarted", "engine/update"]
    assert engine.heard.count("update") == 2
    assert engine.score((5, 6, 7)) == pytest.approx(token_logprobs(policy.model, (5, 6, 7)))


def test_an_engine_that_was_started_anew_is_given_an_adapter_in_training_and_what_it_lies_over(nano: Path) -> None:
    pytest.importorskip("peft")
    engine = Twin(nano)
    policy = over(engine, nano)
    disturb(trainable(policy, "sft").model)
    policy.renamed("theta_1-sft")
    attach(trainable(policy, "grpo").model, 4, 8.0, "all-linear", 0)
    with torch.no_grad():
        for name, p in policy.model.named_parameters():
            if "lora_B" in name:
                p.normal_(std=0.1, generator=torch.Generator().manual_seed(0))
    policy.renamed("theta_1-grpo-1")
    restarted(engine, nano)
    policy.complete(ask())
    assert engine.heard[-3:] == ["update", "adapt", "sample"]
    assert engine.score((5, 6, 7)) == pytest.approx(token_logprobs(policy.model, (5, 6, 7)), abs=1e-4)


def test_an_engine_that_refuses_what_it_took_before_was_started_anew(nano: Path, tmp_path: Path) -> None:
    """A server does not know the name of an adapter after that: no failure of the agent that asked."""
    engine, told = Twin(nano), Told()
    policy = over(engine, nano, tracker=told)
    policy.adapted(adapter(policy.model, tmp_path / "adapter", 0), "theta_0+1")

    def refuses(_: Any) -> Any:
        restarted(engine, nano)
        raise RequestError("there is no such model")

    engine.sample = refuses  # type: ignore[method-assign]
    with pytest.raises(
        InfrastructureError, match=r"started anew without the adapter of theta_0\+1; hand it over again"
    ):
        policy.complete(ask())


def test_a_request_that_is_refused_in_earnest_is_refused_once(nano: Path) -> None:
    engine = Twin(nano)
    policy = over(engine, nano)

    def refuses(_: Any) -> Any:
        engine.heard.append("refused")
        raise RequestError("too long")

    engine.sample = refuses  # type: ignore[method-assign]
    with pytest.raises(RequestError, match="too long"):
        policy.complete(ask())
    assert engine.heard == ["refused"]


def test_each_update_is_told_with_its_distance(nano: Path) -> None:
    told = Told()
    policy = over(Twin(nano), nano, tracker=told)
    trainable(policy, "sft")
    policy.renamed("theta_1")
    ((name, detail),) = told
    assert (name, detail["version"]) == ("engine/update", "theta_1")
    assert 0 <= detail["gap"] < 1e-3


def test_a_vllm_that_was_not_tried_is_refused(nano: Path) -> None:
    for version in ("0.31.4", "0.3.2", "0.33.0"):
        with pytest.raises(ValueError, match=rf"this is vLLM {version}, and updates .* tried with 0\.32;"):
            over(Twin(nano, version=version), nano)
    check_version("0.32.0")


@pytest.mark.skipif(HERE, reason="vLLM is installed here")
def test_without_vllm_the_cure_is_named(nano: Path) -> None:
    with pytest.raises(ValueError, match="vLLM is not installed; pip install"):
        VllmPolicy(nano)


def test_an_unknown_arithmetic_is_refused_before_any_engine_starts(nano: Path) -> None:
    for kind in (VllmPolicy, lambda *a, **k: VllmServerPolicy(*a, "http://127.0.0.1:9", **k)):
        with pytest.raises(ValueError, match=r"policy\.dtype is 'int4'; choose float32"):
            kind(nano, dtype="int4")


# --- vLLM itself -----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def local(nano: Path) -> Iterator[VllmPolicy]:
    os.environ.update(ENVIRONMENT)
    policy = VllmPolicy(nano, slots=16, context=512, dtype="float32", cpu_cache=1, lora_rank=8)
    yield policy
    policy.engine.close()


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as free:
        return int(free.getsockname()[1])


@contextmanager
def serving(nano: Path, log: Path, port: int) -> Iterator[tuple[subprocess.Popen[bytes], str]]:
    """A vLLM server: its process, which leads a session, and its address."""
    words = f"--model {nano} --port {port} --host 127.0.0.1 --dtype float32 --enforce-eager --max-model-len 1024"
    words += f" --worker-extension-cls {WORKER} --logprobs-mode processed_logprobs --generation-config vllm"
    words += " --enable-lora --max-lora-rank 8"
    allowed = {"VLLM_SERVER_DEV_MODE": "1", "VLLM_ALLOW_RUNTIME_LORA_UPDATING": "True"}
    with log.open("w") as out:
        process = subprocess.Popen(
            [sys.executable, "-m", "vllm.entrypoints.openai.api_server", *words.split()],
            env={**os.environ, **ENVIRONMENT, **allowed, "PYTHONPATH": os.getcwd()},
            stdout=out,
            stderr=out,
            start_new_session=True,
        )
    try:
        url = f"http://127.0.0.1:{port}"
        for _ in range(240):
            assert process.poll() is None, log.read_text()[-2000:]
            try:
                httpx.get(f"{url}/health").raise_for_status()
                break
            except httpx.HTTPError:
                time.sleep(1.0)
        yield process, url
    finally:
        process.terminate()
        process.wait(60)
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)  # of one that was killed, the engine may be there still


@pytest.fixture(scope="module")
def server(nano: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[VllmServerPolicy]:
    with serving(nano, tmp_path_factory.mktemp("server") / "log", free_port()) as (_, url):
        yield VllmServerPolicy(nano, url, context=512, dtype="float32")


@pytest.fixture(params=["local", "server"])
def policy(request: pytest.FixtureRequest) -> SampledPolicy:
    found: SampledPolicy = request.getfixturevalue(request.param)
    found.temperature = 1.0
    return found


def reload_without_the_head(policy: SampledPolicy, folder: Path) -> None:
    """What vLLM does by itself: the packed copy of a tied head stays as it was."""
    engine: Any = policy.engine
    if isinstance(policy, VllmPolicy):
        engine._engine.collective_rpc("reload_weights", kwargs={"weights_path": str(folder)})
        engine._engine.reset_prefix_cache()
    else:
        body = {"method": "reload_weights", "kwargs": {"weights_path": str(folder)}}
        engine._server.send("POST", "/collective_rpc", body)
        engine._server.send("POST", "/reset_prefix_cache")


@vllm
@pytest.mark.parametrize("temperature", [1.0, 0.7])
def test_logprobs_are_those_of_a_plain_forward_pass(policy: SampledPolicy, temperature: float) -> None:
    policy.temperature = temperature
    with ThreadPoolExecutor(16) as pool:
        texts = [f"Count {'the lines of ' * (i % 5)} file{i}.csv" for i in range(16)]
        replies = list(pool.map(lambda i: policy.complete(ask(texts[i], i, 3 + i)), range(16)))
    for reply in replies:
        assert reply.logprobs == pytest.approx(reference(policy, reply), abs=1e-3)
        assert reply.finish == ("stop" if reply.ids[-1] == policy.chat.end else "length")
    assert len({reply.ids for reply in replies}) > 1


@vllm
def test_later_turns_go_on_from_the_sampled_tokens(policy: SampledPolicy) -> None:
    request = ask("Sum the weights of all hives in the orchard and write the total.", 7)
    first = policy.complete(request)
    turn = (*request.messages, Message("assistant", first.text, first.ids), Message("user", "exit 0\n12"))
    second = policy.complete(Request(turn, "s", 8, 12))
    assert second.prompt_ids[: len(first.prompt_ids) + len(first.ids)] == (*first.prompt_ids, *first.ids)
    assert second.logprobs == pytest.approx(reference(policy, second), abs=1e-3)


@vllm
def test_the_same_seed_gives_the_same_reply_alone_and_in_company(policy: SampledPolicy) -> None:
    alone = policy.complete(ask(seed=3))
    with ThreadPoolExecutor(8) as pool:
        company = list(pool.map(lambda seed: policy.complete(ask(seed=seed)), range(8)))
    assert company[3].ids == alone.ids


@vllm
def test_stop_texts_and_the_end_of_the_context_end_a_reply(policy: SampledPolicy) -> None:
    whole = policy.complete(ask(seed=1, max_tokens=40))
    part = whole.text[2:5]
    stopped = policy.complete(ask(seed=1, max_tokens=40, stop=(part,)))
    assert stopped.text == whole.text.partition(part)[0] and stopped.finish == "stop"
    assert whole.ids[: len(stopped.ids)] == stopped.ids
    long = "many words " * 60
    room = policy.context - len(policy.chat.prompt_ids((Message("user", long),)))
    assert 0 < room < 400
    policy.temperature = 1.0
    replies = [policy.complete(ask(long, seed, max_tokens=500)) for seed in range(3)]
    assert all(reply.finish == "stop" or (reply.finish, len(reply.ids)) == ("context", room) for reply in replies)
    assert policy.complete(ask("many words " * 400)).finish == "context"
    with pytest.raises(RequestError, match="temperature: this policy samples at 1"):
        policy.complete(ask(temperature=0.2))


@vllm
def test_prompts_share_their_keys_and_values(local: VllmPolicy) -> None:
    import vllm as engine

    ids = local.chat.prompt_ids((Message("user", "Read this twice. " * 20),))
    parameters = engine.SamplingParams(max_tokens=1)
    assert not local.engine._wait(ids, parameters).num_cached_tokens
    assert local.engine._wait(ids, parameters).num_cached_tokens >= len(ids) // 2


@vllm
def test_after_a_stage_of_training_the_engine_samples_the_new_weights(policy: SampledPolicy) -> None:
    before = policy.engine.score(policy._text)
    prompt = policy.chat.prompt_ids(ask().messages)
    ids = (*prompt, *policy.chat.encode_reply("```bash\nls\n```", ended=True))
    untaught = sum(policy.engine.score(ids)[len(prompt) - 1 :])
    mask = tuple(int(t >= len(prompt)) for t in range(len(ids)))
    sequences = [replace(Sequence("t", ids, mask, None), name=f"t{i}") for i in range(16)]
    stage = Sft(lr=3e-3, epochs=2, batch_size=4, warmup=0.0, weight_decay=0.0, schedule=Cosine(), micro_tokens=512)
    stage.fit(policy, sequences, 1)  # type: ignore[arg-type]
    policy.renamed("theta_1")
    after = policy.engine.score(policy._text)
    assert after == pytest.approx(token_logprobs(policy.model, policy._text), abs=1e-2)
    assert max(abs(one - other) for one, other in zip(before, after, strict=True)) > 0.1
    reply = policy.complete(ask(max_tokens=20))
    assert reply.logprobs == pytest.approx(reference(policy, reply), abs=1e-3)
    assert sum(policy.engine.score(ids)[len(prompt) - 1 :]) > untaught + 1.0


@vllm
def test_a_stale_tied_head_is_caught(policy: SampledPolicy, monkeypatch: pytest.MonkeyPatch) -> None:
    disturb(trainable(policy, "sft").model, 1)
    with monkeypatch.context() as planted:
        planted.setattr(policy.engine, "update", lambda folder: reload_without_the_head(policy, folder))
        with pytest.raises(InfrastructureError, match=r"at theta_2 the engine's .* samples from other weights"):
            policy.renamed("theta_2")
    trainable(policy, "sft")
    policy.renamed("theta_3")
    reply = policy.complete(ask())
    assert reply.logprobs == pytest.approx(reference(policy, reply), abs=1e-3)


@vllm
def test_an_adapter_is_laid_over_the_weights_and_goes_with_the_next_update(
    policy: SampledPolicy, tmp_path: Path
) -> None:
    for number in (1, 2):
        folder = adapter(policy.model, tmp_path / str(number), seed=number)
        reply = policy.adapted(folder, f"theta_0+{number}").complete(ask(seed=5))
        with merged(policy.model, folder):
            assert reply.logprobs == pytest.approx(reference(policy, reply), abs=2e-3)
        assert reply.logprobs != pytest.approx(reference(policy, reply), abs=2e-2)
    trainable(policy, "sft")
    policy.renamed("theta_4")
    plain = policy.complete(ask(seed=5))
    assert plain.logprobs == pytest.approx(reference(policy, plain), abs=1e-3)


@vllm
def test_an_adapter_is_sampled_with_while_it_is_trained_and_when_it_is_merged(policy: SampledPolicy) -> None:
    pytest.importorskip("peft")
    plain = policy.complete(ask(seed=5))
    attach(policy.model, 8, 16.0, "all-linear", 0)
    with torch.no_grad():
        for name, p in trainable(policy, "grpo").model.named_parameters():
            if "lora_B" in name:
                p.normal_(std=0.1, generator=torch.Generator().manual_seed(0))
    adapted = policy.renamed("theta_5-grpo-1").complete(ask(seed=5))
    assert adapted.logprobs == pytest.approx(reference(policy, adapted), abs=2e-3)
    assert adapted.logprobs != pytest.approx(plain.logprobs, abs=2e-2)
    merge(policy.model)
    reply = policy.renamed("theta_5").complete(ask(seed=5))
    assert reply.logprobs == pytest.approx(reference(policy, reply), abs=1e-3)


@vllm
def test_in_bfloat16_an_update_that_does_nothing_is_caught_and_one_that_works_is_not(nano: Path) -> None:
    os.environ.update(ENVIRONMENT)
    policy = VllmPolicy(nano, slots=4, context=512, dtype="bfloat16", cpu_cache=1)
    try:
        disturb(trainable(policy, "sft").model)
        policy.renamed("theta_1")
        policy.engine.update = lambda folder: None  # type: ignore[method-assign]
        disturb(trainable(policy, "sft").model, 1)
        with pytest.raises(InfrastructureError, match="samples from other weights"):
            policy.renamed("theta_2")
    finally:
        policy.engine.close()


@vllm
def test_an_engine_that_dies_or_is_asked_nonsense_leaves_nobody_waiting(nano: Path) -> None:
    os.environ.update(ENVIRONMENT)
    policy = VllmPolicy(nano, slots=4, context=512, dtype="float32", cpu_cache=1)
    try:
        with pytest.raises(RequestError, match="policy vllm"):
            policy.engine.score((5, 10**6))
        assert policy.complete(ask()).ids
        for process in policy.engine._engine.engine_core.resources.engine_manager.processes:
            process.kill()
        with ThreadPoolExecutor(4) as pool:
            for asked in [pool.submit(policy.complete, ask(seed=seed)) for seed in range(4)]:
                with pytest.raises(InfrastructureError, match="policy vllm: the engine"):
                    asked.result(60)
    finally:
        policy.engine.close()


@vllm
def test_a_server_that_is_killed_in_mid_call_gives_no_reward_and_ends_the_phase_in_words(
    nano: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    port = free_port()
    with serving(nano, tmp_path / "log", port) as (process, url):
        policy = VllmServerPolicy(nano, url, context=1024, dtype="float32", retries=1, wait_s=0.1)
        disturb(trainable(policy, "sft").model, by=0.03)
        policy.renamed("theta_1")
        sample, killing = policy.engine.sample, Timer(0.5, process.kill)

        def long_reply(ask: Ask) -> Sampled:
            """One that takes seconds, in which the server is killed."""
            if killing.ident is None:
                killing.start()
            return sample(replace(ask, end=0, stop=()))

        monkeypatch.setattr(policy.engine, "sample", long_reply)
        boxes, journal = Bubblewrap(), Journal()
        episode = Episode(Shell(), boxes, SandboxGrader(boxes), retries=1)
        rollout = episode(policy, TASK, 0, 1)
        assert process.wait() == -signal.SIGKILL
        assert (rollout.outcome, rollout.reward) == (Outcome.INFRASTRUCTURE_FAILED, None), rollout
        assert re.search(rf"{url}/\S+ gave no answer in 2 tries; the last: ", rollout.error)
        with pytest.raises(InfrastructureError, match=r"trials in a row broke .* gave no answer in 2 tries"):
            Collect(episode, journal, 2, 0)(policy, (TASK,), 9, "probe/0")
        assert not journal.kept
    monkeypatch.undo()
    with serving(nano, tmp_path / "log of another", port):
        reply = policy.complete(ask())
        assert reply.logprobs == pytest.approx(reference(policy, reply), abs=1e-3), "it samples from theta_0"


PARTS = ("q_proj", "v_proj")


def adapter(model: Any, folder: Path, seed: int) -> Path:
    """A LoRA adapter of rank 8 with random weights, as peft writes it."""
    folder.mkdir()
    generator = torch.Generator().manual_seed(seed)
    state = {}
    for name, module in model.named_modules():
        if name.endswith(PARTS):
            out, wide = module.weight.shape
            state[f"base_model.model.{name}.lora_A.weight"] = 0.3 * torch.randn(8, wide, generator=generator)
            state[f"base_model.model.{name}.lora_B.weight"] = 0.3 * torch.randn(out, 8, generator=generator)
    save_file(state, folder / "adapter_model.safetensors")
    settings = {"peft_type": "LORA", "r": 8, "lora_alpha": 8, "target_modules": PARTS, "bias": "none"}
    (folder / "adapter_config.json").write_text(json.dumps(settings | {"task_type": "CAUSAL_LM"}))
    return folder


@contextmanager
def merged(model: Any, folder: Path) -> Iterator[None]:
    """The network with an adapter added to its weights, for as long as the context is open."""
    state = load_file(folder / "adapter_model.safetensors")
    kept = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    for name, module in model.named_modules():
        if name.endswith(PARTS):
            down, up = (state[f"base_model.model.{name}.lora_{part}.weight"] for part in "AB")
            module.weight.data += up @ down
    yield
    model.load_state_dict(kept)
