"""Agents that say what they are told, in a real box; and the table of what the tests of the matrix saw."""

from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any, ClassVar, TypeAlias

import pytest

from clawloop.sandbox.bubblewrap import Bubblewrap
from clawloop.types import Assignment, Completion, Contract, Message, Request, Snapshot, Trajectory, Workspace

Played: TypeAlias = tuple[Trajectory, tuple[Message, ...], Snapshot]


class Told:
    version = "told"

    def __init__(self, *replies: str) -> None:
        self.replies = list(replies)
        self.messages: tuple[Message, ...] = ()

    def complete(self, request: Request) -> Completion:
        self.messages = request.messages
        text = self.replies.pop(0)
        return Completion(text, (), tuple(text.encode()), (0.0,) * len(text.encode()), "stop")


@pytest.fixture
def play() -> Callable[..., Played]:
    """Plays replies in a harness: the trajectory, the last conversation, and what is left of the workspace."""

    def run(harness: Any, *replies: str, prepare: str = "true", **files: bytes) -> Played:
        workspace = Workspace({"a.txt": b"one\ntwo\nthree\n", **files})
        agent = Told(*replies)
        with Bubblewrap().open(workspace) as box:
            assert box.run(["/bin/bash", "-c", prepare]).exit_code == 0
            trajectory = harness.run(Assignment("t1", "Work.", workspace, Contract((), ())), agent, box, 0)
            return trajectory, agent.messages, box.snapshot()

    return run


class Matrix:
    """docs/matrix.md: a row for each harness, protocol and sandbox, with what was seen when it was last tried.

    `rows` goes from (harness, protocol, sandbox) to the rest of a row by column; `seen` is what this session adds.
    """

    path = Path(__file__).parents[2] / "docs" / "matrix.md"
    head = Path(__file__).parent / "matrix_head.md"
    keys = ("harness", "protocol", "sandbox")
    columns = ("solves", "never stops", "breaks", "stalls", "malformed", "version", "tried")
    tests: ClassVar = {
        "test_a_task_is_solved_and_every_call_recorded": "solves",
        "test_a_protocol_that_a_program_does_not_speak_is_refused_by_it": "solves",
        "test_a_policy_that_never_stops_is_out_of_turns": "never stops",
        "test_a_policy_that_breaks_gives_no_reward": "breaks",
        "test_a_policy_that_stalls_is_out_of_time": "stalls",
        "test_malformed_calls_earn_nothing": "malformed",
    }

    def __init__(self) -> None:
        self.seen: list[tuple[tuple[str, ...], str, str, str]] = []

    @property
    def rows(self) -> dict[tuple[str, ...], dict[str, str]]:
        lines = self.path.read_text().splitlines() if self.path.exists() else []
        found = [[cell.strip() for cell in line.split("|")[1:-1]] for line in lines if line.startswith("| ")][2:]
        return {tuple(row[:3]): dict(zip(self.columns, row[3:], strict=True)) for row in found}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        said = dict(report.user_properties)
        if "cell" in said and report.when == "call":
            *cell, test, version = said["cell"]
            seen = getattr(report, "wasxfail", said.get("refused", "passed")) if not report.failed else "failed"
            self.seen.append((tuple(cell), self.tests[test], seen, version))

    def pytest_sessionfinish(self) -> None:
        rows = self.rows
        for cell, column, seen, version in self.seen:
            old = rows.get(cell, {})
            kept = old if old.get("version") == version else dict.fromkeys(self.columns, "")
            rows[cell] = kept | {column: seen, "version": version, "tried": str(date.today())}
        names = (*self.keys, *self.columns)
        lines = [names, ["---"] * len(names), *([*cell, *row.values()] for cell, row in sorted(rows.items()))]
        self.path.write_text(self.head.read_text() + "".join(f"| {' | '.join(line)} |\n" for line in lines))


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--write-matrix", action="store_true", help="write what is seen into docs/matrix.md")


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("write_matrix", False) and not hasattr(config, "workerinput"):
        config.pluginmanager.register(Matrix())


@pytest.fixture
def matrix() -> Matrix:
    return Matrix()
