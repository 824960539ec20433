"""What a stage trains on: from rollouts to sequences, and what a source of batches is."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from collections.abc import Sequence as Many
from dataclasses import dataclass
from statistics import fmean
from typing import Any, Protocol

from clawloop.protocols import Policy
from clawloop.training.reference import Weights
from clawloop.types import Rollout, RolloutGroup, TaskPool


@dataclass(frozen=True, slots=True)
class Sequence:
    """One sequence of an episode as it is trained: ids_T, mask_T (1 where it is trained), log-probabilities, advantage.

    `logprobs` are the behaviour's, `old` those of theta_old (`correction.py`) and `reference` those of the policy
    that the KL is measured to, where they are known. All sequences of a rollout name the same `episode` and have its
    advantage; one that names none is an episode itself. Those of a task's rollouts name the same `group`.
    """

    name: str
    ids: tuple[int, ...]
    mask: tuple[int, ...]
    logprobs: tuple[float, ...] | None
    advantage: float = 0.0
    reward: float = 0.0
    reference: tuple[float, ...] = ()
    old: tuple[float, ...] = ()
    episode: str = ""
    group: str = ""

    def __post_init__(self) -> None:
        if not self.episode:
            object.__setattr__(self, "episode", self.name)

    @property
    def actions(self) -> int:
        """How many tokens are trained; the first token of a sequence is never predicted."""
        return sum(self.mask[1:])


@dataclass(frozen=True, slots=True)
class Drawn:
    """Sequences, and the episodes that were left out: names of those with a sequence that is too long, and counts."""

    sequences: tuple[Sequence, ...]
    too_long: tuple[str, ...] = ()
    empty: int = 0
    unanimous: int = 0
    groups: int = 0


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a stage wants of its source.

    `draw` weighs groups, and `prepare` adds what other policies than the one in training say of the sequences, given
    the weights that the stage began with, or None where those are still in place or, as `entered` says, are not asked
    for. `batch_size` is trajectories an optimizer step, and `epochs` passes over what is there already. `seed` is the
    stage's.
    """

    draw: Callable[[TaskPool], Drawn]
    prepare: Callable[[tuple[Sequence, ...], Weights | None], tuple[Sequence, ...]]
    batch_size: int
    epochs: int
    seed: str
    entered: bool = True


class Batches(Protocol):
    """The batches of a stage, one an optimizer step, each made when it is asked for; at most `len` of them."""

    def __len__(self) -> int: ...
    def __iter__(self) -> Iterator[list[Sequence]]: ...


class Source(Protocol):
    """Where the batches of GRPO come from."""

    def open(self, policy: Policy, practice: TaskPool, k: int, wanted: Wanted) -> tuple[Batches, dict[str, object]]:
        """The batches of a stage, and what to record of them."""
        ...

    def before_step(self, model: Any) -> Mapping[str, float]:
        """Called between a step's last backward and its optimizer; returns numbers to be logged."""
        ...

    def state(self) -> bytes:
        """What the next iteration depends on."""
        ...

    def restore(self, state: bytes) -> None:
        """Go on from there."""
        ...


def learnability(groups: Iterable[Many[Sequence]]) -> float:
    """L: the mean over groups of the mean over trajectories of |A| (HarnessBandit, 4.2); 0 where there is none.

    All tokens of a trajectory have one advantage, so its mean over tokens is itself.
    """
    means = [fmean({one.episode: abs(one.advantage) for one in group}.values()) for group in groups if group]
    return fmean(means) if means else 0.0


def successes(pool: TaskPool, max_tokens: int) -> Drawn:
    """D_SFT (Algorithm 1, line 17): the rewarded rollouts of the practice tasks."""
    rollouts = (r for group in pool.groups for r in group.rollouts if r.reward == 1.0)
    return _drawn((sequences(rollout) for rollout in rollouts), max_tokens)


def blind(groups: Iterable[RolloutGroup]) -> list[str]:
    """The rollouts that GRPO cannot weigh, since the engine did not say how likely their tokens were."""
    played = ((rollout, rollout.trajectory) for group in groups for rollout in group.rollouts)
    return [f"{r.task_id}#{r.index}" for r, t in played if t and any(one.logprobs is None for one in t.traces)]


def groups(pool: TaskPool, max_tokens: int, advantage: Callable[[list[float]], list[float]]) -> Drawn:
    """The groups of line 19, each judged rollout with its advantage.

    A rollout without a reward is in no mean and is not trained, and its group is that of the others. A group of which
    fewer than two different rewards are left, one of a single rollout included, says nothing and is dropped (dynamic
    sampling; paper, C). A rollout that is left out later, for its length, still counts in its group's mean.

    Raises:
        ValueError: the log-probabilities of a rollout are not known, so that it cannot be weighed.
    """
    found: list[list[Sequence]] = []
    unanimous = 0
    for group in pool.groups:
        judged = [rollout for rollout in group.rollouts if rollout.reward is not None]
        rewards = [float(rollout.reward or 0.0) for rollout in judged]
        if len(set(rewards)) < 2:
            unanimous += 1
            continue
        advantages = advantage(rewards)
        found += [sequences(rollout, value) for rollout, value in zip(judged, advantages, strict=True)]
    if unknown := [episode[0].episode for episode in found if any(sequence.logprobs is None for sequence in episode)]:
        raise ValueError(
            f"trainer grpo: the log-probabilities of {len(unknown)} rollouts ({unknown[0]}, ...) are not known, since "
            "the server that sampled them gave none; they serve admission and SFT only, so leave grpo out of trainer."
        )
    return _drawn(found, max_tokens, unanimous, len(pool.groups) - unanimous)


def sequences(rollout: Rollout, advantage: float = 0.0) -> list[Sequence]:
    """What is trained of a rollout; none where nothing was sampled. Several are named `task#index.branch`."""
    traces = rollout.trajectory.traces if rollout.trajectory else ()
    episode, reward = f"{rollout.task_id}#{rollout.index}", float(rollout.reward or 0.0)
    names = [episode] if len(traces) == 1 else [f"{episode}.{branch}" for branch in range(len(traces))]
    found = (
        Sequence(name, trace.ids, trace.mask, trace.logprobs, advantage, reward, episode=episode, group=rollout.task_id)
        for name, trace in zip(names, traces, strict=True)
    )
    return [sequence for sequence in found if sequence.actions]


def _drawn(found: Iterable[list[Sequence]], max_tokens: int, unanimous: int = 0, used: int = 0) -> Drawn:
    kept: list[Sequence] = []
    too_long: list[str] = []
    empty = 0
    for episode in found:
        if not episode:
            empty += 1
        elif max(len(sequence.ids) for sequence in episode) > max_tokens:
            too_long.append(episode[0].episode)
        else:
            kept += episode
    return Drawn(tuple(kept), tuple(too_long), empty, unanimous, used)
