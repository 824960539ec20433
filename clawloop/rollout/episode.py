"""One trial of one task, from a fresh workspace to a reward."""

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, wait
from dataclasses import replace
from typing import TypeVar

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

T = TypeVar("T")


class _Recorder:
    """A policy whose calls, which may come from several threads, become traces; none is waited for beyond `reply_s`."""

    def __init__(self, policy: Agent, reply_s: float) -> None:
        self._policy, self._reply_s = policy, reply_s
        self.version = policy.version
        self._builder = TraceBuilder()
        self._lock = threading.Lock()

    def complete(self, request: Request) -> Completion:
        reply: Future[Completion] = Future()

        def ask() -> None:
            try:
                reply.set_result(self._policy.complete(request))
            except BaseException as error:  # it is raised where the reply is waited for
                reply.set_exception(error)

        threading.Thread(target=ask, name="reply", daemon=True).start()
        if not wait([reply], self._reply_s).done:
            raise InfrastructureError(f"the engine hangs: it gave no reply in {self._reply_s:g} s (budget.reply_s).")
        completion = reply.result()
        with self._lock:
            self._builder.add(completion)
        return completion

    def built(self) -> tuple[tuple[TokenTrace, ...], Audit]:
        """The traces of the calls so far."""
        with self._lock:
            return self._builder.build()


class Episode:
    """Plays a task in a box of its own and grades what is left of the workspace.

    An infrastructure failure is tried again `retries` times, after a second and then twice as long each time. Out of
    turns, time or context is a failure of the agent and is not graded (paper, A.1); a broken box, engine or verifier
    gives no reward at all. So does an engine that gives no reply in `reply_s` seconds.
    """

    def __init__(
        self, harness: Harness, sandboxes: Sandboxes, grade: Grader, retries: int = 2, reply_s: float = 3_600.0
    ) -> None:
        self._harness, self._sandboxes, self._grade = harness, sandboxes, grade
        self._retries, self._reply_s = retries, reply_s

    def __call__(self, policy: Agent, task: Task, index: int, seed: int) -> Rollout:
        """Trial `index` of a task; the noise of sampling comes from `seed` alone."""
        try:
            trajectory, snapshot = self._tried(lambda: self._play(policy, task, seed))
        except InfrastructureError as error:
            return Rollout(task.id, index, Outcome.INFRASTRUCTURE_FAILED, None, None, None, str(error))
        if trajectory.stop is not Stop.SUBMITTED:
            return Rollout(task.id, index, Outcome.AGENT_FAILED, 0.0, trajectory, None)
        try:
            verdict = self._tried(lambda: self._grade(task, snapshot))
        except InfrastructureError as error:
            return Rollout(task.id, index, Outcome.INFRASTRUCTURE_FAILED, None, trajectory, None, str(error))
        except GraderError as error:
            return Rollout(task.id, index, Outcome.GRADER_FAILED, None, trajectory, None, str(error))
        return Rollout(task.id, index, Outcome.SCORED, float(verdict.passed), trajectory, verdict)

    def _tried(self, do: Callable[[], T]) -> T:
        for again in range(self._retries):
            try:
                return do()
            except InfrastructureError:
                time.sleep(2.0**again)
        return do()

    def _play(self, policy: Agent, task: Task, seed: int) -> tuple[Trajectory, Snapshot]:
        recorder = _Recorder(policy, self._reply_s)
        with self._sandboxes.open(task.workspace) as sandbox:
            trajectory = self._harness.run(task.assignment, recorder, sandbox, seed)
            snapshot = sandbox.snapshot()
        traces, audit = recorder.built()
        return replace(trajectory, traces=traces, audit=audit), snapshot
