"""tracking: the same numbers in every sink, each axis with its own step."""

import io
import json
import subprocess
import sys
from pathlib import Path

import pytest

from clawloop.tracking.console import Console
from clawloop.tracking.fanout import Fanout
from clawloop.tracking.jsonl import Jsonl


def test_jsonl_is_a_line_an_entry_and_goes_on(tmp_path: Path) -> None:
    for exit_code in (1, 0):
        sink = Jsonl(tmp_path)
        sink.log("sft", 3, {"loss": 0.5, "bad": float("nan")})
        sink.event("phase", {"name": "sft"})
        sink.close(exit_code)
    entries = [json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    assert len(entries) == 6
    assert entries[0]["axis"] == "sft"
    assert entries[0]["values"] == {"loss": 0.5, "bad": None}
    assert entries[5]["detail"] == {"exit_code": 0}


def test_plain_console_says_phases_and_probes_in_lines() -> None:
    stream = io.StringIO()
    console = Console(interactive=False, stream=stream)
    console.progress("k1/admission", 1, 10)
    console.event("phase", {"name": "admission", "k": 1, "seconds": 2.5, "repeated": False})
    console.event("phase", {"name": "sft", "k": 1, "seconds": 0.0, "repeated": True})
    console.log(
        "probe",
        1,
        {"pass_rate": 0.5, "low": 0.4, "high": 0.6, "difference": 0.1, "difference_low": 0.0, "difference_high": 0.2},
    )
    console.log("sft", 1, {"loss": 9.0})
    console.close(0)
    assert stream.getvalue().splitlines() == [
        "  admission 1: 2.5 s",
        "  sft 1: read back",
        "probe theta_1: 0.500 [0.400, 0.600], from theta_0: 0.100 [0.000, 0.200]",
    ]


def test_plain_console_gives_an_estimate_now_and_then(monkeypatch: pytest.MonkeyPatch) -> None:
    stream, now = io.StringIO(), [0.0]
    monkeypatch.setattr("clawloop.tracking.console.time.monotonic", lambda: now[0])
    console = Console(interactive=False, stream=stream)
    for done in range(1, 6):
        now[0] += 6
        console.progress("k1/admission", done, 10)
    assert stream.getvalue().splitlines() == [
        "  k1/admission: 3 of 10, about 28 s left",
        "  k1/admission: 5 of 10, about 24 s left",
    ]


def test_a_live_console_shows_the_phase() -> None:
    stream = io.StringIO()
    console = Console(interactive=True, stream=stream)
    console.progress("k1/admission", 4, 8)
    console.close(0)
    assert "k1/admission" in stream.getvalue()


def test_the_fanout_passes_everything_on(tmp_path: Path) -> None:
    folders = [tmp_path / name for name in ("a", "b")]
    for folder in folders:
        folder.mkdir()
    fan = Fanout([Jsonl(folder) for folder in folders])
    fan.log("probe", 0, {"pass_rate": 0.1})
    fan.progress("x", 1, 2)
    fan.close(0)
    texts = [(folder / "metrics.jsonl").read_text() for folder in folders]
    assert all('"pass_rate": 0.1' in text for text in texts)


OFFLINE = """
import sys
from pathlib import Path
from clawloop.tracking.wandb import Wandb
sink = Wandb(Path(sys.argv[1]), {"seed": 3}, mode="offline", group="g")
for step in (1, 2):
    sink.log("sft", step, {"loss": 1.0 / step})
sink.log("grpo", 1, {"kl": 0.25})
sink.log("sft", 3, {"loss": 0.125})
sink.close(0)
"""


def test_an_offline_wandb_run_can_be_read_back_with_a_step_for_each_axis(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("HOME", "WANDB_CACHE_DIR", "WANDB_CONFIG_DIR", "WANDB_DATA_DIR"):
        monkeypatch.setenv(name, str(tmp_path))
    subprocess.run([sys.executable, "-c", OFFLINE, str(tmp_path)], check=True, timeout=120)
    (path,) = tmp_path.glob("wandb/offline-run-*/*.wandb")
    command = [sys.executable, "-m", "wandb", "leet", "inspect", str(path), "--json"]
    shown = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120).stdout
    assert '"g"' in shown
    entries = [json.loads(line) for line in shown.splitlines() if line.startswith("{")]
    histories = [
        entry["history"].get("item", entry["history"].get("items", {})) for entry in entries if "history" in entry
    ]
    logged = [{key: json.loads(str(value)) for key, value in row.items() if key[0] != "_"} for row in histories]
    assert {"sft/loss": 0.5, "sft/step": 2} in logged
    assert {"grpo/kl": 0.25, "grpo/step": 1} in logged
