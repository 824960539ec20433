"""The program runs from a wheel in another environment, and from a checkout, wherever it is called."""

import os
import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SHIPPED = ("conf/config.yaml", "conf/scale/laptop.yaml", "conf/experiment/main.yaml", "sweeps/difficulty.yaml")

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(out), str(ROOT)]
    subprocess.run(build, check=True, capture_output=True)
    (path,) = out.glob("*.whl")
    return path


def _environment(folder: Path) -> None:
    """An environment that sees this one's packages, but not its editable installs."""
    venv.create(folder, with_pip=False, symlinks=True)
    (site,) = folder.glob("lib/python*/site-packages")
    (site / "others.pth").write_text(sysconfig.get_path("purelib") + "\n")


def _install(folder: Path, *arguments: str) -> None:
    pip = [sys.executable, "-m", "pip", "--python", str(folder), "install", "--no-deps", "--no-index", "--quiet"]
    subprocess.run([*pip, *arguments], check=True, capture_output=True)


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The programs of an environment that has the wheel, and sees this one's packages but not its clawloop."""
    folder = tmp_path_factory.mktemp("environment")
    _environment(folder)
    _install(folder, str(wheel))
    return folder / "bin"


def _run(command: list[str | Path], folder: Path, **extra: str) -> subprocess.CompletedProcess[str]:
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"} | extra
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)


def test_a_wheel_holds_every_file_that_the_package_reads(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    assert {f"clawloop/{name}" for name in SHIPPED} <= names
    data = [path for path in (ROOT / "clawloop").rglob("*") if path.is_file() and "__pycache__" not in path.parts]
    data += [path for folder in ("conf", "sweeps") for path in (ROOT / folder).rglob("*.yaml")]
    shipped = {name.removeprefix("clawloop/") for name in names}
    assert {str(path.relative_to(ROOT)).removeprefix("clawloop/") for path in data} <= shipped


def test_a_wheel_runs_in_another_environment_and_folder(installed: Path, tmp_path: Path) -> None:
    where = _run([installed / "python", "-c", "import clawloop; print(clawloop.__file__)"], tmp_path)
    assert str(installed.parent) in where.stdout
    for command in ([installed / "python", "-m", "clawloop"], [installed / "clawloop"]):
        shown = _run([*command, "+experiment=main", "--cfg", "job"], tmp_path)
        assert "iterations: 3" in shown.stdout, shown.stderr
        swept = _run([*command, "+experiment=main", "+sweep=difficulty", "--cfg", "hydra"], tmp_path)
        assert "none,moderate,aggressive" in swept.stdout, swept.stderr
        wrong = _run([*command, "+experiment=main", "difficulty=nope"], tmp_path)
        assert (wrong.returncode, len(wrong.stderr.splitlines())) == (2, 1)


def test_a_wheel_finds_its_data(installed: Path, tmp_path: Path) -> None:
    program = (
        "from pathlib import Path\n"
        "from clawloop.store.weights import find\n"
        "from clawloop.harness.shell.shell import Shell\n"
        "Shell(system='brief.md'), Shell(system='full.md')\n"
        "print((find('nano', Path('.')) / 'model.safetensors').is_file())\n"
    )
    done = _run([installed / "python", "-c", program], tmp_path)
    assert done.stdout == "True\n", done.stderr


def test_a_wheel_runs_the_loop(installed: Path, tmp_path: Path) -> None:
    done = _run([installed / "clawloop", "+experiment=main", "scale=debug", "iterations=1"], tmp_path)
    assert done.returncode == 0, done.stderr
    (summary,) = tmp_path.glob("outputs/main/*/summary.json")
    shown = _run([installed / "clawloop", "report", summary.parent], tmp_path)
    assert "theta_1" in shown.stdout, shown.stderr


def test_a_checkout_runs_from_another_folder(tmp_path: Path) -> None:
    done = _run([sys.executable, "-m", "clawloop", "+experiment=main", "--cfg", "job"], tmp_path, PYTHONPATH=str(ROOT))
    assert "iterations: 3" in done.stdout, done.stderr


def test_an_editable_install_runs_from_another_folder(tmp_path: Path) -> None:
    folder = tmp_path / "environment"
    _environment(folder)
    _install(folder, "--no-build-isolation", "--editable", str(ROOT))
    done = _run([folder / "bin" / "clawloop", "+experiment=main", "--cfg", "job"], tmp_path)
    assert "iterations: 3" in done.stdout, done.stderr
