"""Generators run in boxes and are read strictly."""

import json

import pytest

from clawloop.sandbox.bubblewrap import Bubblewrap
from clawloop.synthesis.contract import parse_contract
from clawloop.synthesis.generator import GeneratorError, candidate, run
from clawloop.types import Card, Generator, Hops

OBJECT = {
    "files": {"a/hives.csv": "id,n\na,1\n"},
    "instruction": "Count.",
    "answer": {"count": 1},
    "contract": {
        "decisions": [["header", "is no row"]],
        "deliverables": [{"path": "n.json", "form": "json", "fields": {"count": "integer"}, "tolerance": 0.5}],
    },
    "oracle": ["true"],
    "verifier": "print()",
}

CARD = Card("capability", "audit", "analysis", "bees", 0, "json", 7, "audit/7")


@pytest.fixture(scope="module")
def boxes() -> Bubblewrap:
    return Bubblewrap()


def printing(value: object) -> Generator:
    text = value if isinstance(value, str) else json.dumps(value)
    return Generator(f"import sys\nsys.stdout.write({text!r})", 7)


def test_a_build_becomes_a_candidate(boxes: Bubblewrap) -> None:
    generator = printing(OBJECT)
    build = run(generator, boxes)
    made = candidate("k1-0003", CARD, generator, build)
    assert made.task is not None and made.task.id == made.id == "k1-0003"
    assert made.task.workspace.files == {"a/hives.csv": b"id,n\na,1\n"}
    assert json.loads(made.task.verifier.key) == json.loads(made.answer) == {"count": 1}
    assert made.oracle == ("true",) and made.task.contract.decisions[0].rule == "is no row"
    assert made.task.contract.deliverables[0].tolerance == 0.5
    assert json.loads(build.raw) == OBJECT


def test_alternatives_and_noise_may_be_told(boxes: Bubblewrap) -> None:
    told = {"alternatives": {"tie": [{"count": 2}, {"count": 3}]}, "noise": ["units", "missing", "units"]}
    generator = printing({**OBJECT, **told})
    card = Card("capability", "audit", "analysis", "bees", 3, "json", 7, "audit/7", ("dirtiness",))
    made = candidate("k1-0003", card, generator, run(generator, boxes))
    assert made.alternatives == {"tie": ('{"count": 2}', '{"count": 3}')}
    assert made.task is not None and made.card.noise == made.task.card.noise == ("missing", "units")
    assert candidate("k1-0003", card, generator, run(printing(OBJECT), boxes)).card == card


def test_hops_may_be_told(boxes: Bubblewrap) -> None:
    hops = {"index": "i.csv", "details": {"h1": "a/1.csv", "h2": "a/2.csv"}, "reference": ["r.csv", "s.csv"]}
    generator = printing({**OBJECT, "hops": hops})
    made = candidate("k1-0003", CARD, generator, run(generator, boxes))
    assert made.hops == Hops("i.csv", {"h1": "a/1.csv", "h2": "a/2.csv"}, ("r.csv", "s.csv"))
    assert candidate("k1-0003", CARD, generator, run(printing(OBJECT), boxes)).hops is None


def test_the_seed_is_the_only_argument(boxes: Bubblewrap) -> None:
    program = f"import json, sys\nv = {OBJECT!r}\nv['instruction'] = repr(sys.argv[1:])\nprint(json.dumps(v))"
    assert run(Generator(program, 7), boxes).instruction == "['7']"
    assert run(Generator(program, 7), boxes, seed=9).instruction == "['9']"


def test_an_unordered_program_gives_the_same_candidate_again(boxes: Bubblewrap) -> None:
    names = ", ".join(f"'n{i}'" for i in range(30))
    program = f"import json\nv = {OBJECT!r}\nv['instruction'] = ' '.join({{{names}}})\nprint(json.dumps(v))"
    assert run(Generator(program, 1), boxes).raw == run(Generator(program, 1), boxes).raw


@pytest.mark.parametrize(
    ("program", "says"),
    [
        ("raise ValueError('no rows')", "ended with code 1: ValueError: no rows"),
        ("import sys; sys.exit(3)", "ended with code 3: nothing on stderr"),
        ("print('hello')", "not a task"),
        ("print('[' * 100000)", "not a task"),
        ("while True: print('x' * 100000)", "bytes of output"),
        ("import time; time.sleep(30)", "stopped: more than its 1 s"),
    ],
)
def test_a_failing_program_says_how(boxes: Bubblewrap, program: str, says: str) -> None:
    with pytest.raises(GeneratorError, match=says):
        run(Generator(program, 1, timeout_s=1.0 if "sleep" in program else 20.0), boxes)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"files": {}}, "files must be"),
        ({"files": {"../x": ""}}, "must be relative"),
        ({"files": {"/x": ""}}, "must be relative"),
        ({"files": {"a": "", "a/b": ""}}, "itself a file"),
        ({"files": {"a": "", "A": ""}}, "case only"),
        ({"files": {"a": 1}}, "must be a string"),
        ({"files": {"a": "\ud800"}}, "surrogates not allowed"),
        ({"instruction": " "}, "instruction must be"),
        ({"answer": {}}, "answer must be"),
        ({"answer": [1]}, "answer must be"),
        ({"oracle": []}, "oracle must be"),
        ({"oracle": ["a\0b"]}, "no NUL"),
        ({"verifier": 3}, "verifier must be"),
        ({"hint": "x"}, "unknown key 'hint'"),
        ({"alternatives": [1]}, "alternatives must be an object"),
        ({"alternatives": {"tie": {"count": 2}}}, r"alternatives\['tie'\] must be a list of answers"),
        ({"alternatives": {"tie": [{}]}}, r"alternatives\['tie'\] must be a list of answers"),
        ({"answer": {"a": json.loads("[" * 60 + "]" * 60)}}, "answer is nested more than 50 deep"),
        ({"alternatives": {"tie": [{"a": json.loads("[" * 60 + "]" * 60)}]}}, "nested more than 50 deep"),
        ({"noise": ["dust"]}, "noise must be a list of some of distractors"),
        ({"noise": "units"}, "noise must be a list"),
        ({"hops": ["i.csv"]}, "hops must be an object of index, details and reference"),
        ({"hops": {"index": "i.csv", "details": {"h1": "a"}}}, "hops must be an object of index, details and ref"),
        ({"hops": {"index": "", "details": {"h1": "a"}, "reference": ["r"]}}, "hops.index must be a string"),
        ({"hops": {"index": "i.csv", "details": ["a"], "reference": ["r"]}}, "hops.details must be an object"),
        ({"hops": {"index": "i.csv", "details": {"h1": 1}, "reference": ["r"]}}, "hops.details must be a string"),
        ({"hops": {"index": "i.csv", "details": {"h1": "a"}, "reference": []}}, "hops.reference must be a list"),
        ({"hops": {"index": "i.csv", "details": {"h1": "a"}, "reference": [" "]}}, "hops.reference must be a string"),
        ({"contract": {"decisions": []}}, "contract lacks 'deliverables'"),
    ],
)
def test_what_is_malformed_is_named(boxes: Bubblewrap, change: dict[str, object], says: str) -> None:
    with pytest.raises(GeneratorError, match=says):
        run(printing({**OBJECT, **change}), boxes)


@pytest.mark.parametrize("text", ['{"files": NaN}', '{"a": 1, "a": 2}', '{"a": 1e999}', "[]", ""])
def test_what_is_no_strict_json_is_refused(boxes: Bubblewrap, text: str) -> None:
    with pytest.raises(GeneratorError, match="not a task"):
        run(printing(text), boxes)


def test_a_missing_key_is_named(boxes: Bubblewrap) -> None:
    with pytest.raises(GeneratorError, match="lacks 'oracle'"):
        run(printing({key: value for key, value in OBJECT.items() if key != "oracle"}), boxes)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"path": "/n"}, r"deliverables\[0\]\.path"),
        ({"form": "xml"}, "form must be one of"),
        ({"fields": []}, "fields must be"),
        ({"fields": {"n": 1}}, r"fields\.n must be"),
        ({"tolerance": -1}, "tolerance must be"),
        ({"tolerance": True}, "tolerance must be"),
        ({"answer": 1}, "unknown key 'answer'"),
    ],
)
def test_a_contract_is_read_strictly(change: dict[str, object], says: str) -> None:
    item = {"path": "n.json", "form": "json", **change}
    with pytest.raises(ValueError, match=says):
        parse_contract({"decisions": [], "deliverables": [item]})


def test_a_contract_names_each_path_once() -> None:
    item = {"path": "n.json", "form": "json"}
    assert parse_contract({"decisions": [], "deliverables": [item]}).deliverables[0].fields == {}
    with pytest.raises(ValueError, match="once"):
        parse_contract({"decisions": [], "deliverables": [item, item]})
    with pytest.raises(ValueError, match=r"decisions\[0\]"):
        parse_contract({"decisions": [["only a name"]], "deliverables": [item]})
