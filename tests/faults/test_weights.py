"""A driver that is killed while an engine takes its weights: the next start removes them."""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from clawloop.policy.vllm.sampler import SampledPolicy
from tests.twin import Twin

START = ("cold_start.demonstrations=2", "cold_start.epochs=1", "cold_start.lr=0.001")


class Stuck(Twin):
    """Never has done with taking weights."""

    def update(self, folder: Path) -> None:
        time.sleep(600)


class StuckPolicy(SampledPolicy):
    """Trained here, and sampled by such an engine."""

    def __init__(self, weights: Path, version: str, scratch: Path, tracker: Any = None) -> None:
        super().__init__(Stuck(weights), weights, version, 1.0, 512, "float32", None, None, tracker, scratch)


def test_weights_of_a_killed_run_are_removed_by_the_next_start_and_those_of_a_living_one_are_not(
    tmp_path: Path, command_line: Callable[..., tuple[int, str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    conf, scratch, first, second = (tmp_path / name for name in ("conf/policy", "scratch", "first", "second"))
    for folder in (conf, scratch, first, second):
        folder.mkdir(parents=True)
    (conf / "stuck.yaml").write_text(yaml.safe_dump({"_target_": f"{__name__}.StuckPolicy"}))
    monkeypatch.setattr(tempfile, "tempdir", str(scratch))

    def weights() -> list[Path]:
        return list(scratch.glob("clawloop-scratch-*/*/weights/model.safetensors"))

    def next_start() -> None:
        """It sweeps, and then ends, since its engine is not there."""
        gone = ("policy=vllm_server", "policy.url=http://127.0.0.1:9", "policy.retries=0")
        code, _, error = command_line("+experiment=main", "scale=debug", *gone, f"resume={second}")
        assert code == 1 and "http://127.0.0.1:9/v1/models gave no answer" in error, error

    words = ["--config-dir", str(conf.parent), "+experiment=main", "scale=debug", "policy=stuck", *START]
    driver = subprocess.Popen(
        [sys.executable, "-m", "clawloop", *words, f"resume={first}"],
        env={**os.environ, "TMPDIR": str(scratch)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        deadline = time.monotonic() + 120
        while not weights():
            assert driver.poll() is None and time.monotonic() < deadline, driver.communicate()
            time.sleep(0.05)
        next_start()
        assert weights()
    finally:
        driver.kill()
        driver.communicate()
    assert weights()
    next_start()
    assert not list(scratch.glob("clawloop-*"))
