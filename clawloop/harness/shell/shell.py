"""The control loop: ask, run the command, show what it said, until the agent is done or out of budget."""

import hashlib
import re
import time
from importlib.resources import files
from string import Template

from clawloop.protocols import Agent, Sandbox
from clawloop.types import (
    Assignment,
    CommandResult,
    Contract,
    Deliverable,
    Message,
    Request,
    Stop,
    TokenTrace,
    Trajectory,
    Turn,
)

_BLOCK = re.compile(r"```(?:bash|sh)?\n(.*?)\n?```", re.DOTALL)
_HIDDEN = {code: f"\\x{code:02x}" for code in (*range(9), *range(11, 32), *range(127, 160))} | {
    code: f"\\u{code:04x}" for code in (*range(0x200B, 0x2010), *range(0x2028, 0x202F), *range(0x2066, 0x206A))
}


def _text(name: str) -> str:
    return files("clawloop.harness.shell").joinpath(name).read_text().strip()


def opening(assignment: Assignment, system: str = "brief.md") -> tuple[Message, ...]:
    """The messages that open an episode: the system prompt, then the instruction with its contract."""
    rules, deliverables = _rules(assignment.contract), "; ".join(map(_deliverable, assignment.contract.deliverables))
    text = Template(_text("assignment.md")).substitute(
        instruction=assignment.instruction.strip(), rules=rules, deliverables=deliverables
    )
    return Message("system", Template(_text(system)).safe_substitute(tool=_text("tool.json"))), Message("user", text)


def observation(result: CommandResult, limit: int) -> str:
    """What the agent sees of a command: its exit code or why it was stopped, and its output made printable."""
    head = f"exit {result.exit_code}" if result.exit_code is not None else f"stopped: {result.stopped}"
    text = (result.stdout + result.stderr).decode("utf-8", "backslashreplace").translate(_HIDDEN).rstrip("\n")
    if len(text) > limit:
        half = limit // 2
        text = f"{text[:half]}\n[{len(text) - 2 * half} characters left out]\n{text[-half:]}"
    return f"{head}\n{text}" if text else head


def command_of(action: str) -> str | None:
    r"""The first bash block of a reply.

    >>> command_of("I count.\n```bash\nwc -l a.csv\n```")
    'wc -l a.csv'
    """
    found = _BLOCK.search(action)
    return found.group(1).strip() or None if found else None


def _rules(contract: Contract) -> str:
    return "; ".join(f"{decision.name}: {decision.rule.rstrip('.')}" for decision in contract.decisions) or "none"


def _deliverable(item: Deliverable) -> str:
    fields = ", ".join(f"{name} {kind}" for name, kind in item.fields.items())
    within = f", within {item.tolerance:g}" if item.tolerance else ""
    return f"{item.path} ({item.form}{': ' + fields if fields else ''}{within})"


class Shell:
    """One bash command a turn; a reply with the word done and no command ends the episode.

    Args:
        max_turns: replies that an episode may have; more is a failure (paper, A.1).
        wall_s: seconds that an episode may take; more is a failure.
        command_s: seconds that one command may take.
        observation_chars: characters of a command's output that are shown; the middle of longer ones is left out.
        max_tokens: tokens that one reply may have.
        system: the file of the system prompt, brief.md or full.md.
    """

    name = "shell"

    def __init__(
        self,
        max_turns: int = 300,
        wall_s: float = 86_400.0,
        command_s: float = 20.0,
        observation_chars: int = 8_000,
        max_tokens: int = 1_024,
        system: str = "full.md",
    ) -> None:
        self.max_turns, self.wall_s, self.command_s = max_turns, wall_s, command_s
        self.observation_chars, self.max_tokens, self.system = observation_chars, max_tokens, system
        _text(system)

    def run(self, assignment: Assignment, policy: Agent, sandbox: Sandbox, seed: int) -> Trajectory:
        """Play one episode. The trajectory's trace is left empty: whoever handed over the policy has its tokens."""
        started = time.monotonic()
        messages = opening(assignment, self.system)
        turns: list[Turn] = []
        stop = Stop.TURNS
        session = f"{assignment.task_id}/{seed}"
        for index in range(self.max_turns):
            asked = time.monotonic()
            if asked - started > self.wall_s:
                stop = Stop.TIME
                break
            noise = int.from_bytes(hashlib.sha256(f"{seed}/{index}".encode()).digest()[:8], "big")
            reply = policy.complete(Request(messages, session, noise, self.max_tokens))
            if reply.finish == "context":
                stop = Stop.CONTEXT
                break
            command = command_of(reply.text)
            if command is None and "done" in reply.text.lower():
                turns.append(Turn(reply.text, None, "", None, time.monotonic() - asked))
                stop = Stop.SUBMITTED
                break
            code, shown = None, _text("no_command.md")
            if command is not None:
                result = sandbox.run(["/bin/bash", "-c", command], timeout_s=self.command_s)
                code, shown = result.exit_code, observation(result, self.observation_chars)
            turns.append(Turn(reply.text, command, shown, code, time.monotonic() - asked))
            messages = (*messages, Message("assistant", reply.text, reply.ids), Message("user", shown))
        seconds = time.monotonic() - started
        return Trajectory(
            assignment.task_id, self.name, policy.version, tuple(turns), TokenTrace((), (), ()), stop, seconds
        )
