"""A candidate comes back from its folder as it was, and a broken folder is named in one sentence."""

import itertools
import json
import os
from dataclasses import replace
from pathlib import Path

import pytest

from clawloop.policy.scripted import ScriptedPolicy
from clawloop.sandbox.bubblewrap import Bubblewrap
from clawloop.store.task_folder import TaskFolderError, folders, read, write
from clawloop.synthesis.author.library.library import Library
from clawloop.synthesis.generator import candidate, run
from clawloop.synthesis.growth.dirtiness import Dirtiness
from clawloop.synthesis.growth.multi_hop import MultiHop
from clawloop.synthesis.routine.capability import FORMS, Capability
from clawloop.types import Candidate, Card, DiagnosisReport, Finding, Workspace

BOXES = Bubblewrap()
CAPABILITIES = Capability().capabilities


def made(level: int, form: str, capability: str = "audit/analysis") -> Candidate:
    card = Card("capability", capability, capability.split("/")[1], "hives", level, form, 7, f"{capability}/hives/7")
    card = Dirtiness().grow(MultiHop().grow(card))
    generator = Library().write(card, ScriptedPolicy(), DiagnosisReport.empty()).generator
    return candidate("k1-0007", card, generator, run(generator, BOXES))


@pytest.fixture(scope="module")
def sound() -> Candidate:
    return made(0, "json")


@pytest.mark.parametrize(("level", "form"), list(itertools.product(range(5), FORMS)))
def test_every_level_and_form_comes_back(tmp_path: Path, level: int, form: str) -> None:
    given = made(level, form, CAPABILITIES[(level + FORMS.index(form)) % len(CAPABILITIES)])
    write(given, tmp_path / "a" / "task")
    assert read(tmp_path / "a" / "task") == given


def test_bytes_names_and_line_ends_come_back(sound: Candidate, tmp_path: Path) -> None:
    assert sound.task is not None
    files = {"raw.bin": bytes(range(256)), "a/b/.hidden": b"\xff\xfe", "ü c.txt": b"x\r\ny\r", "empty": b""}
    task = replace(
        sound.task,
        instruction="Zähle\r\nall of it.\n\n",
        workspace=Workspace(files, {"TOKEN": "a=b\nc"}),
        verifier=replace(sound.task.verifier, program="print()\r\n", key='{"a": 1.50}', timeout_s=0.1),
    )
    given = replace(
        sound,
        task=task,
        oracle=tuple(f"echo {i}\r\n" for i in range(12)),
        answer='{"a":  1e3}',
        findings=(Finding("generator", True, "said “so”"),),
    )
    write(given, tmp_path / "task")
    assert (tmp_path / "task" / "workspace" / "raw.bin").read_bytes() == bytes(range(256))
    assert read(tmp_path / "task") == given


def test_nothing_is_written_over_and_only_tasks_are_written(sound: Candidate, tmp_path: Path) -> None:
    write(sound, tmp_path / "task")
    with pytest.raises(TaskFolderError, match="there already"):
        write(sound, tmp_path / "task")
    with pytest.raises(TaskFolderError, match="no task to write"):
        write(replace(sound, task=None), tmp_path / "none")
    with pytest.raises(TaskFolderError, match="the candidate's id and card"):
        write(replace(sound, id="other"), tmp_path / "other")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["task"]


def test_folders(sound: Candidate, tmp_path: Path) -> None:
    for name in ("b", "a"):
        write(sound, tmp_path / name)
    (tmp_path / "notes").mkdir()
    assert folders(tmp_path) == (tmp_path / "a", tmp_path / "b")
    assert folders(tmp_path / "a") == (tmp_path / "a",)
    with pytest.raises(TaskFolderError, match="holds no tasks"):
        folders(tmp_path / "notes")


def changed(folder: Path, **values: object) -> None:
    """The manifest with other values; None takes a key away."""
    manifest = {**json.loads((folder / "task.json").read_text()), **values}
    (folder / "task.json").write_text(json.dumps({key: value for key, value in manifest.items() if value is not None}))


def test_a_broken_folder_is_named(sound: Candidate, tmp_path: Path) -> None:
    def broken(name: str) -> Path:
        write(sound, tmp_path / name)
        return tmp_path / name

    def says(folder: Path, text: str) -> None:
        with pytest.raises(TaskFolderError, match=text):
            read(folder)

    folder = broken("json")
    (folder / "task.json").write_text("{")
    says(folder, r"task\.json is no JSON")
    folder = broken("list")
    (folder / "task.json").write_text("[1]")
    says(folder, "must be a JSON object")
    for name, values, text in (
        ("format", {"format": 2}, "has format 2"),
        ("id", {"id": None}, r"holds no task: .*`\$\.(task\.)?id`"),
        ("level", {"card": {"level": "3"}}, "holds no task"),
        ("generator", {"generator": []}, "generator must be a JSON object"),
        ("unknown", {"colour": 1}, "unknown key 'colour'"),
        ("timeout", {"verifier": {"timeout": 3}}, "unknown key 'task.verifier.timeout'"),
    ):
        folder = broken(name)
        changed(folder, **values)
        says(folder, text)
    for path, text in (
        ("instruction.md", "is not there"),
        ("generator.py", "is not there"),
        ("contract.json", "is not there"),
        ("verifier/verify.py", "is not there"),
    ):
        folder = broken("no_" + path.replace("/", "_"))
        (folder / path).unlink()
        says(folder, text)
    folder = broken("latin")
    (folder / "instruction.md").write_bytes(b"\xff")
    says(folder, "is not UTF-8")
    folder = broken("nul")
    (folder / "oracle" / "0001.sh").write_bytes(b"echo\0")
    says(folder, "holds a NUL")
    folder = broken("pipe")
    (folder / "answer.json").unlink()
    os.mkfifo(folder / "answer.json")
    says(folder, "is no file")


def test_links_do_not_lead_out(sound: Candidate, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.mkdir()
    (secret / "x").write_text("hidden")
    for name, link, target in (
        ("file", "workspace/x", secret / "x"),
        ("folder", "workspace/more", secret),
        ("oracle", "oracle/0002.sh", secret / "x"),
    ):
        write(sound, tmp_path / name)
        (tmp_path / name / link).symlink_to(target)
        with pytest.raises(TaskFolderError, match="is a link"):
            read(tmp_path / name)
