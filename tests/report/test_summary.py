"""summary.json of a small run."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from clawloop.report.summary import Record, iteration_row, loggable, summarise, write
from clawloop.types import Attempt, Audit, RolloutGroup


def test_rows_of_table_6(record: Record) -> None:
    row = iteration_row(record.iterations[0])
    assert {name: row[name] for name in ("k", "candidates", "passed_agent_free", "passed_agent_based")} == {
        "k": 1,
        "candidates": 5,
        "passed_agent_free": 3,
        "passed_agent_based": 2,
    }
    assert row["admission_rate"] == pytest.approx(40.0), "in percent of the candidates"
    # Only the two successes on T_1: neither those on E_1 nor those outside of the band.
    assert (row["sft_trajectories"], row["mean_turns"], row["mean_tokens"]) == (2, 2.0, 100.0)
    assert (row["practice"], row["held_out"]) == (1, 1)


def test_outcomes_and_coverage(record: Record) -> None:
    row = iteration_row(record.iterations[0])
    assert row["outcomes"]["admission"]["scored"] == 11 and row["outcomes"]["held_out"]["scored"] == 1
    assert row["infrastructure_failures"] == 1
    assert row["admission_coverage"] == pytest.approx(11 / 12) and row["held_out_coverage"] == 1.0
    assert row["admission_pass_rate"] == pytest.approx((1 / 2 + 1 / 3 + 1) / 3), "each task weighs one"


def test_trials_that_were_not_needed_are_counted(record: Record) -> None:
    first, second = record.iterations
    assert (iteration_row(first)["admission_rollouts"], iteration_row(first)["admission_saved"]) == (12, 0.0)
    ended = replace(first.admission[2], rollouts=first.admission[2].rollouts[:3])
    fewer = replace(first, admission=(*first.admission[:2], ended))
    assert iteration_row(fewer)["admission_saved"] == pytest.approx(1 / 12)
    assert iteration_row(second)["admission_saved"] is None, "no task is admitted, so N is not known"


def test_rejections_keep_their_reasons_and_levels_follow_the_cards(record: Record) -> None:
    row = iteration_row(record.iterations[0])
    assert row["rejections"] == {
        "generator": {"count": 1, "reasons": {"it stopped": 1}},
        "oracle": {"count": 1, "reasons": {"total: wrong_value": 1}},
    }
    assert row["levels"] == {"merge": 0} and iteration_row(record.iterations[1])["levels"] == {"merge": 1}


def test_what_the_model_wrote_is_counted_by_fault_and_by_end(record: Record) -> None:
    first = record.iterations[0]
    assert iteration_row(first)["author"] == {}, "the project shipped all of it"
    turns = {
        "a": ("",),
        "b": ("crash", "reply", ""),
        "c": ("crash", ""),
        "d": ("",),  # refused by the oracle check
        "e": ("reply", "timeout"),
    }
    written = tuple(replace(c, attempts=tuple(Attempt((), "r", f) for f in turns[c.id])) for c in first.candidates)
    row = iteration_row(replace(first, candidates=written))
    assert row["author"] == {
        "attempts": 9,
        "repairs": 4,
        "accepted": 3,
        "repaired": 2,
        "rejected": 2,
        "fault/crash": 2,
        "fault/reply": 2,
        "fault/timeout": 1,
        "rejected/oracle": 1,
        "rejected/timeout": 1,
    }
    assert loggable(row)["author/rejected/timeout"] == 1.0


def test_traces_are_counted_by_phase_where_they_were_audited(record: Record) -> None:
    first = record.iterations[0]
    assert iteration_row(first)["traces"] == {"admission": {}, "held_out": {}}

    def audited(group: RolloutGroup) -> RolloutGroup:
        trials = []
        for trial in group.rollouts:
            played = trial.trajectory and replace(trial.trajectory, audit=Audit(10, 10, 1, 30, 15))
            trials.append(replace(trial, trajectory=played))
        return replace(group, rollouts=tuple(trials))

    row = iteration_row(replace(first, admission=tuple(map(audited, first.admission))))
    found = {"trained": 0.9, "context_mismatch_tokens": 11, "prefix_reuse": 0.5, "sequences": 1.0}
    assert row["traces"] == {"admission": found, "held_out": {}}
    assert loggable(row)["traces/admission/trained"] == 0.9


def test_a_generator_that_failed_is_counted_even_if_screening_did_not_see_it(record: Record) -> None:
    first = record.iterations[0]
    unseen = {key: found for key, found in first.screening.findings.items() if key != "e"}
    row = iteration_row(replace(first, screening=replace(first.screening, findings=unseen)))
    assert row["rejections"]["generator"]["reasons"] == {"it printed no JSON": 1}


def test_an_iteration_that_admitted_nothing(record: Record) -> None:
    row = iteration_row(record.iterations[1])
    assert (row["admission_rate"], row["sft_trajectories"], row["mean_turns"]) == (0.0, 0, None)
    assert row["held_out_pass_rate"] is None


def test_loggable_is_flat_numbers(record: Record) -> None:
    values = loggable(iteration_row(record.iterations[0]))
    assert values["rejections/oracle"] == 1.0
    assert values["seconds/roll_out"] == 2.5
    assert values["levels/merge"] == 0.0
    assert values["outcomes/admission/infrastructure_failed"] == 1.0
    assert all(isinstance(value, float) for value in values.values())
    assert "k" not in values and "mean_turns" not in loggable(iteration_row(record.iterations[1]))


def test_probe_and_difference(record: Record) -> None:
    summary = summarise(record)
    assert [(row["theta"], row["pass_rate"]) for row in summary["probe"]] == [(0, 0.3), (1, None), (2, 0.45)]
    assert summary["probe"][2]["parts"] == {"level_0/coverage": 1.0, "level_0/pass_rate": 0.6}
    assert summary["difference"] == {"mean": 0.15, "low": 0.05, "high": 0.25, "coverage": 0.9875}


def test_no_probe_and_no_iterations(record: Record) -> None:
    summary = summarise(replace(record, iterations=(), probe={}))
    assert (summary["probe"], summary["difference"], summary["iterations"]) == ([], None, [])


def test_write(record: Record, tmp_path: Path) -> None:
    content = write(tmp_path, record)
    assert json.loads((tmp_path / "summary.json").read_text()) == content
    assert (content["config_hash"], content["version"], content["seed"]) == ("c0ffee", "0.1.0", 3)
