"""Running a candidate's generator once more, with its own seed or another, in surroundings of one's choice."""

import json
from collections.abc import Mapping

from clawloop.protocols import Sandboxes
from clawloop.types import Generator, Limits, Workspace

_LIMITS = Limits(output=4 << 20)
# -I would ignore PYTHONHASHSEED; the box holds nothing but the program. The clock is moved where the box's system can.
_COMMAND = """
for lib in /usr/lib/*/faketime/libfaketime.so.1 /usr/lib64/faketime/libfaketime.so.1; do
  if [ -e "$lib" ]; then export LD_PRELOAD="$lib"; fi
done
exec python3 -s -B generator.py "$1"
"""
_PLAIN = {"PYTHONHASHSEED": "0", "TZ": "UTC"}


def output(
    generator: Generator,
    seed: int,
    sandboxes: Sandboxes,
    environment: Mapping[str, str] = _PLAIN,
    *,
    hostname: str = "box",
    on_disk: bool = False,
) -> bytes | None:
    """What the program prints; None where it fails.

    Args:
        generator: the program.
        seed: its only argument.
        sandboxes: opens the box.
        environment: its variables; FAKETIME is the moment that it sees, where the box's system has libfaketime.
        hostname: the box's name.
        on_disk: whether its files are on a disk, where directories have an order of their own.
    """
    program = Workspace({"generator.py": generator.program.encode()})
    command = ["/bin/sh", "-c", _COMMAND, "generator", str(seed)]
    with sandboxes.open(program, _LIMITS, hostname=hostname, on_disk=on_disk) as box:
        result = box.run(command, timeout_s=generator.timeout_s, environment=environment)
    return result.stdout if result.exit_code == 0 else None


def read(raw: bytes | None) -> Mapping[str, object]:
    """The printed object; empty where there is none."""
    try:
        value = json.loads(raw or b"")
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}
