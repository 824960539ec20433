"""Candidates per second from the library to the screened task, and how much of that time is ours.

Both routes and all levels, with the parts of `conf/`. One candidate at a time, so that every second belongs to one
place:

- inside: a command runs in a box, from its start to the death of its last process;
- around: boxes are made and removed, files go in and out;
- ours: everything else: cards, plans, reading what was printed, checking, comparing.

The rate is measured apart, two candidates at a time and without the clocks. A first candidate of each route, which
reads lexicon and domains, is not counted.

Goal: at most 20% of the time is ours, even if what is around the commands counts as ours.
"""

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from screen import LEVELS, makers

from clawloop.build.part import part
from clawloop.config.composed import composed
from clawloop.policy.scripted import ScriptedPolicy
from clawloop.protocols import Sandbox, Sandboxes
from clawloop.types import CommandResult, DiagnosisReport, Limits, Snapshot, Workspace

GOAL, EACH, SEED = 0.2, 8, 5


class Clocks:
    """Boxes of another maker: the seconds that their commands took, and all that boxes took."""

    def __init__(self, boxes: Sandboxes) -> None:
        self._boxes = boxes
        self.inside = self.all = 0.0

    @contextmanager
    def open(
        self, workspace: Workspace, limits: Limits | None = None, *, hostname: str = "box", on_disk: bool = False
    ) -> Iterator[Sandbox]:
        """A box under the clocks, its opening and its end too."""
        started = time.perf_counter()
        with self._boxes.open(workspace, limits, hostname=hostname, on_disk=on_disk) as box:
            self.all += time.perf_counter() - started
            yield _Clocked(box, self)
            started = time.perf_counter()
        self.all += time.perf_counter() - started


class _Clocked:
    def __init__(self, box: Sandbox, clocks: Clocks) -> None:
        self._box, self._clocks = box, clocks

    @contextmanager
    def _clock(self) -> Iterator[None]:
        started = time.perf_counter()
        yield
        self._clocks.all += time.perf_counter() - started

    def run(
        self, command: Sequence[str], *, timeout_s: float | None = None, environment: Mapping[str, str] | None = None
    ) -> CommandResult:
        with self._clock():
            result = self._box.run(command, timeout_s=timeout_s, environment=environment)
        self._clocks.inside += result.seconds
        return result

    def read(self, path: str, limit: int) -> bytes:
        with self._clock():
            return self._box.read(path, limit)

    def write(self, path: str, data: bytes) -> None:
        with self._clock():
            self._box.write(path, data)

    def snapshot(self) -> Snapshot:
        with self._clock():
            return self._box.snapshot()


def work(config: Mapping[str, object], boxes: Sandboxes, each: int, at_once: int) -> tuple[float, int, int]:
    """Seconds, candidates and tasks of `each` candidates a route and level."""
    routes, screen = makers(config, boxes, at_once)
    started, made, sound = time.perf_counter(), 0, 0
    for make in routes.values():
        for level in LEVELS:
            candidates = make(level, each, SEED)(ScriptedPolicy(), DiagnosisReport.empty(), 1)
            made += len(candidates)
            sound += len(screen(candidates, 1).tasks)
    return time.perf_counter() - started, made, sound


def main() -> None:
    """Measure shares one at a time, and the rate two at a time; print both and the JSON line."""
    config = composed(["routine=[capability,domain]"])
    boxes = part(config["sandbox"])
    work(config, boxes, 1, 2)
    clocks = Clocks(boxes)
    seconds, made, _ = work(config, clocks, EACH, 1)
    ours, around, inside = seconds - clocks.all, clocks.all - clocks.inside, clocks.inside
    for name, value in (("inside", inside), ("around", around), ("ours", ours)):
        print(f"{name}: {value:.1f} s, {value / seconds:.1%}, {1000 * value / made:.0f} ms a candidate", flush=True)
    both, candidates, tasks = work(config, boxes, EACH, 2)
    share = (ours + around) / seconds
    figures = {
        "candidates": candidates,
        "tasks": tasks,
        "candidates_per_s": round(candidates / both, 2),
        "inside": round(inside / seconds, 4),
        "around": round(around / seconds, 4),
        "ours": round(ours / seconds, 4),
    }
    print(
        json.dumps({"bench": "synthesis", "figures": figures, "goal": {"ours_and_around": GOAL}, "met": share <= GOAL})
    )


if __name__ == "__main__":
    main()
