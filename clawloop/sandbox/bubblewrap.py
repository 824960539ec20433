"""Boxes made by bubblewrap: one process tree per command, one workspace per box.

A command has its own user, pid, ipc, uts, network and cgroup namespaces, no network, a read-only system, a writable
/workspace, /tmp and /dev/shm of bounded size, no capabilities and a system call filter. Started by root, a box runs
as a user id of its own.
"""

import os
import platform
import shutil
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import MappingProxyType

from clawloop.protocols import InfrastructureError, Sandbox
from clawloop.sandbox.box import Box, environment_options, pack
from clawloop.sandbox.cgroup import open_group
from clawloop.sandbox.folder import Folder, claim_folder, sweep_boxes
from clawloop.sandbox.seccomp import deny_filter
from clawloop.sandbox.surroundings import ENVIRONMENT, SHARED_MEMORY, check_hostname, check_mounts, limits_of
from clawloop.sandbox.workspace import Tree
from clawloop.types import Limits, Workspace

_CURE = (
    "allow user namespaces (`sysctl -w user.max_user_namespaces=15000`, on Debian also "
    "`kernel.unprivileged_userns_clone=1`, on Ubuntu `kernel.apparmor_restrict_unprivileged_userns=0`; "
    "in a container, start it with the right to make them)."
)


_ISOLATION = [
    *("--unshare-user", "--unshare-pid", "--unshare-ipc", "--unshare-net", "--unshare-uts", "--unshare-cgroup-try"),
    *("--uid", "1000", "--gid", "1000", "--cap-drop", "ALL", "--die-with-parent", "--new-session", "--as-pid-1"),
    "--clearenv",
]


class Bubblewrap:
    """Opens boxes (`protocols.Sandboxes`); may be used from many threads at once.

    Args:
        limits: the limits of boxes that are opened without any, or a mapping of some of their fields.
        root: a folder with the system that boxes see (its usr, bin, lib, etc); the host's own if None.
        mounts: folders of this machine that every box sees too, read-only: where in a box, and which.

    Raises:
        InfrastructureError: bubblewrap is missing, or cannot make a box on this machine.
        ValueError: `limits` names an unknown field, `root` holds no system, or a mount cannot be; see the sentence.
    """

    def __init__(
        self,
        limits: Limits | Mapping[str, float] | None = None,
        root: str | None = None,
        mounts: Mapping[str, str] | None = None,
    ) -> None:
        self._limits = limits_of(limits)
        self._program = _find("bwrap", "bubblewrap")
        self._drop = _find("setpriv", "util-linux") if os.geteuid() == 0 else ""
        self._seccomp = deny_filter(platform.machine())
        self._system = [*_system(root), *_further(mounts or {}, private=bool(self._drop))]
        self._users = root is None
        sweep_boxes()
        self._groups = self._may_make_groups()
        self._enforced = self._probe()

    @property
    def enforced(self) -> Mapping[str, str]:
        """How this machine holds each limit.

        `memory`: "tree" (cgroup) or "process" (each alone); `processes`: "tree" or "user" (of the box's namespace);
        `workspace`: "tmpfs", or "checked" after each command; `calls`: "filtered", or "unfiltered" on a processor
        that `seccomp` does not list; `user`: "private" to each box, or "own", that of the caller.
        """
        return MappingProxyType(self._enforced)

    @contextmanager
    def open(
        self, workspace: Workspace, limits: Limits | None = None, *, hostname: str = "box", on_disk: bool = False
    ) -> Iterator[Sandbox]:
        """A box that holds `workspace` at /workspace, gone with all its processes and files when the context is left.

        `on_disk` puts the workspace on the disk's file system, where its size is checked after each command.

        Raises:
            ValueError: a path, an environment variable or the host name is malformed, or the files exceed the limits.
            InfrastructureError: the machine refused what it granted before.
        """
        limits = limits or self._limits
        check_hostname(hostname)
        variables = environment_options({**ENVIRONMENT, **workspace.environment})
        with ExitStack() as stack:
            folder = stack.enter_context(claim_folder(limits, on_disk=on_disk))
            tree = Tree(folder.workspace, folder.user, limits)
            for path, data in workspace.files.items():
                tree.write(path, data)
            if not folder.quota and not tree.fits():
                raise ValueError("the workspace's files exceed the limits' workspace or workspace_files; raise those.")
            entries: tuple[str, ...] = ()
            group = None
            if self._groups:
                try:
                    group = open_group(folder.name, memory=limits.memory, processes=limits.processes)
                except OSError as error:
                    raise InfrastructureError(f"cannot make a cgroup, as was possible before: {error}.") from error
                stack.callback(group.close)
                entries = group.entries
            files = [*self._system, *(_users(folder) if self._users else ()), *_mounts(folder, limits)]
            nested = [] if self._seccomp else ["--disable-userns"]  # the filter refuses new namespaces, and faster
            options = [*_ISOLATION, *nested, "--hostname", hostname, *variables, *files]
            yield Box(tree, folder.quota, group, limits, self._launcher(folder, entries), pack(options), self._seccomp)

    def _launcher(self, folder: Folder, entries: tuple[str, ...]) -> list[str]:
        """The command line up to bwrap's path: enter the cgroup, then become the box's user, both before bwrap.

        Programs do this, not `Popen(user=)`: that forks, which takes tens of milliseconds in a process with a model.
        """
        if folder.user is None:
            return [self._program]
        enter = "".join(f"echo 0 >{path} && " for path in entries)
        drop = [self._drop, f"--reuid={folder.user}", f"--regid={folder.user}", "--clear-groups", self._program]
        return ["/bin/sh", "-c", f'{enter}exec "$@"', "box", *drop] if entries else drop

    def _may_make_groups(self) -> bool:
        if os.geteuid() != 0:
            return False
        with claim_folder(self._limits, on_disk=False) as folder:
            try:
                open_group(folder.name, memory=self._limits.memory, processes=self._limits.processes).close()
            except OSError:
                return False
        return True

    def _probe(self) -> dict[str, str]:
        """Run one command in a box, and say how the box is held."""
        try:
            with self.open(Workspace()) as box:
                box.run(["/bin/true"])
                quota = isinstance(box, Box) and box.quota
        except InfrastructureError as error:
            raise InfrastructureError(f"bubblewrap cannot make a box here ({error}): {_CURE}") from error
        return {
            "memory": "tree" if self._groups else "process",
            "processes": "tree" if self._groups else "user",
            "workspace": "tmpfs" if quota else "checked",
            "calls": "filtered" if self._seccomp else "unfiltered",
            "user": "private" if self._drop else "own",
        }


def _find(program: str, package: str) -> str:
    path = shutil.which(program)
    if path is None:
        raise InfrastructureError(f"the sandbox needs `{program}`, which is missing here: run `apt install {package}`.")
    return path


def _system(root: str | None) -> list[str]:
    """The options that show a system read-only: the host's without its configuration, or all of the one in `root`."""
    top = Path(root or "/")
    if not (top / "usr").is_dir():
        raise ValueError(f"sandbox root {root!r} holds no usr folder; give the top folder of a system.")
    options = ["--ro-bind", str(top / "usr"), "/usr"]
    for name in ("bin", "sbin", "lib", "lib32", "lib64", "libx32"):
        path = top / name
        if path.is_symlink():
            options += ["--symlink", os.readlink(path), f"/{name}"]
        elif path.is_dir():
            options += ["--ro-bind", str(path), f"/{name}"]
    if root:
        return [*options, "--ro-bind", str(top / "etc"), "/etc"]
    options += ["--perms", "0755", "--dir", "/etc"]
    for path in (Path("/etc/alternatives"), Path("/etc/ld.so.cache")):
        if path.exists():
            options += ["--ro-bind", str(path), str(path)]
    return options


def _further(mounts: Mapping[str, str], *, private: bool) -> list[str]:
    """The options that show further folders read-only. A box with a user of its own sees what everyone may read."""
    shown = check_mounts(mounts, private=private)
    return [word for place, folder in shown.items() for word in ("--ro-bind", folder, place)]


def _users(folder: Folder) -> list[str]:
    """The options that show the users' names of a box instead of the host's."""
    return [word for name in ("passwd", "group") for word in ("--ro-bind", str(folder.path / name), f"/etc/{name}")]


def _mounts(folder: Folder, limits: Limits) -> list[str]:
    """The options that make the rest of the box's file system."""
    return [
        *("--proc", "/proc", "--dev", "/dev"),
        *("--perms", "1777", "--size", str(SHARED_MEMORY), "--tmpfs", "/dev/shm"),
        *("--perms", "1777", "--size", str(limits.tmp), "--tmpfs", "/tmp"),
        *("--dir", "/run", "--dir", "/var", "--symlink", "../tmp", "/var/tmp"),
        *("--bind", str(folder.workspace), "/workspace"),
        *("--remount-ro", "/dev", "--remount-ro", "/", "--chdir", "/workspace"),
    ]
