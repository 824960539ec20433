"""`clawloop tasks` on a small run: what it prints, what it writes, and what it says of wrong words."""

import itertools
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from clawloop.policy.scripted import ScriptedPolicy
from clawloop.sandbox.bubblewrap import Bubblewrap
from clawloop.store.layout import Layout
from clawloop.store.ledger import Ledger, encode
from clawloop.store.task_folder import read, write
from clawloop.synthesis.author.library.library import Library
from clawloop.synthesis.generator import candidate, run
from clawloop.types import Candidate, Card, DiagnosisReport, Finding, Generator, Outcome, Rollout

Clawloop = Callable[..., tuple[int, str, str]]
SOUND = (Finding("oracle", True), Finding("leakage", True))


def made(id: str, seed: int) -> Candidate:
    card = Card("capability", "audit/analysis", "analysis", "hives", 0, "json", seed, f"audit/hives/{seed}")
    generator = Library().write(card, ScriptedPolicy(), DiagnosisReport.empty()).generator
    return candidate(id, card, generator, run(generator, Bubblewrap()))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of one whole iteration, and of a second that was killed while its tasks were tried."""
    folder = tmp_path_factory.mktemp("run")
    ledger = Ledger(Layout(folder).ledger)
    probe, *tasks = (made(id, seed) for seed, id in enumerate(("k-1-0000", "k1-0000", "k1-0001", "k1-0002", "k2-0000")))
    failed = Candidate("k1-0003", tasks[0].card, Generator("", 1), findings=(Finding("generator", False, "no JSON"),))
    ledger.add_candidates(0, (probe,))
    ledger.add_candidates(1, (*tasks[:3], failed))
    leaky = (SOUND[0], Finding("leakage", False, "it tells."))
    ledger.add_findings({"k1-0000": SOUND, "k1-0001": SOUND, "k1-0002": leaky, "k1-0003": failed.findings})
    ledger.end_phase("screen", 1, encode(["k1-0000", "k1-0001"]), 0.0)
    for id, rewards in (("k1-0000", (1.0, 0.0, None)), ("k1-0001", (0.0, 0.0, 0.0))):
        for index, reward in enumerate(rewards):
            ended = Outcome.INFRASTRUCTURE_FAILED if reward is None else Outcome.SCORED
            ledger.add("k1/admission", Rollout(id, index, ended, reward, None, None))
    ledger.end_phase("split", 1, encode([["k1-0000"], []]), 0.0)
    ledger.add_candidates(2, (tasks[3],))
    ledger.add_findings({"k2-0000": SOUND})
    ledger.add("k2/admission", Rollout("k2-0000", 0, Outcome.SCORED, 1.0, None, None))
    ledger.close()
    return folder


@pytest.fixture
def clawloop(command_line: Clawloop) -> Clawloop:
    """Runs `clawloop tasks` in this process: (exit code, stdout, stderr)."""
    return lambda *words: command_line("tasks", *words)


def test_list_says_what_became_of_each(clawloop: Clawloop, folder: Path) -> None:
    code, out, err = clawloop("list", folder)
    lines = out.splitlines()
    assert (code, err) == (0, "")
    assert [line.split()[0] for line in lines] == [
        "k-1-0000",
        "k1-0000",
        "k1-0001",
        "k1-0002",
        "k1-0003",
        "k2-0000",
    ]
    for line, end in zip(
        lines,
        (
            "probe",
            "admitted, 1 of 3 passes, 1 unjudged, for practice",
            "out of the band, 0 of 3 passes",
            "rejected by leakage: it tells.",
            "rejected by generator: no JSON",
            "tried, 1 of 1 passes",
        ),
        strict=True,
    ):
        assert line.endswith("  " + end)
        assert all(word in line for word in ("capability", "audit/analysis", "hives", "level 0", "json"))


def test_show_hides_the_answer_until_it_is_asked_for(clawloop: Clawloop, folder: Path) -> None:
    task = made("k1-0000", 1)
    assert task.task is not None
    (value,) = next(iter(json.loads(task.answer).values())).values()
    told = f": {json.dumps(value)}"
    _, out, _ = clawloop("show", folder, "k1-0000")
    assert " ".join(task.task.instruction.split()) in " ".join(out.split())
    assert all(path in out for path in task.task.workspace.files)
    assert "audit/hives/1" in out and "rule filter:" in out and "passed  oracle" in out
    assert told not in out and task.oracle[0] not in out and "SPEC =" not in out
    code, out, _ = clawloop("show", "--answer", folder, "k1-0000")
    assert code == 0 and told in out and task.oracle[0] in out and "SPEC =" in out


def test_show_tells_what_grew_and_what_was_injected(clawloop: Clawloop, tmp_path: Path) -> None:
    card = replace(made("k1-0000", 1).card, level=3, growth=("dirtiness", "multi_hop"))
    generator = Library().write(card, ScriptedPolicy(), DiagnosisReport.empty()).generator
    ledger = Ledger(Layout(tmp_path).ledger)
    ledger.add_candidates(1, (candidate("k1-0000", card, generator, run(generator, Bubblewrap())),))
    ledger.close()
    code, out, _ = clawloop("show", tmp_path, "k1-0000")
    assert code == 0 and "growth     dirtiness, multi_hop\n" in out and "noise      distractors, missing\n" in out
    assert "hops       index.csv to 8 details and rates.csv\n" in out


def test_show_a_candidate_without_a_task(clawloop: Clawloop, folder: Path) -> None:
    code, out, _ = clawloop("show", folder, "k1-0003")
    assert code == 0 and "FAILED  generator: no JSON" in out and "Instruction" not in out


def test_what_a_generator_wrote_cannot_drive_a_terminal(clawloop: Clawloop, tmp_path: Path) -> None:
    task = made("k1-0000", 1)
    assert task.task is not None
    bad = replace(task, task=replace(task.task, instruction="Clear \x1b[2J now.\x9b1m \u202e"))
    ledger = Ledger(Layout(tmp_path).ledger)
    ledger.add_candidates(1, (bad,))
    ledger.close()
    _, out, _ = clawloop("show", tmp_path, "k1-0000")
    assert "Clear \\x1b[2J now.\\x9b1m" in out and not set("\x1b\x9b\u202e") & set(out)


def test_export_check_render_and_grade(clawloop: Clawloop, folder: Path, tmp_path: Path) -> None:
    code, out, _ = clawloop("export", folder, tmp_path / "all")
    assert code == 0 and "5 tasks" in out and "1 candidates have none" in out
    assert clawloop("export", folder, tmp_path / "some", "--admitted")[0] == 0
    assert [path.name for path in (tmp_path / "some").iterdir()] == ["k1-0000"]
    task = tmp_path / "some" / "k1-0000"
    assert read(task) == made("k1-0000", 1)

    code, out, _ = clawloop("check", tmp_path / "some", "check=[leakage,oracle]")
    assert code == 0 and out.splitlines() == ["k1-0000  sound", "1 of 1 tasks pass leakage, oracle"]

    work = tmp_path / "work"
    code, out, _ = clawloop("render", task, work)
    given = read(task).task
    assert code == 0 and given is not None
    assert given.instruction in (work / "instruction.md").read_text()
    files = {p.relative_to(work / "workspace").as_posix(): p.read_bytes() for p in (work / "workspace").rglob("*.*")}
    assert files == given.workspace.files
    code, out, _ = clawloop("grade", task, work)
    assert code == 1 and "wrong  " in out and ": missing " in out and out.endswith("not passed\n")
    answer = json.loads(read(task).answer)
    for path, fields in answer.items():
        (work / "workspace" / path).write_text(json.dumps(fields))
    code, out, _ = clawloop("grade", task, work)
    assert code == 0 and "wrong" not in out and out.endswith("\npassed\n")


def test_a_refused_task_gives_exit_code_1_and_the_reason(clawloop: Clawloop, tmp_path: Path) -> None:
    sound = made("k1-0000", 1)
    assert sound.task is not None
    told = replace(sound, task=replace(sound.task, instruction=f"{sound.task.instruction} It is {sound.answer}."))
    write(told, tmp_path / "told")
    write(sound, tmp_path / "sound")
    code, out, _ = clawloop("check", tmp_path, "check=[leakage]")
    assert code == 1 and "refused by leakage: the instruction states" in out and "1 of 2 tasks pass leakage" in out


def test_a_broken_verifier_is_no_bad_grade(clawloop: Clawloop, tmp_path: Path) -> None:
    sound = made("k1-0000", 1)
    assert sound.task is not None
    verifier = replace(sound.task.verifier, program="1 / 0")
    write(replace(sound, task=replace(sound.task, verifier=verifier)), tmp_path / "task")
    clawloop("render", tmp_path / "task", tmp_path / "work")
    code, out, err = clawloop("grade", tmp_path / "task", tmp_path / "work")
    assert (code, out) == (1, "") and "ended with code 1" in err and err.count("\n") == 1


def test_wrong_words_end_in_one_sentence(clawloop: Clawloop, folder: Path, tmp_path: Path) -> None:
    write(made("k1-0000", 1), tmp_path / "task")
    write(made("k1-0000", 1), tmp_path / "variable")
    manifest = tmp_path / "variable" / "task.json"
    manifest.write_text(manifest.read_text().replace('"environment": {}', '"environment": {"A B": "1"}'))
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "task.json").write_text("{")
    (tmp_path / "ledgerless").mkdir()
    (tmp_path / "file").write_text("x")
    (tmp_path / "odd").mkdir()
    Layout(tmp_path / "odd").ledger.write_text("no database at all")
    for words, says in (
        ((), "takes one of: list RUN"),
        (("lst", folder), "takes one of: list RUN"),
        (("list",), "takes one of"),
        (("list", folder, "--answer"), "no option --answer"),
        (("list", tmp_path / "nowhere"), "name the folder of a run"),
        (("list", tmp_path / "odd"), "is not a ledger"),
        (("show", folder, "k9-0000"), "it has k-1-0000 to k2-0000"),
        (("export", tmp_path / "ledgerless", tmp_path / "x"), "has no ledger.sqlite"),
        (("export", folder, tmp_path / "file"), "name another place"),
        (("check", tmp_path / "ledgerless"), "holds no tasks"),
        (("check", tmp_path / "broken"), "is no JSON"),
        (("check", tmp_path / "task", "check=[nosuch]"), "nosuch"),
        (("check", tmp_path / "variable"), "the workspace of k1-0000 cannot be laid out: environment variable 'A B'"),
        (("check", tmp_path / "task", "nokey=1"), "no key 'nokey'"),
        (("render", tmp_path / "nowhere", tmp_path / "x"), "is not there"),
        (("render", tmp_path / "task", tmp_path), "is not empty"),
        (("grade", tmp_path / "task", tmp_path / "x"), "laid out"),
    ):
        code, out, err = clawloop(*words)
        assert (code, out) == (2, ""), words
        assert says in err and err.count("\n") == 1 and "Traceback" not in err, err
    assert not list(itertools.chain((tmp_path / "ledgerless").iterdir(), tmp_path.glob("x")))
