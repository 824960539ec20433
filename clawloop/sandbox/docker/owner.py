"""Whose a container is: the process that made it, so that what a killed one left can be told and removed."""

import os
from functools import cache
from pathlib import Path

from clawloop.sandbox.docker.engine import Engine

LABEL = "clawloop.owner"


@cache
def owner() -> str:
    """This process: the machine's boot, the pid namespace, the pid and its start time."""
    return f"{_world()}:{os.getpid()}:{_start_time(os.getpid())}"


def sweep(engine: Engine) -> None:
    """Remove the containers of processes that are gone.

    One of another pid namespace is left alone while it runs: whether its owner lives cannot be seen from here.
    """
    with engine.asked("list containers"):
        found = engine.api.containers(all=True, filters={"label": LABEL})
    for container in found:
        world, _, process = container["Labels"][LABEL].partition(":")
        pid, _, started = process.partition(":")
        gone = _start_time(int(pid)) != started if world == _world() else container["State"] != "running"
        if gone:
            with engine.asked("remove a container"):
                engine.api.remove_container(container["Id"], v=True, force=True)


def _world() -> str:
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    return f"{boot}/{os.stat('/proc/self/ns/pid').st_ino}"


def _start_time(pid: int) -> str:
    """When a process started, in ticks since the boot; empty if there is none."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]
    except OSError:
        return ""
