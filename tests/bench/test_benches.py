"""Benches run, with small settings: the last line is the JSON that they promise. What they measure is not looked at."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

BENCHES = Path(__file__).parents[2] / "scripts" / "bench"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("gateway", "--streams 2 --pause 0.01"),
        ("learns", "2 8 1"),
        ("rollouts", "--kinds bubblewrap --episodes 4 --rounds 1 --at-once 2 --openings 1"),
        ("screen", "--each 1"),
    ],
)
def test_a_bench_ends_with_its_line(name: str, words: str) -> None:
    done = subprocess.run(
        [sys.executable, BENCHES / f"{name}.py", *words.split()],
        env={**os.environ, "PYTHONPATH": str(BENCHES.parents[1])}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    line = json.loads(done.stdout.splitlines()[-1])
    assert line["bench"] == name
    assert line["figures"] and line["goal"]
    assert isinstance(line["met"], bool)
