"""The composition root: from a config to everything that works, before any of it works.

Only this module and `config` know Hydra. Each phase is wrapped here, so that `loop` reads like the algorithm: what is
finished is not repeated (`store.recorded`), and every phase is timed and told to the trackers.
"""

import inspect
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from pkgutil import resolve_name
from tempfile import TemporaryDirectory
from types import SimpleNamespace
from typing import Any

from clawloop import __version__, loop
from clawloop.config.spine import OBJECTIVE
from clawloop.diagnosis.diagnose import Diagnose
from clawloop.evaluation.evaluate import Probe
from clawloop.gateway.server import Gateway
from clawloop.harness.by_task import ByTask
from clawloop.harness.command.command import GATEWAY
from clawloop.protocols import Agent, Author, Grader, Harness, Policy, Sandboxes, Shelf
from clawloop.report import read, summary, tables
from clawloop.rollout import audit
from clawloop.rollout.collect import Collect
from clawloop.rollout.episode import Episode
from clawloop.rollout.grade import SandboxGrader
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
from clawloop.training.cold_start import ColdStart, Plays
from clawloop.types import Candidate, DiagnosisReport, Rollout, RolloutGroup, Task
from clawloop.validation.screen import Screen
from clawloop.validation.split import Split

PROBE_SEED = 90_001
COLD_SEED = 70_001


def part(config: Mapping[str, Any], /, **handed: Any) -> Any:
    """One part: the class that `_target_` names, with its yaml's arguments and those of `handed` that it asks for."""
    module, name = str(config["_target_"]).rsplit(".", 1)
    kind = resolve_name(f"{module}:{name}")
    wanted = inspect.signature(kind).parameters
    arguments = {name: value for name, value in config.items() if name != "_target_"}
    return kind(**arguments | {name: value for name, value in handed.items() if name in wanted})


def parts(config: Mapping[str, Mapping[str, Any]], /, **handed: Any) -> dict[str, Any]:
    """The parts of a list group, by name."""
    return {name: part(one, **handed) for name, one in config.items()}


def agent(config: Mapping[str, Any], source: Path | None = None, **handed: Any) -> Policy:
    """theta_0: the chosen policy with the weights of the chosen model, which are looked for where none are given.

    Raises:
        ValueError: there are no such weights, or the policy cannot be had; in one sentence.
    """
    weight = source or weights.find(config["model"]["source"], cache())
    policy: Policy = part(config["policy"], weights=weight, version="theta_0", **handed)
    return policy


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
    harness, episode = _players(config, sandboxes, grader, closing)
    source = weights.find(config["model"]["source"], cache())
    policy = agent(config, source, trainer=list(config["trainer"]), tracker=tracker)
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

    def roll_out(policy: Policy, tasks: tuple[Task, ...], n: int, at: str) -> tuple[RolloutGroup, ...]:
        groups = collect(policy, tasks, n, at, band.wanted if at.endswith("/admission") else None)
        audit.check(groups, float(config["trained_floor"]), at)
        return groups

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
        evaluate=lambda theta, k: Probe(probe_tasks(), int(config["probe"]["trials"]), collect, tracker)(theta, k),
    )
    trained = hasattr(policy, "model")
    depends = {"harness": config["harness"], "routine": config["routine"]}
    teach = synthesis(int(config["cold_start"]["demonstrations"] or 1), NoGrowth(0), COLD_SEED)
    cold = ColdStart(config["cold_start"], teach, episode, harness.of, tracker, cache(), source, depends)

    def theta(k: int) -> Path:
        return layout.checkpoint(f"theta_{k}") if k else cold.folder()

    objective = {name: part(config[name], theta=theta) for name in OBJECTIVE}
    handed = {"seed": seed, "tracker": tracker, "reached": ledger.reached, **objective}
    stages = parts(config["trainer"], **handed) if trained else {}

    def ended(name: str, k: int, seconds: float, repeated: bool) -> None:
        tracker.event("phase", {"name": name, "k": k, "seconds": seconds, "repeated": repeated})
        if not repeated:
            tracker.log("time", k, {name: seconds})
        if name == "diagnose" and not repeated and (iteration := read.iteration(ledger, k)) is not None:
            tracker.log("loop", k, summary.loggable(summary.iteration_row(iteration)))

    phases = Phases(inner, tuple(stages.values()), ledger, layout, ended)

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

    return Built(_plan(config, folder, list(stages), resumed=ledger.ended("synthesize", 1) is not None), run, close)


def arena(
    chosen: Mapping[str, Any], sandbox: Mapping[str, Any], sandboxes: Sandboxes, closing: ExitStack
) -> tuple[Harness, Sandboxes]:
    """A harness and the boxes of its episodes. One that asks for a gateway gets one, whose socket its boxes see.

    Args:
        chosen: the harness as its yaml has it.
        sandbox: the sandbox as its yaml has it, for boxes of its own.
        sandboxes: opens the boxes of those that need nothing further.
        closing: closes the gateway.

    Raises:
        ValueError: a folder that its boxes must see is not there.
    """
    kind = resolve_name(":".join(str(chosen["_target_"]).rsplit(".", 1)))
    if "gateway" not in inspect.signature(kind).parameters:
        return part(chosen), sandboxes
    for place, folder in (chosen.get("mounts") or {}).items():
        if not Path(folder).is_dir():
            raise ValueError(
                f"harness.mounts: {place} must show {folder}, which is not there; run scripts/install_clis.sh."
            )
    home = Path(closing.enter_context(TemporaryDirectory(prefix="clawloop-gateway-", dir="/var/tmp")))
    home.chmod(0o755)
    gateway = closing.enter_context(Gateway(part(chosen["format"]), host=None, unix=home / "socket"))
    mounts = {**(sandbox.get("mounts") or {}), **(chosen.get("mounts") or {}), GATEWAY: str(home)}
    limits = {**(sandbox.get("limits") or {}), **(chosen.get("limits") or {})}
    settings = {name: value for name, value in chosen.items() if name != "format"}
    return part(settings, gateway=gateway), part({**sandbox, "mounts": mounts, "limits": limits})


def _players(
    config: Mapping[str, Any], sandboxes: Sandboxes, grader: Grader, closing: ExitStack
) -> tuple[ByTask, Plays]:
    """What says which harness a task has, and what plays a trial of a task in that one's boxes."""
    arenas = {name: arena(one, config["sandbox"], sandboxes, closing) for name, one in config["harness"].items()}
    choice = ByTask({name: harness for name, (harness, _) in arenas.items()})
    episodes = {harness.name: Episode(harness, boxes, grader) for harness, boxes in arenas.values()}

    def play(policy: Agent, task: Task, index: int, seed: int) -> Rollout:
        return episodes[choice.of(task.id).name](policy, task, index, seed)

    return choice, play


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
    return (
        f"{'resuming' if resumed else 'run'}: {config['name']}, seed {config['seed']}, in {folder}",
        f"model: {config['model']['source']} through {str(config['policy']['_target_']).rsplit('.', 1)[1]}"
        + (f", after a cold start on {cold} demonstrations" if cold else ""),
        f"probe: {probe['tasks']} tasks x {probe['trials']} trials at levels {probe['levels']}, theta_0 to theta_{k}",
        f"{k} iterations of: {count} candidates, screened by {', '.join(config['check'])};"
        f" up to {count} x {n} = {count * n} rollouts, {config['workers']} at once;",
        f"  tasks with {config['band']['low']} to {config['band']['high']} passes of {n} admitted,"
        f" {config['split']['held_out']:.0%} held out; then {', '.join(stages) or 'no training'} and a diagnosis",
    )
