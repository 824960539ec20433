"""The tables of one run and of a sweep, to the byte."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from clawloop.report.summary import Record
from clawloop.report.summary import write as write_summary
from clawloop.report.tables import compare, show, write

REPORT = """\
## Probe

| Policy  |              Pass rate [95% interval] | Tasks | Trials |
| ------- | ------------------------------------: | ----: | -----: |
| theta_0 |                  0.300 [0.200, 0.400] |    40 |     80 |
| theta_1 |                          not measured |     - |      - |
| theta_2 | 0.450 [0.350, 0.550] (97.5% measured) |    40 |     78 |

Paired difference, theta_2 - theta_0: +0.150 [+0.050, +0.250] (98.8% measured)

## Iterations (the paper's Table 6)

|                               |  k=1 | k=2 |
| ----------------------------- | ---: | --: |
| Candidates synthesized        |    5 |   2 |
| Passed agent-free validation  |    3 |   2 |
| Passed agent-based validation |    2 |   0 |
| Admission rate (%)            | 40.0 | 0.0 |
| SFT trajectories retained     |    2 |   0 |
| Mean trajectory turns         |  2.0 |   - |
| Mean trajectory tokens        |  100 |   - |
| Tasks to practise on          |    1 |   0 |
| Tasks held out                |    1 |   0 |
| Infrastructure failures       |    1 |   0 |

## Pass rates

|                          |                    k=1 |   k=2 |
| ------------------------ | ---------------------: | ----: |
| theta_(k-1) at admission | 0.611 (91.7% measured) | 0.000 |
| theta_k on E_k           |                  1.000 |     - |

## Rejections

|           | k=1 | k=2 |
| --------- | --: | --: |
| generator |   1 |   - |
| oracle    |   1 |   - |

## Levels

|       | k=1 | k=2 |
| ----- | --: | --: |
| merge |   0 |   1 |

## Diversity of the candidates

|                                 |   k=1 |   k=2 |
| ------------------------------- | ----: | ----: |
| Capabilities                    |     1 |     1 |
| Domains                         |     1 |     1 |
| Forms                           |     1 |     1 |
| Capability x domain x form      |     1 |     1 |
| Coverage of these (%)           | 100.0 | 100.0 |
| Near-duplicate instructions (%) |  75.0 |  50.0 |
| Words an instruction            |   1.0 |   1.0 |
"""

COMPARISON = """\
| iterations | Runs |                       Final pass rate |                        Gain over theta_0 | Failed |
| ---------- | ---: | ------------------------------------: | ---------------------------------------: | -----: |
| 2          |    1 | 0.450 [0.350, 0.550] (97.5% measured) | +0.150 [+0.050, +0.250] (98.8% measured) |      1 |
| 3          |    0 |                                     - |                                        - |      1 |
| 10         |    2 | 0.450 [0.000, 1.000] (97.5% measured) | +0.150 [-0.485, +0.785] (98.8% measured) |      0 |

Failed:

- 2: out of memory
- 3: it has not ended
"""


def test_report(record: Record, tmp_path: Path) -> None:
    write_summary(tmp_path, record)
    path = write(tmp_path)
    assert path == tmp_path / "report.md" and path.read_text() == REPORT


def test_only_times_differ_between_runs_that_did_the_same(record: Record, tmp_path: Path) -> None:
    write_summary(tmp_path, replace(record, wall_s=9.0))
    assert show(tmp_path, times=False) == REPORT
    shown = show(tmp_path)
    assert shown.startswith(REPORT) and "## Seconds" in shown and "Wall time: 9 s" in shown


def test_show_needs_a_summary(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="name the folder of a run"):
        show(tmp_path)


def test_a_summary_without_diversity_is_shown(record: Record, tmp_path: Path) -> None:
    content = write_summary(tmp_path, record)
    for row in content["iterations"]:
        del row["diversity"]
    (tmp_path / "summary.json").write_text(json.dumps(content))
    assert show(tmp_path, times=False) == REPORT[: REPORT.index("\n## Diversity")]


def test_traces_are_shown_where_they_were_audited(record: Record, tmp_path: Path) -> None:
    content = write_summary(tmp_path, record)
    found = {"trained": 0.987, "context_mismatch_tokens": 1234, "prefix_reuse": 0.5, "sequences": 2.5}
    content["iterations"][0]["traces"]["admission"] = found
    (tmp_path / "summary.json").write_text(json.dumps(content))
    assert (
        show(tmp_path, times=False)
        == REPORT
        + """
## Traces of the trials at admission

|                                       |   k=1 | k=2 |
| ------------------------------------- | ----: | --: |
| Sampled tokens trained in context (%) |  98.7 |   - |
| Tokens trained out of context         | 1,234 |   - |
| Prompt tokens read before (%)         |  50.0 |   - |
| Sequences an episode                  |  2.50 |   - |
"""
    )


def cell(folder: Path, overrides: list[str], record: Record, final: float) -> None:
    """A cell of a sweep whose agent ended at `final`."""
    (folder / ".hydra").mkdir(parents=True)
    (folder / ".hydra" / "overrides.yaml").write_text("".join(f"- {o}\n" for o in overrides) or "[]\n")
    (folder / "status.json").write_text(json.dumps({"status": "finished"}))
    last = {**record.probe[2], "pass_rate": final, "difference": final - 0.3}
    write_summary(folder, replace(record, probe={**record.probe, 2: last}))


def test_compare_with_a_failed_cell(record: Record, tmp_path: Path) -> None:
    cell(tmp_path / "0", ["+experiment=debug", "iterations=10", "seed=1"], record, 0.40)
    cell(tmp_path / "1", ["+experiment=debug", "iterations=10", "seed=2"], record, 0.50)
    cell(tmp_path / "10", ["+experiment=debug", "iterations=2", "seed=1"], record, 0.45)
    cell(tmp_path / "2", ["+experiment=debug", "iterations=2", "seed=2"], record, 0.99)
    (tmp_path / "2" / "status.json").write_text(json.dumps({"status": "failed", "reason": "out of memory"}))
    killed = tmp_path / "3" / ".hydra"
    killed.mkdir(parents=True)
    (killed / "overrides.yaml").write_text("- +experiment=debug\n- iterations=3\n- seed=1\n")
    # Two seeds: mean 0.45, s = 0.0707, t(1) = 12.706: wider than what there is.
    assert compare(tmp_path) == COMPARISON


def test_compare_one_run(record: Record, tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    write_summary(tmp_path / "a", record)
    shown = compare(tmp_path)
    assert "0.450 [0.350, 0.550]" in shown and "Failed:" not in shown


def test_compare_needs_runs(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="holds no runs"):
        compare(tmp_path)
