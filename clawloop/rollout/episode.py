"""One trial of one task, from a fresh workspace to a reward."""

import threading
from dataclasses import replace

from clawloop.protocols import Agent, Grader, Harness, InfrastructureError, Sandboxes
from clawloop.rollout.grade import GraderError
from clawloop.rollout.tokens import TraceBuilder
from clawloop.types import (
    Audit,
    Completion,
    Outcome,
    Request,
    Rollout,
    Snapshot,
    Stop,
    Task,
    TokenTrace,
    Trajectory,
)


class _Recorder:
    """A policy whose calls become traces. Calls may come from several threads at once."""

    def __init__(self, policy: Agent) -> None:
        self._policy = policy
        self.version = policy.version
        self._builder = TraceBuilder()
        self._lock = threading.Lock()

    def complete(self, request: Request) -> Completion:
        completion = self._policy.complete(request)
        with self._lock:
            self._builder.add(completion)
        return completion

    def built(self) -> tuple[tuple[TokenTrace, ...], Audit]:
        """The traces of the calls so far."""
        with self._lock:
            return self._builder.build()


class Episode:
    """Plays a task in a box of its own and grades what is left of the workspace.

    An infrastructure failure is tried again `retries` times. Out of turns, time or context is a failure of the agent
    and is not graded (paper, A.1); a broken box, engine or verifier gives no reward at all.
    """

    def __init__(self, harness: Harness, sandboxes: Sandboxes, grade: Grader, retries: int = 2) -> None:
        self._harness, self._sandboxes, self._grade, self._retries = harness, sandboxes, grade, retries

    def __call__(self, policy: Agent, task: Task, index: int, seed: int) -> Rollout:
        """Trial `index` of a task; the noise of sampling comes from `seed` alone."""
        for left in reversed(range(self._retries + 1)):
            try:
                trajectory, snapshot = self._play(policy, task, seed)
            except InfrastructureError as error:
                if left:
                    continue
                return Rollout(task.id, index, Outcome.INFRASTRUCTURE_FAILED, None, None, None, str(error))
            break
        if trajectory.stop is not Stop.SUBMITTED:
            return Rollout(task.id, index, Outcome.AGENT_FAILED, 0.0, trajectory, None)
        for left in reversed(range(self._retries + 1)):
            try:
                verdict = self._grade(task, snapshot)
            except InfrastructureError as error:
                if left:
                    continue
                return Rollout(task.id, index, Outcome.INFRASTRUCTURE_FAILED, None, trajectory, None, str(error))
            except GraderError as error:
                return Rollout(task.id, index, Outcome.GRADER_FAILED, None, trajectory, None, str(error))
            break
        return Rollout(task.id, index, Outcome.SCORED, float(verdict.passed), trajectory, verdict)

    def _play(self, policy: Agent, task: Task, seed: int) -> tuple[Trajectory, Snapshot]:
        recorder = _Recorder(policy)
        with self._sandboxes.open(task.workspace) as sandbox:
            trajectory = self._harness.run(task.assignment, recorder, sandbox, seed)
            snapshot = sandbox.snapshot()
        traces, audit = recorder.built()
        return replace(trajectory, traces=traces, audit=audit), snapshot
