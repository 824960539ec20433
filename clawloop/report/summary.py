"""summary.json: what a run came to, from what it recorded."""

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean
from typing import Any

from clawloop.report.diversity import diversity
from clawloop.report.harnesses import harnesses
from clawloop.rollout.audit import tally
from clawloop.store.layout import Layout
from clawloop.types import Candidate, Outcome, Rollout, RolloutGroup, Screening


@dataclass(frozen=True, slots=True)
class Iteration:
    """What iteration k recorded.

    `admission` are the trials of theta_{k-1} on P_k^af and `trials` those of theta_k on E_k. `practice` and `held_out`
    are the task ids of T_k and E_k, which together are the admitted pool. `seconds` is by phase.
    """

    k: int
    candidates: tuple[Candidate, ...]
    screening: Screening
    admission: tuple[RolloutGroup, ...]
    practice: tuple[str, ...]
    held_out: tuple[str, ...]
    trials: tuple[RolloutGroup, ...] = ()
    seconds: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Record:
    """What a run recorded.

    `probe` is, by k, what was logged on axis `probe` (see `evaluation.evaluate.measure`), and `grpo`, by step, what was
    on axis `grpo`.
    """

    iterations: tuple[Iteration, ...]
    probe: Mapping[int, Mapping[str, float]]
    config_hash: str
    version: str
    seed: int
    wall_s: float
    grpo: Mapping[int, Mapping[str, float]] = field(default_factory=dict)


def summarise(record: Record) -> dict[str, Any]:
    """The content of summary.json, ready for JSON."""
    probe = [_probe(k, values) for k, values in sorted(record.probe.items())]
    last = record.probe[max(record.probe)] if record.probe else {}
    gain = None
    if "difference" in last:
        names = {"mean": "difference", "low": "difference_low", "high": "difference_high"}
        gain = {name: last[key] for name, key in {**names, "coverage": "difference_coverage"}.items()}
    return {
        "probe": probe,
        "difference": gain,
        "iterations": [iteration_row(iteration) for iteration in record.iterations],
        "harnesses": harnesses(record.grpo),
        "config_hash": record.config_hash,
        "version": record.version,
        "seed": record.seed,
        "wall_s": record.wall_s,
    }


def iteration_row(iteration: Iteration) -> dict[str, Any]:
    """One iteration as the paper's Table 6 has it, and more.

    `admission_rate` is in percent of the candidates. `sft_trajectories` are the successes on T_k (Algorithm 1, line
    17); `mean_turns` and `mean_tokens` are over them, and tokens are all of an episode's: prompt, actions and
    observations. Means over nothing are None.
    """
    at_admission = [r for group in iteration.admission for r in group.rollouts]
    at_held_out = [r for group in iteration.trials for r in group.rollouts]
    practised = set(iteration.practice)
    kept = [
        rollout.trajectory
        for group in iteration.admission
        if group.task.id in practised
        for rollout in group.rollouts
        if rollout.reward == 1.0 and rollout.trajectory is not None
    ]
    admitted = len(iteration.practice) + len(iteration.held_out)
    candidates = len(iteration.candidates)
    outcomes = {"admission": _outcomes(at_admission), "held_out": _outcomes(at_held_out)}
    return {
        "k": iteration.k,
        "candidates": candidates,
        "passed_agent_free": len(iteration.screening.tasks),
        "passed_agent_based": admitted,
        "admission_rate": 100 * admitted / candidates if candidates else None,
        "sft_trajectories": len(kept),
        "mean_turns": _mean(len(trajectory.turns) for trajectory in kept),
        "mean_tokens": _mean(sum(len(trace.ids) for trace in trajectory.traces) for trajectory in kept),
        "practice": len(iteration.practice),
        "held_out": len(iteration.held_out),
        "admission_rollouts": len(at_admission),
        "admission_saved": _saved(iteration),
        "admission_pass_rate": _pass_rate(iteration.admission),
        "admission_coverage": _coverage(at_admission),
        "held_out_pass_rate": _pass_rate(iteration.trials),
        "held_out_coverage": _coverage(at_held_out),
        "outcomes": outcomes,
        "infrastructure_failures": sum(counts[Outcome.INFRASTRUCTURE_FAILED.value] for counts in outcomes.values()),
        "traces": {"admission": tally(at_admission), "held_out": tally(at_held_out)},
        "rejections": _rejections(iteration),
        "author": _author(iteration),
        "levels": _levels(iteration.candidates),
        "diversity": diversity(iteration.candidates),
        "seconds": dict(sorted(iteration.seconds.items())),
    }


def loggable(row: Mapping[str, Any]) -> dict[str, float]:
    """A row as flat numbers for axis `loop`: nested keys are joined by a slash, reasons and missing means are left out.

    >>> loggable({"k": 1, "mean_turns": None, "rejections": {"oracle": {"count": 2, "reasons": {"no file": 2}}}})
    {'rejections/oracle': 2.0}
    """
    flat: dict[str, float] = {}
    for name, value in row.items():
        if isinstance(value, Mapping):
            inner = {key: part["count"] if name == "rejections" else part for key, part in value.items()}
            flat |= {f"{name}/{key}": number for key, number in loggable(inner).items()}
        elif value is not None and name != "k":
            flat[name] = float(value)
    return flat


def write(folder: Path, record: Record) -> dict[str, Any]:
    """Writes summary.json into a run's folder and returns its content."""
    content = summarise(record)
    text = json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False) + "\n"
    Layout(folder).summary.write_text(text, encoding="utf-8")
    return content


def _probe(k: int, values: Mapping[str, float]) -> dict[str, Any]:
    parts = {name: value for name, value in sorted(values.items()) if "/" in name}
    whole = {name: values.get(name) for name in ("pass_rate", "low", "high", "coverage", "trials", "tasks")}
    return {"theta": k, **whole, "parts": parts}


def _pass_rate(groups: Sequence[RolloutGroup]) -> float | None:
    return _mean(fmean(group.rewards) for group in groups if group.rewards)


def _coverage(rollouts: Sequence[Rollout]) -> float:
    return fmean(r.reward is not None for r in rollouts) if rollouts else 1.0


def _saved(iteration: Iteration) -> float | None:
    """The share of N trials a task that was not needed. N is that of any admitted task; None where none is."""
    admitted = {*iteration.practice, *iteration.held_out}
    sizes = {group.task.id: len(group.rollouts) for group in iteration.admission}
    n = max((sizes[id] for id in admitted), default=0)
    return 1 - sum(sizes.values()) / (n * len(sizes)) if n else None


def _mean(values: Iterable[float]) -> float | None:
    kept = list(values)
    return fmean(kept) if kept else None


def _outcomes(rollouts: Iterable[Rollout]) -> dict[str, int]:
    counts = Counter(rollout.outcome for rollout in rollouts)
    return {outcome.value: counts[outcome] for outcome in Outcome}


def _refused_by(iteration: Iteration, candidate: Candidate) -> str:
    """The check that refused a candidate."""
    findings = iteration.screening.findings.get(candidate.id, candidate.findings)
    return next(finding.check for finding in findings if not finding.passed)


def _rejections(iteration: Iteration) -> dict[str, dict[str, Any]]:
    """How many candidates each check refused, and with which reasons, the commonest first."""
    reasons: dict[str, Counter[str]] = {}
    for candidate in iteration.candidates:
        for finding in iteration.screening.findings.get(candidate.id, candidate.findings):
            if not finding.passed:
                reasons.setdefault(finding.check, Counter())[finding.reason] += 1
    return {
        check: {"count": counts.total(), "reasons": dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))}
        for check, counts in sorted(reasons.items())
    }


def _author(iteration: Iteration) -> dict[str, int]:
    """What the model did as author: replies and repairs, and how its candidates ended; nothing where it wrote none.

    A refused candidate counts under the fault of its last reply, or under the check that refused it later.
    """
    written = [candidate for candidate in iteration.candidates if candidate.attempts]
    if not written:
        return {}
    sound = {task.id for task in iteration.screening.tasks}
    accepted = [candidate for candidate in written if candidate.id in sound]
    faults = Counter(attempt.fault for candidate in written for attempt in candidate.attempts if attempt.fault)
    rejected = Counter(
        candidate.attempts[-1].fault or _refused_by(iteration, candidate)
        for candidate in written
        if candidate.id not in sound
    )
    attempts = sum(len(candidate.attempts) for candidate in written)
    return {
        "attempts": attempts,
        "repairs": attempts - len(written),
        "accepted": len(accepted),
        "repaired": sum(len(candidate.attempts) > 1 for candidate in accepted),
        "rejected": len(written) - len(accepted),
        **{f"fault/{name}": count for name, count in sorted(faults.items())},
        **{f"rejected/{name}": count for name, count in sorted(rejected.items())},
    }


def _levels(candidates: Iterable[Candidate]) -> dict[str, int]:
    """The level at which most candidates of a capability were asked for; the lower of two that tie."""
    asked: dict[str, Counter[int]] = {}
    for candidate in candidates:
        asked.setdefault(candidate.card.capability, Counter())[candidate.card.level] += 1
    return {name: max(counts, key=lambda level: (counts[level], -level)) for name, counts in sorted(asked.items())}
