"""A driver that ends or is killed: what it held goes, by itself or at the next start, and no trial is played twice."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import yaml

from clawloop.store.layout import Layout
from clawloop.store.ledger import Ledger
from clawloop.types import Rollout

PHASES = ("probe/0", "k1/admission", "probe/1")
SMALL = ("iterations=1", "candidates=4", "rollouts=2", "band.high=1", "probe.tasks=2", "check=[oracle]")
LINGERS = "import subprocess, time\nsubprocess.Popen(['setsid', 'sleep', '50'])\ntime.sleep(1.5)\n"
"""Before it asks, the program leaves a process that knows neither the task nor its parent."""

Process = tuple[int, str]


class Held:
    """What a driver holds now: processes below it, locked folders, and the cgroups and mounts of those."""

    def __init__(self, driver: int) -> None:
        self.processes = set(_below(driver))
        locks = [line.split() for line in Path("/proc/locks").read_text().splitlines() if f" {driver} " in line]
        held = {lock[5].rpartition(":")[2] for lock in locks}
        bases = [*Path("/tmp").glob("clawloop-*"), *Path("/var/tmp").glob("clawloop-*")]
        self.folders = {path: found for path in bases if (found := _inode(path)) in held}
        names = [path.name for path in self.folders if "box" in path.name]
        groups = Path("/sys/fs/cgroup/pids"), Path("/sys/fs/cgroup/clawloop")
        self.groups = {path for base in groups for name in names for path in base.glob(f"{name}.*")}

    def left(self) -> tuple[list[str], list[str]]:
        """Processes that live, and what is there of the rest."""
        living = [f"{pid}" for pid, began in self.processes if _start(pid) == began]
        folders = [str(path) for path, inode in self.folders.items() if _inode(path) == inode]
        return living, [*folders, *(str(path) for path in self.groups if path.exists())]


def _inode(path: Path) -> str:
    with suppress(FileNotFoundError):
        return str(path.stat().st_ino)
    return ""


def _start(pid: int) -> str:
    """When a living process began; empty where there is none."""
    with suppress(FileNotFoundError, ProcessLookupError):
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return "" if fields[0] == "Z" else fields[19]
    return ""


def _below(pid: int) -> Iterator[Process]:
    with suppress(FileNotFoundError, ProcessLookupError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            for child in map(int, (task / "children").read_text().split()):
                yield child, _start(child)
                yield from _below(child)


@pytest.fixture
def start(program: dict[str, Any], tmp_path: Path) -> Iterator[Callable[[], subprocess.Popen[str]]]:
    """Starts, or goes on with, a run whose harness is a program in a box."""
    conf, scratch = tmp_path / "conf", tmp_path / "scratch"
    (conf / "harness").mkdir(parents=True)
    scratch.mkdir()
    (tmp_path / "run").mkdir()
    program["files"]["agent.py"] = LINGERS + program["files"]["agent.py"]
    (conf / "harness" / "own.yaml").write_text(yaml.safe_dump({"own": program}))
    begun: list[subprocess.Popen[str]] = []

    def one() -> subprocess.Popen[str]:
        words = ["--config-dir", str(conf), "+experiment=main", "scale=debug", "harness=[own]", "tracker=[jsonl]"]
        command = [sys.executable, "-m", "clawloop", *words, f"resume={tmp_path / 'run'}", *SMALL]
        environment = {**os.environ, "TMPDIR": str(scratch), "TORCHINDUCTOR_CACHE_DIR": str(tmp_path / "inductor")}
        begun.append(
            subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        )
        return begun[-1]

    yield one
    for process in begun:
        process.kill()
        process.wait()
    assert not list(scratch.iterdir())


def played(folder: Path) -> dict[tuple[str, str, int], Rollout]:
    if not Layout(folder).ledger.exists():
        return {}
    ledger = Ledger(Layout(folder).ledger)
    return {(at, one.task_id, one.index): one for at in PHASES for one in ledger.rollouts(at)}


def watch(driver: subprocess.Popen[str], enough: Callable[[Held], bool]) -> Held:
    """What the driver holds once that is enough; it goes on meanwhile."""
    deadline = time.monotonic() + 120
    while not enough(held := Held(driver.pid)):
        assert driver.poll() is None and time.monotonic() < deadline, driver.communicate()
        time.sleep(0.05)
    return held


def playing(held: Held) -> bool:
    """An episode's box with its program and what that has left running, and the gateway's folder."""
    kinds = {path.name.rpartition("-")[0] for path in held.folders}
    sleeping = [pid for pid, _ in held.processes if Path(f"/proc/{pid}/cmdline").exists() and _sleeps(pid)]
    return {"clawloop-box", "clawloop-run"} <= kinds and bool(sleeping)


def _sleeps(pid: int) -> bool:
    with suppress(FileNotFoundError, ProcessLookupError):
        return Path(f"/proc/{pid}/cmdline").read_bytes() == b"sleep\x0050\x00"
    return False


def test_a_run_leaves_nothing_behind(start: Callable[[], subprocess.Popen[str]], tmp_path: Path) -> None:
    driver = start()
    seen = watch(driver, playing)
    out, _ = driver.communicate(timeout=200)
    assert driver.returncode == 0, out
    assert seen.folders and seen.processes
    assert seen.left() == ([], [])
    assert len(played(tmp_path / "run")) >= 8


@pytest.mark.slow
def test_a_killed_run_takes_its_processes_along_and_the_next_start_removes_the_rest(
    start: Callable[[], subprocess.Popen[str]], tmp_path: Path
) -> None:
    driver = start()
    seen = watch(driver, lambda held: playing(held) and len(played(tmp_path / "run")) >= 3)
    driver.send_signal(signal.SIGKILL)
    driver.communicate()
    deadline = time.monotonic() + 10
    while seen.left()[0] and time.monotonic() < deadline:
        time.sleep(0.05)
    living, rest = seen.left()
    assert not living
    assert any("clawloop-box" in path for path in rest) and any("clawloop-run" in path for path in rest)
    before = played(tmp_path / "run")
    again = start()
    out, _ = again.communicate(timeout=200)
    assert again.returncode == 0, out
    assert seen.left() == ([], [])
    after = played(tmp_path / "run")
    assert len(before) >= 3 and len(after) > len(before)
    assert all(after[key] == rollout for key, rollout in before.items())
    assert all(rollout.reward is not None for rollout in after.values())
