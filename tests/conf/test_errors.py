"""Everything that can be wrong with a config ends in one sentence and exit code 2, and never in a traceback."""

import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from clawloop.protocols import InfrastructureError

MAIN = "+experiment=main"


@pytest.fixture
def clawloop(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, command_line: Any) -> Any:
    """The command line in an empty folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HYDRA_FULL_ERROR", "1")
    return command_line


@pytest.fixture
def built(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """Stands in for everything that a run is built of."""
    seen = SimpleNamespace(configs=[], closed=[], run=lambda: {})

    def build(config: dict[str, Any], folder: Path) -> SimpleNamespace:
        seen.configs.append((config, folder))
        return SimpleNamespace(plan=["the plan"], run=lambda: seen.run(), close=seen.closed.append)

    monkeypatch.setattr("clawloop.cli.check_parts", lambda *_: None)
    monkeypatch.setitem(sys.modules, "clawloop.build.run", SimpleNamespace(build=build))  # type: ignore[arg-type]
    return seen


def _sentence(code: int, err: str) -> str:
    assert code == 2
    lines = err.strip().splitlines()
    assert len(lines) == 1, err
    assert "Traceback" not in err
    return lines[0]


@pytest.mark.parametrize(
    ("overrides", "said"),
    [
        ([MAIN, "iteratons=3"], "there is no key 'iteratons'; did you mean 'iterations'?"),
        ([MAIN, "trainer.sft.lrr=1"], "there is no key 'trainer.sft.lrr'; did you mean 'lr'?"),
        ([MAIN, "band.lo=1"], "there is no key 'band.lo'; did you mean 'low'?"),
        ([MAIN, "iterations=abc"], "iterations=abc: this must be an integer."),
        ([MAIN, "split.held_out=half"], "split.held_out=half: this must be a number."),
        ([MAIN, "probe.levels=[0,x]"], "probe.levels"),
        ([MAIN, "difficulty=moderat"], "difficulty=moderat: there is no such difficulty; did you mean 'moderate'?"),
        ([MAIN, "trainer=[sft,grp]"], "trainer=grp: there is no such trainer; did you mean 'grpo'?"),
        ([MAIN, "name=${nothere}"], "${nothere} points at no key; name one that exists."),
        ([MAIN, "trainer.sft.lr=${no.where}"], "${no.where} points at no key; name one that exists."),
        ([MAIN, "scales=laptop"], "there is no key 'scales'; did you mean 'scale'?"),
        (["+experiment=nope"], "experiment=nope: there is no such experiment; use one of drgrpo, harness_bandit, "),
        ([MAIN, "clip=highr"], "clip=highr: there is no such clip; did you mean 'higher'?"),
        ([MAIN, "clip.epsilon=0.1"], "there is no key 'clip.epsilon'; use one of _target_, high, low."),
        ([MAIN, "+new.key=1"], "there is no key 'new'"),
        ([MAIN, "+split.key=1"], "there is no key 'split.key'"),
        ([MAIN, "+trainer.nope.lr=1"], "trainer.nope: there is no conf/trainer/nope.yaml; use one of grpo, sft."),
        ([MAIN, "iterations=[1"], "iterations=[1: this override cannot be read; write key=value"),
        ([MAIN, "resume=nowhere"], "resume=nowhere: there is no such folder; give that of a run"),
        (["experiment=main"], "experiment: no such group is among the defaults of conf/config.yaml; write +experiment"),
        ([], "iterations has no value: choose an experiment (+experiment=main) or give it one (iterations=...)."),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_a_wrong_override_is_answered_in_one_sentence(
    clawloop: Any, built: SimpleNamespace, overrides: list[str], said: str
) -> None:
    code, _, err = clawloop(*overrides)
    assert said in _sentence(code, err)
    assert not built.configs


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "# @package _global_\nsplit:\n  held: 1\n",
            "conf/experiment/mine.yaml: there is no key 'split.held'; did you mean",
        ),
        ("# @package _global_\nrollouts: many\n", "conf/experiment/mine.yaml: rollouts=many: this must be an integer."),
        ("# @package _global_\nrollouts: 1\n\tband: 2\n", "mine.yaml, line 3, column 1: the YAML cannot be read ("),
        ("# @package _global_\nband: {low: 1\n", "the YAML cannot be read ("),
        (
            "# @package _global_\ndefaults:\n  - override /model: nan\n  - _self_\n",
            "model=nan: there is no such model; did you mean 'nano'?",
        ),
    ],
)
def test_a_wrong_file_is_named(clawloop: Any, built: SimpleNamespace, tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "own" / "experiment").mkdir(parents=True)
    (tmp_path / "own" / "experiment" / "mine.yaml").write_text(text)
    code, _, err = clawloop("--config-dir", "own", "+experiment=mine")
    assert said in _sentence(code, err)
    assert not built.configs


def test_a_run_prints_its_plan_works_and_closes(clawloop: Any, built: SimpleNamespace, tmp_path: Path) -> None:
    code, out, err = clawloop(MAIN, "seed=3")
    assert (code, out, err, built.closed) == (0, "the plan\n", "", [0])
    config, folder = built.configs[0]
    assert config["seed"] == 3
    assert folder.parent == tmp_path / "outputs" / "main"


def test_a_run_goes_on_in_the_folder_that_it_is_told_to_resume(
    clawloop: Any, built: SimpleNamespace, tmp_path: Path
) -> None:
    (tmp_path / "before").mkdir()
    assert clawloop(MAIN, "resume=before")[0] == 0
    assert built.configs[0][1] == tmp_path / "before"


def _raiser(error: BaseException) -> Any:
    def run() -> None:
        raise error

    return run


def test_a_broken_machine_is_one_line(clawloop: Any, built: SimpleNamespace) -> None:
    built.run = _raiser(InfrastructureError("the sandbox is gone."))
    code, _, err = clawloop(MAIN)
    last = err.strip().splitlines()[-1]
    assert last.startswith("the sandbox is gone. The same command with resume=outputs/main/") and last.endswith(
        " goes on."
    )
    assert (code, built.closed) == (1, [1])
    assert "Traceback" not in err


def test_ctrl_c_is_one_line_that_says_how_to_go_on(clawloop: Any, built: SimpleNamespace) -> None:
    built.run = _raiser(KeyboardInterrupt())
    code, _, err = clawloop(MAIN)
    assert (code, built.closed) == (130, [130])
    assert len(err.strip().splitlines()) == 1
    assert "resume=outputs/main/" in err


def test_a_bug_keeps_its_traceback(clawloop: Any, built: SimpleNamespace) -> None:
    built.run = _raiser(ZeroDivisionError("a bug"))
    with pytest.raises(ZeroDivisionError):
        clawloop(MAIN)
    assert built.closed == [1]


def test_a_failing_cell_leaves_the_others_alone(
    clawloop: Any, built: SimpleNamespace, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def run() -> None:
        if built.configs[-1][0]["difficulty"]["_target_"].endswith("Moderate"):
            raise ZeroDivisionError("a bug in one cell")

    built.run = run
    monkeypatch.setattr("clawloop.report.tables.compare", lambda root: f"the table of {root}")
    code, out, _ = clawloop("-m", MAIN, "scale=debug", "+sweep=difficulty")
    assert code == 1
    assert len(built.configs) == 4
    assert built.closed == [0, 1, 0, 0]
    folders = [folder for _, folder in built.configs]
    assert [folder.name for folder in folders] == ["0", "1", "2", "3"]
    assert folders[0].parent.parent == tmp_path / "outputs" / "multirun" / "main"
    status = json.loads((folders[1] / "status.json").read_text())
    assert status == {"status": "failed", "reason": "ZeroDivisionError: a bug in one cell"}
    assert not (folders[0] / "status.json").exists()
    assert out.rstrip().endswith("the table of " + str(folders[0].parent.relative_to(tmp_path)))


def test_a_sweep_without_failures_ends_well(
    clawloop: Any, built: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("clawloop.report.tables.compare", lambda root: "the table")
    code, out, _ = clawloop("-m", MAIN, "scale=debug", "+sweep=routine", "tracker=[wandb]")
    assert code == 0
    assert out.rstrip().endswith("the table")
    assert [list(config["routine"]) for config, _ in built.configs] == [
        ["capability"],
        ["domain"],
        ["capability", "domain"],
    ]
    groups = {config["tracker"]["wandb"]["group"] for config, _ in built.configs}
    assert len(groups) == 1
    assert groups.pop().startswith("main/")


@pytest.mark.parametrize("sweep", ["routine", "iterations", "difficulty"])
def test_every_sweep_is_found_by_name(clawloop: Any, sweep: str) -> None:
    code, out, _ = clawloop(MAIN, f"+sweep={sweep}", "--cfg", "hydra")
    assert code == 0
    assert "params:" in out


def test_an_unknown_sweep_is_one_sentence(clawloop: Any, built: SimpleNamespace) -> None:
    code, _, err = clawloop("-m", MAIN, "+sweep=difficult")
    assert _sentence(code, err) == "sweep=difficult: there is no such sweep; did you mean 'difficulty'?"


def test_report_prints_or_says_what_it_needs(clawloop: Any, tmp_path: Path) -> None:
    assert "needs one folder" in _sentence(*clawloop("report")[::2])
    assert "nowhere" in _sentence(*clawloop("report", str(tmp_path / "nowhere"))[::2])


def test_a_real_process_answers_from_any_folder_and_imports_little(tmp_path: Path) -> None:
    root = Path(__file__).parents[2]
    environment = os.environ | {"PYTHONPATH": str(root)}
    program = (
        "import sys; sys.argv = ['clawloop', '+experiment=main', '--cfg', 'job']\n"
        "from clawloop.cli import main; main()\n"
        "print(sorted({'torch', 'lightning', 'transformers', 'wandb', 'scipy', 'numpy', 'rich'} & set(sys.modules)))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, env=environment, capture_output=True, text=True, check=True
    )
    assert "iterations: 3" in done.stdout
    assert done.stdout.rstrip().endswith("[]")
    failed = subprocess.run(
        [sys.executable, "-m", "clawloop", MAIN, "iterations=x"],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (failed.returncode, failed.stderr) == (2, "iterations=x: this must be an integer.\n")
