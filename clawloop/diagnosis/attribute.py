"""Attributing a failure by rule, from the trace and the verifier's field-by-field result."""

import re
from collections.abc import Mapping

from clawloop.protocols import Policy
from clawloop.types import FailureSummary, Rollout, RootCause, Stop, Task, Turn

_MISUSED = re.compile(
    r"command not found|syntax error|(?:invalid|unrecognized|illegal) option|: not found", re.IGNORECASE
)
_EDITS = frozenset({"changed", "inputs_changed", "still_there", "unexpected_file", "not_regular", "too_large"})
_POINT, _SHOWN_FIELDS = 160, 4


class Rules:
    """Explains a failed trial without a judge (paper, 4.3, with rules in the place of the agent's own summary).

    The first rule that holds gives the root cause and the turn at which the trial failed:
      1. over_budget: out of turns, time or context. The last turn.
      2. stopped_early: handed in without any command. The last turn.
      3. wrong_tool: the program that plays the agent crashed, the last command is known not to have ended with code 0,
         or a command or an option does not exist or does not parse. That turn.
      4. wrong_edit: the verifier found an input changed, something left that should be gone, something that should
         not be there, or no regular file. The last command.
      5. stopped_early: a deliverable is missing and no command names it. The last turn.
      6. misunderstood: the rest: all was delivered, and values are wrong. The last command.
    """

    def __call__(self, policy: Policy, task: Task, rollout: Rollout) -> FailureSummary:
        """The summary of a judged trial that failed; the policy is not asked.

        Raises:
            ValueError: the trial was not judged, or passed.
        """
        if rollout.reward != 0.0 or rollout.trajectory is None:
            raise ValueError(f"trial {rollout.index} of {task.id} is no judged failure; only those have a root cause.")
        cause, turn = _attribute(task, rollout)
        turns = rollout.trajectory.turns
        return FailureSummary(
            task.id, task.card.capability, task.card.level, _point(turns, turn), cause, _missing(cause, task, rollout)
        )


def _attribute(task: Task, rollout: Rollout) -> tuple[RootCause, int]:
    """The root cause and the index of its turn."""
    assert rollout.trajectory is not None
    turns = rollout.trajectory.turns
    last = len(turns) - 1
    commands = [index for index, turn in enumerate(turns) if turn.command is not None]
    if rollout.trajectory.stop is Stop.CRASHED:
        return RootCause.WRONG_TOOL, last
    if rollout.trajectory.stop is not Stop.SUBMITTED:
        return RootCause.OVER_BUDGET, last
    if not commands:
        return RootCause.STOPPED_EARLY, last
    misused = [index for index in commands if _MISUSED.search(turns[index].observation)]
    ended = turns[commands[-1]]  # a program of its own does not tell the exit codes of its commands
    if misused or ended.exit_code not in (0, None) or ended.observation.startswith("stopped: "):
        return RootCause.WRONG_TOOL, misused[0] if misused else commands[-1]
    reasons = _wrong(rollout)
    if any(_kind(reason) in _EDITS for reason in reasons.values()):
        return RootCause.WRONG_EDIT, commands[-1]
    written = "\n".join(turns[index].command or "" for index in commands)
    named = any(item.path.rsplit("/", 1)[-1] in written for item in task.contract.deliverables)
    if not named and any(_kind(reason) == "missing" for reason in reasons.values()):
        return RootCause.STOPPED_EARLY, last
    return RootCause.MISUNDERSTOOD, commands[-1]


def _wrong(rollout: Rollout) -> Mapping[str, str]:
    fields = rollout.verdict.fields if rollout.verdict else ()
    return {field.name: field.reason for field in fields if not field.passed}


def _kind(reason: str) -> str:
    """The first word of a reason, which may go on with details."""
    return reason.split(":", 1)[0].split(" ", 1)[0]


def _point(turns: tuple[Turn, ...], index: int) -> str:
    if index < 0:
        return "before the first turn"
    turn = turns[index]
    did = turn.command if turn.command is not None else turn.action or "nothing"
    return f"turn {index + 1}: {' '.join(did.split())}"[:_POINT]


def _missing(cause: RootCause, task: Task, rollout: Rollout) -> str:
    """What the agent would have needed to do, in one sentence."""
    wrong = ", ".join(f"{name} ({reason})" for name, reason in list(_wrong(rollout).items())[:_SHOWN_FIELDS])
    rules = ", ".join(decision.name for decision in task.contract.decisions)
    paths = ", ".join(item.path for item in task.contract.deliverables)
    match cause:
        case RootCause.OVER_BUDGET:
            stop = rollout.trajectory.stop.value if rollout.trajectory else "its budget"
            return f"Reach {paths} and hand in before running out of {stop}."
        case RootCause.STOPPED_EARLY:
            return f"Write {paths} before handing in."
        case RootCause.WRONG_TOOL:
            return "Use commands that exist, parse and end without an error, and read what they say."
        case RootCause.WRONG_EDIT:
            return f"Change what is asked for and nothing else: {wrong}."
        case RootCause.MISUNDERSTOOD:
            return f"Follow the contract{f' on {rules}' if rules else ''} to get {wrong or paths} right."
