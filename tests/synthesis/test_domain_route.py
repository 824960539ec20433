"""The domain route through sandboxes: its tasks pass every check, and its verifiers take any right solution only."""

import json
import random
import shlex
import shutil
from pathlib import Path
from typing import Any

import pytest

import clawloop.synthesis
from clawloop.policy.scripted import ScriptedPolicy
from clawloop.rollout.grade import SandboxGrader
from clawloop.sandbox.bubblewrap import Bubblewrap
from clawloop.synthesis.author.library.library import Library
from clawloop.synthesis.difficulty.none import NoGrowth
from clawloop.synthesis.generator import GeneratorError, candidate, run
from clawloop.synthesis.routine.domain import DomainGrounded
from clawloop.synthesis.skills.cluster import cluster
from clawloop.synthesis.skills.domain import load, shipped
from clawloop.synthesis.skills.ground import plans
from clawloop.synthesis.synthesize import Synthesize
from clawloop.types import Candidate, Card, DiagnosisReport, Generator, Proficiency, Task, Verdict
from clawloop.validation.check.deterministic import Deterministic
from clawloop.validation.check.leakage import Leakage
from clawloop.validation.check.oracle import Oracle
from clawloop.validation.check.trivial import Trivial
from clawloop.validation.solution import play

BOXES = Bubblewrap()
GRADER = SandboxGrader(BOXES)
POLICY: Any = ScriptedPolicy()
EMPTY = DiagnosisReport.empty()
CAPABILITIES = (*DomainGrounded().capabilities, *DomainGrounded(held=True).capabilities)


def card(capability: str, level: int, seed: int) -> Card:
    domain = capability.partition("/")[0]
    return Card("domain", capability, "terminal", domain, level, "state", seed, f"{capability}/{seed}")


def written(drawn: Card) -> Generator:
    return Library().write(drawn, POLICY, DiagnosisReport.empty()).generator


def made(drawn: Card) -> Candidate:
    generator = written(drawn)
    return candidate("k1-0000", drawn, generator, run(generator, BOXES))


def task_of(given: Candidate) -> Task:
    assert given.task is not None
    return given.task


def graded(given: Candidate, *commands: str) -> Verdict:
    """The verdict on what some commands leave, in a fresh box."""
    left, *_ = play(commands, task_of(given).workspace, BOXES, command_s=20)
    return GRADER(task_of(given), left)


def sql(statement: str) -> str:
    program = f"import sqlite3; db = sqlite3.connect('state.db'); db.executescript({statement!r}); db.commit()"
    return f"python3 -c {shlex.quote(program)}"


def with_steps(level: int, wanted: str, least: int) -> Candidate:
    """A candidate of a level whose reference solution has some commands of a kind."""
    for seed in range(40):
        found = made(card("maintenance/faults" if wanted == "change" else "library/loans", level, seed))
        commands = found.oracle
        changes = [c for c in commands if not any(look in c for look in (*load(found.card.domain).lookups,))]
        repeated = len(commands) - len(set(commands))
        if (len(changes) if wanted == "change" else repeated) >= least and (wanted == "again" or not repeated):
            return found
    raise AssertionError("no such candidate in 40 seeds")


@pytest.mark.parametrize("index", range(len(CAPABILITIES)), ids=CAPABILITIES)
def test_a_task_of_each_capability_passes_every_check(index: int) -> None:
    level = index % 5
    task = made(card(CAPABILITIES[index], level, index))
    for check in (Leakage(), Oracle(BOXES, GRADER), Trivial(GRADER)):
        finding = check(task)
        assert finding.passed, finding
    assert len(task.oracle) >= (1, 2, 2, 3, 3)[level] and (level or len(task.oracle) == 1)
    files = task_of(task).workspace.files
    assert "state.sql" in files and "state.db" not in files
    assert sum(path.endswith("SKILL.md") for path in files) >= 3


@pytest.mark.parametrize("level", [0, 4])
def test_generators_do_not_depend_on_the_machine(level: int) -> None:
    finding = Deterministic(BOXES)(made(card("warehouse/stock", level, 3)))
    assert finding.passed, finding


def test_one_card_gives_one_program() -> None:
    drawn = card("clinic/visits", 3, 11)
    assert written(drawn) == written(drawn)
    assert written(drawn) != written(card("clinic/visits", 3, 12))


def test_another_order_of_right_actions_passes_and_half_of_them_does_not() -> None:
    task = with_steps(2, "change", 2)
    assert graded(task, *task.oracle).passed
    looks = [c for c in task.oracle if any(look in c for look in load("maintenance").lookups)]
    changes = [c for c in task.oracle if c not in looks]
    assert graded(task, *looks, *reversed(changes)).passed
    assert not graded(task, *looks, changes[0]).passed


def test_a_change_that_fails_must_be_recovered() -> None:
    task = with_steps(4, "again", 1)
    again = next(c for c in task.oracle if task.oracle.count(c) > 1)
    first = task.oracle.index(again)
    last = len(task.oracle) - 1 - task.oracle[::-1].index(again)
    assert last > first + 1
    assert graded(task, *task.oracle).passed
    assert graded(task, *task.oracle[:first], *task.oracle[first + 1 :]).passed
    assert not graded(task, *task.oracle[: first + 1], *task.oracle[last + 1 :]).passed


def test_a_solution_by_other_means_passes() -> None:
    task = made(card("clinic/patients", 0, 5))
    build = "python3 skills/visits/run.py visits_on --clinician x --day y"
    program = task_of(task).verifier.program
    rules = [rule for rule in spec(program)["predicates"] if rule["kind"] == "one"]
    (rule,) = rules
    sets = ", ".join(f"{name} = {value['is']!r}" for name, value in rule["expect"].items())
    where = " AND ".join(f"{name} = {value['is']!r}" for name, value in rule["where"].items())
    assert graded(task, build, sql(f"UPDATE {rule['table']} SET {sets} WHERE {where}")).passed


def spec(program: str) -> Any:
    space: dict[str, Any] = {}
    exec(program.splitlines()[0], space)
    return space["SPEC"]


def test_doing_nothing_fails_and_says_why() -> None:
    task = made(card("clinic/patients", 1, 5))
    assert {field.reason for field in graded(task).fields} == {"missing state.db"}
    untouched = graded(task, "python3 skills/visits/run.py visits_on --clinician x --day y")
    assert not untouched.passed
    assert {field.reason for field in untouched.fields if not field.passed} != {"missing state.db"}


@pytest.mark.parametrize("level", [0, 3])
def test_damage_to_other_records_fails(level: int) -> None:
    task = made(card("clinic/visits", level, 2))
    for statement in (
        "UPDATE drugs SET price = price + 1 WHERE drug = (SELECT max(drug) FROM drugs)",
        "DELETE FROM slots WHERE rowid = (SELECT max(rowid) FROM slots)",
        "INSERT INTO clinicians VALUES ('Dr Nobody', 'cardiology', 1, 'R1')",
    ):
        verdict = graded(task, *task.oracle, sql(statement))
        wrong = [field for field in verdict.fields if not field.passed]
        assert [field.reason for field in wrong] == ["other_records_changed"]
        assert "all other records" in wrong[0].name


def test_each_predicate_is_judged_by_itself() -> None:
    """Two records of one table that are both to be found: to change one of them is not enough."""
    for seed in range(30):
        task = made(card("clinic/patients", 3, seed))
        rules = spec(task_of(task).verifier.program)["predicates"]
        found = [rule for rule in rules if rule["kind"] == "one" and "found" in rule["where"].get("patient", {})]
        if len(found) > 1 and len({rule["table"] for rule in found}) == 1:
            break
    else:
        raise AssertionError("no such candidate in 30 seeds")
    verdict = graded(task, *task.oracle)
    assert verdict.passed and len(verdict.fields) == len(rules)
    for skipped in {c for c in task.oracle if "--patient" in c and "/patients/" in c}:
        assert not graded(task, *(command for command in task.oracle if command != skipped)).passed


def test_row_numbers_do_not_matter() -> None:
    task = made(card("clinic/visits", 2, 2))
    assert graded(task, *task.oracle, sql("UPDATE visits SET id = id + 5000")).passed


@pytest.mark.parametrize(
    ("attack", "reason"),
    [
        ("head -c 5000 /dev/zero > state.db", "bad_database state.db"),
        ("rm -f state.db; ln -s state.sql state.db", "not_regular state.db"),
        ("rm -f state.db; mkdir state.db", "missing state.db"),
        (sql("CREATE VIEW v AS SELECT 1"), "schema_changed state.db"),
        (sql("ALTER TABLE patients RENAME TO p; CREATE VIEW patients AS SELECT * FROM p"), "schema_changed state.db"),
    ],
)
def test_a_broken_database_is_a_failure_of_the_agent(attack: str, reason: str) -> None:
    task = made(card("clinic/patients", 0, 5))
    assert {field.reason for field in graded(task, *task.oracle, attack).fields} == {reason}


def test_the_instruction_shows_no_record_that_is_to_be_found() -> None:
    for seed in range(3):
        task = made(card("library/reservations", 4, seed))
        found = json.loads(task.answer)["found"]
        shown = task_of(task).instruction + repr(task_of(task).contract)
        assert found and not [value for value in found.values() if str(value) in shown]


def generator(plan: list[dict[str, Any]], told: str = "") -> Any:
    """`once(draw)` of a clinic's generator that has but one plan, in a world of its own."""
    space: dict[str, Any] = {"__name__": "generator"}
    exec(written(card("clinic/patients", 0, 1)).program, space)
    steps = [{"used": [], "change": True, "blocked": False, "remedies": [], **step} for step in plan]
    world = space["fresh"]("1")
    given = {name for step in steps for _, name, *_ in step["args"].values() if isinstance(name, str)}
    gaps = " ".join("{" + name + "}" for name in sorted(given))
    told = " ".join(name for (name,) in world.execute(told)) if told else ""
    whole = {"steps": steps, "instruction": gaps, "decisions": [["rule", told]]}
    return lambda draw: space["once"](random.Random(draw), world, whole)


LAST = {
    "tool": "visits_on",
    "args": {"clinician": ("given", "clinician", "clinician"), "day": ("given", "day", "day")},
    "used": ["patient"],
    "change": False,
}
CHARGE = {
    "tool": "charge_patient",
    "args": {"patient": ("found", 0, "patient"), "amount": ("given", "amount", "amount")},
}
SETTLE = {"tool": "settle_balance", "args": {"patient": ("found", 0, "patient")}}
REFER = {
    "tool": "refer_patient",
    "args": {"patient": ("given", "patient", "patient"), "specialty": ("given", "specialty", "specialty")},
    "blocked": True,
}


def test_goals_whose_order_matters_make_no_task() -> None:
    alone, both = generator([LAST, CHARGE]), generator([LAST, CHARGE, SETTLE])
    assert any(alone(draw) for draw in range(60))
    assert not any(both(draw) for draw in range(60))


def test_an_obstacle_with_two_ways_out_makes_no_task() -> None:
    one = generator([REFER | {"remedies": ["close_referral"]}])
    two = generator([REFER | {"remedies": ["close_referral", "close_referral"]}])
    none = generator([REFER | {"remedies": ["settle_balance"]}])
    made_of_one = [task for draw in range(30) if (task := one(draw))]
    assert made_of_one and all(len(task["oracle"]) == 3 for task in made_of_one)
    assert not any(two(draw) or none(draw) for draw in range(30))


def test_what_is_to_be_found_is_not_told_by_chance() -> None:
    open_, told = generator([LAST, CHARGE]), generator([LAST, CHARGE], "SELECT patient FROM patients")
    assert any(open_(draw) for draw in range(60))
    assert not any(told(draw) for draw in range(60))


def test_cards_are_domain_slash_skill_and_decided_by_the_seed() -> None:
    routine = DomainGrounded(names=["clinic", "warehouse"])
    cards = routine.cards(24, EMPTY, 5)
    assert {c.domain for c in cards} == {"clinic", "warehouse"}
    assert {c.capability for c in cards} == set(routine.capabilities)
    assert {(c.route, c.track, c.level) for c in cards} == {("domain", "terminal", 0)}
    assert len({c.lineage for c in cards}) == 24
    assert cards == routine.cards(24, EMPTY, 5) != routine.cards(24, EMPTY, 6)


def test_weak_skills_get_more_cards() -> None:
    routine = DomainGrounded(names=["clinic"])
    known = {name: Proficiency(0, 8, 8) for name in routine.capabilities} | {"clinic/visits": Proficiency(0, 0, 8)}
    cards = routine.cards(40, DiagnosisReport(1, (), (), known), 5)
    shares = {name: sum(c.capability == name for c in cards) for name in routine.capabilities}
    assert shares["clinic/visits"] > 1.5 * shares["clinic/patients"] > 0


def test_held_domains_are_apart() -> None:
    train, apart = DomainGrounded().capabilities, DomainGrounded(held=True).capabilities
    assert train and apart and not set(train) & set(apart)
    assert {name.split("/")[0] for name in apart} == {name for name in shipped() if load(name).held}
    with pytest.raises(ValueError, match="ticketing is held for the probe"):
        DomainGrounded(names=["ticketing"])


@pytest.mark.parametrize(("names", "said"), [(["nowhere"], "no domain 'nowhere'"), ([], "at least one domain")])
def test_what_is_unknown_is_named(names: list[str], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        DomainGrounded(names=names)


@pytest.fixture
def own(tmp_path: Path) -> str:
    folder = tmp_path / "surgery"
    shutil.copytree(Path(clawloop.synthesis.__file__).parent / "domains" / "clinic", folder)
    return str(folder)


def test_a_folder_of_your_own_is_a_domain_like_the_others(own: str) -> None:
    routine = DomainGrounded(names=["surgery"], folders=[own])
    assert routine.capabilities == tuple(name.replace("clinic", "surgery") for name in _of("clinic"))
    library = Library(folders=[own])
    made_here = Synthesize([routine], library, [], NoGrowth(1), BOXES, 2, 0)(POLICY, EMPTY, 1)
    for task in made_here:
        assert task.findings == () and Oracle(BOXES, GRADER)(task).passed
    with pytest.raises(GeneratorError, match=r"name its folder in routine\.domain\.folders"):
        written(made_here[0].card)


def _of(name: str) -> tuple[str, ...]:
    return DomainGrounded(names=[name]).capabilities


def test_a_card_that_no_skill_carries_is_a_finding_and_no_crash() -> None:
    class Lost:
        capabilities = ("clinic/nothing",)

        def cards(self, count: int, *_: object) -> tuple[Card, ...]:
            return tuple(card("clinic/nothing", 0, seed) for seed in range(count))

    (task,) = Synthesize([Lost()], Library(), [], NoGrowth(0), BOXES, 1, 0)(POLICY, EMPTY, 1)
    assert task.task is None and "no skill 'nothing'" in task.findings[0].reason


def test_a_domain_without_remedies_carries_no_recovery(own: str) -> None:
    words = Path(own) / "words.yaml"
    words.write_text(words.read_text().partition("remedies:")[0])
    domain = load(own)
    assert not domain.remedies
    for skill in cluster(domain.tools):
        assert not [p for p in plans(domain, skill, 3, 3, random.Random(1)) if p.graph.recovery]
