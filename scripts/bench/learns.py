"""Whether the small model learns by GRPO from either source: pass rate on the practice tasks before and after.

nano at laptop scale after its cold start, harness shell_brief, three seeds. Of 64 generated tasks at levels 0 and 1 those with
1 to 5 passes of 8 are the practice tasks; their trials feed `replay`. Either source then has 30 optimizer steps with the
settings of experiment/main. Before and after, each practice task has 4 further trials, which nothing trains on: the 8
that chose the tasks would flatter the start. Intervals are 95%, paired by task. Seeds are run at the same time, each
in a process and on one thread of its own. Goal: both gains above 0 on each seed.

    python scripts/bench/learns.py [STEPS [TASKS [SEEDS]]]
"""

import json
import math
import multiprocessing
import sys
import tempfile
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from clawloop.build.part import agent, part
from clawloop.build.players import arena
from clawloop.build.stages import stages
from clawloop.config.composed import chosen
from clawloop.evaluation.statistics import difference, pass_rate
from clawloop.protocols import Policy
from clawloop.rollout.collect import Collect
from clawloop.rollout.episode import Episode
from clawloop.rollout.grade import SandboxGrader
from clawloop.store import weights
from clawloop.store.layout import Layout, cache
from clawloop.store.ledger import Ledger
from clawloop.synthesis.author.library.library import Library
from clawloop.synthesis.difficulty.none import NoGrowth
from clawloop.synthesis.routine.capability import Capability
from clawloop.synthesis.synthesize import Synthesize
from clawloop.tracking.fanout import Fanout
from clawloop.training.cold_start import ColdStart
from clawloop.training.scheduler.fixed import Fixed
from clawloop.types import DiagnosisReport, RolloutGroup, Task

EACH = 4
SOURCES = ("replay", "fresh")
TURN: Any = None  # whose turn it is to make the cold start, which all seeds share


def _takes_turns(lock: Any) -> None:
    global TURN
    TURN = lock


class Bench:
    """One seed: a policy after its cold start, its tasks, and what plays them."""

    def __init__(self, seed: int, count: int, folder: Path, closing: ExitStack) -> None:
        words = ("+experiment=main", "trainer=[grpo]", "routine=[capability]", "policy.threads=1", f"seed={seed}")
        self.config = chosen(words)[0]
        config, self.seed = self.config, seed
        boxes = part(config["sandbox"])
        self.harness, own = arena(config["harness"]["shell_brief"], config["sandbox"], boxes, closing)
        episode = Episode(self.harness, own, SandboxGrader(boxes))
        self.ledger = Ledger(folder / "ledger.sqlite")
        self.collect = Collect(episode, self.ledger, int(config["workers"]), seed)

        def synthesis(count: int, level: int, seed: int) -> Synthesize:
            return Synthesize([Capability()], Library(), [], NoGrowth(level), boxes, count, seed)

        self.source = weights.find(config["model"]["source"], cache())
        self.policy = agent(config, self.source)
        teach = synthesis(int(config["cold_start"]["demonstrations"]), 0, 70_001)
        depends = {"harness": config["harness"], "routine": config["routine"]}
        start = ColdStart(
            config["cold_start"], teach, episode, lambda id: self.harness, Fanout([]), cache(), self.source, depends
        )
        with TURN:
            self.policy = start(self.policy)
        self.start = folder / "theta_0"
        self.policy.save(self.start)
        made = [synthesis(count // 2, level, 1_000 * seed + level) for level in (0, 1)]
        empty = DiagnosisReport.empty()
        found = [one for k, synthesize in enumerate(made, 1) for one in synthesize(self.policy, empty, k)]
        tasks = tuple(candidate.task for candidate in found if candidate.task)
        groups = self.collect(self.policy, tasks, int(config["rollouts"]), "k1/admission")
        self.practice = part(config["band"])(groups, 1)

    def tried(self, policy: Policy, at: str) -> tuple[RolloutGroup, ...]:
        """Trials that nothing trains on."""
        return self.collect(policy, self.practice.tasks, EACH, at)

    def trained(self, name: str, steps: int) -> Policy:
        """The policy after so many steps from one source."""
        settings: dict[str, Any] = dict(self.config["trainer"]["grpo"])
        rollouts, size = int(self.config["rollouts"]), int(settings["batch_size"])
        policy = self.policy.load(self.start, "theta_0")
        if name == "replay":
            source = part({"_target_": "clawloop.training.source.replay.Replay"}, scheduler=Fixed())
            settings["epochs"] = math.ceil(steps / math.ceil(rollouts * len(self.practice.tasks) / size))
        else:

            def roll_out(policy: Policy, tasks: tuple[Task, ...], n: int, at: str, _: str) -> tuple[RolloutGroup, ...]:
                return self.collect(policy, tasks, n, at)

            fresh = {"_target_": "clawloop.training.source.fresh.Fresh", "steps": steps, "rollouts": rollouts}
            source = part(
                {**fresh, "rounds": 4, "staleness": 8}, scheduler=Fixed(), roll_out=roll_out, trajectories=size,
                harness_of=lambda id: self.harness.name, seed=self.seed,
            )  # fmt: skip
        config = {**self.config, "trainer": {"grpo": settings}}
        handed = {"source": source, "tracker": self.ledger, "reached": self.ledger.reached}
        made = stages(config, Layout(self.start.parent), policy=policy, theta=lambda k: self.start, **handed)
        return made["grpo"](policy, self.practice, 1)


def run(seed: int, steps: int, count: int, folder: str) -> dict[str, list[float]]:
    """The gain and its interval for each source, a row printed for each."""
    gains = {}
    with ExitStack() as closing:
        own = Path(folder) / str(seed)
        own.mkdir()
        bench = Bench(seed, count, own, closing)
        before = bench.tried(bench.policy, "k1/before")
        for name in SOURCES:
            after = bench.tried(bench.trained(name, steps), f"k1/after-{name}")
            gain = difference(after, before)
            gains[name] = [gain.mean, gain.low, gain.high]
            rates = [pass_rate(groups).mean for groups in (before, after)]
            print(
                f"seed {seed} {name:6} {len(before)} tasks: {rates[0]:.3f} to {rates[1]:.3f},"
                f" {gain.mean:+.3f} [{gain.low:+.3f}, {gain.high:+.3f}]",
                flush=True,
            )
    return gains


def main() -> None:
    """Run the seeds and print the JSON line."""
    steps, count, seeds = (int(word) for word in [*sys.argv[1:], *("30", "64", "3")[len(sys.argv) - 1 :]])
    spawn = multiprocessing.get_context("spawn")
    with (
        tempfile.TemporaryDirectory(dir="/var/tmp") as folder,
        ProcessPoolExecutor(seeds, mp_context=spawn, initializer=_takes_turns, initargs=(spawn.Lock(),)) as pool,
    ):
        found = list(pool.map(run, range(seeds), [steps] * seeds, [count] * seeds, [folder] * seeds))
    gains = {name: [one[name] for one in found] for name in SOURCES}
    met = all(low > 0 for rows in gains.values() for _, low, _ in rows)
    goal = "on each seed and for both sources the paired gain is above 0"
    print(json.dumps({"bench": "learns", "figures": {"steps": steps, **gains}, "goal": goal, "met": met}))


if __name__ == "__main__":
    main()
