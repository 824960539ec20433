"""The control loop: ask, make the one call of the reply, respond to it, until finish or out of budget."""

from xml.etree import ElementTree

from clawloop.harness import files
from clawloop.harness.play import Native, Play, answered, opening, printable, prompt
from clawloop.harness.xml.call import MalformedError, read
from clawloop.protocols import Agent, Sandbox
from clawloop.types import Assignment, Message, Trajectory


class Xml(Native):
    """One call a turn between tags, whose values are plain text; the call finish ends the episode."""

    name = "xml"

    def reply(self, command: str | None) -> str:
        """The reply that runs a command, or that hands in."""
        if command is None:
            return "<function=finish>\n</function>"
        return f"<function=run>\n<parameter=command>\n{command}\n</parameter>\n</function>"

    def run(self, assignment: Assignment, policy: Agent, sandbox: Sandbox, seed: int) -> Trajectory:
        """Play one episode."""
        tools = prompt(__package__, "tools.xml")
        functions = {
            str(function.findtext("name")): tuple(
                str(one.text) for one in function.iterfind("parameters/parameter/name")
            )
            for function in ElementTree.fromstring(tools)
        }
        episode = Play(
            self, assignment, policy, seed, opening(assignment, prompt(__package__, self.system, tools=tools))
        )
        while (reply := episode.ask()) is not None:
            try:
                name, given = read(reply, functions, answered(reply))
            except MalformedError as error:
                shown = prompt(__package__, "malformed.md", fault=str(error))
                episode.turn(reply, None, shown, None)
                episode.answer(Message("user", shown))
                continue
            if name == "finish":
                episode.turn(reply, None, "", None)
                return episode.end(submitted=True)
            command, code, shown = self._make(name, given, sandbox)
            episode.turn(reply, command, shown, code)
            episode.answer(Message("user", f"<response>\n{shown}\n</response>"))
        return episode.end()

    def _make(self, name: str, given: dict[str, str], sandbox: Sandbox) -> tuple[str, int | None, str]:
        """The command that a call stands for, its exit code, and what the agent sees of it."""
        if name == "run":
            return given["command"], *self.bash(sandbox, given["command"])

        def do() -> str | bytes:
            if name == "view":
                lines = files.read(sandbox, given["path"]).splitlines(keepends=True)
                return b"".join(b"%6d\t%s" % numbered for numbered in enumerate(lines, 1))
            if name == "create":
                return files.write(sandbox, given["path"], files.ended(given["text"]))
            return files.edit(sandbox, given["path"], given["old_str"], given["new_str"])

        code, said = files.attempt(do)
        return "\n".join([name, *given.values()]), code, printable(said, self.observation_chars)
