"""The control loop: ask, run the command, show what it said, until the agent is done or out of budget."""

import re

from clawloop.harness import play
from clawloop.harness.play import Native, Play, observation, prompt
from clawloop.protocols import Agent, Sandbox
from clawloop.types import Assignment, Message, Trajectory

__all__ = ["Shell", "command_of", "observation", "opening"]

_BLOCK = re.compile(r"```(?:bash|sh)?\n(.*?)\n?```", re.DOTALL)


def opening(assignment: Assignment, system: str = "brief.md") -> tuple[Message, ...]:
    """The messages that open an episode: the system prompt, then the instruction with its contract."""
    return play.opening(assignment, prompt(__package__, system, tool=prompt(__package__, "tool.json")))


def command_of(action: str) -> str | None:
    r"""The first bash block of a reply.

    >>> command_of("I count.\n```bash\nwc -l a.csv\n```")
    'wc -l a.csv'
    """
    found = _BLOCK.search(action)
    return found.group(1).strip() or None if found else None


class Shell(Native):
    """One bash command a turn; a reply with the word done and no command ends the episode."""

    name = "shell"

    def reply(self, command: str | None) -> str:
        """The reply that runs a command, or that hands in."""
        return "done" if command is None else f"```bash\n{command}\n```"

    def run(self, assignment: Assignment, policy: Agent, sandbox: Sandbox, seed: int) -> Trajectory:
        """Play one episode. The trajectory's trace is left empty: whoever handed over the policy has its tokens."""
        episode = Play(self, assignment, policy, seed, opening(assignment, self.system))
        while (action := episode.ask()) is not None:
            command = command_of(action)
            if command is None and "done" in action.lower():
                episode.turn(action, None, "", None)
                return episode.end(submitted=True)
            code, shown = None, prompt(__package__, "no_command.md")
            if command is not None:
                code, shown = self.bash(sandbox, command)
            episode.turn(action, command, shown, code)
            episode.answer(Message("user", shown))
        return episode.end()
