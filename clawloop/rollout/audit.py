"""Whether the sequences of an episode hold what the engine saw and sampled: counted, not assumed."""

import hashlib
import struct
from collections import defaultdict
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
    """A call as the engine saw it: the digest of its packed prompt, and what was sampled."""

    prompt: bytes
    ids: tuple[int, ...]


def mismatched(calls: Sequence[Seen], traces: Sequence[TokenTrace]) -> int:
    """How many trained tokens are not what a call sampled after just the tokens that stand before them.

    Each call answers for its tokens once, so a token that is trained a second time counts too.
    """
    waiting: dict[bytes, list[tuple[int, ...]]] = defaultdict(list)
    for call in calls:
        waiting[call.prompt].append(call.ids)
    wrong = 0
    for trace in traces:
        tokens, mask, digest = packed(trace.ids), bytes(trace.mask), fresh()
        at, before = mask.find(1), 0
        while at >= 0:
            digest.update(tokens[4 * before : 4 * at])
            before = at
            said = [
                ids
                for ids in waiting[digest.digest()]
                if trace.ids[at : at + len(ids)] == ids and mask.count(1, at, at + len(ids)) == len(ids)
            ]
            if said:
                longest = max(said, key=len)
                waiting[digest.digest()].remove(longest)
                at = mask.find(1, at + len(longest))
            else:
                wrong += 1
                at = mask.find(1, at + 1)
    return wrong


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
    rollouts = [rollout for group in groups for rollout in group.rollouts]
    share = tally(rollouts).get("trained", 1.0)
    if share >= floor:
        return
    worst = min((r for r in rollouts if tally([r])), key=lambda rollout: tally([rollout])["trained"])
    raise InfrastructureError(
        f"{at}: {share:.2%} of the sampled tokens are trained after what the engine saw, and trained_floor asks for "
        f"{floor:.2%}; {worst.task_id}#{worst.index} has {tally([worst])['trained']:.2%}. Set trained_floor lower to "
        "train without them."
    )
