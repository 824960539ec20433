"""Growth is proved on the workspace: planted faults are named, and the sentence says which property failed."""

from dataclasses import replace

import pytest

from clawloop.rollout.grade import SandboxGrader
from clawloop.sandbox.bubblewrap import Bubblewrap
from clawloop.synthesis.author.model import prompt
from clawloop.synthesis.generator import candidate, run
from clawloop.types import Candidate, Card, Contract, Finding, Generator
from clawloop.validation.check.growth import Growth
from clawloop.validation.check.oracle import Oracle

BOXES = Bubblewrap()
GRADER = SandboxGrader(BOXES)
GROWN = prompt.text("grown.py.txt") + prompt.text("main.py.txt")
BOTH = ("multi_hop", "dirtiness")


def made(*changes: tuple[str, str], growth: tuple[str, ...] = BOTH, level: int = 3, more: str = "") -> Candidate:
    """The example of a grown generator, with some of its text changed, and statements on what it built."""
    program = GROWN
    for old, new in changes:
        assert old in program
        program = program.replace(old, new)
    program = program.replace(
        "json.dump(build(int(sys.argv[1])), ", f"task = build(int(sys.argv[1]))\n    {more}\n    json.dump(task, "
    )
    card = Card("capability", "audit/analysis", "analysis", "hives", level, "json", 4, "audit/4", growth)
    generator = Generator(program, 4)
    return candidate("k1-0000", card, generator, run(generator, BOXES))


def refused(given: Candidate, **arguments: int) -> str:
    """Why the check refuses a candidate that its own oracle solves."""
    assert Oracle(BOXES, GRADER)(given).passed
    finding = Growth(BOXES, GRADER, **arguments)(given)
    assert not finding.passed and finding.check == "growth"
    return finding.reason


def test_a_grown_task_passes_and_one_that_did_not_grow_is_not_looked_at() -> None:
    assert Growth(BOXES, GRADER)(made()) == Finding("growth", True)
    plain = made(growth=(), more="del task['hops'], task['noise']")
    assert plain.hops is None and Growth(BOXES, GRADER)(plain).passed


def test_what_is_not_declared_is_not_there() -> None:
    assert "declares no hops" in refused(made(more="del task['hops']"))
    assert "0 kinds of noise are listed, and level 3 asks for 2" in refused(made(more="del task['noise']"))
    assert "2 kinds of noise (distractors, missing) are listed, and level 4 asks for 3" in refused(made(level=4))


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ("task['hops']['index'] = 'list.csv'", "list.csv, which is no file"),
        ("task['hops']['reference'].append('index.csv')", "index.csv twice"),
        ("task['hops']['details'] = dict([*task['hops']['details'].items()][:2])", "2 details"),
        ("task['hops']['details']['reader-7'] = 'loans/x.csv'; task['files']['loans/x.csv'] = ''", "entity reader-7"),
        ("task['hops']['details']['reader'] = 'loans/x'; task['files']['loans/x'] = ''", "detail file loans/x"),
    ],
)
def test_a_structure_that_is_not_there_is_named(more: str, said: str) -> None:
    assert said in refused(made(more=more))


def in_index(column: str, value: str) -> tuple[tuple[str, str], ...]:
    """An index that has a column more."""
    row = '"%s,%s.csv\\n" % (reader, reader)'
    return ('"reader,file', f'"reader,{column},file'), (row, f'"%s,%s,%s.csv\\n" % (reader, {value}, reader)')


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("due[paths[reader]]", "beside names"),  # what the detail file comes to
        ("fees['atlas']", "beside names"),
        ("'novel'", "'novel', which is a value of loans/"),
        ("'hill'", ""),
    ],
)
def test_an_index_that_holds_a_needed_value_is_named(value: str, said: str) -> None:
    given = made(*in_index("owes", value))
    if said:
        assert said in refused(given)
    else:
        assert Growth(BOXES, GRADER)(given).passed


def test_an_index_that_holds_a_value_of_the_reference_or_the_answer_is_named() -> None:
    two = ("(r.choice(kinds), r.choice", "(r.choice(kinds[:2]), r.choice")
    assert "'score', which is a value of fees.csv" in refused(made(*in_index("most", "'score'"), two))
    word = "task['answer']['word'] = 'brimful'"
    given = made(*in_index("word", "'brimful'"), ("for name in key:", "for name in ('total', 'top'):"), more=word)
    assert "'brimful', which is a value of the answer" in refused(given)


def test_an_index_that_is_not_needed_is_named() -> None:
    globbed = '[{"reader": name[6:-4], "file": name[6:]} for name in sorted(glob.glob("loans/*.csv"))]'
    given = made(
        ("import csv, json\nfee", "import csv, glob, json\nfee"),
        ('csv.DictReader(open("index.csv"))', globbed),
        ("[*paths.values(), *old]", "paths.values()"),
    )
    assert refused(given) == "the index index.csv is not needed: the oracle passes without its entries."


@pytest.mark.parametrize("read", ['fee[row["kind"]]', '(fee[row["kind"]] and 2)'])
def test_a_reference_that_is_not_needed_is_named_even_if_it_is_read(read: str) -> None:
    given = made(
        ("fees[kind] for kind, late", "2 for kind, late"), ('fee[row["kind"]]', "2" if "and" not in read else read)
    )
    assert refused(given) == "the reference fees.csv is not needed: the oracle passes with other values in it."


def test_one_detail_that_suffices_is_named() -> None:
    """The whole answer lies in the first entity's file, though the oracle opens all of them."""
    first = (
        ('json.dump({"total": sum(due.values())', 'top = next(iter(due))\njson.dump({"total": due[top]'),
        ("top = min(due, key=lambda reader: (-due[reader], reader))\n    return", "top = readers[0]\n    return"),
        (
            '{"total": sum(due.values()), "top": top},\n        "contract"',
            '{"total": due[top], "top": top},\n        "contract"',
        ),
    )
    reason = refused(made(*first))
    assert reason.startswith("only 1 of the detail files loans/reader-") and "two must" in reason


def test_a_written_answer_is_no_proof() -> None:
    total = made().answer
    given = replace(made(), oracle=(f"echo '{total}' > due.json",))
    assert refused(given) == "the index index.csv is not needed: the oracle passes without its entries."


def test_an_oracle_that_hangs_or_breaks_the_verifier_does_not_pass() -> None:
    hang = made(
        ("import csv, json\nfee", 'import csv, json, time\nif len(open("index.csv").read()) < 20: time.sleep(9)\nfee')
    )
    assert Growth(BOXES, GRADER, command_s=1.0)(hang).passed
    strict = made(("except (OSError, ValueError):\n    got = None", "except OSError:\n    raise"))
    assert Growth(BOXES, GRADER)(strict).passed


def without(given: Candidate, decision: str) -> Candidate:
    assert given.task is not None
    contract = given.task.contract
    kept = tuple(one for one in contract.decisions if one.name != decision)
    return replace(given, task=replace(given.task, contract=Contract(kept, contract.deliverables)))


def test_noise_that_no_decision_declares_or_that_is_not_there_is_named() -> None:
    assert "no decision 'missing'" in refused(without(made(growth=("dirtiness",)), "missing"))
    assert "no cell of a table is empty" in refused(made(('lines.append("novel,")', "lines.reverse()")))
    drift = '["tie", "of readers', '["drift", "late"], ["tie", "of readers'
    assert "all tables have one header" in refused(made(drift, more="task['noise'].append('drift')"))
    same = "task['alternatives'] = {'missing': [task['answer']]}"
    assert refused(made(more=same)) == "the noise 'missing' changes no answer, however it is read."
    told = "task['alternatives'] = {'missing': [task['answer'], {'total': 1}]}"
    assert Growth(BOXES, GRADER)(made(more=told)).passed


def test_json_sources_are_proved_like_tables() -> None:
    as_json = (
        "files, hops = task['files'], task['hops']",
        "rows = lambda path: [line.split(',') for line in files.pop(path).splitlines()[1:]]",
        "files['fees.json'] = json.dumps({kind: int(fee) for kind, fee in rows('fees.csv')})",
        "files['index.json'] = json.dumps([{'reader': who, 'file': file} for who, file in rows('index.csv')])",
        "hops['index'], hops['reference'] = 'index.json', ['fees.json']",
    )
    given = made(
        ('{row["kind"]: int(row["fee"]) for row in csv.DictReader(open("fees.csv"))}', 'json.load(open("fees.json"))'),
        ('csv.DictReader(open("index.csv"))', 'json.load(open("index.json"))'),
        more="\n    ".join(as_json),
    )
    assert Oracle(BOXES, GRADER)(given).passed
    assert Growth(BOXES, GRADER)(given).passed
    assert given.hops is not None and given.hops.reference == ("fees.json",)


def test_arguments_are_checked() -> None:
    with pytest.raises(ValueError, match="tries of at least 2"):
        Growth(BOXES, GRADER, tries=1)
    with pytest.raises(ValueError, match="kinds"):
        Growth(BOXES, GRADER, kinds=())
