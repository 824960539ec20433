"""Episodes a second and overhead of an episode on bubblewrap and on Docker, cold and warm, against the bare tools.

An episode is a box with a file, one command in it, a snapshot, and a verifier in a second box. Three ways, in turn,
over the same work and threads:

- ours: `Collect` with the shell harness, a scripted policy, the grader and the ledger;
- boxes: the same two boxes opened and the same two commands run, and nothing else;
- floor: the same two commands over the same files through the bare tool: `bwrap` and its options as a plain
  subprocess, or a container of the same image that is created, started, given its files by tar, asked for its files by
  tar, and removed, over the engine's API, with as many waiting as in the pool.

Goals: an episode takes at most 1.2 times the floor, 32 at once; opening a box from the warm pool takes at most a third
of opening it cold. `around` is what an episode takes against its boxes alone.

Without DOCKER_HOST it has a private engine (`scripts/docker`) while it runs.

    python scripts/bench/rollouts.py [--episodes 32] [--rounds 2] [--at-once 32] [--kinds bubblewrap,docker-cold,docker-warm]
"""

import argparse
import io
import json
import os
import queue
import statistics
import subprocess
import tarfile
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import docker

from clawloop.harness.shell.shell import Shell
from clawloop.policy.scripted import ScriptedPolicy
from clawloop.protocols import Sandboxes
from clawloop.rollout.collect import Collect
from clawloop.rollout.episode import Episode
from clawloop.rollout.grade import SandboxGrader
from clawloop.sandbox.bubblewrap import Bubblewrap
from clawloop.sandbox.docker.docker import Docker
from clawloop.store.ledger import Ledger
from clawloop.types import Card, Contract, Deliverable, Task, Verifier, Workspace

GOAL, WARM_GOAL = 1.2, 1 / 3
DOCKER = Path(__file__).parents[1] / "docker"
COMMAND = "wc -l < a.txt > n.txt"
VERIFY = """
import json
key = json.load(open("key.json"))
print(json.dumps({"fields": {"n": None if open("work/n.txt").read().strip() == key else "wrong_value"}}))
"""
AGENT = {"a.txt": b"x\n" * 50}
GRADE = {"verify.py": VERIFY.encode(), "key.json": b'"50"', "work/n.txt": b"50\n"}
RUN = ["/bin/bash", "-c", COMMAND]
CHECK = ["python3", "-I", "-S", "-B", "verify.py"]


def task() -> Task:
    """A workspace of one file and a verifier of one field."""
    card = Card("capability", "audit/analysis", "analysis", "hives", 0, "text", 1, "l")
    contract = Contract((), (Deliverable("n.txt", "text", {"n": "integer"}),))
    return Task("t", "Count.", Workspace(AGENT), Verifier(VERIFY, '"50"', 30.0), contract, card)


def bare_bubblewrap(_: object = None) -> None:
    """Two folders, two bwrap processes, and the files read back."""
    options = "--unshare-all --die-with-parent --new-session --cap-drop ALL --clearenv --setenv PATH /usr/bin:/bin"
    system = "--ro-bind /usr /usr --symlink usr/bin /bin --symlink usr/lib /lib --symlink usr/lib64 /lib64"
    for contents, command in ((AGENT, RUN), (GRADE, CHECK)):
        with tempfile.TemporaryDirectory() as folder:
            for name, data in contents.items():
                (Path(folder) / name).parent.mkdir(parents=True, exist_ok=True)
                (Path(folder) / name).write_bytes(data)
            rest = f"--bind {folder} /workspace --proc /proc --dev /dev --tmpfs /tmp --chdir /workspace --"
            subprocess.run(["bwrap", *f"{options} {system} {rest}".split(), *command], check=True, capture_output=True)
            assert [path.read_bytes() for path in Path(folder).iterdir() if path.is_file()]


def bare_docker(address: str, image: str, warm: int) -> tuple[Callable[[object], None], Callable[[], None]]:
    """The same through the engine's API; also what removes the containers that wait."""
    api = docker.APIClient(address, timeout=120, max_pool_size=64, num_pools=64)

    def start() -> str:
        host = api.create_host_config(
            network_mode="none", read_only=True, tmpfs={"/workspace": "exec,uid=1000,gid=1000,mode=0755"}
        )
        made: str = api.create_container(image, ["sleep", "600"], host_config=host)["Id"]
        api.start(made)
        return made

    def said(container: str, command: list[str], given: bytes = b"") -> bytes:
        made = api.exec_create(container, command, stdin=bool(given), user="1000:1000", workdir="/workspace")["Id"]
        if not given:
            return bytes(api.exec_start(made))
        raw = api.exec_start(made, socket=True)
        raw._sock.sendall(given)
        while raw._sock.recv(1 << 16):
            continue
        raw.close()
        return b""

    starters = ThreadPoolExecutor(4)
    waiting: queue.SimpleQueue[Future[str]] = queue.SimpleQueue()
    for _ in range(warm):
        waiting.put(starters.submit(start))

    def episode(_: object = None) -> None:
        for contents, command in ((AGENT, RUN), (GRADE, CHECK)):
            if warm:
                ready = waiting.get()
                waiting.put(starters.submit(start))
                container = ready.result()
            else:
                container = start()
            said(container, ["tar", "-xf", "-", "--no-same-owner"], packed(contents))
            said(container, command)
            if contents is AGENT:
                assert b"n.txt" in said(container, ["tar", "-cf", "-", "."])
            api.remove_container(container, force=True)

    def close() -> None:
        while not waiting.empty():
            api.remove_container(waiting.get().result(), force=True)
        starters.shutdown()
        api.close()

    return episode, close


def packed(contents: dict[str, bytes]) -> bytes:
    """A tar of files and their folders."""
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w") as tar:
        for name, text in contents.items():
            member = tarfile.TarInfo(name)
            member.size = len(text)
            tar.addfile(member, io.BytesIO(text))
    return data.getvalue()


def standing(boxes: Sandboxes) -> None:
    """Two boxes, two commands."""
    for contents, command in ((AGENT, RUN), (GRADE, CHECK)):
        with boxes.open(Workspace(contents)) as box:
            assert box.run(command).exit_code == 0


@contextmanager
def kinds(name: str, warm: int) -> Iterator[tuple[Sandboxes, Callable[[object], None]]]:
    """A sandbox and its floor."""
    if name == "bubblewrap":
        yield Bubblewrap(), bare_bubblewrap
        return
    boxes = Docker(warm=warm if name == "docker-warm" else 0)
    floor, close = bare_docker(boxes.engine.address, boxes.engine.image, warm if name == "docker-warm" else 0)
    try:
        yield boxes, floor
    finally:
        close()
        boxes.close()


def seconds(work: Callable[[], Any]) -> float:
    """How long it takes."""
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def measure(name: str, given: argparse.Namespace) -> dict[str, float]:
    """Figures of one kind: seconds are medians over rounds, after one that is not counted."""
    what = task()
    policy = ScriptedPolicy([{"when": "Count", "say": f"```bash\n{COMMAND}\n```"}], slip=0.0)
    times: dict[str, list[float]] = {"ours": [], "boxes": [], "floor": [], "open": []}
    with kinds(name, given.warm) as (boxes, bare), tempfile.TemporaryDirectory() as scratch:
        episode = Episode(Shell(max_turns=3), boxes, SandboxGrader(boxes))
        for turn in range(given.rounds + 1):
            ledger = Ledger(Path(scratch) / f"{turn}.sqlite")
            collect = Collect(episode, ledger, given.at_once, 0)
            ways: dict[str, Callable[[], Any]] = {
                "ours": lambda c=collect: check(c(policy, (what,), given.episodes, "bench"), given.episodes),
                "boxes": lambda: spread(lambda _: standing(boxes), given),
                "floor": lambda: spread(bare, given),
            }
            for way, work in ways.items():
                took = seconds(work)
                if turn:
                    times[way].append(took)
            ledger.close()
        for _ in range(given.openings):
            time.sleep(1.0)  # the pool is full again
            started = time.perf_counter()
            with boxes.open(Workspace()):
                times["open"].append(time.perf_counter() - started)
    ours, boxed, floor, opened = (statistics.median(values) for values in times.values())
    return {
        "episodes_per_s": round(given.episodes / ours, 2),
        "boxes_per_s": round(given.episodes / boxed, 2),
        "floor_per_s": round(given.episodes / floor, 2),
        "overhead_s": round((ours - floor) / given.episodes, 4),
        "ratio": round(ours / floor, 3),
        "around": round(ours / boxed, 3),
        "open_s": round(opened, 4),
    }


def spread(work: Callable[[object], None], given: argparse.Namespace) -> None:
    """All episodes over the threads."""
    with ThreadPoolExecutor(given.at_once) as pool:
        list(pool.map(work, range(given.episodes)))


def check(groups: Any, episodes: int) -> None:
    """Every trial passed, or the figures say nothing."""
    assert [group.passes for group in groups] == [episodes], groups


@contextmanager
def engine() -> Iterator[None]:
    """A Docker engine with the image: the one that is there, or a private one for as long as it is needed."""
    if "DOCKER_HOST" in os.environ:
        yield
        return
    running = subprocess.run([DOCKER, "status"], capture_output=True, check=False).returncode == 0
    os.environ["DOCKER_HOST"] = subprocess.run(
        [DOCKER, "start"], stdout=subprocess.PIPE, text=True, check=True
    ).stdout.strip()
    try:
        yield
    finally:
        if not running:
            subprocess.run([DOCKER, "stop"], check=True)


def main() -> None:
    """Measure each kind."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--episodes", type=int, default=32)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--at-once", type=int, default=32)
    parser.add_argument("--warm", type=int, default=8)
    parser.add_argument("--openings", type=int, default=10)
    parser.add_argument("--kinds", default="bubblewrap,docker-cold,docker-warm")
    given = parser.parse_args()
    with engine() if "docker" in given.kinds else nullcontext():
        figures: dict[str, dict[str, float]] = {}
        for name in given.kinds.split(","):
            figures[name] = measure(name, given)
            print(name, figures[name], flush=True)
    goals: dict[str, bool] = {f"{name} ratio": one["ratio"] <= GOAL for name, one in figures.items()}
    if {"docker-cold", "docker-warm"} <= figures.keys():
        share = figures["docker-warm"]["open_s"] / figures["docker-cold"]["open_s"]
        figures["docker-warm"]["open_share_of_cold"] = round(share, 3)
        goals["warm start"] = share <= WARM_GOAL
    goal = {"ratio": GOAL, "open_share_of_cold": round(WARM_GOAL, 3)}
    print(
        json.dumps(
            {"bench": "rollouts", "figures": figures, "goal": goal, "met": all(goals.values()), "by_goal": goals}
        )
    )


if __name__ == "__main__":
    main()
