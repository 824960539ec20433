"""A public MCP server as a domain: its tools are driven for real, and its tasks pass the screen."""

import json
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from clawloop.build.part import parts
from clawloop.config.composed import composed
from clawloop.policy.scripted import ScriptedPolicy
from clawloop.rollout.grade import SandboxGrader
from clawloop.sandbox.bubblewrap import Bubblewrap
from clawloop.synthesis.author.library.library import Library
from clawloop.synthesis.difficulty.none import NoGrowth
from clawloop.synthesis.generator import GeneratorError, candidate, run
from clawloop.synthesis.routine.domain import DomainGrounded
from clawloop.synthesis.skills.cluster import cluster
from clawloop.synthesis.skills.domain import load, place, shipped
from clawloop.synthesis.skills.observe import observe
from clawloop.synthesis.synthesize import Synthesize
from clawloop.types import Candidate, Card, DiagnosisReport, Verdict
from clawloop.validation.screen import Screen
from clawloop.validation.solution import play

POLICY: Any = ScriptedPolicy()
EMPTY = DiagnosisReport.empty()
NAMED = {"names": ["operations"], "folders": ["operations"]}


@pytest.fixture(scope="module")
def boxes(operations: str) -> Bubblewrap:
    return Bubblewrap(mounts={"/opt/operations": operations})


def made(boxes: Bubblewrap, skill: str, level: int, seed: int) -> Candidate:
    card = Card("domain", f"operations/{skill}", "terminal", "operations", level, "state", seed, f"{skill}/{seed}")
    generator = Library(["operations"]).write(card, POLICY, EMPTY).generator
    return candidate("k1-0000", card, generator, run(generator, boxes))


def graded(boxes: Bubblewrap, given: Candidate, *commands: str) -> Verdict:
    assert given.task is not None
    left, *_ = play(commands, given.task.workspace, boxes, command_s=60)
    return SandboxGrader(boxes)(given.task, left)


def test_a_server_is_known_by_what_was_observed_and_is_not_drawn_by_itself() -> None:
    domain = load(place("operations"))
    assert {skill.name for skill in cluster(domain.tools)} == {"contacts", "deals", "tasks"}
    assert set(DomainGrounded(**NAMED).capabilities) == {
        f"operations/{name}" for name in ("contacts", "deals", "tasks")
    }
    order, find = domain.tools["create_order"], domain.tools["tasks_for"]
    assert (dict(order.params), order.writes) == (
        {"contact_id": "str", "sku": "str", "qty": "int"},
        ("inventory", "orders"),
    )
    assert order.reads == ("contacts", "inventory") and "unknown SKU ..." in order.refusals
    assert (find.rows, find.writes, find.reads) == ("result", (), ("contacts", "tasks")) and "task_id" in find.gives
    assert domain.server["volatile"]["tasks"] == ["completed_at", "created_at", "task_id"]
    assert domain.server["rereads"]
    assert "operations" not in shipped() and not any("operations" in name for name in DomainGrounded().capabilities)


@pytest.mark.mcp
@pytest.mark.timeout(900)
def test_observing_the_server_again_finds_what_is_kept(boxes: Bubblewrap, tmp_path: Path) -> None:
    kept, folder = Path(place("operations")), tmp_path / "operations"
    folder.mkdir()
    for name in ("server.yaml", "words.yaml", "world.py"):
        (folder / name).write_bytes((kept / name).read_bytes())
    observe(folder, boxes)
    assert json.loads((folder / "observed.json").read_text()) == json.loads((kept / "observed.json").read_text())


@pytest.mark.mcp
@pytest.mark.timeout(900)
@pytest.mark.parametrize("level", range(5))
def test_twenty_five_of_its_tasks_pass_the_default_checks(boxes: Bubblewrap, level: int) -> None:
    """Five at each level."""
    screen = Screen(parts(composed()["check"], sandboxes=boxes, grader=SandboxGrader(boxes)))
    routine, library = DomainGrounded(**NAMED), Library(["operations"])
    tasks = Synthesize([routine], library, [], NoGrowth(level), boxes, 5, level)(POLICY, EMPTY, 1)
    assert [task.findings for task in tasks] == [()] * 5
    screening = screen(tasks, 1)
    wrong = [found for one in screening.findings.values() for found in one if not found.passed]
    assert not wrong, wrong
    assert [task.card.level for task in screening.tasks] == [level] * 5
    assert all(len(task.oracle) >= (1, 2, 2, 3, 3)[level] for task in tasks)


@pytest.mark.mcp
def test_the_verifier_takes_right_solutions_only(boxes: Bubblewrap) -> None:
    task = made(boxes, "tasks", 2, 5)
    assert graded(boxes, task, *task.oracle).passed
    assert not graded(boxes, task, *task.oracle[:-1]).passed
    statement = "UPDATE inventory SET qty = qty + 1 WHERE sku = (SELECT max(sku) FROM inventory)"
    program = f"import sqlite3; db = sqlite3.connect('state.db'); db.execute({statement!r}); db.commit()"
    damaged = graded(boxes, task, *task.oracle, f"python3 -c {shlex.quote(program)}")
    assert [field.reason for field in damaged.fields if not field.passed] == ["other_records_changed"]


@pytest.mark.mcp
def test_a_skill_speaks_with_the_server_and_a_refusal_is_its_sentence(boxes: Bubblewrap) -> None:
    task = made(boxes, "contacts", 0, 1).task
    assert task is not None
    with boxes.open(task.workspace) as box:
        tool = ["python3", "skills/deals/run.py", "update_deal_stage", "--deal_id"]
        refused = box.run([*tool, "D-1", "--stage", "won"])
        assert (refused.exit_code, refused.stdout, refused.stderr) == (1, b"", b"deal D-1 not found\n")
        found = box.run(["python3", "skills/contacts/run.py", "low_stock"])
        assert found.exit_code == 0 and {"sku", "qty"} <= set(json.loads(found.stdout)["result"][0])
        document = box.read("skills/deals/SKILL.md", 10000).decode()
    assert "run.py update_deal_stage --deal_id STR --stage STR`" in document and "changes deals" in document
    assert "Refuses: deal ... not found" in document


def test_without_the_server_the_run_does_not_start(command_line: Callable[..., Any], tmp_path: Path) -> None:
    words = ("routine=[domain]", "routine.domain.folders=[operations]", f"hydra.run.dir={tmp_path}")
    code, _, said = command_line("+experiment=main", "scale=debug", *words)
    assert code == 2 and len(said.splitlines()) == 1
    assert "boxes do not see the server of operations; run `pip install --target DIR finamatik-ops-mcp==0.1.1" in said


def test_without_the_server_a_generator_says_so() -> None:
    with pytest.raises(GeneratorError, match="this box has no /opt/operations, where the server belongs"):
        made(Bubblewrap(), "deals", 0, 1)
