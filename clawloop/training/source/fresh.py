"""New rollouts of the current policy for each optimizer step (HarnessBandit, 4.1)."""

import io
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from collections.abc import Sequence as Many
from dataclasses import dataclass
from statistics import fmean
from typing import Any, TypeAlias

import torch

from clawloop.protocols import Policy, Scheduler
from clawloop.training.fit import trainable
from clawloop.training.reference import copied
from clawloop.training.sequences import Batches, Drawn, Sequence, Wanted, learnability
from clawloop.training.source.supply import Supplied, Supply
from clawloop.types import RolloutGroup, StepSignal, Task, TaskPool

RollOut: TypeAlias = Callable[[Policy, tuple[Task, ...], int, str, str], tuple[RolloutGroup, ...]]
"""From (policy, tasks, trials a task, phase, harness) to their groups."""


@dataclass(frozen=True, slots=True)
class _Steps:
    """At most so many batches, each made when it is asked for."""

    count: int
    batches: Callable[[], Iterator[list[Sequence]]]

    def __len__(self) -> int:
        return self.count

    def __iter__(self) -> Iterator[list[Sequence]]:
        return self.batches()


class Fresh:
    """For each step, groups of trials by the policy as it is then, in the harnesses that a scheduler chooses.

    `Supply` says how a step comes to its groups. A step that finds none changes no weights and tells the scheduler
    that it learnt nothing. The phase of a trial is such as k1/grpo/step3, in a harness, so that a run that was killed
    finds all of its trials again.

    Args:
        steps: optimizer steps a stage.
        rollouts: G, trials of a task.
        rounds: how often a step may roll out.
        staleness: how many steps old a group from the stash may be.
        scheduler: chooses the harnesses.
        roll_out: plays trials.
        harness_of: the harness that a task has where none is chosen, by its id.
        trajectories: of an optimizer step of GRPO; 0 where there is no such stage.
        seed: the run's seed.

    Raises:
        ValueError: there is no stage to feed, or its batch is no number of whole groups.
    """

    def __init__(
        self,
        steps: int,
        rollouts: int,
        rounds: int,
        staleness: int,
        scheduler: Scheduler,
        roll_out: RollOut,
        harness_of: Callable[[str], str],
        trajectories: int,
        seed: int = 0,
    ) -> None:
        if not trajectories:
            raise ValueError("source=fresh feeds grpo, and trainer leaves grpo out; choose source=replay, or add it.")
        if trajectories % rollouts:
            raise ValueError(
                f"source=fresh: trainer.grpo.batch_size is {trajectories} trajectories, which are no whole groups of "
                f"{rollouts} rollouts; set a multiple of {rollouts}."
            )
        self._steps, self._rollouts, self._batch = steps, rollouts, trajectories // rollouts
        self._rounds, self._staleness, self._seed = rounds, staleness, seed
        self._scheduler, self._roll_out, self._harness_of = scheduler, roll_out, harness_of
        self._step: tuple[StepSignal, Mapping[str, float]] = StepSignal((), 0.0), {}

    def open(self, policy: Policy, practice: TaskPool, k: int, wanted: Wanted) -> tuple[Batches, dict[str, object]]:
        """The steps of a stage; nothing is rolled out yet."""
        tasks = practice.tasks
        steps = _Steps(self._steps if tasks else 0, lambda: self._batches(policy, tasks, k, wanted))
        return steps, {"tasks": len(tasks), "steps": len(steps)}

    def before_step(self, model: Any) -> Mapping[str, float]:
        """The scheduler learns from the step; its numbers and the step's."""
        signal, numbers = self._step
        cosines = self._scheduler.sketch(signal.harnesses[0], model) if self._scheduler.sketch else {}
        learnt = self._scheduler.observe(StepSignal(signal.harnesses, signal.learnability, cosines))
        return {**numbers, **learnt}

    def state(self) -> bytes:
        """What the scheduler knows."""
        kept = io.BytesIO()
        torch.save(self._scheduler.state_dict(), kept)
        return kept.getvalue()

    def restore(self, state: bytes) -> None:
        """Go on from there."""
        self._scheduler.load_state_dict(torch.load(io.BytesIO(state), weights_only=True))

    def _batches(self, policy: Policy, tasks: tuple[Task, ...], k: int, wanted: Wanted) -> Iterator[list[Sequence]]:
        supply = Supply(tasks, self._harness_of, self._batch, self._rounds, self._staleness, f"{self._seed}/{k}/fresh")
        entered = copied(trainable(policy, "grpo").model) if wanted.entered else None
        for step in range(1, self._steps + 1):
            chosen = self._scheduler.choose(k, step)
            supplied = self._supplied(policy.renamed(f"theta_{k}-grpo-{step - 1}"), supply, chosen, k, step)
            drawn = [wanted.draw(TaskPool((made.group,))) for made in supplied.groups]
            self._step = self._told(chosen, step, supplied, drawn)
            model = trainable(policy, "grpo").model
            if sequences := tuple(one for group in drawn for one in group.sequences):
                batch = wanted.prepare(sequences, entered)
                model.train()
                yield list(batch)
            else:
                self._scheduler.observe(self._step[0])

    def _supplied(self, policy: Policy, supply: Supply, chosen: tuple[str, ...], k: int, step: int) -> Supplied:
        def play(harness: str, tasks: tuple[Task, ...]) -> tuple[RolloutGroup, ...]:
            return self._roll_out(policy, tasks, self._rollouts, f"k{k}/grpo/step{step}", harness)

        return supply.take(chosen, step, play)

    def _told(
        self, chosen: tuple[str, ...], step: int, supplied: Supplied, drawn: Many[Drawn]
    ) -> tuple[StepSignal, dict[str, float]]:
        harnesses = Counter(made.harness for made in supplied.groups)
        signal = StepSignal(chosen or tuple(sorted(harnesses)), learnability(group.sequences for group in drawn))
        counts = {name: float(getattr(supplied, name)) for name in ("played", "unanimous", "stashed", "stale")}
        numbers = {"learnability": signal.learnability, "groups": float(len(supplied.groups)), **counts}
        numbers["too_long"] = float(sum(len(group.too_long) for group in drawn))
        if supplied.groups:
            numbers["age"] = fmean(step - made.step for made in supplied.groups)
        return signal, numbers | {f"groups/{name}": float(groups) for name, groups in harnesses.items()}
