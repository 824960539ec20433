"""Tools are read from their code, clustered into skills, and written out as files that run."""

import json
import random
import re
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from clawloop.synthesis.skills.cluster import affinity, cluster
from clawloop.synthesis.skills.domain import load, named, shipped
from clawloop.synthesis.skills.graph import Edge, dot, tripartite
from clawloop.synthesis.skills.materialise import materialise, specification
from clawloop.synthesis.skills.read import read_tools

CODE = '''"""Tools."""
import sqlite3

def _known(db: sqlite3.Connection, bee: str) -> int:
    row = db.execute("SELECT n FROM bees WHERE bee = ?", (bee,)).fetchone()
    if row is None:
        raise ValueError(f"there is no bee {bee}.")
    return int(row[0])

def bees_in(db: sqlite3.Connection, hive: str) -> dict[str, object]:
    """Deletes all flowers."""
    rows = db.execute("SELECT bee, n FROM bees WHERE hive IN (SELECT hive FROM hives WHERE hive = ?)", (hive,))
    return {"bees": [{"bee": bee, "n": n} for bee, n in rows]}

def move(db: sqlite3.Connection, bee: str, hive: str) -> dict[str, object]:
    """Move a bee."""
    _known(db, bee)
    db.execute("UPDATE bees SET hive = ? WHERE bee = ?", (hive, bee))
    db.execute("INSERT INTO log SELECT bee FROM bees WHERE bee = ?", (bee,))
    return {"bee": bee, "moved": 1}
'''


def test_a_tool_is_what_its_code_does() -> None:
    find, move = read_tools(CODE, "tools.py")
    assert (find.name, dict(find.params), find.gives, find.rows) == ("bees_in", {"hive": "str"}, ("bee", "n"), "bees")
    assert (find.reads, find.writes, find.refusals) == (("bees", "hives"), (), ())
    assert (move.gives, move.rows, move.helpers) == (("moved",), "", ("_known",))
    assert (move.reads, move.writes) == (("bees",), ("bees", "log"))
    assert move.refusals == ("there is no bee ....",)


def test_a_specification_does_not_believe_the_documentation() -> None:
    (find, _), (lying, _) = read_tools(CODE, ""), read_tools(CODE.replace("Deletes all flowers", "Finds bees"), "")
    assert find.about != lying.about
    assert specification(find) == specification(lying)
    assert specification(find)["changes"] == []


@pytest.mark.parametrize(
    ("code", "said"),
    [
        (CODE.replace("bee: str, hive: str)", "bee: list, hive: str)"), "move's bee must have one of str, int, float"),
        (CODE.replace("bee: str, hive: str)", 'bee: str, hive: str = "")'), "without defaults"),
        (CODE + "\ndef", "tools.py:"),
    ],
)
def test_code_that_cannot_be_read_is_refused_by_line(code: str, said: str) -> None:
    with pytest.raises(ValueError, match=said) as error:
        read_tools(code, "tools.py")
    assert re.match(r"tools\.py:\d+: ", str(error.value))


@pytest.mark.parametrize(
    ("old", "new", "parts", "said"),
    [
        ('"UPDATE bees SET hive = ? WHERE bee = ?"', 'f"UPDATE {bee}"', ["reads", "writes"], "must be a plain string"),
        ("UPDATE bees SET", "UPDATE bees SET ((", ["reads", "writes"], "cannot be read"),
        ('db.execute("INSERT', 'db.executescript(bee + "INSERT', ["reads", "writes"], "must be a plain string"),
        ('{"bee": bee, "moved": 1}', "dict(bee=bee)", ["gives"], "must return a dict that is written out"),
        ('{"bee": bee, "moved": 1}', "{bee: bee}", ["gives"], "must return a dict that is written out"),
        ('{"bee": bee, "moved": 1}', '{"moved": [dict(r) for r in bee]}', ["gives"], "must return a dict"),
    ],
)
def test_what_code_does_not_say_is_unknown_and_named_by_line(old: str, new: str, parts: list[str], said: str) -> None:
    assert old in CODE
    find, move = read_tools(CODE.replace(old, new), "tools.py")
    assert not find.unknown and list(move.unknown) == parts
    for sentence in move.unknown.values():
        assert re.match(r"tools\.py:\d+: ", sentence) and said in sentence
    assert set(move.reads) <= {"bees"} and set(move.writes) <= {"bees", "log"}


def test_the_graph_has_three_parts_and_edges_from_tools_only() -> None:
    graph = tripartite(read_tools(CODE, ""))
    assert (graph.tools, graph.tables) == (("bees_in", "move"), ("bees", "hives", "log"))
    assert graph.fields == ("bee", "hive", "moved", "n")
    assert {Edge("bees_in", "gives", "bee"), Edge("move", "takes", "bee"), Edge("move", "writes", "log")} <= set(
        graph.edges
    )
    assert graph.degree("table", "bees") == 2 and graph.degree("field", "n") == 1
    drawn = dot(graph, {"a": ["bees_in"], "b": ["move"]})
    assert '"tool move" -> "table log" [label="writes"];' in drawn
    assert '"field bee" -> "tool move" [label="takes"];' in drawn and drawn.count("subgraph") == 2


def test_affinity_is_the_product_of_weights_by_how_many_touch_a_node() -> None:
    graph = tripartite(read_tools(CODE, ""))
    assert affinity(graph, "bees_in", "move") == (1 * 1 + 1 * 1 + 1 * 2) / 2  # hive, bee, the table bees
    third = CODE + "\n\ndef hive_of(db: sqlite3.Connection, bee: str) -> dict[str, object]:\n    return {'hive': 1}\n"
    assert affinity(tripartite(read_tools(third, "")), "bees_in", "move") == (1 * 1 + 1 * 1) / 3 + 1 * 2 / 2


def test_affinity_is_highest_between_tools_of_one_matter() -> None:
    graph = tripartite(load("clinic").tools.values())
    assert affinity(graph, "book_visit", "free_times") > affinity(graph, "book_visit", "close_referral") > 0
    assert affinity(graph, "free_times", "drugs_for") == 0
    assert affinity(graph, "prescribe", "stop_drug") == affinity(graph, "stop_drug", "prescribe")


@pytest.mark.parametrize("name", shipped())
def test_every_tool_is_in_one_skill_whatever_their_order(name: str) -> None:
    domain = load(name)
    skills = cluster(domain.tools)
    assert len(domain.tools) >= 8 and len(skills) >= 3
    assert sorted(tool for skill in skills for tool in skill.tools) == sorted(domain.tools)
    assert len({skill.name for skill in skills}) == len(skills)
    names = list(domain.tools)
    random.Random(3).shuffle(names)
    other = cluster({tool: domain.tools[tool] for tool in names})
    assert [(skill.name, set(skill.tools)) for skill in other] == [(s.name, set(s.tools)) for s in skills]


def test_there_are_six_domains() -> None:
    assert len(shipped()) >= 6


@pytest.mark.parametrize("name", shipped())
def test_a_shipped_domain_speaks_of_every_lookup_and_change_and_knows_every_value(name: str) -> None:
    domain = load(name)
    changes = {tool.name for tool in domain.tools.values() if tool.writes}
    assert changes == set(domain.goals) | set(domain.remedies)
    assert set(domain.tools) - changes == set(domain.lookups)
    columns = {column for table in domain.tables.values() for column in table.columns}
    for tool in domain.tools.values():
        assert set(tool.params) <= columns | set(domain.values)
        spoken = domain.lookups[tool.name].phrases.values() if tool.name in domain.lookups else ()
        for phrase in (*domain.goals.get(tool.name, ()), *spoken):
            assert set(re.findall(r"\{(\w+)\}", phrase)) == set(tool.params), phrase


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    domain = load("clinic")
    for skill in cluster(domain.tools):
        for path, text in materialise(domain, skill).items():
            (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / path).write_text(text)
    rows = "INSERT INTO patients VALUES ('Ada', 'x', 700, 1); INSERT INTO patients VALUES ('Bo', 'x', 0, 1);"
    (tmp_path / "state.sql").write_text(domain.schema + rows)
    return tmp_path


def run(workspace: Path, *words: str) -> subprocess.CompletedProcess[str]:
    program = [sys.executable, "-I", "-B", *words]
    return subprocess.run(program, cwd=workspace, capture_output=True, text=True, check=False)


def owed(workspace: Path) -> list[tuple[str, int]]:
    db = sqlite3.connect(workspace / "state.db")
    try:
        return db.execute("SELECT patient, balance FROM patients ORDER BY patient").fetchall()
    finally:
        db.close()


def test_a_skill_runs_on_a_snapshot(workspace: Path) -> None:
    tool = "skills/patients/run.py"
    done = run(workspace, tool, "charge_patient", "--patient", "Bo", "--amount", "50")
    assert (done.returncode, json.loads(done.stdout), done.stderr) == (0, {"owed": 50}, "")
    assert json.loads(run(workspace, tool, "settle_balance", "--patient", "Ada").stdout) == {"paid": 700}
    assert owed(workspace) == [("Ada", 0), ("Bo", 50)]


def test_a_refusal_is_one_sentence_and_changes_nothing(workspace: Path) -> None:
    done = run(workspace, "skills/patients/run.py", "charge_patient", "--patient", "Bo", "--amount", "-3")
    assert (done.returncode, done.stdout, done.stderr) == (1, "", "a charge must be above zero, not -3.\n")
    assert owed(workspace) == [("Ada", 700), ("Bo", 0)]
    unknown = run(workspace, "skills/patients/run.py", "settle_balance", "--patient", "Cy")
    assert (unknown.returncode, unknown.stderr) == (1, "there is no patient Cy.\n")
    assert run(workspace, "skills/patients/run.py", "charge_patient", "--patient", "Bo").returncode == 2


def test_the_document_names_every_tool_of_the_skill_and_what_it_refuses(workspace: Path) -> None:
    text = (workspace / "skills/visits/SKILL.md").read_text()
    assert "run.py book_visit --patient STR --clinician STR --day STR --time STR`" in text
    assert text.startswith("---\nname: visits\ndescription: A clinic's front desk")
    assert "Refuses: ... has an unpaid balance." in text and "changes visits" in text
    assert "settle_balance" not in text
    assert "settle_balance" not in (workspace / "skills/visits/run.py").read_text()


WORDS = """
about: Bees.
lookups: {bees_in: {bee: "the first bee of {hive}", lowest: n}}
goals: {move: "{bee} lives in {hive}"}
values: {hive: [A, B]}
"""


def a_domain(folder: Path, **parts: str) -> str:
    folder.mkdir()
    given = {
        "schema.sql": "CREATE TABLE bees (bee TEXT PRIMARY KEY, n INTEGER, hive TEXT); "
        "CREATE TABLE hives (hive TEXT UNIQUE); "
        "CREATE TABLE log (id INTEGER PRIMARY KEY, bee TEXT UNIQUE);",
        "tools.py": CODE,
        "world.py": "def fill(db, rng): ...",
        "words.yaml": WORDS,
    }
    for name, text in (given | {key.replace("_", "."): text for key, text in parts.items()}).items():
        (folder / name).write_text(text)
    return str(folder)


def test_a_table_is_found_by_its_business_key(tmp_path: Path) -> None:
    tables = load(a_domain(tmp_path / "apiary")).tables
    assert {name: table.key for name, table in tables.items()} == {
        "bees": ("bee",),
        "hives": ("hive",),
        "log": ("bee",),
    }
    assert tables["log"].columns == ("bee",)


@pytest.mark.parametrize(
    ("parts", "said"),
    [
        ({"schema_sql": "CREATE TABLE bees (id INTEGER PRIMARY KEY, bee TEXT)"}, "bees has no business key"),
        ({"schema_sql": "CREATE bees"}, "no schema that SQLite can read"),
        ({"schema_sql": "CREATE TABLE bees (bee TEXT UNIQUE)"}, "speaks of a table 'hives'"),
        ({"words_yaml": "about: x"}, "must have the keys about, lookups and goals"),
        ({"words_yaml": WORDS.replace("move:", "fly:")}, "a tool 'fly' that tools.py does not have"),
        ({"words_yaml": WORDS + "remedies: {bees_in: x}"}, "bees_in cannot be a goal or a remedy"),
        ({"words_yaml": WORDS.replace("bees_in: {bee", "move: {bee")}, "move cannot be a lookup"),
        ({"words_yaml": WORDS.replace(", lowest: n", "")}, "lowest or highest, for bees_in"),
        ({"words_yaml": WORDS.replace("lowest: n", "lowest: size")}, "bees_in gives no 'size'; it gives bee, n"),
        ({"words_yaml": WORDS.replace("{bee} lives", "it lives")}, r"must have the gaps \{bee\}, \{hive\}"),
        ({"words_yaml": WORDS.replace("of {hive}", "of {hole}")}, r"of bees_in must have the gaps \{hive\}"),
        ({"words_yaml": WORDS.replace("[A, B]", "[1, 2, 3]")}, "the values of hive must be texts"),
    ],
)
def test_a_wrong_domain_says_what_is_wrong(tmp_path: Path, parts: dict[str, str], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        load(a_domain(tmp_path / "apiary", **parts))


OPEN = CODE.replace('"UPDATE bees SET hive = ? WHERE bee = ?"', 'f"UPDATE {bee}"')
GRAPH = "move: {reads: [bees], writes: [bees, log], by: person, reason: it was read by eye}\n"
SKILLS = "groups: {all: [bees_in, move]}\nby: person\nreason: they are few\n"


def test_a_person_may_complete_and_regroup_a_domain(tmp_path: Path) -> None:
    given = {"tools_py": OPEN, "graph_yaml": GRAPH, "skills_yaml": SKILLS}
    domain, plain = load(a_domain(tmp_path / "hives", **given)), load(a_domain(tmp_path / "apiary"))
    assert domain.tools["move"] == plain.tools["move"] and not domain.tools["move"].unknown
    assert domain.claims["move"].reason == "it was read by eye"
    assert [(skill.name, skill.tools) for skill in domain.skills] == [("all", ("bees_in", "move"))]
    assert (domain.grouping.by, plain.grouping.by) == ("person", "affinity")
    assert plain.skills == cluster(plain.tools)


def test_a_change_of_a_file_is_seen(tmp_path: Path) -> None:
    folder = a_domain(tmp_path / "apiary")
    before = load(folder)
    assert load(folder) is before
    (tmp_path / "apiary" / "skills.yaml").write_text(SKILLS)
    assert load(folder).skills != before.skills


@pytest.mark.parametrize(
    ("parts", "said"),
    [
        ({"tools_py": OPEN}, "say in graph.yaml what move reads, writes"),
        ({"graph_yaml": GRAPH}, "the code leaves nothing open; leave it out"),
        ({"tools_py": OPEN, "graph_yaml": GRAPH.replace("move:", "bees_in:")}, "the code leaves open only move"),
        ({"tools_py": OPEN, "graph_yaml": GRAPH.replace(", log]", "]")}, "writes lacks log, which the code names"),
        ({"tools_py": OPEN, "graph_yaml": GRAPH.replace("log]", "log, log]")}, "names something twice"),
        ({"tools_py": OPEN, "graph_yaml": GRAPH.replace("log]", "log, moons]")}, "has no table 'moons'"),
        ({"tools_py": OPEN, "graph_yaml": GRAPH.replace("person", "bees")}, "by must be model or person"),
        ({"tools_py": OPEN, "graph_yaml": "move: ["}, "graph.yaml, line 1: the YAML cannot be read"),
        ({"skills_yaml": SKILLS.replace(", move", "")}, "move is in no group"),
        ({"skills_yaml": SKILLS.replace("they are few", "")}, "reason must be a sentence"),
        ({"skills_yaml": SKILLS.replace("[bees_in, move]", "[bees_in, move], none: []")}, "none has no tool"),
        ({"skills_yaml": "groups: 2"}, "must have the keys groups"),
    ],
)
def test_what_is_said_beside_the_code_is_read_strictly(tmp_path: Path, parts: dict[str, str], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        load(a_domain(tmp_path / "apiary", **parts))


def test_a_folder_that_is_no_domain_or_has_a_taken_name_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"lacks schema\.sql"):
        load(str(tmp_path))
    with pytest.raises(ValueError, match="the name of another domain, clinic"):
        named([str(tmp_path / "clinic")])
