"""Boxes made by a Docker engine: one container per box, taken from a pool that is kept warm.

A container has no network, a read-only system, a writable /workspace, /tmp and /dev/shm of bounded size, limits on
memory, processes and processors, and a system call filter. Commands run as a user without capabilities. Each container
proves that it is held before it is used.
"""

import weakref
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import MappingProxyType

from clawloop.protocols import Sandbox
from clawloop.sandbox.docker.box import DockerBox
from clawloop.sandbox.docker.container import Container, Shape
from clawloop.sandbox.docker.engine import Engine
from clawloop.sandbox.docker.owner import sweep
from clawloop.sandbox.docker.pool import Pool
from clawloop.sandbox.surroundings import check_environment, check_hostname, check_mounts, limits_of
from clawloop.types import Limits, Workspace


class Docker:
    """Opens boxes (`protocols.Sandboxes`); may be used from many threads at once.

    Args:
        limits: the limits of boxes that are opened without any, or a mapping of some of their fields.
        image: the image of boxes; the folder `image` beside this module says how it is made.
        host: the engine's `unix://` address; None: that in DOCKER_HOST, or the usual one.
        cpus: how many processors a box may use.
        warm: how many containers of a kind wait for their box.
        answer_s: how long the engine may take to answer, in seconds.
        mounts: folders of the engine's machine that every box sees too, read-only: where in a box, and which.

    Raises:
        InfrastructureError: there is no engine or no image, or the engine does not hold a box as asked.
        ValueError: `limits` names an unknown field, or a mount cannot be; see the sentence.
    """

    def __init__(
        self,
        limits: Limits | Mapping[str, float] | None = None,
        image: str = "clawloop-sandbox:1",
        host: str | None = None,
        cpus: float = 1.0,
        warm: int = 8,
        answer_s: float = 60.0,
        mounts: Mapping[str, str] | None = None,
    ) -> None:
        self._limits = limits_of(limits)
        self._cpus = cpus
        shown = check_mounts(mounts or {}, private=True)
        self.engine = Engine(host, image, answer_s)
        sweep(self.engine)
        engine = self.engine
        self._pool = Pool(lambda shape: Container(engine, shape, shown), warm)
        self.close = weakref.finalize(self, self._pool.close)
        usual = Shape.of(self._limits, cpus)
        Container(self.engine, usual, shown).close()
        self._pool.fill(usual)

    @property
    def enforced(self) -> Mapping[str, str]:
        """How each limit is held, in the words of `Bubblewrap.enforced`: every container proves its own."""
        return MappingProxyType(
            {"memory": "tree", "processes": "tree", "workspace": "tmpfs", "calls": "filtered", "user": "container"}
        )

    @contextmanager
    def open(
        self, workspace: Workspace, limits: Limits | None = None, *, hostname: str = "box", on_disk: bool = False
    ) -> Iterator[Sandbox]:
        """A box that holds `workspace` at /workspace, gone with all its processes and files when the context is left.

        `on_disk` puts the workspace on the engine's disk, where its size is checked after each command.

        Raises:
            ValueError: a path, an environment variable or the host name is malformed, or the files exceed the limits.
            InfrastructureError: the engine failed.
        """
        limits = limits or self._limits
        check_hostname(hostname)
        check_environment(workspace.environment)
        given = 0 if on_disk else sum(map(len, workspace.files.values()))
        container = self._pool.take(Shape.of(limits, self._cpus, hostname, on_disk=on_disk, given=given))
        try:
            box = DockerBox(container, workspace.environment, limits, quota=not on_disk)
            box.fill(workspace.files)
            yield box
        finally:
            container.close()
