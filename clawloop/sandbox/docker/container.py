"""One container, and the conversation with its keeper (keeper.sh)."""

import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache
from http import HTTPStatus
from importlib.resources import files
from typing import Any

from docker.errors import APIError, NotFound

from clawloop.protocols import InfrastructureError
from clawloop.sandbox.docker.engine import Engine
from clawloop.sandbox.docker.owner import LABEL, owner
from clawloop.sandbox.docker.stream import Stream
from clawloop.sandbox.process import GRACE_S
from clawloop.sandbox.seccomp import deny_profile
from clawloop.sandbox.surroundings import ENVIRONMENT, SHARED_MEMORY
from clawloop.types import Limits

AGENT = "1000:1000"
LONGEST_S = 25 * 3600
"""How long a container outlives the last word from here: a little over the longest episode, 24 h (paper, A.1)."""
_PERIOD = 100_000
_OWN = 32 << 20
_STEP = 64 << 20
_SHOWN = 300


@dataclass(frozen=True, slots=True)
class Shape:
    """What cannot be changed once a container is there. Sizes are bytes; `cpus` is a number of processors."""

    memory: int
    processes: int
    workspace: int
    workspace_files: int
    tmp: int
    cpus: float
    hostname: str = "box"
    on_disk: bool = False

    @classmethod
    def of(
        cls, limits: Limits, cpus: float, hostname: str = "box", *, on_disk: bool = False, given: int = 0
    ) -> "Shape":
        """The shape of a box with these limits, and with memory of its own for many `given` bytes of files.

        Files lie in memory, and that of the box: what it comes with is not to be the agent's loss, and what the agent
        writes must leave room for the keeper and the courier, or the kernel would kill them for it.
        """
        files = 0 if on_disk else limits.workspace
        least = files + limits.tmp + SHARED_MEMORY + _OWN + 2 * limits.file_size
        memory = max(limits.memory + given // _STEP * _STEP, least)
        sizes = memory, limits.processes, limits.workspace, limits.workspace_files, limits.tmp
        return cls(*sizes, cpus, hostname, on_disk)


@dataclass(frozen=True, slots=True)
class Seen:
    """What the keeper sees after it killed all others.

    `others` are still dying, `scratch` is what lies in /tmp and /dev/shm, `oom_kills` counts since it was last asked.
    """

    others: int
    scratch: int
    oom_kills: int


class Container:
    """A started container of one shape, held as asked, with nothing running in it but init and its keeper.

    It ends when the connection to its keeper does, so also when this process is killed.

    Raises:
        InfrastructureError: the engine failed, or did not hold the container as it was asked to.
    """

    def __init__(self, engine: Engine, shape: Shape, mounts: Mapping[str, str] | None = None) -> None:
        self.engine = engine
        with engine.asked("make a container"):
            made = engine.api.create_container(
                engine.image,
                ["/bin/bash", "-c", _keeper(), "box", str(LONGEST_S)],
                user="0:0",
                environment=ENVIRONMENT,
                hostname=shape.hostname,
                labels={LABEL: owner()},
                stdin_open=True,
                working_dir="/",
                volumes=["/workspace"] if shape.on_disk else None,
                host_config=engine.api.create_host_config(
                    **_held(shape), binds=[f"{folder}:{place}:ro" for place, folder in (mounts or {}).items()]
                ),
            )
        self.id: str = made["Id"]
        self._oom_kills = 0
        self._said = b""
        self._stream: Stream | None = None
        try:
            self._stream = engine.open_stream(f"/containers/{self.id}/attach?stream=1&stdin=1&stdout=1")
            with engine.asked("start a container"):
                engine.api.start(self.id)
            check_held(self._line(), shape)
        except BaseException:
            self.close()
            raise

    def kill_all(self) -> Seen:
        """Kill every process but init and the keeper, and wait until they are dead.

        Raises:
            InfrastructureError: the container died, or a process in it does not.
        """
        deadline = time.monotonic() + GRACE_S
        while True:
            with self.engine.asked("pass a word to the box"):
                assert self._stream is not None
                self._stream.send(b"\n")
            seen = Seen(**{key: int(value) for key, value in _pairs(self._line()).items()})
            if not seen.others:
                before, self._oom_kills = self._oom_kills, seen.oom_kills
                return replace(seen, oom_kills=seen.oom_kills - before)
            if time.monotonic() > deadline:
                raise InfrastructureError(f"a process in a box was still alive {GRACE_S:g} s after it was killed.")
            time.sleep(0.002)

    def close(self) -> None:
        """Remove the container. One that the engine does not remove now ends by itself, and is swept up later."""
        with suppress(InfrastructureError):
            self._remove()
        if self._stream is not None:
            self._stream.close()

    def _remove(self) -> None:
        with self.engine.asked("remove a container"):
            try:
                self.engine.api.remove_container(self.id, v=True, force=True)
            except NotFound:
                return
            except APIError as error:
                if error.status_code != HTTPStatus.CONFLICT:
                    raise
                with suppress(NotFound):  # it died, and the engine is removing it
                    self.engine.api.wait(self.id, timeout=GRACE_S, condition="removed")

    def _line(self) -> str:
        """The next line of the keeper."""
        assert self._stream is not None
        deadline = time.monotonic() + GRACE_S
        while b"\n" not in self._said:
            with self.engine.asked("pass a word from the box"):
                pieces = self._stream.read(deadline - time.monotonic())
            if pieces is None:
                raise InfrastructureError(f"the container of a box died{self._words()}.")
            if not pieces:
                raise InfrastructureError(f"the keeper of a box said nothing for {GRACE_S:g} s.")
            self._said += b"".join(data for _, data in pieces)
        line, _, self._said = self._said.partition(b"\n")
        return line.decode("ascii", "replace")

    def _words(self) -> str:
        said = self._said.decode("ascii", "replace").strip()
        return f" ({said[:_SHOWN]})" if said else ""


def check_held(line: str, shape: Shape) -> None:
    """Hold what the keeper reads in the kernel's files against what was asked for.

    Raises:
        InfrastructureError: a limit is not in force, or a fence is missing.
    """
    found = _pairs(line)
    quota, period = [*found["quota"].split("/"), found.get("period", "none")][:2]
    share = int(quota) / int(period) if quota.isdigit() and period.isdigit() else 0.0
    wrong = [
        f"{name} is {found.get(name)}, not {wanted}"
        for name, wanted in {
            "memory": f"{shape.memory // 4096 * 4096}",
            "processes": f"{shape.processes}",
            "capabilities": "0000000000000020",
            "no_new_privileges": "1",
            "seccomp": "2",
            "root": "ro",
        }.items()
        if found.get(name) != wanted
    ]
    if abs(share - shape.cpus) > 0.01:
        wrong.append(f"cpus is {share or 'unlimited'}, not {shape.cpus:g}")
    if wrong:
        raise InfrastructureError(
            f"the engine does not hold a box as it was asked to: {'; '.join(wrong)}. Rootless engines ignore limits "
            "where the system has cgroups v1: use one that runs as root, or a system with cgroups v2."
        )


def _held(shape: Shape) -> dict[str, Any]:
    """The options of a container that is held."""
    quota = f"size={shape.workspace},nr_inodes={shape.workspace_files}"
    room = f"rw,exec,nosuid,nodev,{quota},uid=1000,gid=1000,mode=0755"
    return {
        "network_mode": "none",
        "ipc_mode": "private",
        "init": True,
        "read_only": True,
        "cap_drop": ["ALL"],
        "cap_add": ["KILL"],  # of the keeper alone: the agent is not root, and gains nothing
        "security_opt": ["no-new-privileges:true", f"seccomp={deny_profile()}"],
        "mem_limit": shape.memory,
        "memswap_limit": shape.memory,
        "pids_limit": shape.processes,
        "cpu_period": _PERIOD,
        "cpu_quota": round(shape.cpus * _PERIOD),
        "shm_size": SHARED_MEMORY,
        "tmpfs": {
            "/tmp": f"rw,exec,nosuid,nodev,size={shape.tmp},mode=1777",
            **({} if shape.on_disk else {"/workspace": room}),
        },
        "log_config": {"type": "none", "config": {}},
        "auto_remove": True,
    }


@cache
def _keeper() -> str:
    return (files(__package__) / "keeper.sh").read_text(encoding="utf-8")


def _pairs(line: str) -> Mapping[str, str]:
    return dict(word.split("=", 1) for word in line.split() if "=" in word)
