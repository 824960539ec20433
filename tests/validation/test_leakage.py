"""What gives an answer away, and what an answer must have in common with its data."""

import base64
import json

import pytest

from clawloop.types import Candidate, Card, Contract, Decision, Deliverable, Generator, Task, Verifier, Workspace
from clawloop.validation.check.leakage import Leakage

ANSWER = {"total": 1234, "site": "Willow Creek", "ids": ["h3", "h7", "h9"], "share": 0.5, "count": 7}
DATA = "id,site,frames\nh3,Willow Creek,20\nh7,Dune,41\nh8,Dune,12\nh9,Willow Creek,17\n"


def examined(
    instruction: str = "Sum the frames.",
    answer: object = ANSWER,
    rule: str = "only open hives",
    files: dict[str, str] | None = None,
    fields: dict[str, str] | None = None,
    environment: dict[str, str] | None = None,
) -> tuple[bool, str]:
    contract = Contract((Decision("filter", rule),), (Deliverable("out.json", "json", fields or {"total": "integer"}),))
    space = Workspace({path: text.encode() for path, text in (files or {"hives.csv": DATA}).items()}, environment or {})
    card = Card("capability", "sum", "analysis", "bees", 0, "json", 1, "sum/1")
    task = Task("t", instruction, space, Verifier("", "{}"), contract, card)
    finding = Leakage()(Candidate("t", card, Generator("", 1), task, ("true",), json.dumps(answer)))
    assert finding.passed == (finding.reason == "")
    return finding.passed, finding.reason


def test_a_sound_task_passes() -> None:
    assert examined() == (True, "")


@pytest.mark.parametrize(
    "text",
    [
        "The total is 1234.",
        "Expect 1,234 frames.",
        "Reach 1234.0, then stop.",
        "It is (1234)!",
        "Look at willow creek.",
        "Write h3, h7 first.",
        "Write ['h3', 'h7', 'h9'].",
    ],
)
def test_a_stated_answer_is_found_in_instruction_and_contract(text: str) -> None:
    assert "instruction" in examined(instruction=text)[1]
    assert "contract" in examined(rule=text)[1]


@pytest.mark.parametrize(
    "text",
    [
        "Use hive h3 alone.",
        "Wait 7 days, at 0.5 each.",
        "Up to 12345 or 1,234,567 or 51234.",
        "On 1234-05-06, a1234 came at 12:34.",
        "Creek and willow.",
        "h3x, h7x",
        "1e99999999999 and 7.0e999999999999999999999 hives",
    ],
)
def test_what_is_no_whole_value_is_let_be(text: str) -> None:
    assert examined(instruction=text, rule=text) == (True, "")


def test_negative_and_fractional_numbers() -> None:
    assert not examined("It is -12.50 in all.", {"total": -12.5})[0]
    assert examined("It is 12.50 in all.", {"total": -12.5})[0]
    assert not examined("It is 0.75.", {"by": {"north": 0.75}})[0]
    assert "by.north" in examined("It is 0.75.", {"by": {"north": 0.75}})[1]


@pytest.mark.parametrize(
    ("text", "answer", "leaks"),
    [
        ("Near 1234.6.", 1234.56, True),
        ("Near 1235.", 1234.56, True),
        ("Cut to 1234.5.", 1234.56, True),
        ("Exactly 1234.5612.", 1234.56, True),
        ("It is 1 234,56 or so: 1.234,56.", 1234.56, True),
        ("It is 1'234.56.", 1234.56, True),
        ("It is 1_234.560.", 1234.56, True),
        ("Near 1200 or 1234.7 or 1236.", 1234.56, False),
        ("12 rows", 12.3456, False),
        ("1 decimal, 3 places", 0.95, False),
        ("Use 0.005.", 0.00512, False),
        ("On 5 March 2024.", "2024-03-05", True),
        ("On March 5th, 2024.", "2024-03-05", True),
        ("On 05.03.2024.", "2024-03-05", True),
        ("On 3/5/2024.", "2024-03-05", True),
        ("On 20240305.", "5 March 2024", True),
        ("On 6 March 2024, in March 2024, on the 5th.", "2024-03-05", False),
        ("On 99/99/2024.", "2024-03-05", False),
        ("Decode MTIzNC41Ng==.", 1234.56, True),
        ("Decode 313233342e3536.", 1234.56, True),
        ("Decode V2lsbG93IENyZWVr.", "Willow Creek", True),
        ("Decode RHVuZSBGZW4=, or deadbeef.", "Willow Creek", False),
    ],
)
def test_other_forms_of_the_answer(text: str, answer: object, leaks: bool) -> None:
    for found in (examined(text, {"v": answer}), examined(answer={"v": answer}, rule=text)):
        assert found[0] is not leaks, found[1]


def test_an_encoded_answer_in_a_file_is_found() -> None:
    lines = base64.encodebytes(("all of it: " + json.dumps(ANSWER)).encode()).decode()
    for files in ({"a/b/.cache/x.bin": lines}, {"a.json": json.dumps({"blob": "MTIzNA=="})}, {"MTIzNA==.txt": "x"}):
        assert "in an encoded form" in examined(files=files)[1], files


def test_names_of_contract_and_columns_are_no_answers() -> None:
    answer = {"columns": ["site", "frames", "total"], "best": "frames"}
    assert examined("Write site, frames, total; say whether frames counts.", answer)[0]
    assert not examined("Write dune, fen, moor.", {"columns": ["dune", "fen", "moor"]})[0]


def test_rows_are_lists() -> None:
    answer = {"rows": [{"site": "Dune", "frames": 53}, {"site": "Fen", "frames": 17}]}
    assert not examined("Dune: 53", answer)[0]
    assert examined("Dune, then Fen, at most 53", answer)[0]


@pytest.mark.parametrize(
    ("files", "says"),
    [
        ({"note.txt": "x " + json.dumps(ANSWER, indent=2)}, "note.txt holds the whole answer"),
        ({"note.txt": json.dumps(ANSWER, sort_keys=True)}, "holds the whole answer"),
        ({"old/ids.txt": "h3\nh7\nh9\n"}, "holds nothing but the answer's 'ids'"),
        ({"old/n": "1,234\n"}, "holds nothing but the answer's 'total'"),
        ({"old.json": '{"total": 1234}'}, "holds nothing but the answer's 'total'"),
        ({"log.txt": "started\ntotal = 1234 frames\n"}, "states 'total'"),
        ({"log.txt": "started\nsite: Willow Creek\n"}, "states 'site'"),
        ({"notes.txt": "Willow Creek\n"}, "holds nothing but the answer's 'site'"),
        ({"log.json": '{"a": 1, "total": 1234, "b": 2}'}, "states 'total'"),
        ({"old/total_1234.txt": "empty"}, "states 'total'"),
        ({"old/answer-1234.txt": "empty"}, "states 'total'"),
        ({"a/b/.keep/1234.txt": "empty", "a/x.txt": "y"}, "the name of a/b/.keep/1234.txt is the answer's 'total'"),
        ({"a/.hidden": "the answer: 1,234\n"}, "states 'total'"),
        ({"log.txt": "total 1234.2 or so\n"}, "states 'total'"),
    ],
)
def test_an_answer_in_the_workspace_is_found(files: dict[str, str], says: str) -> None:
    assert says in examined(files=files)[1]


def test_an_answer_in_the_environment_is_found() -> None:
    for environment, says in (
        ({"total": "1234"}, "$total holds nothing but the answer's 'total'"),
        ({"TARGET": "1,234"}, "$TARGET holds nothing but the answer's 'total'"),
        ({"NOTE": "the answer 1234 is right"}, "states 'total'"),
        ({"NOTE": json.dumps(ANSWER)}, "$NOTE holds the whole answer"),
        ({"TOKEN": base64.b64encode(b"total=1234").decode()}, "$TOKEN holds the answer's 'total'"),
    ):
        assert says in examined(environment=environment)[1], environment
    assert examined(environment={"LIMIT": "20", "SEASON": "1234-05"}) == (True, "")


@pytest.mark.parametrize(
    "files",
    [
        {"a.csv": "id,total\nx,1234\ny,17\n"},
        {"a.json": '{"id": "x", "total": 1234}', "b.json": '{"id": "y", "total": 17}'},
        {"a.csv": "id,site\nh3,Dune\nh7,Willow Creek\nh9,Dune\n"},
        {"a.txt": "h3 h7 h8 h9"},
        {"a.txt": "7"},
        {"a/1234.csv": "x", "a/1235.csv": "y"},
        {"a.txt": "answer 12\nanswer 1234\n"},
        {"a.json": '[{"total": 17}, {"total": 1234}]'},
    ],
)
def test_data_from_which_the_answer_is_found_is_let_be(files: dict[str, str]) -> None:
    assert examined(files=files) == (True, "")
