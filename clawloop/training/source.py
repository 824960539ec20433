"""Which sequences a stage trains on: the admission rollouts, replayed (paper, A.2)."""

from collections.abc import Iterable
from dataclasses import dataclass

from clawloop.training.advantage import group_relative
from clawloop.types import Rollout, RolloutGroup, TaskPool


@dataclass(frozen=True, slots=True)
class Sequence:
    """One episode as it is trained: ids_T, mask_T (1 where the agent acted), log-probabilities, advantage.

    `logprobs` are the behaviour's and `reference` those of the policy that the KL is measured to, where they are known.
    """

    name: str
    ids: tuple[int, ...]
    mask: tuple[int, ...]
    logprobs: tuple[float, ...] | None
    advantage: float = 0.0
    reward: float = 0.0
    reference: tuple[float, ...] = ()

    @property
    def actions(self) -> int:
        """How many tokens are trained; the first token of a sequence is never predicted."""
        return sum(self.mask[1:])


@dataclass(frozen=True, slots=True)
class Drawn:
    """Sequences, and what was left out of them: names of those that are too long, and counts."""

    sequences: tuple[Sequence, ...]
    too_long: tuple[str, ...] = ()
    empty: int = 0
    unanimous: int = 0
    groups: int = 0


def successes(pool: TaskPool, max_tokens: int) -> Drawn:
    """D_SFT (Algorithm 1, line 17): the rewarded rollouts of the practice tasks."""
    rollouts = (r for group in pool.groups for r in group.rollouts if r.reward == 1.0)
    return _drawn((_sequence(rollout) for rollout in rollouts), max_tokens)


def blind(groups: Iterable[RolloutGroup]) -> list[str]:
    """The rollouts that GRPO cannot weigh, since the engine did not say how likely their tokens were."""
    rollouts = (rollout for group in groups for rollout in group.rollouts)
    return [f"{r.task_id}#{r.index}" for r in rollouts if r.trajectory and r.trajectory.trace.logprobs is None]


def groups(pool: TaskPool, max_tokens: int, epsilon: float) -> Drawn:
    """The groups of line 19, each judged rollout with its advantage. Rollouts without a reward are in no mean.

    A unanimous group says nothing and is dropped.

    Raises:
        ValueError: the log-probabilities of a rollout are not known, so that it cannot be weighed.
    """
    found: list[Sequence | None] = []
    unanimous = 0
    for group in pool.groups:
        judged = [rollout for rollout in group.rollouts if rollout.reward is not None]
        rewards = [float(rollout.reward or 0.0) for rollout in judged]
        if len(set(rewards)) < 2:
            unanimous += 1
            continue
        advantages = group_relative(rewards, epsilon)
        found += [_sequence(rollout, advantage) for rollout, advantage in zip(judged, advantages, strict=True)]
    if blind := [sequence.name for sequence in found if sequence is not None and sequence.logprobs is None]:
        raise ValueError(
            f"trainer grpo: the log-probabilities of {len(blind)} rollouts ({blind[0]}, ...) are not known, since the "
            "server that sampled them gave none; they serve admission and SFT only, so leave grpo out of trainer."
        )
    return _drawn(found, max_tokens, unanimous, len(pool.groups) - unanimous)


def _sequence(rollout: Rollout, advantage: float = 0.0) -> Sequence | None:
    if rollout.trajectory is None:
        return None
    trace = rollout.trajectory.trace
    name = f"{rollout.task_id}#{rollout.index}"
    return Sequence(name, trace.ids, trace.mask, trace.logprobs, advantage, float(rollout.reward or 0.0))


def _drawn(found: Iterable[Sequence | None], max_tokens: int, unanimous: int = 0, used: int = 0) -> Drawn:
    kept: list[Sequence] = []
    too_long: list[str] = []
    empty = 0
    for sequence in found:
        if sequence is None or not sequence.actions:
            empty += 1
        elif len(sequence.ids) > max_tokens:
            too_long.append(sequence.name)
        else:
            kept.append(sequence)
    return Drawn(tuple(kept), tuple(too_long), empty, unanimous, used)
