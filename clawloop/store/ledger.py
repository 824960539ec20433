"""The ledger: one SQLite file a run, to which everything is added as it happens and in which nothing is changed."""

import hashlib
import json
import platform
import sqlite3
import subprocess
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from clawloop import __version__
from clawloop.store.folded import fold, unfold, unfold_first
from clawloop.types import Candidate, Finding, Rollout

SCHEMA = 2
_READ = {1: unfold_first, SCHEMA: unfold}
T = TypeVar("T")

_TABLES = """
CREATE TABLE meta (schema INTEGER NOT NULL);
CREATE TABLE run (started REAL NOT NULL, config TEXT NOT NULL, config_hash TEXT NOT NULL, seed INTEGER NOT NULL,
                  version TEXT NOT NULL, git TEXT NOT NULL, python TEXT NOT NULL);
CREATE TABLE phase (name TEXT NOT NULL, k INTEGER NOT NULL, value BLOB NOT NULL, seconds REAL NOT NULL,
                    PRIMARY KEY (name, k));
CREATE TABLE candidate (k INTEGER NOT NULL, position INTEGER NOT NULL, id TEXT PRIMARY KEY, value BLOB NOT NULL);
CREATE TABLE finding (candidate TEXT NOT NULL, position INTEGER NOT NULL, "check" TEXT NOT NULL,
                      passed INTEGER NOT NULL, reason TEXT NOT NULL, PRIMARY KEY (candidate, position));
CREATE TABLE rollout (at TEXT NOT NULL, task_id TEXT NOT NULL, "index" INTEGER NOT NULL, outcome TEXT NOT NULL,
                      reward REAL, value BLOB NOT NULL, PRIMARY KEY (at, task_id, "index"));
CREATE TABLE metric (time REAL NOT NULL, axis TEXT NOT NULL, step INTEGER NOT NULL, name TEXT NOT NULL, value REAL);
CREATE TABLE event (time REAL NOT NULL, name TEXT NOT NULL, detail TEXT NOT NULL);
"""
_ASIDE = ("resume", "name", "workers", "tracker", "setup", "trained_floor")
"""What may differ when a run is resumed: it changes no result."""
_NAMES = ("meta", "run", "phase", "candidate", "finding", "rollout", "metric", "event")


class LedgerError(ValueError):
    """A ledger cannot be used; the message says why and what to do."""


class Ledger:
    """Everything that a run did. It may be used from many threads; a kill loses at most what was being written.

    It is a journal of trials (`protocols.Journal`), a shelf of candidates (`protocols.Shelf`), and a sink of numbers
    and events (`protocols.Tracker`).

    Args:
        path: the file; it is made where there is none.

    Raises:
        LedgerError: the file is no ledger, or one of another schema.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = threading.RLock()
        self._db = sqlite3.connect(path, check_same_thread=False, isolation_level=None)
        try:
            self._db.execute("PRAGMA journal_mode=WAL")
            self._db.execute("PRAGMA synchronous=NORMAL")
            known = {name for (name,) in self._db.execute("SELECT name FROM sqlite_master WHERE type='table'")}
        except sqlite3.DatabaseError as error:
            raise LedgerError(f"{path} is not a ledger ({error}); name the folder of a run.") from error
        if not known:
            self._create()
        found = self._one("SELECT schema FROM meta") if not known or "meta" in known else None
        self._schema = found[0] if found else None
        if self._schema not in _READ:
            raise LedgerError(
                f"{path} has schema {self._schema} and this version reads {SCHEMA}; use the clawloop that wrote it."
            )
        self._unfold = _READ[self._schema]

    def _create(self) -> None:
        guards = "".join(
            f"CREATE TRIGGER {table}_{verb.lower()} BEFORE {verb} ON {table} "
            f"BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END;"
            for table in _NAMES
            for verb in ("UPDATE", "DELETE")
        )
        self._db.executescript(f"BEGIN;{_TABLES}INSERT INTO meta VALUES ({SCHEMA});{guards}COMMIT;")

    def open_run(self, config: Mapping[str, Any]) -> str:
        """Note a start or a resume, and return the config's hash.

        Raises:
            LedgerError: the run was started with another config; the first key that differs is named. Or by a version
                whose ledgers are only read.
        """
        if self._schema != SCHEMA:
            raise LedgerError(f"resume: {self.path} has schema {self._schema}, which is only read; start anew.")
        mine = {key: value for key, value in config.items() if key not in _ASIDE}
        text = json.dumps(mine, sort_keys=True)
        first = self._one("SELECT config FROM run ORDER BY rowid LIMIT 1")
        if first is not None and (difference := _difference(json.loads(first[0]), json.loads(text))):
            key, then, now = difference
            raise LedgerError(
                f"resume: {key} was {then!r} when this run began and is {now!r} now; give the old value or start anew."
            )
        digest = hashlib.sha256(text.encode()).hexdigest()
        row = (time.time(), text, digest, int(config.get("seed", 0)), __version__, _git(), platform.python_version())
        self._write("INSERT INTO run VALUES (?,?,?,?,?,?,?)", row)
        return digest

    def find(self, at: str, task_id: str, index: int) -> Rollout | None:
        """The finished trial, or None."""
        row = self._one('SELECT value FROM rollout WHERE at=? AND task_id=? AND "index"=?', at, task_id, index)
        return None if row is None else self._unfold(row[0])

    def add(self, at: str, rollout: Rollout) -> None:
        """Keep a finished trial."""
        row = (at, rollout.task_id, rollout.index, rollout.outcome.value, rollout.reward, fold(rollout))
        self._write("INSERT INTO rollout VALUES (?,?,?,?,?,?)", row)

    def rollouts(self, at: str) -> tuple[Rollout, ...]:
        """The finished trials of a phase, such as k1/admission."""
        rows = self._all('SELECT value FROM rollout WHERE at=? ORDER BY task_id, "index"', at)
        return tuple(self._unfold(value) for (value,) in rows)

    def rewards(self, at: str) -> dict[str, tuple[float | None, ...]]:
        """The rewards of a phase's finished trials by task, without reading the trials."""
        found: dict[str, tuple[float | None, ...]] = {}
        for id, reward in self._all('SELECT task_id, reward FROM rollout WHERE at=? ORDER BY task_id, "index"', at):
            found[id] = (*found.get(id, ()), reward)
        return found

    def add_candidates(self, k: int, candidates: tuple[Candidate, ...]) -> None:
        """Keep P_k^raw."""
        rows = [(k, i, c.id, encode(c)) for i, c in enumerate(candidates)]
        self._write_all("INSERT OR IGNORE INTO candidate VALUES (?,?,?,?)", rows)

    def add_candidate(self, k: int, position: int, candidate: Candidate) -> None:
        """Keep one candidate of P_k^raw as soon as it is there."""
        row = (k, position, candidate.id, encode(candidate))
        self._write("INSERT OR IGNORE INTO candidate VALUES (?,?,?,?)", row)

    def candidate(self, id: str) -> Candidate | None:
        """The candidate, or None."""
        row = self._one("SELECT value FROM candidate WHERE id=?", id)
        return None if row is None else decode(row[0], Candidate)

    def iterations(self) -> tuple[int, ...]:
        """Every k that has candidates; 0 are those of the probe."""
        return tuple(k for (k,) in self._all("SELECT DISTINCT k FROM candidate ORDER BY k"))

    def candidates(self, k: int) -> tuple[Candidate, ...]:
        """P_k^raw, in order."""
        rows = self._all("SELECT value FROM candidate WHERE k=? ORDER BY position", k)
        return tuple(decode(value, Candidate) for (value,) in rows)

    def add_findings(self, findings: Mapping[str, tuple[Finding, ...]]) -> None:
        """Keep what each check said of each candidate."""
        rows = [(id, i, f.check, f.passed, f.reason) for id, found in findings.items() for i, f in enumerate(found)]
        self._write_all("INSERT OR IGNORE INTO finding VALUES (?,?,?,?,?)", rows)

    def findings(self, k: int) -> dict[str, tuple[Finding, ...]]:
        """What each check said, by candidate, in the candidates' order."""
        found: dict[str, tuple[Finding, ...]] = {
            id: () for (id,) in self._all("SELECT id FROM candidate WHERE k=? ORDER BY position", k)
        }
        query = (
            'SELECT candidate, "check", passed, reason FROM finding JOIN candidate ON candidate = id WHERE k=? '
            "ORDER BY candidate.position, finding.position"
        )
        for id, check, passed, reason in self._all(query, k):
            found[id] = (*found[id], Finding(check, bool(passed), reason))
        return found

    def sound(self, before: int) -> tuple[Candidate, ...]:
        """The candidates of the iterations before one, those of the probe first, that no check refused, in order."""
        query = (
            "SELECT value FROM candidate WHERE k < ? AND NOT EXISTS "
            "(SELECT 1 FROM finding WHERE candidate = id AND NOT passed) ORDER BY k, position"
        )
        return tuple(decode(value, Candidate) for (value,) in self._all(query, before))

    def end_phase(self, name: str, k: int, value: bytes, seconds: float) -> None:
        """Note that a phase has ended, with its result."""
        self._write("INSERT INTO phase VALUES (?,?,?,?)", (name, k, value, seconds))

    def ended(self, name: str, k: int) -> bytes | None:
        """The result of a phase that has ended, or None."""
        row = self._one("SELECT value FROM phase WHERE name=? AND k=?", name, k)
        return None if row is None else bytes(row[0])

    def seconds(self, k: int) -> dict[str, float]:
        """The wall time of each phase of iteration k that has ended."""
        return dict(self._all("SELECT name, seconds FROM phase WHERE k=? ORDER BY rowid", k))

    def log(self, axis: str, step: int, values: Mapping[str, float]) -> None:
        """Keep numbers."""
        now = time.time()
        self._write_all(
            "INSERT INTO metric VALUES (?,?,?,?,?)", [(now, axis, step, n, float(v)) for n, v in values.items()]
        )

    def metrics(self, axis: str) -> dict[int, dict[str, float]]:
        """By step, the values logged last on an axis."""
        table: dict[int, dict[str, float]] = {}
        for step, name, value in self._all("SELECT step, name, value FROM metric WHERE axis=? ORDER BY rowid", axis):
            table.setdefault(step, {})[name] = float("nan") if value is None else value
        return table

    def reached(self, axis: str) -> int:
        """The highest step of an axis; 0 where nothing was logged."""
        row = self._one("SELECT MAX(step) FROM metric WHERE axis=?", axis)
        return int(row[0]) if row and row[0] is not None else 0

    def event(self, name: str, detail: Mapping[str, object]) -> None:
        """Keep an event."""
        self._write(
            "INSERT INTO event VALUES (?,?,?)", (time.time(), name, json.dumps(detail, sort_keys=True, default=str))
        )

    def events(self) -> tuple[tuple[str, dict[str, Any]], ...]:
        """All events, in order."""
        return tuple(
            (name, json.loads(detail)) for name, detail in self._all("SELECT name, detail FROM event ORDER BY rowid")
        )

    def progress(self, phase: str, done: int, total: int) -> None:
        """Progress is for people; nothing is kept."""

    def close(self, exit_code: int = 0) -> None:
        """Close the file; the ledger cannot be used after."""
        with self._lock:
            self._db.close()

    def _one(self, query: str, *values: object) -> tuple[Any, ...] | None:
        with self._lock:
            row: tuple[Any, ...] | None = self._db.execute(query, values).fetchone()
            return row

    def _all(self, query: str, *values: object) -> list[tuple[Any, ...]]:
        with self._lock:
            return self._db.execute(query, values).fetchall()

    def _write(self, query: str, row: tuple[object, ...]) -> None:
        with self._lock:
            self._db.execute(query, row)

    def _write_all(self, query: str, rows: list[tuple[Any, ...]]) -> None:
        with self._lock:
            self._db.execute("BEGIN")
            self._db.executemany(query, rows)
            self._db.execute("COMMIT")


def encode(noun: object) -> bytes:
    """A noun of `types` as JSON; bytes become base64, and floats come back as they were."""
    return msgspec.json.encode(noun)


def decode(data: bytes, kind: type[T]) -> T:
    """The noun again."""
    return msgspec.json.decode(data, type=kind)


def _difference(then: Any, now: Any, at: str = "") -> tuple[str, Any, Any] | None:
    """The first key, in order, whose values differ."""
    if isinstance(then, dict) and isinstance(now, dict):
        for key in sorted(then.keys() | now.keys()):
            found = _difference(then.get(key), now.get(key), f"{at}.{key}" if at else key)
            if found:
                return found
        return None
    return None if then == now else (at, then, now)


def _git() -> str:
    """The commit of the code, where it is a checkout."""
    command = ["git", "-C", str(Path(__file__).parent), "rev-parse", "HEAD"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=10)
    except (FileNotFoundError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""
