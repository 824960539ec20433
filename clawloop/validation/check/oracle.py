"""The reference solution must pass its own verifier (paper, 4.2)."""

from clawloop.protocols import Grader, Sandboxes
from clawloop.rollout.grade import GraderError
from clawloop.types import Candidate, CommandResult, Finding
from clawloop.validation.solution import play


class Oracle:
    """Plays the oracle's commands in a fresh box, in the agent's shell, and grades what is left.

    A command may end with any code: the verifier decides. One that is stopped (time, output, memory) fails the check.

    Args:
        sandboxes: opens the box.
        grader: runs the verifier.
        command_s: seconds that one command may take.
    """

    def __init__(self, sandboxes: Sandboxes, grader: Grader, command_s: float = 20.0) -> None:
        self._sandboxes, self._grader, self._command_s = sandboxes, grader, command_s

    def __call__(self, candidate: Candidate) -> Finding:
        """Passes where the verifier does."""
        assert candidate.task is not None
        task = candidate.task
        snapshot, last, command = play(candidate.oracle, task.workspace, self._sandboxes, self._command_s)
        if last.stopped:
            return Finding("oracle", False, f"the oracle's command was stopped ({last.stopped}): {command:.100}")
        try:
            verdict = self._grader(task, snapshot)
        except GraderError as error:
            return Finding("oracle", False, str(error))
        if verdict.passed:
            return Finding("oracle", True)
        wrong = ", ".join(f"{field.name}: {field.reason}" for field in verdict.fields if not field.passed)
        return Finding(
            "oracle", False, f"the oracle fails its own verifier ({wrong or 'no fields'}){_said(last)}"[:400]
        )


def _said(result: CommandResult) -> str:
    lines = result.stderr.decode("utf-8", "backslashreplace").splitlines()
    return (
        f"; its last command ended with code {result.exit_code}: {lines[-1] if lines else ''}"
        if result.exit_code
        else ""
    )
