"""A harness that is a program: run it in the box, with a gateway in front of the policy as its model."""

import json
import time
from collections.abc import Mapping, Sequence
from importlib.resources import files
from string import Template

from clawloop.harness.command.turns import clipped, turns_of
from clawloop.harness.play import opening
from clawloop.protocols import Agent, InfrastructureError, Sandbox, Sessions
from clawloop.types import Assignment, Budget, CommandResult, Record, Stop, Trajectory

GATEWAY = "/srv/gateway"
"""Where a box sees the folder with the gateway's socket, which is `socket` there."""
_PORT = 8123
_HOME = "/tmp/home"
_LATE_S = 5.0
_KILLED = 137
"""Of signal 9. The machine may have sent it, or the agent's own command: nobody can tell, so nobody is blamed."""


class Command:
    """Plays an episode with any program that speaks one of the gateway's protocols (`protocols.Harness`).

    In command, environment and files these stand for: `$url` the gateway, `$key` the session's API key, `$model` the
    model's name, `$instruction` the task, `$home` the program's home, and `$turns`, `$context`, `$reply_tokens`,
    `$wall_s` the budget, and the names of `words` for their texts. Other dollars are written twice.

    Args:
        gateway: opens the sessions.
        name: of the harness, in trajectories.
        command: the program and its arguments.
        environment: variables, beyond those of every box.
        files: file in the program's home to text, or to `file:NAME`, a template beside this module.
        words: further names for texts, such as the protocol that the program is told to speak.
        log: pattern of the program's log in its home; its end is kept where the program fails.
        stops: why an episode ended, by exit code, where the program tells: turns, tokens, time, context.
        turns: replies that an episode may have.
        wall_s: seconds that it may take.
        reply_tokens: tokens that one reply may have.
        context: tokens of one conversation, as the program is told.
        observation_chars: characters kept of what the program showed the model.
        mounts: further folders that its boxes see read-only; read by `build`.
        limits: what its boxes may use beyond other boxes; read by `build`.
        format: how the policy writes tool calls (`gateway.formats`); read by `build`.

    Raises:
        ValueError: there is no command, or a stop is unknown.
    """

    def __init__(
        self,
        gateway: Sessions,
        name: str,
        command: Sequence[str],
        environment: Mapping[str, str] | None = None,
        files: Mapping[str, str] | None = None,
        words: Mapping[str, str] | None = None,
        log: str | None = None,
        stops: Mapping[int, str] | None = None,
        turns: int = 300,
        wall_s: float = 86_400.0,
        reply_tokens: int = 1_024,
        context: int = 65_536,
        observation_chars: int = 8_000,
        mounts: Mapping[str, str] | None = None,
        limits: Mapping[str, float] | None = None,
        format: Mapping[str, str] | None = None,
    ) -> None:
        if not command:
            raise ValueError(
                "harness.command: it names no program; give one: 'harness.command.command=[my-agent,$instruction]'."
            )
        if unknown := set((stops or {}).values()) - set(Stop):
            raise ValueError(f"harness.stops: {min(unknown)} is no reason to stop; choose from {', '.join(Stop)}.")
        self.name = name
        self._gateway, self._command, self._environment = gateway, tuple(command), dict(environment or {})
        self._files = {path: _text(given) for path, given in (files or {}).items()}
        self._words = dict(words or {})
        self._log, self._stops = log, {int(code): Stop(stop) for code, stop in (stops or {}).items()}
        self._budget = Budget(turns, turns * reply_tokens, reply_tokens, wall_s)
        self._context, self._shown = context, observation_chars

    def run(self, assignment: Assignment, policy: Agent, sandbox: Sandbox, seed: int) -> Trajectory:
        """Play one episode. The trajectory's traces are left out: whoever handed over the policy has its tokens.

        Raises:
            InfrastructureError: the policy, the gateway or the box broke, or the program was killed or never answered.
        """
        started = time.monotonic()
        session = self._gateway.open(policy, self._budget, seed)
        result: CommandResult | None = None
        try:
            result = self._play(assignment, session.key, sandbox)
        finally:
            record = self._gateway.close(session)
        stop = self._stop(record, result)
        turns = turns_of(record, self._shown, "" if stop is Stop.SUBMITTED else _tail(result, self._shown))
        seconds = time.monotonic() - started
        return Trajectory(assignment.task_id, self.name, policy.version, turns, (), stop, seconds)

    def _play(self, assignment: Assignment, key: str, sandbox: Sandbox) -> CommandResult:
        budget = self._budget
        values = {
            "url": f"http://127.0.0.1:{_PORT}",
            "key": key,
            "model": "clawloop",
            "instruction": opening(assignment, "")[1].content,
            "home": _HOME,
            "turns": budget.turns,
            "context": self._context,
            "reply_tokens": budget.reply_tokens,
            "wall_s": round(budget.wall_s),
        }

        def filled(text: str) -> str:
            return Template(text).substitute(values)

        values |= {name: filled(text) for name, text in self._words.items()}
        word = {
            "port": _PORT,
            "socket": f"{GATEWAY}/socket",
            "home": _HOME,
            "files": {path: filled(text) for path, text in self._files.items()},
            "command": [filled(part) for part in self._command],
            "log": self._log,
        }
        environment = {"HOME": _HOME} | {name: filled(text) for name, text in self._environment.items()}
        command = ["python3", "-I", "-c", _text("file:inside.py.txt"), json.dumps(word)]
        return sandbox.run(command, timeout_s=budget.wall_s + _LATE_S, environment=environment)

    def _stop(self, record: Record, result: CommandResult) -> Stop:
        if record.error is not None:
            raise InfrastructureError(record.error)
        if not any(call.completion for call in record.calls):
            refused = next((call.refused for call in record.calls if call.refused), _tail(result, 500))
            raise InfrastructureError(f"harness {self.name}: the program had no answer from the policy: {refused}")
        if record.stop is not None:
            return record.stop
        if result.stopped == "timeout":
            return Stop.TIME
        if result.exit_code == 0:
            return Stop.SUBMITTED
        if result.exit_code == _KILLED:
            raise InfrastructureError(f"harness {self.name}: the program was killed, and not for a limit of its box.")
        return self._stops.get(result.exit_code or 0, Stop.CRASHED)


def _tail(result: CommandResult, limit: int) -> str:
    head = f"exit {result.exit_code}" if result.exit_code is not None else f"stopped: {result.stopped}"
    return f"{head}\n{clipped((result.stdout + result.stderr).decode('utf-8', 'backslashreplace'), limit)}"


def _text(given: str) -> str:
    if not given.startswith("file:"):
        return given
    return files("clawloop.harness.command").joinpath(given.removeprefix("file:")).read_text(encoding="utf-8")
