"""The control loop: ask, make every call of the reply in order, answer each, until submit or out of budget."""

import json

from clawloop.harness import files
from clawloop.harness.play import Native, Play, answered, opening, printable, prompt
from clawloop.harness.tools.calls import Call, MalformedError, fault, read
from clawloop.protocols import Agent, Sandbox
from clawloop.types import Assignment, Message, ToolCall, Trajectory


class Tools(Native):
    """Function calls in JSON, with tools for commands and for files; the call submit ends the episode.

    The prompt holds the schemas, and not the request: so the form of a call is the same for every model, and models
    whose chat template has no place for tools can be asked too.

    Args:
        max_turns: replies that an episode may have; more is a failure (paper, A.1).
        wall_s: seconds that an episode may take; more is a failure.
        command_s: seconds that one command may take.
        observation_chars: characters of an output that are shown; the middle of longer ones is left out.
        max_tokens: tokens that one reply may have.
        system: the file of the system prompt: full.md, or brief.md for small models.
        max_calls: calls that one reply may have.
    """

    name = "tools"

    def __init__(
        self,
        max_turns: int = 300,
        wall_s: float = 86_400.0,
        command_s: float = 20.0,
        observation_chars: int = 8_000,
        max_tokens: int = 1_024,
        system: str = "full.md",
        max_calls: int = 8,
    ) -> None:
        super().__init__(max_turns, wall_s, command_s, observation_chars, max_tokens, system)
        self.max_calls = max_calls
        schemas = json.loads(prompt(__package__, "tools.json"))
        self._tools = {schema["name"]: schema["parameters"] for schema in schemas}
        shown = "\n".join(map(json.dumps, schemas))
        self._system = prompt(__package__, system, tools=shown, calls=str(max_calls))

    def reply(self, command: str | None) -> str:
        """The reply that runs a command, or that hands in."""
        name, arguments = ("submit", {}) if command is None else ("bash", {"command": command})
        call = json.dumps({"name": name, "arguments": arguments}, ensure_ascii=False)
        return f"<tool_call>\n{call}\n</tool_call>"

    def run(self, assignment: Assignment, policy: Agent, sandbox: Sandbox, seed: int) -> Trajectory:
        """Play one episode: a turn of the trajectory is a call, and `max_turns` bounds the replies."""
        episode = Play(self, assignment, policy, seed, opening(assignment, self._system))
        while (reply := episode.ask()) is not None:
            try:
                calls, content = read(reply, answered(reply))
                if len(calls) > self.max_calls:
                    raise MalformedError(f"{len(calls)} calls are more than {self.max_calls}")
            except MalformedError as error:
                shown = prompt(__package__, "malformed.md", fault=str(error))
                episode.turn(reply, None, shown, None)
                episode.answer(Message("user", shown))
                continue
            named: list[ToolCall] = []
            answers: list[Message] = []
            for call in calls:
                if episode.late():
                    return episode.end()
                wrong = fault(call, self._tools)
                if call.name == "submit" and not wrong:
                    episode.turn(call.action, None, "", None)
                    return episode.end(submitted=True)
                if wrong:
                    command, code, shown = None, None, prompt(__package__, "malformed.md", fault=wrong)
                else:
                    command, code, shown = self._make(call, sandbox)
                episode.turn(call.action, command, shown, code)
                named.append(ToolCall(f"call_{episode.asked}_{len(named)}", call.name, call.text))
                answers.append(Message("tool", shown, call_id=named[-1].id))
            episode.answer(*answers, content=content, calls=tuple(named))
        return episode.end()

    def _make(self, call: Call, sandbox: Sandbox) -> tuple[str, int | None, str]:
        """The command that a call stands for, its exit code, and what the agent sees of it."""
        given = call.arguments
        if call.name == "bash":
            return given["command"], *self.bash(sandbox, given["command"])

        def do() -> str | bytes:
            if call.name == "read_file":
                return files.read(sandbox, given["path"], given.get("first_line", 1), given.get("last_line"))
            if call.name == "write_file":
                return files.write(sandbox, given["path"], given["content"])
            return files.edit(sandbox, given["path"], given["old"], given["new"])

        code, said = files.attempt(do)
        return f"{call.name} {call.text}", code, printable(said, self.observation_chars)
