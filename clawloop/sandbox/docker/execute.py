"""One command in a container, with a deadline and a bound on what it prints."""

import time
from collections.abc import Mapping, Sequence

from clawloop.protocols import InfrastructureError
from clawloop.sandbox.docker.container import AGENT, Container
from clawloop.sandbox.docker.stream import Stream
from clawloop.sandbox.process import FLOOD, GRACE_S, Ended


def execute(
    container: Container,
    command: Sequence[str],
    *,
    environment: Mapping[str, str],
    timeout_s: float,
    output: int,
    given: bytes = b"",
) -> Ended:
    """Run a command as the agent, with `given` on its standard input, until its output ends.

    At most `output` bytes of each stream are kept; at `FLOOD` times as many all processes of the box are killed
    ("output"), as they are after `timeout_s` ("timeout").

    Raises:
        InfrastructureError: the engine or the container failed.
    """
    engine = container.engine
    with engine.asked("run a command"):
        made = engine.api.exec_create(
            container.id, list(command), stdin=bool(given), user=AGENT, environment=dict(environment), workdir="/"
        )["Id"]
    stream = engine.open_stream(f"/exec/{made}/start", {"Detach": False, "Tty": False})
    try:
        with engine.asked("pass on a command's output"):
            if given:
                stream.send(given)
            kept, stopped = _read(stream, container, time.monotonic() + timeout_s, output)
    finally:
        stream.close()
    return Ended(None if stopped else _exit_code(container, made), bytes(kept[1]), bytes(kept[2]), stopped)


def _read(stream: Stream, container: Container, deadline: float, output: int) -> tuple[dict[int, bytearray], str]:
    """What was printed, and why the command was stopped."""
    kept = {1: bytearray(), 2: bytearray()}
    total, stopped = 0, ""
    while (pieces := stream.read(deadline - time.monotonic())) is not None:
        for which, data in pieces:
            total += len(data)
            kept[which] += data[: output - len(kept[which])]
        late = time.monotonic() >= deadline
        if late and stopped:
            raise InfrastructureError(f"a command in a box was still alive {GRACE_S:g} s after it was killed.")
        if late or (total > FLOOD * output and not stopped):
            stopped, deadline = "timeout" if late else "output", time.monotonic() + GRACE_S
            container.kill_all()
    return kept, stopped


def _exit_code(container: Container, command: str) -> int:
    deadline = time.monotonic() + GRACE_S
    while time.monotonic() < deadline:
        with container.engine.asked("say how a command ended"):
            state = container.engine.api.exec_inspect(command)
        if not state["Running"] and state["ExitCode"] is not None:
            return int(state["ExitCode"])
        time.sleep(0.005)
    raise InfrastructureError(f"a command in a box had not ended {GRACE_S:g} s after its output did.")
