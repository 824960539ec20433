"""store: everything goes in and comes out as it was, nothing is changed, and another config is refused."""

import json
import shutil
import sqlite3
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from clawloop.protocols import InfrastructureError
from clawloop.store.layout import Layout
from clawloop.store.ledger import Ledger, LedgerError, decode, encode
from clawloop.store.recorded import Phases
from clawloop.types import (
    Attempt,
    Audit,
    Candidate,
    Card,
    Contract,
    Decision,
    Deliverable,
    DiagnosisReport,
    FailureSummary,
    FieldResult,
    Finding,
    Generator,
    Hops,
    Message,
    Outcome,
    Pattern,
    Proficiency,
    Rollout,
    RolloutGroup,
    RootCause,
    Screening,
    Stop,
    Task,
    TaskPool,
    TokenTrace,
    Trajectory,
    Turn,
    Verdict,
    Verifier,
    Workspace,
)

CARD = Card("capability", "audit/analysis", "analysis", "hives", 1, "json", 7, "l7", ("multi_hop",))
TASK = Task(
    "k1-0000",
    "Count \u00fc.",
    Workspace({"a.bin": bytes(range(256)), "b.txt": b""}, {"X": "1"}),
    Verifier("print()", "{}", 3.0),
    Contract((Decision("filter", "open"),), (Deliverable("o.json", "json", {"n": "integer"}, 0.5),)),
    CARD,
)
ATTEMPTS = (Attempt((Message("user", "Write."), Message("assistant", "", (1, 2))), "a\u2028b", "reply", "No block."),)
HOPS = Hops("i.csv", {"h1": "a.csv"}, ("r.csv",))
CANDIDATE = Candidate(
    "k1-0000", CARD, Generator("x", 7), TASK, ("wc",), "{}", (Finding("oracle", True),), ATTEMPTS, hops=HOPS
)  # fmt: skip
TRAJECTORY = Trajectory(
    "k1-0000", "shell", "theta_0", (Turn("a", "b", "c", None, 0.1), Turn("done", None, "", None, 0.2)),
    (TokenTrace((1, 2, 3), (0, 1, 1), (0.0, -0.1234567890123456789, -1e-17)),), Stop.SUBMITTED, 1.5,
)  # fmt: skip
ROLLOUT = Rollout("k1-0000", 3, Outcome.SCORED, 1.0, TRAJECTORY, Verdict(True, (FieldResult("n", True),)))
BROKEN = Rollout("k1-0000", 4, Outcome.INFRASTRUCTURE_FAILED, None, None, None, "The box did not open.")
REPORT = DiagnosisReport(
    1, (FailureSummary("t", "c", 1, "turn 1", RootCause.WRONG_TOOL, "m"),),
    (Pattern("c", RootCause.MISUNDERSTOOD, 2, "m", "e"),), {"c": Proficiency(1, 3, 8)},
)  # fmt: skip


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return Ledger(tmp_path / "ledger.sqlite")


@pytest.mark.parametrize(
    "noun", [TASK, CANDIDATE, ROLLOUT, BROKEN, REPORT, TaskPool((RolloutGroup(TASK, (ROLLOUT, BROKEN)),))]
)
def test_nouns_come_back_as_they_were(noun: object) -> None:
    assert decode(encode(noun), type(noun)) == noun


def test_trials_are_found_by_phase_task_and_index(ledger: Ledger, tmp_path: Path) -> None:
    ledger.add("k1/admission", ROLLOUT)
    ledger.add("k1/admission", BROKEN)
    again = Ledger(tmp_path / "ledger.sqlite")
    assert again.find("k1/admission", "k1-0000", 3) == ROLLOUT
    assert again.find("k1/held_out", "k1-0000", 3) is None
    assert again.rollouts("k1/admission") == (ROLLOUT, BROKEN)


def branches(count: int, prefix: int) -> Rollout:
    """An episode whose sequences each begin with more of the first."""
    first = tuple(range(1000, 1000 + prefix))
    traces = [TokenTrace((*first, 7, 8), (0,) * prefix + (1, 1), (0.0,) * prefix + (-0.5, -1e-17))]
    for n in range(1, count):
        shared = prefix - n
        ids, mask = (*first[:shared], 5, 9), (0,) * (shared + 1) + (1,)
        traces.append(TokenTrace(ids, mask, (0.0,) * (shared + 1) + (-0.1 * n,) if n % 2 else None, (n - 1, shared)))
    return replace(ROLLOUT, trajectory=replace(TRAJECTORY, traces=tuple(traces), audit=Audit(9, 8, 1, 70, 30)))


def test_sequences_that_begin_alike_come_back_whole_and_take_their_room_once(ledger: Ledger, tmp_path: Path) -> None:
    rollout = branches(40, 2_000)
    ledger.add("k1/admission", rollout)
    assert ledger.find("k1/admission", "k1-0000", 3) == rollout
    assert ledger.rollouts("k1/admission") == (rollout,)
    (size,) = sqlite3.connect(tmp_path / "ledger.sqlite").execute("SELECT length(value) FROM rollout").fetchone()
    assert size < 1.2 * len(encode(branches(1, 2_000))) < len(encode(rollout)) / 25


def test_a_ledger_of_schema_1_is_read_and_not_written(ledger: Ledger, tmp_path: Path) -> None:
    new = sqlite3.connect(tmp_path / "ledger.sqlite")
    old = sqlite3.connect(tmp_path / "old.sqlite")
    old.executescript(
        ";".join(sql for (sql,) in new.execute("SELECT sql FROM sqlite_master WHERE sql LIKE '%TABLE %'"))
    )
    old.execute("INSERT INTO meta VALUES (1)")
    for rollout in (ROLLOUT, BROKEN):
        plain: Any = json.loads(encode(rollout))
        if played := plain["trajectory"]:
            (played["trace"],) = played.pop("traces")
            del played["audit"], played["trace"]["shares"]
        row = ("k1/admission", rollout.task_id, rollout.index, "scored", rollout.reward, json.dumps(plain).encode())
        old.execute("INSERT INTO rollout VALUES (?,?,?,?,?,?)", row)
    old.commit()
    ledger = Ledger(tmp_path / "old.sqlite")
    assert ledger.rollouts("k1/admission") == (ROLLOUT, BROKEN)
    with pytest.raises(LedgerError, match=r"resume: .*old\.sqlite has schema 1, which is only read; start anew\."):
        ledger.open_run({"seed": 1})


def test_nothing_is_changed_or_taken_away(ledger: Ledger, tmp_path: Path) -> None:
    ledger.add("a/b", ROLLOUT)
    ledger.add_candidates(1, (CANDIDATE,))
    ledger.log("sft", 1, {"loss": 2.0})
    db = sqlite3.connect(tmp_path / "ledger.sqlite", isolation_level=None)
    for statement in (
        "UPDATE rollout SET reward=0",
        "DELETE FROM rollout",
        "DELETE FROM candidate",
        "UPDATE metric SET value=1",
    ):
        with pytest.raises(sqlite3.IntegrityError, match="append-only"):
            db.execute(statement)
    with pytest.raises(sqlite3.IntegrityError):
        ledger.add("a/b", ROLLOUT)


def test_a_foreign_file_and_a_foreign_schema_are_refused_in_words(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("no database, but text that is long enough to be read as one" * 20)
    with pytest.raises(LedgerError, match="is not a ledger"):
        Ledger(tmp_path / "a")
    db = sqlite3.connect(tmp_path / "b")
    db.executescript("CREATE TABLE meta (schema INTEGER); INSERT INTO meta VALUES (99);")
    db.close()
    with pytest.raises(LedgerError, match="schema 99"):
        Ledger(tmp_path / "b")


def test_another_config_is_refused_and_the_key_is_named(ledger: Ledger) -> None:
    config = {"seed": 1, "band": {"low": 1, "high": 5}, "workers": 4, "resume": None}
    first = ledger.open_run(config)
    assert ledger.open_run({**config, "workers": 8, "resume": "x"}) == first
    with pytest.raises(LedgerError, match=r"resume: band\.high was 5 when this run began and is 6 now"):
        ledger.open_run({**config, "band": {"low": 1, "high": 6}})


def test_many_threads_may_write(ledger: Ledger) -> None:
    def write(thread: int) -> None:
        for i in range(20):
            ledger.add(f"t{thread}", Rollout("x", i, Outcome.SCORED, 0.0, None, None))
            ledger.log("axis", thread * 100 + i, {"a": 1.0, "b": float("nan")})

    threads = [threading.Thread(target=write, args=(n,)) for n in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(len(ledger.rollouts(f"t{n}")) for n in range(16)) == 320
    assert len(ledger.metrics("axis")) == 320
    assert ledger.reached("axis") == 1519


class Counted:
    """Phases that count their calls."""

    def __init__(self) -> None:
        self.calls: list[str] = []

    def synthesize(self, policy: object, report: object, k: int) -> tuple[Candidate, ...]:
        self.calls.append("synthesize")
        return (CANDIDATE,)

    def screen(self, candidates: object, k: int) -> Screening:
        self.calls.append("screen")
        return Screening((TASK,), {"k1-0000": (Finding("oracle", True), Finding("leakage", True))})

    def admit(self, groups: tuple[RolloutGroup, ...], k: int) -> TaskPool:
        self.calls.append("admit")
        return TaskPool(groups)

    def split(self, pool: TaskPool, k: int) -> tuple[TaskPool, TaskPool]:
        self.calls.append("split")
        return pool, TaskPool(())

    def diagnose(self, *given: object) -> DiagnosisReport:
        self.calls.append("diagnose")
        return REPORT


def test_a_recorded_phase_is_read_back_and_not_run_again(ledger: Ledger, tmp_path: Path) -> None:
    inner, told = Counted(), []
    groups = (RolloutGroup(TASK, (ROLLOUT,)),)
    results = []
    for _ in range(2):
        do = Phases(inner, (), ledger, Layout(tmp_path), lambda name, k, s, repeated: told.append((name, repeated)))
        candidates = do.synthesize(None, REPORT, 1)  # type: ignore[arg-type]
        pool = do.admit(groups, 1)
        results.append(
            (
                candidates,
                do.screen(candidates, 1),
                pool,
                do.split(pool, 1),
                do.diagnose(None, (), (), DiagnosisReport.empty(), 1),
            )
        )  # type: ignore[arg-type]
    assert results[0] == results[1]
    assert inner.calls == ["synthesize", "admit", "screen", "split", "diagnose"]
    assert [repeated for _, repeated in told] == [False] * 5 + [True] * 5


class Number:
    """A policy whose only weight is a number."""

    version, value = "theta_0", 0

    def renamed(self, version: str) -> "Number":
        return self

    def save(self, folder: Path) -> None:
        folder.mkdir(parents=True)
        (folder / "value").write_text(str(self.value))

    def load(self, folder: Path, version: str) -> "Number":
        self.value = int((folder / "value").read_text())
        return self


class Adds:
    """A stage that adds to it."""

    def __init__(self, name: str, amount: int) -> None:
        self.name, self.amount = name, amount

    def __call__(self, policy: Number, practice: TaskPool, k: int) -> Number:
        policy.value += self.amount
        return policy


def test_weights_that_the_run_goes_on_from_must_be_there_and_older_ones_need_not(
    ledger: Ledger, tmp_path: Path
) -> None:
    def trained(iterations: int) -> int:
        do = Phases(Counted(), (Adds("sft", 1), Adds("grpo", 10)), ledger, Layout(tmp_path), lambda *told: None)  # type: ignore[arg-type]
        policy = Number()
        for k in range(1, iterations + 1):
            for stage in do.train:
                policy = stage(policy, TaskPool(()), k)  # type: ignore[arg-type,assignment]
        return policy.value

    assert trained(2) == 22
    shutil.rmtree(Layout(tmp_path).checkpoint("theta_1"))
    assert trained(2) == 22
    shutil.rmtree(Layout(tmp_path).checkpoint("theta_2"))
    with pytest.raises(InfrastructureError, match=r"theta_2 is gone.*put it back, or start a new run"):
        trained(3)
