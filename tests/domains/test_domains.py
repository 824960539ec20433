"""`clawloop domains` as a stranger types it: what it shows, what it asks a model, and what it takes for an answer."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import clawloop.synthesis
from clawloop.rollout.grade import SandboxGrader
from clawloop.sandbox.bubblewrap import Bubblewrap
from clawloop.synthesis.author.library.library import Library
from clawloop.synthesis.difficulty.none import NoGrowth
from clawloop.synthesis.routine.domain import DomainGrounded
from clawloop.synthesis.skills.domain import load, served, shipped
from clawloop.synthesis.synthesize import Synthesize
from clawloop.types import DiagnosisReport
from clawloop.validation.check.oracle import Oracle

Clawloop = Callable[..., tuple[int, str, str]]
CLINIC = Path(clawloop.synthesis.__file__).parent / "domains" / "clinic"
PLAIN = 'return {"clinicians": [{"clinician": name, "fee": fee, "room": room} for name, fee, room in rows]}'
UNSAID = {
    PLAIN: 'keys = ("clinician", "fee", "room")\n    return {"clinicians": [dict(zip(keys, row)) for row in rows]}',
    '"DELETE FROM referrals WHERE patient = ?"': '"DELETE FROM {} WHERE patient = ?".format("referrals")',
}
FINDS = "find_clinicians:\n  gives: [clinician, fee, room]\n  rows: clinicians\n  reason: the keys are in a tuple\n"
CLOSES = "close_referral:\n  reads: []\n  writes: [referrals]\n  reason: the table is put into the SQL\n"
GROUPS = """groups:
  visits: [find_clinicians, free_times, visits_on, book_visit, cancel_visit]
  care: [settle_balance, charge_patient, referral_of, refer_patient, close_referral, drugs_for, prescribe,
         prescriptions_of, stop_drug, record_consent]
reason: what a patient has and owes is one matter
"""


@pytest.fixture
def clawloop(command_line: Clawloop) -> Clawloop:
    return lambda *words: command_line("domains", *words)


@pytest.fixture
def surgery(tmp_path: Path) -> Path:
    """The clinic with two tools that no program can read in full."""
    folder = tmp_path / "surgery"
    shutil.copytree(CLINIC, folder)
    code = (folder / "tools.py").read_text()
    for plain, unsaid in UNSAID.items():
        assert plain in code
        code = code.replace(plain, unsaid)
    (folder / "tools.py").write_text(code)
    return folder


def fenced(text: str) -> str:
    return f"I see.\n```yaml\n{text}```\n"


def says(completion: str = "", regrouping: str = "keep") -> tuple[str, ...]:
    """Overrides for a loop model that has one answer to each question."""
    rules = (("Complete what the code", completion), ("Keep or change", regrouping))
    told = ", ".join(f'{{when: "{when}", say: "{say}"}}' for when, say in rules)
    return "policy=scripted", "policy.slip=0", f"policy.rules=[{told}]"


def test_list_has_a_line_for_every_domain(clawloop: Clawloop, tmp_path: Path) -> None:
    shutil.copytree(CLINIC, tmp_path / "surgery")
    code, out, err = clawloop("list", tmp_path / "surgery")
    assert (code, err) == (0, "")
    lines = [line.split() for line in out.splitlines()]
    assert [line[0] for line in lines] == [*shipped(), *served(), "surgery"]
    assert "ticketing         15 tools  3 skills  held for the probe  levels 0 1 2 3 4  events, guests, tickets" in out


def test_show_has_tables_with_keys_and_skills_with_tools(clawloop: Clawloop) -> None:
    code, out, err = clawloop("show", "clinic")
    assert (code, err) == (0, "")
    assert "  visits: patient, clinician, day, time; found by clinician, day, time" in out
    assert "find_clinicians(specialty: str)" in out and "clinicians: rows of clinician, fee, room" in out
    assert "  referrals: tasks of levels 0 1 2 3 4" in out and "by affinity" not in out


def test_graph_prints_dot_with_a_frame_for_each_skill(clawloop: Clawloop) -> None:
    code, out, err = clawloop("graph", "library")
    assert (code, err) == (0, "") and out.startswith("digraph domain {")
    assert out.count("subgraph") == 4 and 'label="loans"' in out


@pytest.mark.skipif(shutil.which("dot") is None, reason="Graphviz is not installed: apt install graphviz")
def test_graph_draws_an_svg(clawloop: Clawloop, tmp_path: Path) -> None:
    code, out, _ = clawloop("graph", "library", "--svg", tmp_path / "library.svg")
    drawn = (tmp_path / "library.svg").read_text()
    assert code == 0 and "library.svg" in out
    assert "<svg" in drawn and drawn.count('class="cluster"') == 4 and "lend" in drawn


def test_without_graphviz_a_sentence_says_how_to_get_it(
    clawloop: Clawloop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    code, out, err = clawloop("graph", "library", "--svg", tmp_path / "library.svg")
    assert (code, out) == (2, "") and "apt install graphviz" in err and len(err.splitlines()) == 1


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "takes one of"),
        (("draw",), "takes one of"),
        (("show",), "takes one of"),
        (("show", "nowhere"), "nowhere is no domain: it lacks schema.sql"),
        (("show", "clinic", "--all"), "has no option --all"),
        (("graph", "clinic", "--svg"), "--svg needs a path"),
        (("graph", "clinic", "--svg", "/no/such/place.svg"), "no such file or directory"),
        (("ask", "clinic", "policy=scripted"), "--into FOLDER"),
        (("ask", "clinic", "author=library"), "author=model or author=model_brief"),
        (("ask", "clinic", "--into", "library", "policy=scripted"), "has the name of a shipped domain"),
        (("ask", "clinic", "modle=nano"), "modle"),
        (("ask", "nowhere", "policy=scripted"), "nowhere is no domain"),
    ],
)
def test_wrong_words_end_in_one_sentence(
    clawloop: Clawloop, words: tuple[str, ...], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    code, out, err = clawloop(*words)
    assert (code, out) == (2, "") and said in err and len(err.splitlines()) == 1


def test_a_domain_that_leaves_something_open_says_how_to_close_it(clawloop: Clawloop, surgery: Path) -> None:
    code, _, err = clawloop("show", surgery)
    assert code == 2 and "tools.py:" in err and "graph.yaml" in err and f"clawloop domains ask {surgery}" in err


def test_what_the_model_says_is_checked_written_and_used(clawloop: Clawloop, surgery: Path) -> None:
    code, out, err = clawloop("ask", surgery, *says(fenced(FINDS + CLOSES), fenced(GROUPS)))
    assert (code, err) == (0, ""), out
    assert "graph.yaml, reply 1: taken" in out and "skills.yaml, reply 1: taken" in out
    domain, clinic = load(str(surgery)), load("clinic")
    for name in ("find_clinicians", "close_referral"):
        one, other = domain.tools[name], clinic.tools[name]
        assert (one.gives, one.rows, one.reads, one.writes) == (other.gives, other.rows, other.reads, other.writes)
    assert [skill.name for skill in domain.skills] == ["care", "visits"]
    code, out, _ = clawloop("show", surgery)
    assert "grouped by model, not by affinity: what a patient has and owes is one matter" in out
    assert "gives by model, not read from the code: the keys are in a tuple" in out
    assert [json.loads(line)["fault"] for line in (surgery / "asked.jsonl").read_text().splitlines()] == ["", ""]

    routine = DomainGrounded(names=["surgery"], folders=[str(surgery)])
    assert set(routine.capabilities) == {"surgery/care", "surgery/visits"}
    boxes, policy = Bubblewrap(), None
    made = Synthesize([routine], Library([str(surgery)]), (), NoGrowth(2), boxes, 2, 0)(
        policy, DiagnosisReport.empty(), 1
    )  # type: ignore[arg-type]
    for task in made:
        assert task.findings == () and Oracle(boxes, SandboxGrader(boxes))(task).passed
        assert task.task is not None and "skills/care/run.py" in task.task.workspace.files

    code, out, _ = clawloop("ask", surgery, *says())
    assert code == 0 and "say what every tool does" in out and "has groups by model already" in out


@pytest.mark.parametrize(
    ("completion", "fault", "said"),
    [
        ("no idea", "reply", "0 closed yaml blocks"),
        (fenced("- a\n"), "form", "must be a mapping"),
        (fenced("a: [\n"), "form", "cannot be read"),
        (fenced(FINDS), "form", "close_referral is missing"),
        (fenced(FINDS + CLOSES + "prescribe: {}\n"), "form", "speaks of 'prescribe'"),
        (fenced(FINDS + CLOSES.replace("[referrals]", "[letters]")), "form", "no table 'letters'"),
        (fenced(FINDS + CLOSES.replace("reads: []\n", "gives: []\n")), "form", "must have the keys reads, writes"),
        (fenced(FINDS + CLOSES.replace("the table is put into the SQL", "")), "form", "reason must be"),
        (fenced(FINDS.replace("rows: clinicians", "rows: [a]") + CLOSES), "form", "rows must be the one key"),
        (fenced(FINDS + CLOSES.replace("[referrals]", "[]")), "seen", "writes of close_referral lacks referrals"),
        (fenced(FINDS + CLOSES.replace("[referrals]", "[referrals, drugs]")), "seen", "has drugs, which none of"),
        (fenced(FINDS + CLOSES.replace("reads: []", "reads: [drugs]")), "seen", "reads of close_referral has drugs"),
        (fenced(FINDS.replace(", room", "") + CLOSES), "seen", "gives of find_clinicians lacks room"),
        (fenced(FINDS.replace("room", "room, phone") + CLOSES), "seen", "has phone"),
        (fenced(FINDS.replace("  rows: clinicians\n", "") + CLOSES), "seen", "returned rows under clinicians"),
    ],
)
def test_what_the_model_says_wrong_is_refused_and_told_back(
    clawloop: Clawloop, surgery: Path, completion: str, fault: str, said: str
) -> None:
    code, out, err = clawloop("ask", surgery, *says(completion))
    assert (code, err) == (1, "")
    first, *others = [json.loads(line) for line in (surgery / "asked.jsonl").read_text().splitlines()]
    assert first["fault"] == fault and said in first["said"]
    assert len(others) == 2 and first["said"] in others[0]["prompt"][0]["content"]
    assert "graph.yaml is not written" in out and not (surgery / "graph.yaml").exists()


@pytest.mark.parametrize(
    ("regrouping", "said"),
    [
        (fenced(GROUPS.replace("drugs_for, ", "")), "drugs_for is in no group"),
        (fenced(GROUPS.replace("drugs_for", "drugs_for, book_visit")), "is in visits and in care"),
        (fenced(GROUPS.replace("drugs_for", "drugs_for, fly")), "has a tool 'fly'"),
        (fenced(GROUPS.replace("care:", "Good care:")), "no name of a skill"),
        (fenced(GROUPS.replace("reason: what a patient has and owes is one matter", "")), "must have the keys groups"),
        (fenced(GROUPS.replace("what a patient has and owes is one matter", "''")), "reason must be"),
        ("maybe", "one word keep"),
    ],
)
def test_a_wrong_grouping_is_refused(clawloop: Clawloop, tmp_path: Path, regrouping: str, said: str) -> None:
    code, out, _ = clawloop("ask", "clinic", "--into", tmp_path / "practice", *says(regrouping=regrouping))
    assert code == 1 and said in out and "skills.yaml is not written" in out
    assert not (tmp_path / "practice" / "skills.yaml").exists()


def test_a_shipped_domain_is_copied_and_its_clusters_may_be_kept(clawloop: Clawloop, tmp_path: Path) -> None:
    code, out, _ = clawloop("ask", "clinic", "--into", tmp_path / "practice", *says(), "author=model_brief")
    assert code == 0 and "keeps the clusters" in out
    assert sorted(path.name for path in (tmp_path / "practice").iterdir()) == [
        "asked.jsonl", "schema.sql", "tools.py", "words.yaml", "world.py",
    ]  # fmt: skip
    assert load(str(tmp_path / "practice")).skills == load("clinic").skills
    code, _, err = clawloop("ask", "clinic", "--into", tmp_path / "practice", *says())
    assert code == 2 and "is not empty" in err


def test_a_tool_that_breaks_or_refuses_all_calls_cannot_be_completed(clawloop: Clawloop, surgery: Path) -> None:
    code = (surgery / "tools.py").read_text()
    broken = code.replace('    keys = ("clinician"', '    print(1 / 0)\n    keys = ("clinician"')
    refusing = code.replace('    keys = ("clinician"', '    raise ValueError("never.")\n    keys = ("clinician"')
    for text, said in ((broken, "ZeroDivisionError"), (refusing, "No call of find_clinicians went through")):
        (surgery / "tools.py").write_text(text)
        assert clawloop("ask", surgery, *says(fenced(FINDS + CLOSES)))[0] == 1
        last = json.loads((surgery / "asked.jsonl").read_text().splitlines()[-3])
        assert last["fault"] == "seen" and said in last["said"]


@pytest.mark.slow
def test_the_small_model_answers_nothing_that_can_be_taken(clawloop: Clawloop, surgery: Path) -> None:
    code, out, err = clawloop("ask", surgery, "author=model_brief", "author.reply_tokens=48", "policy.context=4096")
    log: list[dict[str, Any]] = [json.loads(line) for line in (surgery / "asked.jsonl").read_text().splitlines()]
    assert (code, err) == (1, "") and "is not written" in out
    assert 1 <= len(log) <= 3 and {one["fault"] for one in log} <= {"reply", "length", "context"}
