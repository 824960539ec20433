"""From a config to everything that works, before any of it works.

Each phase is wrapped here, so that `loop` reads like the algorithm: what is finished is not repeated
(`store.recorded`), and every phase is timed and told to the trackers.
"""

import tempfile
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from clawloop import __version__, loop
from clawloop.build.part import agent, part, parts
from clawloop.build.players import players
from clawloop.build.stages import stages
from clawloop.config.errors import ConfigError
from clawloop.diagnosis.diagnose import Diagnose
from clawloop.evaluation.evaluate import Probe
from clawloop.protocols import Author, Policy, Shelf
from clawloop.report import read, summary, tables
from clawloop.rollout import audit
from clawloop.rollout.collect import Collect
from clawloop.rollout.grade import SandboxGrader
from clawloop.sandbox.folder import claim, sweep
from clawloop.store import weights
from clawloop.store.layout import Layout, cache
from clawloop.store.ledger import Ledger
from clawloop.store.recorded import Phases
from clawloop.synthesis.author.library.library import Library
from clawloop.synthesis.difficulty.none import NoGrowth
from clawloop.synthesis.lexicon import held_domains
from clawloop.synthesis.skills.domain import unmounted
from clawloop.synthesis.synthesize import Synthesize
from clawloop.tracking.fanout import Fanout
from clawloop.training.cold_start import ColdStart
from clawloop.training.sequences import blind
from clawloop.types import Candidate, DiagnosisReport, RolloutGroup, Task
from clawloop.validation.screen import Screen
from clawloop.validation.split import Split

PROBE_SEED = 90_001
COLD_SEED = 70_001


@dataclass(slots=True)
class Built:
    """A run that is ready to go: its plan, what does the work, and how it is closed."""

    plan: tuple[str, ...]
    run: Callable[[], dict[str, Any]]
    close: Callable[[int], None]


def build(config: Mapping[str, Any], folder: Path) -> Built:
    """Wire everything that `config` (plain values, see `config.parts.plain`) chooses, to work in `folder`.

    Raises:
        ValueError: something in the config cannot be, or the folder holds the run of another config; in one sentence.
        InfrastructureError: there is no sandbox on this machine.
    """
    closing = ExitStack()
    try:
        return _wired(config, folder, closing)
    except BaseException:
        closing.close()
        raise


def _wired(config: Mapping[str, Any], folder: Path, closing: ExitStack) -> Built:
    started = time.monotonic()
    folder.mkdir(parents=True, exist_ok=True)
    layout, seed, workers = Layout(folder), int(config["seed"]), int(config["workers"])
    ledger = Ledger(layout.ledger)
    config_hash = ledger.open_run(config)
    tracker = Fanout([*parts(config["tracker"], folder=folder, config=config).values(), ledger])

    sandboxes = part(config["sandbox"])
    grader = SandboxGrader(sandboxes)
    harness, episode = players(config, sandboxes, grader, closing)
    source = weights.find(config["model"]["source"], cache())
    temporary = Path(tempfile.gettempdir()), "clawloop-scratch-"
    sweep(*temporary)
    scratch, _ = closing.enter_context(claim(*temporary))
    policy = agent(config, source, trainer=list(config["trainer"]), tracker=tracker, scratch=scratch)
    checks = parts(config["check"], sandboxes=sandboxes, grader=grader)
    screen = Screen(checks, ledger.sound, progress=tracker.progress)
    # The probe and the demonstrations are the same whoever writes the practice.
    folders = config["routine"].get("domain", {}).get("folders", ())
    if lost := unmounted(folders, list(config["sandbox"].get("mounts") or ())):
        raise ValueError(lost)
    shipped = Library(folders)
    author = part(config["author"], sandboxes=sandboxes, checks=screen.alone)
    progress = tracker.progress
    collect = Collect(episode, ledger, workers, seed, progress)
    band = part(config["band"])

    def checked(groups: tuple[RolloutGroup, ...], at: str) -> tuple[RolloutGroup, ...]:
        audit.check(groups, float(config["trained_floor"]), at)
        if "grpo" in config["trainer"] and (unknown := blind(groups)):
            raise ConfigError(
                f"trainer.grpo: in {at} the engine gave no log-probabilities for {len(unknown)} trials ({unknown[0]}, "
                "...), and without them nothing can be weighed: choose trainer=[sft], or a policy that gives them."
            )
        return groups

    def roll_out_in(policy: Policy, tasks: tuple[Task, ...], n: int, at: str, harness: str) -> tuple[RolloutGroup, ...]:
        played = Collect(partial(episode, harness=harness), ledger, workers, seed, progress)
        return checked(played(policy, tasks, n, f"{at}/{harness}"), at)

    def roll_out(policy: Policy, tasks: tuple[Task, ...], n: int, at: str) -> tuple[RolloutGroup, ...]:
        return checked(collect(policy, tasks, n, at, band.wanted if at.endswith("/admission") else None), at)

    scheduler = part(config["scheduler"], harnesses=harness.names, seed=seed)
    batches = part(
        config["source"],
        scheduler=scheduler,
        roll_out=roll_out_in,
        harness_of=lambda id: harness.of(id).name,
        trajectories=config["trainer"].get("grpo", {}).get("batch_size", 0),
        seed=seed,
    )

    def synthesis(
        count: int,
        difficulty: Any,
        seed: int,
        author: Author = shipped,
        at_once: int = 2,
        shelf: Shelf | None = None,
        **handed: Any,
    ) -> Synthesize:
        routines, growth = parts(config["routine"], **handed), parts(config["growth"])
        return Synthesize(routines, author, growth, difficulty, sandboxes, count, seed, at_once, shelf, progress)

    difficulty = part(config["difficulty"])
    levels = [int(level) for level in config["probe"]["levels"]]
    each = int(config["probe"]["tasks"]) // len(levels)
    apart: dict[str, Any] = {"domains": held_domains(), "held": True}
    probes = [(level, synthesis(each, NoGrowth(level), PROBE_SEED + level, **apart)) for level in levels]

    def probe_tasks() -> tuple[Task, ...]:
        return _probe_tasks(ledger, probes, screen, policy)

    inner: Any = SimpleNamespace(
        synthesize=synthesis(int(config["candidates"]), difficulty, seed, author, workers, ledger),
        screen=screen,
        roll_out=roll_out,
        admit=band,
        split=Split(config["split"]["held_out"], seed),
        diagnose=Diagnose(part(config["diagnosis"])),
        evaluate=lambda theta, k: Probe(probe_tasks(), int(config["probe"]["trials"]), roll_out, tracker)(theta, k),
    )
    trained = hasattr(policy, "model")
    depends = {"harness": config["harness"], "routine": config["routine"]}
    teach = synthesis(int(config["cold_start"]["demonstrations"] or 1), NoGrowth(0), COLD_SEED)
    cold = ColdStart(config["cold_start"], teach, episode, harness.of, tracker, cache(), source, depends)

    def theta(k: int) -> Path:
        return layout.checkpoint(f"theta_{k}") if k else cold.folder()

    handed = {"source": batches, "tracker": tracker, "reached": ledger.reached}
    trainers = stages(config, layout, policy=policy, theta=theta, **handed)

    def ended(name: str, k: int, seconds: float, repeated: bool) -> None:
        tracker.event("phase", {"name": name, "k": k, "seconds": seconds, "repeated": repeated})
        if not repeated:
            tracker.log("time", k, {name: seconds})
        if name == "diagnose" and not repeated and (iteration := read.iteration(ledger, k)) is not None:
            tracker.log("loop", k, summary.loggable(summary.iteration_row(iteration)))

    phases = Phases(inner, tuple(trainers.values()), ledger, layout, ended)

    def run() -> dict[str, Any]:
        theta = cold(policy) if trained else policy
        probe_tasks()
        loop.run(theta, phases, iterations=int(config["iterations"]), rollouts=int(config["rollouts"]))
        record = read.record(
            ledger, config_hash=config_hash, version=__version__, seed=seed, wall_s=round(time.monotonic() - started, 1)
        )
        content = summary.write(folder, record)
        tables.write(folder)
        print(tables.show(folder), flush=True)
        return content

    def close(code: int) -> None:
        tracker.close(code)
        closing.close()

    return Built(_plan(config, folder, list(trainers), resumed=ledger.ended("synthesize", 1) is not None), run, close)


def _probe_tasks(
    ledger: Ledger, probes: list[tuple[int, Synthesize]], screen: Screen, policy: Policy
) -> tuple[Task, ...]:
    """The probe: screened tasks from held domains, the same for every run; made once and kept in the ledger."""
    if ledger.ended("probe_tasks", 0) is None:
        made: list[Candidate] = []
        for level, synthesize in probes:
            candidates = synthesize(policy, DiagnosisReport.empty(), -1 - level)
            sound = {task.id for task in screen(candidates, 0).tasks}
            made += [candidate for candidate in candidates if candidate.id in sound]
        ledger.add_candidates(0, tuple(made))
        ledger.end_phase("probe_tasks", 0, b"", 0.0)
    return tuple(candidate.task for candidate in ledger.candidates(0) if candidate.task is not None)


def _plan(config: Mapping[str, Any], folder: Path, stages: list[str], *, resumed: bool) -> tuple[str, ...]:
    """What the run is going to do, for a person."""
    k, n, count, probe = config["iterations"], config["rollouts"], config["candidates"], config["probe"]
    cold = config["cold_start"]["demonstrations"] if stages else 0
    names = {group: str(config[group]["_target_"]).rsplit(".", 1)[1] for group in ("policy", "source", "scheduler")}
    fed = f" ({names['source']}, {names['scheduler']})" if "grpo" in stages else ""
    return (
        f"{'resuming' if resumed else 'run'}: {config['name']}, seed {config['seed']}, in {folder}",
        f"model: {config['model']['source']} through {names['policy']}"
        + (f", after a cold start on {cold} demonstrations" if cold else ""),
        f"probe: {probe['tasks']} tasks x {probe['trials']} trials at levels {probe['levels']}, theta_0 to theta_{k}",
        f"{k} iterations of: {count} candidates, screened by {', '.join(config['check'])};"
        f" up to {count} x {n} = {count * n} rollouts, {config['workers']} at once;",
        f"  tasks with {config['band']['low']} to {config['band']['high']} passes of {n} admitted,"
        f" {config['split']['held_out']:.0%} held out; then {', '.join(stages) or 'no training'}{fed} and a diagnosis",
    )
