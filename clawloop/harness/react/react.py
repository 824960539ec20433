"""The control loop: ask, do the one action of the reply, tell what was observed, until Finish or out of budget."""

import re

from clawloop.harness import files
from clawloop.harness.play import Native, Play, answered, opening, printable, prompt
from clawloop.protocols import Agent, Sandbox
from clawloop.types import Assignment, Message, Trajectory

_ACTION = re.compile(r"^Action:[ \t]*(.*?)[ \t]*$(?:\s*^Action Input:[ \t]*\n?(.*))?", re.DOTALL | re.MULTILINE)
_ACTIONS = ("Shell", "Read", "Write", "Finish")


class MalformedError(ValueError):
    """A reply has no action that can be done; the message says why, as a clause."""


def action_of(reply: str, start: int = 0) -> tuple[str, str]:
    r"""The action of a reply and its input, from `start` on; what follows a line `Observation:` is made up, and unread.

    Raises:
        MalformedError: there is not exactly one action, it is unknown, or it lacks its input.

    >>> action_of("Thought: I look.\nAction: Shell\nAction Input: ls -l\nObservation: none")
    ('Shell', 'ls -l')
    """
    said = re.split(r"^Observation:", reply[start:], maxsplit=1, flags=re.MULTILINE)[0]
    if said.count("\nAction Input:") > 1:
        raise MalformedError("there is more than one action")
    found = _ACTION.search(said)
    if found is None:
        raise MalformedError("there is no line that begins with Action:")
    name, given = found.group(1), (found.group(2) or "").strip()
    if name not in _ACTIONS:
        raise MalformedError(f"there is no action {name[:100]!a}")
    if not given and name != "Finish":
        raise MalformedError(f"{name} has no Action Input")
    return name, given


class React(Native):
    """Thought, Action and Action Input a turn, answered by an Observation; the action Finish ends the episode."""

    name = "react"

    def reply(self, command: str | None) -> str:
        """The reply that runs a command, or that hands in."""
        name, given = ("Finish", "done") if command is None else ("Shell", command)
        return f"Thought: {name} is next.\nAction: {name}\nAction Input: {given}"

    def run(self, assignment: Assignment, policy: Agent, sandbox: Sandbox, seed: int) -> Trajectory:
        """Play one episode."""
        episode = Play(self, assignment, policy, seed, opening(assignment, prompt(__package__, self.system)))
        while (reply := episode.ask()) is not None:
            command, code = None, None
            try:
                name, given = action_of(reply, answered(reply))
            except MalformedError as error:
                shown = prompt(__package__, "malformed.md", fault=str(error))
            else:
                if name == "Finish":
                    episode.turn(reply, None, "", None)
                    return episode.end(submitted=True)
                command, code, shown = self._do(name, given, sandbox)
            episode.turn(reply, command, shown, code)
            episode.answer(Message("user", f"Observation: {shown}"))
        return episode.end()

    def _do(self, name: str, given: str, sandbox: Sandbox) -> tuple[str, int | None, str]:
        """The command that an action stands for, its exit code, and what the agent sees of it."""
        if name == "Shell":
            return given, *self.bash(sandbox, given)
        path, _, text = given.partition("\n")

        def do() -> str | bytes:
            if name == "Read":
                return files.read(sandbox, given)
            return files.write(sandbox, path.strip(), files.ended(text))

        code, said = files.attempt(do)
        return f"{name} {given}", code, printable(said, self.observation_chars)
