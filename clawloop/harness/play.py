"""What every native harness shares: how an episode opens, its bounds and its clock, and how output is shown."""

import hashlib
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
    ToolCall,
    Trajectory,
    Turn,
)

_HIDDEN = {code: f"\\x{code:02x}" for code in (*range(9), *range(11, 32), *range(127, 160))} | {
    code: f"\\u{code:04x}" for code in (*range(0x200B, 0x2010), *range(0x2028, 0x202F), *range(0x2066, 0x206A))
}


def prompt(package: str, name: str, **values: str) -> str:
    """A prompt file of a package, with its `$name` filled in."""
    return Template(files(package).joinpath(name).read_text(encoding="utf-8").strip()).safe_substitute(values)


def opening(assignment: Assignment, system: str) -> tuple[Message, ...]:
    """The messages that open an episode: the system prompt, then the instruction with its contract."""
    text = prompt(
        __package__,
        "assignment.md",
        instruction=assignment.instruction.strip(),
        rules=_rules(assignment.contract),
        deliverables="; ".join(map(_deliverable, assignment.contract.deliverables)),
    )
    return Message("system", system), Message("user", text)


def printable(data: bytes, limit: int) -> str:
    """Bytes as text without control characters; the middle of what is over `limit` characters is left out."""
    text = data.decode("utf-8", "backslashreplace").translate(_HIDDEN).rstrip("\n")
    if len(text) > limit:
        half = limit // 2
        text = f"{text[:half]}\n[{len(text) - 2 * half} characters left out]\n{text[-half:]}"
    return text


def observation(result: CommandResult, limit: int) -> str:
    """What the agent sees of a command: its exit code or why it was stopped, and its output made printable."""
    head = f"exit {result.exit_code}" if result.exit_code is not None else f"stopped: {result.stopped}"
    text = printable(result.stdout + result.stderr, limit)
    return f"{head}\n{text}" if text else head


def answered(text: str) -> int:
    """Where a reply's answer begins: after its thinking, if it has some."""
    return text.rfind("</think>") + 1


class Native:
    """A harness in this process. Each has its own prompts, form of actions and loop, over these bounds.

    Args:
        max_turns: replies that an episode may have; more is a failure (paper, A.1).
        wall_s: seconds that an episode may take; more is a failure.
        command_s: seconds that one command may take.
        observation_chars: characters of an output that are shown; the middle of longer ones is left out.
        max_tokens: tokens that one reply may have.
        system: the file of the system prompt: full.md, or brief.md for small models.

    Raises:
        ValueError: the harness has no such file.
    """

    name: str

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
        if not files(type(self).__module__.rpartition(".")[0]).joinpath(system).is_file():
            raise ValueError(f"harness: {self.name} has no system prompt {system!r}; use full.md or brief.md.")

    def bash(self, sandbox: Sandbox, command: str) -> tuple[int | None, str]:
        """Run a command line: its exit code and what the agent sees of it."""
        result = sandbox.run(["/bin/bash", "-c", command], timeout_s=self.command_s)
        return result.exit_code, observation(result, self.observation_chars)


class Play:
    """One episode under way: the conversation, the turns so far, and the bounds of its harness.

    `asked` counts the replies.
    """

    def __init__(
        self, harness: Native, assignment: Assignment, policy: Agent, seed: int, messages: tuple[Message, ...]
    ) -> None:
        self._harness, self._policy, self._task, self._seed = harness, policy, assignment.task_id, seed
        self._messages = messages
        self._turns: list[Turn] = []
        self.asked, self._stop = 0, Stop.TURNS
        self._started = self._since = time.monotonic()

    def ask(self) -> str | None:
        """The next reply, which goes into the conversation with `answer`; None where a bound ends the episode."""
        self._since = time.monotonic()
        if self.asked == self._harness.max_turns:
            self._stop = Stop.TURNS
            return None
        if self.late():
            return None
        noise = int.from_bytes(hashlib.sha256(f"{self._seed}/{self.asked}".encode()).digest()[:8], "big")
        request = Request(self._messages, f"{self._task}/{self._seed}", noise, self._harness.max_tokens)
        self._reply = self._policy.complete(request)
        self.asked += 1
        if self._reply.finish == "context":
            self._stop = Stop.CONTEXT
            return None
        return self._reply.text

    def late(self) -> bool:
        """Whether the episode's time is over, which is then why it ends."""
        if time.monotonic() - self._started <= self._harness.wall_s:
            return False
        self._stop = Stop.TIME
        return True

    def turn(self, action: str, command: str | None, shown: str, code: int | None) -> None:
        """Note one action and what came of it. Its time runs from the reply's request or from the action before it."""
        now = time.monotonic()
        self._turns.append(Turn(action, command, shown, code, now - self._since))
        self._since = now

    def answer(self, *messages: Message, content: str | None = None, calls: tuple[ToolCall, ...] = ()) -> None:
        """Put the last reply and what follows it into the conversation; `content` is the reply's text without calls."""
        text = self._reply.text if content is None else content
        self._messages = (*self._messages, Message("assistant", text, self._reply.ids, calls), *messages)

    def end(self, *, submitted: bool = False) -> Trajectory:
        """The episode as it went. Its traces are left out: whoever handed over the policy has its tokens."""
        stop = Stop.SUBMITTED if submitted else self._stop
        seconds = time.monotonic() - self._started
        return Trajectory(self._task, self._harness.name, self._policy.version, tuple(self._turns), (), stop, seconds)


def _rules(contract: Contract) -> str:
    return "; ".join(f"{decision.name}: {decision.rule.rstrip('.')}" for decision in contract.decisions) or "none"


def _deliverable(item: Deliverable) -> str:
    fields = ", ".join(f"{name} {kind}" for name, kind in item.fields.items())
    within = f", within {item.tolerance:g}" if item.tolerance else ""
    return f"{item.path} ({item.form}{': ' + fields if fields else ''}{within})"
