"""The tables of one run and of many, as Markdown that also reads well in a terminal."""

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from pathlib import Path
from statistics import fmean, stdev
from typing import Any, TypeAlias

import yaml
from scipy.special import stdtrit

from clawloop.store.layout import Layout

_Lines: TypeAlias = tuple[tuple[str, str, Callable[[Any], str]], ...]
"""Lines of a table: title, key of the row, and how its value is written."""

_COUNT, _TENTHS = "{:,}".format, "{:.1f}".format


def _percent(value: float) -> str:
    return f"{100 * value:.1f}"


_ROWS: _Lines = (
    ("Candidates synthesized", "candidates", _COUNT),
    ("Passed agent-free validation", "passed_agent_free", _COUNT),
    ("Passed agent-based validation", "passed_agent_based", _COUNT),
    ("Admission rate (%)", "admission_rate", _TENTHS),
    ("SFT trajectories retained", "sft_trajectories", _COUNT),
    ("Mean trajectory turns", "mean_turns", _TENTHS),
    ("Mean trajectory tokens", "mean_tokens", lambda value: f"{value:,.0f}"),
    ("Tasks to practise on", "practice", _COUNT),
    ("Tasks held out", "held_out", _COUNT),
    ("Infrastructure failures", "infrastructure_failures", _COUNT),
)

_DIVERSITY: _Lines = (
    ("Capabilities", "capabilities", _COUNT),
    ("Domains", "domains", _COUNT),
    ("Forms", "forms", _COUNT),
    ("Capability x domain x form", "cells", _COUNT),
    ("Coverage of these (%)", "coverage", _percent),
    ("Near-duplicate instructions (%)", "near_duplicates", _percent),
    ("Words an instruction", "instruction_words", _TENTHS),
)

_TRACES: _Lines = (
    ("Sampled tokens trained in context (%)", "trained", _percent),
    ("Tokens trained out of context", "context_mismatch_tokens", _COUNT),
    ("Prompt tokens read before (%)", "prefix_reuse", _percent),
    ("Sequences an episode", "sequences", "{:.2f}".format),
)

_HARNESS: _Lines = (
    ("Steps", "visits", "{:,.0f}".format),
    ("Groups", "groups", _COUNT),
    ("Learnability", "learnability", "{:.3f}".format),
    ("Transferability", "transferability", "{:+.3f}".format),
    ("Value", "value", "{:.3f}".format),
    ("p", "p", "{:.3f}".format),
)


@dataclass(frozen=True, slots=True)
class _Run:
    """One cell of a sweep: its overrides, and its summary or why there is none."""

    name: str
    overrides: Mapping[str, str]
    summary: Mapping[str, Any] | None
    reason: str


def show(folder: Path, *, times: bool = True) -> str:
    """The tables of one run: the probe, Table 6 of the paper, rejections, levels, diversity, and where the time went.

    Without `times` two runs that did the same give the same bytes.

    Raises:
        FileNotFoundError: the run has no summary yet.
    """
    path = Layout(folder).summary
    if not path.is_file():
        raise FileNotFoundError(f"{folder} has no {path.name}; name the folder of a run that has ended")
    summary = json.loads(path.read_text(encoding="utf-8"))
    rows = summary["iterations"]
    parts = [_probe(summary), _per_iteration("Iterations (the paper's Table 6)", rows, _lines(rows, _ROWS))]
    for title, key in (("Pass rates", ""), ("Rejections", "rejections"), ("Author", "author"), ("Levels", "levels")):
        lines = _nested(rows, key) if key else _pass_rates(rows)
        parts.append(_per_iteration(title, rows, lines))
    parts.append(_per_iteration("Diversity of the candidates", rows, _measured(rows, _DIVERSITY, "diversity")))
    parts.append(
        _per_iteration("Traces of the trials at admission", rows, _measured(rows, _TRACES, "traces", "admission"))
    )
    parts += _harnesses(summary.get("harnesses", {}))
    if times:
        parts.append(_per_iteration("Seconds", rows, _nested(rows, "seconds")))
        parts.append(f"Wall time: {summary['wall_s']:.0f} s")
    return "\n\n".join(part for part in parts if part) + "\n"


def write(folder: Path) -> Path:
    """Writes report.md, without times, into a run's folder and returns its path."""
    path = Layout(folder).report
    path.write_text(show(folder, times=False), encoding="utf-8")
    return path


def compare(root: Path) -> str:
    """One row for each value of what was varied over the runs in `root`, seeds taken together.

    The interval is a t-interval over seeds; where there is only one, or all agree, it is the runs' own. Runs that
    failed are listed with their reason and enter no mean.

    Raises:
        FileNotFoundError: there is no run in `root`.
    """
    runs = _runs(root)
    if not runs:
        raise FileNotFoundError(f"{root} holds no runs; name a folder with runs or the folder of a multirun")
    varied = sorted(
        key
        for key in {key for run in runs for key in run.overrides}
        if key != "seed" and not key.startswith("hydra") and len({run.overrides.get(key) for run in runs}) > 1
    )
    cells: dict[tuple[str, ...], list[_Run]] = {}
    for run in runs:
        cells.setdefault(tuple(run.overrides.get(key, "default") for key in varied), []).append(run)
    body = []
    for values, members in sorted(cells.items(), key=lambda cell: [_natural(value) for value in cell[0]]):
        ended = [run.summary for run in members if run.summary is not None]
        probes = [s["probe"][-1] for s in ended if s["probe"] and s["probe"][-1]["pass_rate"] is not None]
        gains = [s["difference"] for s in ended if s["difference"] is not None]
        measured = [_pooled(probes, "pass_rate", 0.0), _pooled(gains, "mean", -1.0)]
        body.append([*values, str(len(ended)), *measured, str(len(members) - len(ended))])
    table = _table([*varied, "Runs", "Final pass rate", "Gain over theta_0", "Failed"], body, left=len(varied))
    failed = [f"- {run.name}: {run.reason}" for run in runs if run.summary is None]
    return "\n".join([table, *(["", "Failed:", "", *failed] if failed else [])]) + "\n"


def _probe(summary: Mapping[str, Any]) -> str:
    if not summary["probe"]:
        return ""
    body = [
        [f"theta_{row['theta']}", _estimate(row, "pass_rate", sign=False), _whole(row["tasks"]), _whole(row["trials"])]
        for row in summary["probe"]
    ]
    lines = ["## Probe", "", _table(["Policy", "Pass rate [95% interval]", "Tasks", "Trials"], body, left=1)]
    if summary["difference"] is not None:
        final = summary["probe"][-1]["theta"]
        gain = _estimate(summary["difference"], "mean", sign=True)
        lines += ["", f"Paired difference, theta_{final} - theta_0: {gain}"]
    return "\n".join(lines)


def _harnesses(found: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """What GRPO on fresh rollouts showed of each harness, and how their gradients lie to each other."""
    shown = [line for line in _HARNESS if any(line[1] in row for row in found.values())]
    body = [[name, *(cells[1] for cells in _lines([row], tuple(shown)))] for name, row in found.items()]
    parts = ["## Harnesses\n\n" + _table(["", *(title for title, *_ in shown)], body, left=1)] if body else []
    if any(row["cosines"] for row in found.values()):
        body = [
            [name, *("-" if other not in row["cosines"] else f"{row['cosines'][other]:+.3f}" for other in found)]
            for name, row in found.items()
        ]
        title = "## Mean cosine of a step's gradient (row) with another harness's average (column)"
        parts.append(f"{title}\n\n" + _table(["", *found], body, left=1))
    return parts


def _lines(rows: Sequence[Mapping[str, Any]], named: _Lines) -> list[list[str]]:
    """One line for each name: its title, and its value in every row."""
    return [[title, *("-" if row.get(key) is None else form(row[key]) for row in rows)] for title, key, form in named]


def _measured(rows: Sequence[Mapping[str, Any]], named: _Lines, *keys: str) -> list[list[str]]:
    """Lines of what each row holds under `keys`; none for a summary of a version that did not measure it."""
    found = [reduce(lambda held, key: held.get(key, {}), keys, row) for row in rows]
    return _lines(found, named) if any(found) else []


def _pass_rates(rows: Sequence[Mapping[str, Any]]) -> list[list[str]]:
    names = (("theta_(k-1) at admission", "admission"), ("theta_k on E_k", "held_out"))
    return [[title, *(_rate(row[f"{key}_pass_rate"], row[f"{key}_coverage"]) for row in rows)] for title, key in names]


def _nested(rows: Sequence[Mapping[str, Any]], key: str) -> list[list[str]]:
    """One line for each name that occurs under `key` in any row."""
    names = sorted({name for row in rows for name in row.get(key, {})})
    return [[name, *(_whole(_count(row.get(key, {}).get(name))) for row in rows)] for name in names]


def _count(value: Any) -> Any:
    return value["count"] if isinstance(value, Mapping) else value


def _per_iteration(title: str, rows: Sequence[Mapping[str, Any]], body: list[list[str]]) -> str:
    if not body or not rows:
        return ""
    return f"## {title}\n\n" + _table(["", *(f"k={row['k']}" for row in rows)], body, left=1)


def _estimate(row: Mapping[str, Any], mean: str, *, sign: bool) -> str:
    """`0.483 [0.402, 0.564]`, and how much of it was measured where that is not all."""
    if row[mean] is None:
        return "not measured"
    form = "+.3f" if sign else ".3f"
    return f"{row[mean]:{form}} [{row['low']:{form}}, {row['high']:{form}}]" + _covered(row["coverage"])


def _rate(rate: float | None, coverage: float) -> str:
    return "-" if rate is None else f"{rate:.3f}{_covered(coverage)}"


def _covered(coverage: float) -> str:
    return "" if coverage == 1.0 else f" ({100 * coverage:.1f}% measured)"


def _whole(value: float | None) -> str:
    return "-" if value is None else f"{value:,.0f}"


def _pooled(rows: Sequence[Mapping[str, Any]], mean: str, floor: float) -> str:
    """The mean over runs with its interval, within [floor, 1]."""
    if not rows:
        return "-"
    values = [row[mean] for row in rows]
    centre = fmean(values)
    if len(set(values)) > 1:
        half = float(stdtrit(len(values) - 1, 0.975)) * stdev(values) / math.sqrt(len(values))
        low, high = max(floor, centre - half), min(1.0, centre + half)
    else:
        low, high = min(row["low"] for row in rows), max(row["high"] for row in rows)
    pooled = {mean: centre, "low": low, "high": high, "coverage": fmean(row["coverage"] for row in rows)}
    return _estimate(pooled, mean, sign=floor < 0)


def _runs(root: Path) -> list[_Run]:
    """Every run below `root`, in the order of their names."""
    names = (Layout(root).summary.name, Layout(root).status.name)
    found = {path.parent for name in names for path in root.rglob(name)}
    found |= {path.parent.parent for path in root.rglob(".hydra/overrides.yaml")}
    return [_run(folder, root) for folder in sorted(found, key=lambda f: _natural(str(f.relative_to(root))))]


def _run(folder: Path, root: Path) -> _Run:
    name, layout, listed = str(folder.relative_to(root)), Layout(folder), folder / ".hydra" / "overrides.yaml"
    overrides = yaml.safe_load(listed.read_text(encoding="utf-8")) or [] if listed.is_file() else []
    pairs = (str(item).partition("=") for item in overrides)
    chosen = {key.lstrip("+~"): value for key, _, value in pairs}
    status = json.loads(layout.status.read_text(encoding="utf-8")) if layout.status.is_file() else {}
    if status.get("status") == "failed":
        return _Run(name, chosen, None, str(status.get("reason") or "no reason was given"))
    if not layout.summary.is_file():
        return _Run(name, chosen, None, "it has not ended")
    return _Run(name, chosen, json.loads(layout.summary.read_text(encoding="utf-8")), "")


def _natural(text: str) -> tuple[float, str]:
    """Sorts numbers by size, and before words."""
    try:
        number = float(text)
    except ValueError:
        number = math.inf
    return (number, "") if math.isfinite(number) else (math.inf, text)


def _table(head: Sequence[str], body: Sequence[Sequence[str]], left: int) -> str:
    """A Markdown table with aligned columns; the first `left` of them to the left, the others to the right."""
    widths = [max(3, *(len(row[i]) for row in (head, *body))) for i in range(len(head))]
    rule = ["-" * width if i < left else "-" * (width - 1) + ":" for i, width in enumerate(widths)]

    def line(row: Sequence[str]) -> str:
        cells = (c.ljust(w) if i < left else c.rjust(w) for i, (c, w) in enumerate(zip(row, widths, strict=True)))
        return "| " + " | ".join(cells) + " |"

    return "\n".join([line(head), line(rule), *(line(row) for row in body)])
