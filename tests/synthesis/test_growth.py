"""Growth operators: they compose, act on both routes and tracks, and what they ask for is in the workspace."""

import csv
import io
import itertools
import json

import pytest

from clawloop.policy.scripted import ScriptedPolicy
from clawloop.rollout.grade import SandboxGrader
from clawloop.sandbox.bubblewrap import Bubblewrap
from clawloop.synthesis.author.library.library import Library
from clawloop.synthesis.generator import candidate, run
from clawloop.synthesis.growth.dirtiness import Dirtiness
from clawloop.synthesis.growth.multi_hop import MultiHop
from clawloop.types import Candidate, Card, DiagnosisReport, Generator, Task, Workspace
from clawloop.validation.check.contract import Declares
from clawloop.validation.check.deterministic import Deterministic
from clawloop.validation.check.growth import Growth
from clawloop.validation.check.leakage import Leakage
from clawloop.validation.check.oracle import Oracle
from clawloop.validation.check.trivial import Trivial
from clawloop.validation.solution import play

BOXES = Bubblewrap()
GRADER = SandboxGrader(BOXES)
HOPS, DIRT, BOTH = ("multi_hop",), ("dirtiness",), ("dirtiness", "multi_hop")
CAPABILITIES = ("audit/analysis", "merge/terminal", "calculation/analysis", "calculation/terminal", "audit/terminal")
SKILLS = ("clinic/visits", "warehouse/stock", "library/loans", "ticketing/tickets", "field_service/sites")
FORMS = ("json", "csv", "files", "report")
GROWTHS = [*itertools.product((3, 4), (HOPS, DIRT, BOTH)), (0, BOTH)]
CELLS = [
    (name, level, growth, FORMS[index % 4], index)
    for index, (name, (level, growth)) in enumerate(itertools.product((*CAPABILITIES, *SKILLS), GROWTHS))
][::3]


def card(name: str, level: int, form: str = "json", seed: int = 1, growth: tuple[str, ...] = ()) -> Card:
    one, other = name.split("/")
    if name in SKILLS:
        return Card("domain", name, "terminal", one, level, "state", seed, f"{name}/{seed}", growth)
    return Card("capability", name, other, "hives", level, form, seed, f"{name}/{seed}", growth)


def written(drawn: Card) -> Generator:
    return Library().write(drawn, ScriptedPolicy(), DiagnosisReport.empty()).generator


def made(drawn: Card) -> Candidate:
    generator = written(drawn)
    return candidate("k1-0000", drawn, generator, run(generator, BOXES))


def task_of(given: Candidate) -> Task:
    assert given.task is not None
    return given.task


def table(given: Candidate, path: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(task_of(given).workspace.files[path].decode())))


@pytest.mark.parametrize("name", ["audit/analysis", "audit/terminal", "clinic/visits"])
def test_operators_act_from_their_level_on_and_in_any_order(name: str) -> None:
    hop, dirt = MultiHop(), Dirtiness()
    for level in range(5):
        drawn = card(name, level)
        grown = dirt.grow(hop.grow(drawn))
        assert grown == hop.grow(dirt.grow(drawn)) == hop.grow(grown)
        assert grown.growth == (BOTH if level >= 3 else ())
        assert written(grown).program == written(hop.grow(dirt.grow(drawn))).program
    assert MultiHop(4).grow(dirt.grow(card(name, 3))).growth == DIRT
    assert Dirtiness(4).grow(hop.grow(card(name, 3))).growth == HOPS


@pytest.mark.parametrize(("name", "level", "growth", "form", "seed"), CELLS)
def test_a_grown_task_passes_every_check(name: str, level: int, growth: tuple[str, ...], form: str, seed: int) -> None:
    given = made(card(name, level, form, seed, growth))
    for check in (Declares(), Oracle(BOXES, GRADER), Growth(BOXES, GRADER), Leakage(), Trivial(GRADER)):
        finding = check(given)
        assert finding.passed, finding
    assert (given.hops is not None) == ("multi_hop" in growth)
    kinds = ("distractors", "missing", "drift") if level > 3 else ("distractors", "missing")
    assert (given.card.noise[: len(kinds)] == kinds) if "dirtiness" in growth else not given.card.noise
    assert set(given.card.noise) <= {decision.name for decision in task_of(given).contract.decisions}


@pytest.mark.parametrize("name", ["merge/terminal", "library/loans"])
def test_grown_generators_do_not_depend_on_the_machine(name: str) -> None:
    finding = Deterministic(BOXES)(made(card(name, 4, growth=BOTH)))
    assert finding.passed, finding


def test_what_did_not_grow_has_no_program_for_it() -> None:
    for name in ("audit/analysis", "clinic/visits"):
        assert "def grown(" not in written(card(name, 4)).program
        assert "def grown(" in written(card(name, 4, growth=HOPS)).program


@pytest.mark.parametrize("form", FORMS)
def test_a_grown_task_delivers_in_the_form_of_its_card(form: str) -> None:
    items = task_of(made(card("audit/analysis", 3, form, growth=BOTH))).contract.deliverables
    wanted = {"json": ["json"], "csv": ["csv"], "files": ["csv", "text"], "report": ["text", "json"]}
    assert [item.form for item in items] == wanted[form]


def test_dirt_is_in_the_records_and_every_reading_of_it_counts() -> None:
    given = made(card("audit/analysis", 4, seed=11, growth=BOTH))
    files, hops = task_of(given).workspace.files, given.hops
    assert hops is not None and given.card.noise == ("distractors", "missing", "drift", "units")
    rows = [row for path in hops.details.values() for row in table(given, path)]
    assert "" in {row.get("amount", row.get("qty")) for row in rows}
    assert len({tuple(row) for row in rows}) == len({row["unit"] for row in rows}) == 2
    assert [path for path in files if path.startswith("details/") and path not in hops.details.values()]
    answer = json.loads(given.answer)
    for kind in given.card.noise:
        assert given.alternatives[kind] and answer not in map(json.loads, given.alternatives[kind])


def test_the_values_of_a_request_stand_in_the_reference_only() -> None:
    plain, given = made(card("clinic/visits", 3, seed=3)), made(card("clinic/visits", 3, seed=3, growth=HOPS))
    assert given.hops is not None
    known = {row["value"] for row in table(given, "codes.csv")}
    assert len(known) > 8 and any(value in task_of(plain).instruction for value in known)
    files = task_of(given).workspace.files
    for text in (
        task_of(given).instruction,
        *(files[p].decode() for p in (given.hops.index, *given.hops.details.values())),
    ):
        assert not [value for value in known if value in text]


@pytest.mark.parametrize("growth", [DIRT, BOTH])
def test_who_reads_the_superseded_request_is_wrong(growth: tuple[str, ...]) -> None:
    """The oracle fails where the file in force says what the distractor does; so the distractor is another request."""
    given = made(card("warehouse/stock", 3, seed=5, growth=growth))
    files = dict(task_of(given).workspace.files)
    (old,) = (path for path in files if path.endswith("_old.csv"))
    asked = old.removeprefix("requests/").removesuffix("_old.csv")
    assert asked in task_of(given).instruction
    if given.hops is not None:
        assert old not in given.hops.details.values()
        files[given.hops.details[asked]] = files[old]
    else:
        for path in (path for path in files if path.startswith("requests/") and path != old):
            head, *lines = files[path].decode().splitlines()
            kept = [line for line in lines if not line.endswith(asked)]
            rest = files[old].decode().splitlines()[1:] if len(kept) < len(lines) else []
            files[path] = "\n".join([head, *kept, *rest, ""]).encode()
    left, *_ = play(given.oracle, Workspace(files), BOXES, command_s=20)
    assert not GRADER(task_of(given), left).passed
    assert Oracle(BOXES, GRADER)(given).passed
