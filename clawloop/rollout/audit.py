"""Whether the sequences of an episode hold what the engine saw and sampled: counted, not assumed."""

import hashlib
import struct
from collections.abc import Iterable, Sequence
from dataclasses import astuple, dataclass
from typing import Any

from clawloop.protocols import InfrastructureError
from clawloop.types import Rollout, RolloutGroup, TokenTrace


def packed(ids: Sequence[int]) -> bytes:
    """Token ids as bytes, four each."""
    return struct.pack(f"{len(ids)}i", *ids)


def fresh() -> Any:
    """A digest of nothing yet."""
    return hashlib.sha1(usedforsecurity=False)


@dataclass(frozen=True, slots=True)
class Seen:
    """A call as the engine saw it: the digest of its packed prompt, the prompt's length, and what was sampled.

    `branch` is the sequence that is said to train it.
    """

    branch: int
    prompt: bytes
    length: int
    ids: tuple[int, ...]


def faithful(calls: Sequence[Seen], traces: Sequence[TokenTrace]) -> int:
    """How many tokens the traces train just where a call sampled them: after its whole prompt, once for each call."""
    by_branch: list[list[Seen]] = [[] for _ in traces]
    for call in calls:
        by_branch[call.branch].append(call)
    right = 0
    for trace, own in zip(traces, by_branch, strict=True):
        tokens, mask, digest, free = packed(trace.ids), bytes(trace.mask), fresh(), 0
        for call in own:
            end = call.length + len(call.ids)
            digest.update(tokens[4 * free : 4 * call.length])
            found = digest.digest() == call.prompt and trace.ids[call.length : end] == call.ids
            if found and call.length >= free and mask.count(1, call.length, end) == len(call.ids):
                right += len(call.ids)
            digest.update(tokens[4 * call.length : 4 * end])
            free = end
    return right


def tally(rollouts: Iterable[Rollout]) -> dict[str, float]:
    """The audits of all trials together, and how many sequences an episode has; empty where none of them sampled.

    `trained` is the share of the sampled tokens that is trained after what the engine saw, which is 1.
    """
    kept = [r.trajectory for r in rollouts if r.trajectory is not None and r.trajectory.audit.sampled]
    if not kept:
        return {}
    sampled, trained, wrong, prompted, reused = map(sum, zip(*(astuple(one.audit) for one in kept), strict=True))
    return {
        "trained": (trained - wrong) / sampled,
        "context_mismatch_tokens": wrong,
        "prefix_reuse": reused / prompted if prompted else 0.0,
        "sequences": sum(len(one.traces) for one in kept) / len(kept),
    }


def check(groups: Sequence[RolloutGroup], floor: float, at: str) -> None:
    """Refuse trials whose traces lost tokens, before anything trains on them; `at` names their phase.

    Raises:
        InfrastructureError: the share of sampled tokens that is trained after what the engine saw is below `floor`.
    """
    trials = [rollout for group in groups for rollout in group.rollouts]
    audits = {f"{trial.task_id}#{trial.index}": trial.trajectory.audit for trial in trials if trial.trajectory}
    lost = {name: audit.sampled - audit.trained + audit.mismatched for name, audit in audits.items()}
    sampled, missing = sum(audit.sampled for audit in audits.values()), sum(lost.values())
    if sampled - missing < floor * sampled:
        worst = max(lost, key=lambda name: lost[name])
        raise InfrastructureError(
            f"{at}: {missing:,} of {sampled:,} sampled tokens are not trained after what the engine saw, and "
            f"trained_floor={floor:g} allows fewer; {worst} lost {lost[worst]:,} of {audits[worst].sampled:,}. "
            "Set trained_floor lower to train without them."
        )
