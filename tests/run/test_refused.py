"""What a run finds out only when it has begun is refused in one sentence, and before anything is trained."""

import os
import subprocess
import sys
from pathlib import Path

from clawloop.store.layout import Layout
from clawloop.store.ledger import Ledger

HERE = Path(__file__).parent


def test_grpo_without_log_probabilities_is_refused_after_the_first_trials(tmp_path: Path) -> None:
    small = ("iterations=1", "candidates=4", "rollouts=2", "band.high=1", "probe.tasks=2", "check=[oracle]")
    command = [sys.executable, str(HERE / "play.py"), "never", str(tmp_path), *small, "policy._target_=student.Blind"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(HERE), os.environ.get("PYTHONPATH", "")])}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=250, check=False)
    assert done.returncode == 2 and "Traceback" not in done.stderr
    said = done.stderr.strip().splitlines()[-1]
    assert said.startswith("trainer.grpo: in probe/0 the engine gave no log-probabilities for 4 trials (")
    assert said.endswith("choose trainer=[sft], or a policy that gives them.")
    assert not Ledger(Layout(tmp_path).ledger).rollouts("k1/admission")
