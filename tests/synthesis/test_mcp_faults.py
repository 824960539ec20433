"""Small MCP servers, right and broken: each fault gives one sentence or a refused candidate, and nothing hangs."""

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from clawloop.policy.scripted import ScriptedPolicy
from clawloop.rollout.grade import SandboxGrader
from clawloop.sandbox.bubblewrap import Bubblewrap
from clawloop.synthesis.author.library.library import Library
from clawloop.synthesis.generator import GeneratorError, candidate, run
from clawloop.synthesis.skills.domain import load
from clawloop.synthesis.skills.observe import ObservationError, observe, typed
from clawloop.synthesis.skills.server import Use, read_server
from clawloop.types import Candidate, Card, DiagnosisReport
from clawloop.validation.check.deterministic import Deterministic
from clawloop.validation.check.leakage import Leakage
from clawloop.validation.check.oracle import Oracle
from clawloop.validation.check.trivial import Trivial

POLICY: Any = ScriptedPolicy()
SERVER = """
install: [mcp]
mount: /opt/operations
command: [python3, -B, /opt/notes/server.py, "{state}"]
timeout_s: 5
state: {file: notes.json, form: json, empty: {notes: []}}
tables: {notes: {at: notes, key: [title], columns: [title, topic, stars]}}
"""
WORDS = """
about: A shelf of notes.
values: {stars: [10, 99]}
lookups: {notes_on: {title: "the note on {topic} with the fewest stars", lowest: stars}}
goals: {star: "{title} has {stars} stars", file_under: "{title} is filed under {topic}", drop_note: "{title} is gone"}
"""
WORLD = """
def fill(tables, rng):
    stars = rng.sample(range(100, 900), 12)
    for name in rng.sample(range(100, 999), 12):
        topic = rng.choice(["moss", "tin", "rain"])
        tables["notes"].append({"title": "note %d" % name, "topic": topic, "stars": stars.pop()})
"""


class Shelf:
    """A domain's folder, the server's, and boxes that see the latter."""

    def __init__(self, folder: Path, sdk: str) -> None:
        self.domain, self._server = folder / "shelf", folder / "server"
        self._server.mkdir()
        self.domain.mkdir()
        for path in (folder, self._server):
            path.chmod(0o755)
        text = Path(__file__).with_name("notes_server.py.txt").read_text()
        (self._server / "server.py").write_text(text)
        for name, text in (("server.yaml", SERVER), ("words.yaml", WORDS), ("world.py", WORLD)):
            (self.domain / name).write_text(text)
        self.boxes = Bubblewrap(mounts={"/opt/operations": sdk, "/opt/notes": str(self._server)})

    def fault(self, name: str) -> None:
        (self._server / "fault").write_text(name)

    def task(self, level: int, seed: int) -> Candidate:
        card = Card("domain", "shelf/notes", "terminal", "shelf", level, "state", seed, f"shelf/{seed}")
        generator = Library([str(self.domain)]).write(card, POLICY, DiagnosisReport.empty()).generator
        return candidate("k1-0000", card, generator, run(generator, self.boxes))


@pytest.fixture
def shelf(operations: str) -> Any:
    import shutil
    import tempfile

    folder = Path(tempfile.mkdtemp(prefix="clawloop-shelf-"))  # tmp_path lies where only its owner may enter
    yield Shelf(folder, operations)
    shutil.rmtree(folder)


@pytest.mark.mcp
def test_a_server_over_a_json_file_gives_sound_tasks(shelf: Shelf) -> None:
    seen = observe(shelf.domain, shelf.boxes)
    assert seen.rereads and seen.volatile == {}
    assert list(seen.left_out) == ["tagged"] and "'tags' is no text and no number" in seen.left_out["tagged"]
    assert {tool.name: (tool.reads, tool.writes) for tool in seen.tools} == {
        "notes_on": (("notes",), ()),
        "star": (("notes",), ("notes",)),
        "file_under": (("notes",), ("notes",)),
        "drop_note": (("notes",), ("notes",)),
    }
    assert {tool.refusals for tool in seen.tools} == {(), ("there is no note ....",)}
    for level in (0, 1, 2):
        task = shelf.task(level, level)
        grader = SandboxGrader(shelf.boxes)
        for check in (Leakage(), Deterministic(shelf.boxes), Oracle(shelf.boxes, grader), Trivial(grader)):
            finding = check(task)
            assert finding.passed, finding


@pytest.mark.mcp
def test_lines_of_json_other_names_and_worlds_made_by_the_tools(shelf: Shelf) -> None:
    at, world = shelf.domain / "server.yaml", shelf.domain / "world.py"
    text = SERVER.replace("notes.json, form: json, empty: {notes: []}", "notes.jsonl, form: jsonl")
    text = text.replace("at: notes, ", "where: {kind: note}, names: {topic: matter}, ")
    uses = dict.fromkeys(("notes_on", "file_under"), "{names: {topic: matter}}")
    at.write_text(text + "tools: {" + ", ".join(f"{name}: {use}" for name, use in uses.items()) + "}\n")
    words = shelf.domain / "words.yaml"
    words.write_text(WORDS.replace("{topic}", "{matter}"))
    played = """
def play(call, rng):
    call("drop_note", title=LAST[0])
"""
    world.write_text("LAST = []\n" + WORLD + '        LAST[:] = ["note %d" % name]\n' + played)
    seen = observe(shelf.domain, shelf.boxes)
    assert seen.rereads and {tool.name: tuple(tool.params) for tool in seen.tools}["file_under"] == ("title", "matter")
    task = shelf.task(1, 4)
    assert task.task is not None
    lines = task.task.workspace.files["notes.jsonl"].decode().splitlines()
    assert len(lines) == 11 and {json.loads(line)["kind"] for line in lines} == {"note"}
    grader = SandboxGrader(shelf.boxes)
    assert Oracle(shelf.boxes, grader)(task).passed and Trivial(grader)(task).passed
    with shelf.boxes.open(task.task.workspace) as box:  # a line of another kind is no record
        for command in task.oracle:
            box.run(["/bin/bash", "-c", command], timeout_s=60)
        box.write("notes.jsonl", box.read("notes.jsonl", 1 << 20) + b'{"kind": "mark"}\n')
        assert grader(task.task, box.snapshot()).passed


@pytest.mark.mcp
def test_a_server_that_holds_its_state_in_memory_is_started_for_each_call(shelf: Shelf) -> None:
    shelf.fault("memory")
    assert not observe(shelf.domain, shelf.boxes).rereads
    task = shelf.task(1, 3)
    assert task.generator.timeout_s > 60
    assert Oracle(shelf.boxes, SandboxGrader(shelf.boxes))(task).passed


@pytest.mark.mcp
def test_what_is_printed_between_answers_does_no_harm(shelf: Shelf) -> None:
    shelf.fault("junk")
    assert observe(shelf.domain, shelf.boxes).rereads
    assert shelf.task(0, 1).oracle


@pytest.mark.mcp
@pytest.mark.parametrize(
    ("fault", "said"),
    [
        ("crash", r"broke at the tool notes_on: Connection closed; it said last: out of cheese"),
        ("hang", r"broke at the tool notes_on: no answer within 1 s"),
        ("only junk", r"broke at start: no answer within 1 s"),
        ("no tools", r"has no tool that can be used \(tagged: its parameter 'tags' is no text"),
    ],
)
def test_a_server_that_cannot_be_observed_is_named_in_a_sentence(shelf: Shelf, fault: str, said: str) -> None:
    at = shelf.domain / "server.yaml"
    at.write_text(at.read_text().replace("timeout_s: 5", "timeout_s: 1"))
    shelf.fault(fault)
    started = time.monotonic()
    with pytest.raises(ObservationError, match=said):
        observe(shelf.domain, shelf.boxes)
    assert time.monotonic() - started < 60 and not (shelf.domain / "observed.json").exists()


@pytest.mark.mcp
@pytest.mark.parametrize(
    ("fault", "said"),
    [
        ("crash", "it said last: out of cheese"),
        ("hang", "no answer within 5 s"),
        ("only junk", "broke at start: no answer"),
        ("no tools", "lists other tools than when it was observed"),
        ("writes on read", "notes_on changed records, as it never did when it was observed"),
    ],
)
def test_a_server_that_breaks_later_gives_a_refused_candidate(shelf: Shelf, fault: str, said: str) -> None:
    observe(shelf.domain, shelf.boxes)
    shelf.fault(fault)
    with pytest.raises(GeneratorError, match=said):
        shelf.task(1, 3)


@pytest.mark.mcp
def test_a_lookup_that_changes_records_is_none(shelf: Shelf) -> None:
    shelf.fault("writes on read")
    assert next(tool for tool in observe(shelf.domain, shelf.boxes).tools if tool.name == "notes_on").writes == (
        "notes",
    )
    with pytest.raises(ValueError, match="notes_on cannot be a lookup, because it changes records"):
        load(str(shelf.domain))


@pytest.mark.mcp
def test_an_observation_holds_for_the_files_it_was_made_with(
    shelf: Shelf, command_line: Callable[..., tuple[int, str, str]]
) -> None:
    assert command_line("domains", "show", shelf.domain)[0] == 2
    with pytest.raises(ValueError, match="was not observed yet; run `clawloop domains observe"):
        load(str(shelf.domain))
    observe(shelf.domain, shelf.boxes)
    code, said, _ = command_line("domains", "show", shelf.domain)
    assert code == 0 and "  notes: tasks of levels 0 1 2" in said
    assert all(f"    {tool}(" in said for tool in ("notes_on", "star", "file_under", "drop_note"))
    world = shelf.domain / "world.py"
    world.write_text(world.read_text() + "# other\n")
    with pytest.raises(ValueError, match=r"observed\.json is of another server\.yaml or world\.py; run"):
        load(str(shelf.domain))


@pytest.mark.mcp
def test_a_broken_document_is_a_failure_of_the_agent(shelf: Shelf) -> None:
    observe(shelf.domain, shelf.boxes)
    task = shelf.task(0, 2)
    assert task.task is not None
    for text, reason in (("{", "bad_document notes.json"), ('{"notes": [1]}', "bad_document notes.json")):
        with shelf.boxes.open(task.task.workspace) as box:
            box.write("notes.json", text.encode())
            verdict = SandboxGrader(shelf.boxes)(task.task, box.snapshot())
        assert {field.reason for field in verdict.fields} == {reason}
    twice = json.loads(task.task.workspace.files["notes.json"])
    twice["notes"].append(twice["notes"][0])
    with shelf.boxes.open(task.task.workspace) as box:
        for command in task.oracle:
            box.run(["/bin/bash", "-c", command], timeout_s=60)
        assert SandboxGrader(shelf.boxes)(task.task, box.snapshot()).passed
        box.write("notes.json", json.dumps(twice).encode())
        verdict = SandboxGrader(shelf.boxes)(task.task, box.snapshot())
    assert {field.reason for field in verdict.fields} == {"bad_document notes.json"}


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("install: [mcp]", "", "lacks install"),
        ("mount: /opt/operations", "mount: opt", "mount must be a path in the box"),
        ("form: json", "form: xml", "one of sqlite, json, jsonl, not 'xml'"),
        ("notes.json", "../notes.json", "must be a plain file name"),
        (", empty: {notes: []}", "", "state.empty must be the document without records"),
        ("key: [title], ", "", "tables.notes lacks key"),
        ("timeout_s: 5", "timeout: 5", "has no 'timeout'; it may have"),
        ("command: [", "command: [[", "is no YAML"),
        ("timeout_s: 5", "tools: {star: {hides: 1}}", "tools.star has no 'hides'"),
    ],
)
def test_a_wrong_server_yaml_says_what_is_wrong(old: str, new: str, said: str) -> None:
    read_server(SERVER, "server.yaml")
    with pytest.raises(ValueError, match=said) as error:
        read_server(SERVER.replace(old, new), "server.yaml")
    assert str(error.value).startswith("server.yaml") and "\n" not in str(error.value)


def test_parameters_are_typed_by_their_schemas() -> None:
    properties = {
        "a": {"type": "integer"},
        "b": {"anyOf": [{"type": "string"}, {"type": "null"}]},
        "c": {"enum": ["x"], "type": "string"},
        "d": {"type": "boolean"},
    }
    schema = {"properties": properties, "required": ["a", "c"]}
    assert typed(schema, Use("t")) == ({"a": "int", "c": "str"}, "")
    named = Use("t", takes=("b",), fixed=(("c", "x"), ("d", True)), names=(("b", "owner"),))
    assert typed(schema, named) == ({"a": "int", "owner": "str"}, "")
    assert (
        typed(schema, Use("t", takes=("d",)))[1]
        == "its parameter 'd' is no text and no number; give it a value under `with`"
    )
    assert typed(schema, Use("t", takes=("e",)))[1] == "it has no parameter 'e'"
