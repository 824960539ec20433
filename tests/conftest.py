"""Shared fixtures: the command line in this process, a small random model with a real tokenizer, boxes of each kind."""

import fcntl
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from glob import glob
from pathlib import Path
from typing import Any

import pytest
import yaml

from clawloop.store.layout import cache

TOP = Path(__file__).parents[1]
SCRIPT = TOP / "scripts" / "docker"
BOXES = sorted(path.stem for path in (TOP / "conf" / "sandbox").glob("*.yaml"))


@pytest.fixture
def command_line(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Callable[..., object]:
    """Runs `clawloop` with these words in this process: (exit code, stdout, stderr)."""
    from hydra.core.global_hydra import GlobalHydra

    from clawloop.cli import main

    def run(*words: object) -> tuple[int, str, str]:
        GlobalHydra.instance().clear()
        monkeypatch.setattr(sys, "argv", ["clawloop", *map(str, words)])
        capfd.readouterr()
        code = 0
        try:
            main()
        except SystemExit as end:
            code = int(end.code or 0)
        out, err = capfd.readouterr()
        return code, out, err

    return run


@pytest.fixture(scope="session", params=["Qwen3", "Llama"])
def small_model(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a network of two layers (random weights) and the nano tokenizer."""
    import torch
    import transformers

    from clawloop.store.weights import find

    folder = tmp_path_factory.mktemp("small_model")
    tokenizer = transformers.AutoTokenizer.from_pretrained(find("nano", folder))
    torch.manual_seed(0)
    config = getattr(transformers, f"{request.param}Config")(
        vocab_size=len(tokenizer),
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=8,
        max_position_embeddings=512,
        initializer_range=0.2,
        tie_word_embeddings=True,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
        bos_token_id=None,
    )
    getattr(transformers, f"{request.param}ForCausalLM")(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


@pytest.fixture(scope="session")
def docker_engine() -> Iterator[str]:
    """The address of a Docker engine with the image: the one that is there, or a private one while it is needed."""
    usual = "/var/run/docker.sock"
    if given := os.environ.get("DOCKER_HOST") or (os.access(usual, os.W_OK) and f"unix://{usual}"):
        yield given
        return
    home = cache() / "docker"
    home.mkdir(parents=True, exist_ok=True)
    with (home / "users").open("w") as users:
        fcntl.flock(users, fcntl.LOCK_SH)
        was_there = subprocess.run([SCRIPT, "status"], capture_output=True, check=False).returncode == 0
        started = subprocess.run([SCRIPT, "start"], capture_output=True, text=True, check=False)
        if started.returncode:
            pytest.skip(f"there is no Docker engine here: {started.stderr.strip()}")
        for_tests = home / "exec" / "for_tests"  # gone with the engine
        if not was_there:
            for_tests.touch()
        address = started.stdout.strip()
        os.environ["DOCKER_HOST"] = address
        yield address
        del os.environ["DOCKER_HOST"]
        fcntl.flock(users, fcntl.LOCK_UN)
        with suppress(BlockingIOError):  # another session uses it, and stops it
            fcntl.flock(users, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if for_tests.exists():
                subprocess.run([SCRIPT, "stop"], check=True)


class OwnEngine:
    """A Docker engine below a folder, that nobody else uses: a test may kill it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def start(self) -> str:
        """Starts it where it does not run, and gives its address."""
        return self._script("engine")

    def kill(self) -> None:
        os.kill(int((self.folder / "dockerd.pid").read_text()), signal.SIGKILL)

    def stop(self) -> None:
        self._script("stop")
        assert str(self.folder) not in Path("/proc/self/mounts").read_text()
        assert subprocess.run(["pgrep", "-f", self.folder], capture_output=True, check=False).stdout == b""

    def _script(self, word: str) -> str:
        home = {**os.environ, "CLAWLOOP_DOCKER": str(self.folder)}
        done = subprocess.run([SCRIPT, word], env=home, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()


@pytest.fixture(scope="module")
def own_engine(docker_engine: str) -> Iterator[OwnEngine]:
    """An engine of the module's own, with the image of boxes."""
    import docker

    if os.geteuid() != 0 or shutil.which("dockerd") is None:
        pytest.skip("only root starts a Docker engine, and only where one is installed")
    with tempfile.TemporaryDirectory(prefix="clawloop-", dir="/tmp") as folder:  # its sockets allow no long paths
        engine = OwnEngine(Path(folder))
        there, here = (docker.APIClient(address, timeout=120) for address in (docker_engine, engine.start()))
        with closing(there), closing(here):
            for line in here.load_image(there.get_image("clawloop-sandbox:1")):
                assert "error" not in line
        yield engine
        engine.stop()


@pytest.fixture
def nothing_left(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Boxes of this process have names and users of their own, and after the test nothing of them is left.

    A process of a box is known by its user or its container, whatever it is called and whoever its parent is.
    """
    from clawloop.sandbox import folder

    prefix, first = f"clawloop-test-{os.getpid()}-", 10_000_000 + 100 * os.getpid()
    monkeypatch.setattr(folder, "_PREFIX", prefix)
    monkeypatch.setattr(folder, "_FIRST", {False: first, True: first + 50})
    yield
    deadline = time.monotonic() + 5  # the kernel takes a moment over those whose keeper was killed
    while (left := _processes(range(first, first + 100))) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not left
    assert prefix not in Path("/proc/self/mounts").read_text()
    assert not [*Path("/tmp").glob(f"{prefix}*"), *Path("/var/tmp").glob(f"{prefix}*")]
    assert not glob(f"/sys/fs/cgroup/*/**/{prefix}*/", recursive=True)
    if "DOCKER_HOST" in os.environ:
        import docker

        from clawloop.sandbox.docker import owner

        with closing(docker.APIClient(os.environ["DOCKER_HOST"])) as api:
            assert not api.containers(all=True, filters={"label": f"{owner.LABEL}={owner.owner()}"})


def _processes(users: range) -> list[str]:
    """The living processes of these users."""
    found = []
    for status in Path("/proc").glob("[0-9]*/status"):
        with suppress(FileNotFoundError, ProcessLookupError):
            said = dict(line.split(":\t", 1) for line in status.read_text().splitlines() if ":\t" in line)
            if int(said["Uid"].split()[0]) in users and not said["State"].startswith("Z"):
                found.append(f"{said['Pid']} {said['Name']}")
    return found


def _kinds() -> list[Any]:
    marks = {"docker": [pytest.mark.docker]}
    return [pytest.param(name, marks=marks.get(name, [])) for name in BOXES]


@pytest.fixture(scope="module", params=_kinds())
def boxes(request: pytest.FixtureRequest) -> Iterator[Any]:
    """Each part of conf/sandbox, as its yaml says."""
    from clawloop.build.part import part

    if request.param == "docker":
        request.getfixturevalue("docker_engine")
    settings = yaml.safe_load((TOP / "conf" / "sandbox" / f"{request.param}.yaml").read_text())
    sandboxes = part(settings | ({"warm": 1} if "warm" in settings else {}))
    yield sandboxes
    if request.param == "docker":
        sandboxes.close()
