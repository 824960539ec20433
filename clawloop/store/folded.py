"""Trials as the ledger keeps them: what a trace shares with an earlier one is not written again."""

from dataclasses import replace
from typing import Any

import msgspec

from clawloop.types import Rollout, TokenTrace


def fold(rollout: Rollout) -> bytes:
    """A trial as JSON; each trace is only what follows its shared beginning, in which nothing is trained."""
    if (played := rollout.trajectory) is not None:
        tails = tuple(_tail(trace) for trace in played.traces)
        rollout = replace(rollout, trajectory=replace(played, traces=tails))
    return msgspec.json.encode(rollout)


def unfold(data: bytes) -> Rollout:
    """The trial again, as it was."""
    rollout = msgspec.json.decode(data, type=Rollout)
    if (played := rollout.trajectory) is None:
        return rollout
    traces: list[TokenTrace] = []
    for tail in played.traces:
        of, length = tail.shares
        begun = traces[of].ids[:length] if length else ()
        known = None if tail.logprobs is None else (0.0,) * length + tail.logprobs
        traces.append(replace(tail, ids=begun + tail.ids, mask=(0,) * length + tail.mask, logprobs=known))
    return replace(rollout, trajectory=replace(played, traces=tuple(traces)))


def unfold_first(data: bytes) -> Rollout:
    """A trial of a ledger of schema 1, whose trajectories have one trace."""
    plain: Any = msgspec.json.decode(data)
    if plain["trajectory"] is not None:
        trace = plain["trajectory"].pop("trace")
        plain["trajectory"]["traces"] = [trace] if trace["ids"] else []
    return msgspec.convert(plain, Rollout)


def _tail(trace: TokenTrace) -> TokenTrace:
    length = trace.shares[1]
    known = None if trace.logprobs is None else trace.logprobs[length:]
    return replace(trace, ids=trace.ids[length:], mask=trace.mask[length:], logprobs=known)
