"""Rollouts per second with the scripted policy, beside the same boxes and commands with nothing around them.

One rollout is one command in a box, a snapshot, and a verifier in a second box. Three ways, in turn, over the same
work and threads:

- ours: `Collect` with the shell harness, the scripted policy, the grader and the ledger;
- floor: the same two boxes opened and the same two commands run, and nothing else;
- bare: the same two bubblewrap command lines as plain subprocesses over standing folders (no tmpfs, cgroup or filter).

Goal: ours takes at most 1.3 times the floor at 1, 8 and 32 at once; `bare` is printed for orientation.
"""

import json
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from clawloop.harness.shell.shell import Shell
from clawloop.policy.scripted import ScriptedPolicy
from clawloop.rollout.collect import Collect
from clawloop.rollout.episode import Episode
from clawloop.rollout.grade import SandboxGrader
from clawloop.sandbox.bubblewrap import Bubblewrap
from clawloop.store.ledger import Ledger
from clawloop.types import Card, Contract, Deliverable, Task, Verifier, Workspace

TRIALS, ROUNDS, GOAL = 64, 5, 1.3
COMMAND = "wc -l < a.txt > n.txt"
VERIFY = """
import json
key = json.load(open("key.json"))
print(json.dumps({"fields": {"n": None if open("work/n.txt").read().strip() == key else "wrong_value"}}))
"""


def task() -> Task:
    """A workspace of one file and a verifier of one field."""
    card = Card("capability", "audit/analysis", "analysis", "hives", 0, "text", 1, "l")
    contract = Contract((), (Deliverable("n.txt", "text", {"n": "integer"}),))
    return Task("t", "Count.", Workspace({"a.txt": b"x\n" * 50}), Verifier(VERIFY, '"50"', 10.0), contract, card)


def floor(boxes: Bubblewrap, what: Task) -> None:
    """Two boxes, two commands."""
    with boxes.open(what.workspace) as box:
        assert box.run(["/bin/bash", "-c", COMMAND]).exit_code == 0
    grading = {"verify.py": VERIFY.encode(), "key.json": b'"50"', "work/n.txt": b"50\n"}
    with boxes.open(Workspace(grading)) as box:
        assert box.run(["python3", "-I", "-S", "-B", "verify.py"]).exit_code == 0


def bare(folders: tuple[Path, Path]) -> None:
    """Two bubblewrap processes."""
    options = "--unshare-all --die-with-parent --new-session --cap-drop ALL --clearenv --setenv PATH /usr/bin:/bin"
    system = "--ro-bind /usr /usr --symlink usr/bin /bin --symlink usr/lib /lib --symlink usr/lib64 /lib64"
    rest = "--proc /proc --dev /dev --tmpfs /tmp --chdir /workspace"
    for folder, command in zip(
        folders, (["/bin/bash", "-c", COMMAND], ["python3", "-I", "-S", "-B", "verify.py"]), strict=True
    ):
        line = f"bwrap {options} {system} --bind {folder} /workspace {rest} --".split()
        subprocess.run([*line, *command], check=True, capture_output=True)


def seconds(work: Callable[[], object]) -> float:
    """How long it takes."""
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def main() -> None:
    """Measure at 1, 8 and 32 at once, the three ways in turn."""
    boxes, what = Bubblewrap(), task()
    policy = ScriptedPolicy([{"when": "Count", "say": f"```bash\n{COMMAND}\n```"}], slip=0.0)
    figures: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as scratch:
        folders = Path(scratch) / "agent", Path(scratch) / "grade"
        for folder, content in zip(
            folders,
            ({"a.txt": "x\n" * 50}, {"verify.py": VERIFY, "key.json": '"50"', "work/n.txt": "50\n"}),
            strict=True,
        ):
            for name, text in content.items():
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                (folder / name).write_text(text)
        episode = Episode(Shell(max_turns=3), boxes, SandboxGrader(boxes))
        for workers in (1, 8, 32):
            times: dict[str, list[float]] = {"ours": [], "floor": [], "bare": []}
            for turn in range(ROUNDS + 1):
                ledger = Ledger(Path(scratch) / f"{workers}_{turn}.sqlite")
                collect = Collect(episode, ledger, workers, 0)
                ours = seconds(
                    lambda c=collect: [g.passes for g in c(policy, (what,), TRIALS, "bench")] == [TRIALS] or 1 / 0
                )
                ledger.close()
                with ThreadPoolExecutor(workers) as pool:
                    standing = seconds(lambda p=pool: list(p.map(lambda _: floor(boxes, what), range(TRIALS))))
                    naked = seconds(lambda p=pool: list(p.map(lambda _: bare(folders), range(TRIALS))))
                if turn:
                    for name, value in (("ours", ours), ("floor", standing), ("bare", naked)):
                        times[name].append(value)
            medians = {name: statistics.median(values) for name, values in times.items()}
            figures |= {f"{name}_per_s_{workers}": round(TRIALS / value, 1) for name, value in medians.items()}
            figures[f"ratio_{workers}"] = round(medians["ours"] / medians["floor"], 3)
            figures[f"ratio_to_bare_{workers}"] = round(medians["ours"] / medians["bare"], 3)
    met = all(figures[f"ratio_{workers}"] <= GOAL for workers in (1, 8, 32))
    print(json.dumps({"bench": "overhead", "figures": figures, "goal": {"ratio": GOAL}, "met": met}))


if __name__ == "__main__":
    main()
