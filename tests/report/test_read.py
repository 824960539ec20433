"""report/read: what a real ledger holds becomes the record."""

from pathlib import Path

from clawloop.report import read
from clawloop.report.summary import Iteration, Record, iteration_row
from clawloop.store.ledger import Ledger, encode
from clawloop.types import TaskPool


def keep(ledger: Ledger, one: Iteration, *, split: bool = True) -> None:
    """Write an iteration as `store.recorded` does."""
    ledger.add_candidates(one.k, one.candidates)
    ledger.end_phase("synthesize", one.k, b"", one.seconds.get("synthesize", 0.0))
    ledger.add_findings(one.screening.findings)
    ledger.end_phase("screen", one.k, encode([task.id for task in one.screening.tasks]), 0.0)
    for at, groups in ((f"k{one.k}/admission", one.admission), (f"k{one.k}/held_out", one.trials)):
        for rollout in (rollout for group in groups for rollout in group.rollouts):
            ledger.add(at, rollout)
    if split:
        ledger.end_phase("split", one.k, encode([list(one.practice), list(one.held_out)]), 0.0)


def comparable(one: Iteration) -> dict[str, object]:
    return {name: value for name, value in iteration_row(one).items() if name != "seconds"}


def test_reads_back_what_was_recorded(record: Record, tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "ledger.sqlite")
    for one in record.iterations:
        keep(ledger, one)
    for k, values in record.probe.items():
        ledger.log("probe", k, values)
    found = read.record(ledger, config_hash="c0ffee", version="0.1.0", seed=3, wall_s=123.4)
    assert [comparable(one) for one in found.iterations] == [comparable(one) for one in record.iterations]
    assert found.probe == record.probe
    assert comparable(found.iterations[0])["passed_agent_free"]


def test_an_iteration_without_a_split_has_not_ended(record: Record, tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "ledger.sqlite")
    first, second = record.iterations
    keep(ledger, first)
    keep(ledger, second, split=False)
    found = read.record(ledger, config_hash="", version="", seed=0, wall_s=0.0)
    assert [one.k for one in found.iterations] == [1]


def test_trials_are_put_in_order(record: Record) -> None:
    group = record.iterations[0].admission[0]
    (found,) = read.groups([group.task], tuple(reversed(group.rollouts)))
    assert TaskPool((found,)) == TaskPool((group,))
