"""Shared fixtures: the command line in this process, a small random model with a real tokenizer, boxes of each kind."""

import fcntl
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
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


def _kinds() -> list[Any]:
    marks = {"docker": [pytest.mark.docker]}
    return [pytest.param(name, marks=marks.get(name, [])) for name in BOXES]


@pytest.fixture(scope="module", params=_kinds())
def boxes(request: pytest.FixtureRequest) -> Iterator[Any]:
    """Each part of conf/sandbox, as its yaml says."""
    from clawloop.build import part

    if request.param == "docker":
        request.getfixturevalue("docker_engine")
    settings = yaml.safe_load((TOP / "conf" / "sandbox" / f"{request.param}.yaml").read_text())
    sandboxes = part(settings | ({"warm": 1} if "warm" in settings else {}))
    yield sandboxes
    if request.param == "docker":
        sandboxes.close()
