"""policy/hf: what is returned is what the model would say, token for token."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch

from clawloop.policy.hf import HfPolicy
from clawloop.types import Completion, Message, Request


def ask(text: str, seed: int = 0, session: str = "s", max_tokens: int = 12) -> Request:
    return Request((Message("system", "Be brief."), Message("user", text)), session, seed, max_tokens)


def reference(policy: HfPolicy, completion: Completion) -> list[float]:
    """Log-probabilities of the sampled tokens by one plain forward pass over the whole sequence."""
    ids = torch.tensor([[*completion.prompt_ids, *completion.ids]])
    with torch.no_grad():
        logits = policy.model(ids).logits[0] / policy.temperature
    table = torch.log_softmax(logits.float(), -1)
    start = len(completion.prompt_ids)
    return [table[start + i - 1, token].item() for i, token in enumerate(completion.ids)]


@pytest.fixture(scope="module")
def policy(small_model: Path) -> HfPolicy:
    return HfPolicy(small_model, slots=6, context=256, temperature=0.8)


def test_logprobs_are_those_of_a_plain_forward_pass(policy: HfPolicy) -> None:
    with ThreadPoolExecutor(16) as pool:
        texts = [f"Count {'the lines of ' * (i % 5)} file{i}.csv" for i in range(24)]
        replies = list(pool.map(lambda i: policy.complete(ask(texts[i], i, f"e{i}", 3 + i)), range(24)))
    for reply in replies:
        assert reply.logprobs == pytest.approx(reference(policy, reply), abs=2e-4)
        assert reply.finish == ("stop" if reply.ids[-1] == policy.chat.end else "length")


def test_later_turns_reuse_the_cache_and_stay_exact(policy: HfPolicy) -> None:
    request = ask("Sum the weights.", 7, "turns")
    first = policy.complete(request)
    turn = (*request.messages, Message("assistant", first.text, first.ids), Message("user", "exit 0\n12"))
    second = policy.complete(Request(turn, "turns", 8, 12))
    cut = first.ids[-1] != policy.chat.end
    expected = (*first.prompt_ids, *first.ids, *((policy.chat.end,) if cut else ()))
    assert second.prompt_ids[: len(expected)] == expected
    assert second.logprobs == pytest.approx(reference(policy, second), abs=2e-4)


def test_siblings_share_a_prompt_and_stay_exact(policy: HfPolicy) -> None:
    with ThreadPoolExecutor(8) as pool:
        replies = list(pool.map(lambda i: policy.complete(ask("One prompt for all.", i, f"sib{i}")), range(8)))
    assert len({reply.ids for reply in replies}) > 1
    for reply in replies:
        assert reply.logprobs == pytest.approx(reference(policy, reply), abs=2e-4)


def test_the_same_seed_gives_the_same_reply_alone_and_in_company(policy: HfPolicy) -> None:
    alone = policy.complete(ask("Which?", 3, "alone"))
    with ThreadPoolExecutor(6) as pool:
        others = [pool.submit(policy.complete, ask(f"Other {i}", i, f"o{i}")) for i in range(5)]
        together = pool.submit(policy.complete, ask("Which?", 3, "together")).result()
        _ = [other.result() for other in others]
    assert together.ids == alone.ids


def test_sampling_follows_the_distribution(policy: HfPolicy) -> None:
    with ThreadPoolExecutor(32) as pool:
        replies = list(pool.map(lambda i: policy.complete(ask("Draw.", i, f"d{i}", 1)), range(600)))
    probability = torch.tensor([r.logprobs[0] for r in replies]).exp()
    top = max({r.ids[0] for r in replies}, key=lambda t: sum(r.ids[0] == t for r in replies))
    share = sum(r.ids[0] == top for r in replies) / 600
    p = next(pr.item() for r, pr in zip(replies, probability, strict=True) if r.ids[0] == top)
    assert abs(share - p) < 4 * (p * (1 - p) / 600) ** 0.5 + 1e-3


def test_a_prompt_beyond_the_context_is_said_so(policy: HfPolicy) -> None:
    reply = policy.complete(ask("many words " * 300))
    assert (reply.finish, reply.ids) == ("context", ())


def test_weights_go_out_and_come_back(small_model: Path, tmp_path: Path) -> None:
    policy = HfPolicy(small_model, slots=2, context=128, temperature=0.0)
    before = policy.complete(ask("Say.", 1, "a"))
    policy.save(tmp_path / "theta")
    with torch.no_grad():
        for p in policy.model.parameters():
            p.mul_(0.5).add_(0.01)
    changed = policy.renamed("theta_x").complete(ask("Say.", 1, "b"))
    assert changed.logprobs != pytest.approx(before.logprobs, abs=1e-3)
    restored = policy.load(tmp_path / "theta", "theta_0").complete(ask("Say.", 1, "c"))
    assert restored.ids == before.ids
    assert restored.logprobs == pytest.approx(before.logprobs, abs=1e-5)
