"""What a person sees: the live phase on a terminal, plain lines elsewhere."""

import sys
import threading
import time
from collections.abc import Mapping
from typing import TextIO

from rich.console import Console as Screen
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

_PAUSE_S = 10.0


class Console:
    """One progress bar for the phase at work, and one line for each phase and iteration that ends.

    Args:
        interactive: draw a live bar; None asks the stream whether it is a terminal.
        stream: where to write; standard output if None.
    """

    def __init__(self, interactive: bool | None = None, stream: TextIO | None = None) -> None:
        self._stream = stream or sys.stdout
        live = self._stream.isatty() if interactive is None else interactive
        self._screen = Screen(file=self._stream, highlight=False, soft_wrap=True, force_terminal=True if live else None)
        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
        )
        self._bar = Progress(*columns, console=self._screen, transient=True) if live else None
        self._lock = threading.Lock()
        self._task: TaskID | None = None
        self._phase, self._began, self._said = "", 0.0, 0.0
        if self._bar is not None:
            self._bar.start()

    def log(self, axis: str, step: int, values: Mapping[str, float]) -> None:
        """A line for each iteration and each probe; the rest of the numbers are for the other sinks."""
        if axis == "probe" and "pass_rate" in values:
            self._say(f"probe theta_{step}: {_interval(values, 'pass_rate', 'low', 'high')}{_gain(values)}")
        elif axis == "loop":
            shown = ("candidates", "passed_agent_free", "passed_agent_based", "sft_trajectories", "admission_pass_rate")
            parts = [f"{name.replace('_', ' ')} {round(values[name], 3):g}" for name in shown if name in values]
            self._say(f"iteration {step}: {', '.join(parts)}")

    def event(self, name: str, detail: Mapping[str, object]) -> None:
        """A line for each phase that ends."""
        if name == "phase":
            how = "read back" if detail["repeated"] else f"{float(str(detail['seconds'])):.1f} s"
            self._say(f"  {detail['name']} {detail['k']}: {how}")

    def progress(self, phase: str, done: int, total: int) -> None:
        """Move the bar, or say so every ten seconds where there is none."""
        with self._lock:
            now = time.monotonic()
            if phase != self._phase:
                self._phase, self._began, self._said = phase, now, now
                if self._bar is not None:
                    if self._task is not None:
                        self._bar.remove_task(self._task)
                    self._task = self._bar.add_task(phase, total=total)
            if self._bar is not None and self._task is not None:
                self._bar.update(self._task, completed=done, total=total)
            elif self._bar is None and 0 < done < total and now - self._said > _PAUSE_S:
                self._said = now
                left = (now - self._began) / done * (total - done)
                self._screen.print(f"  {phase}: {done} of {total}, about {left:.0f} s left")

    def close(self, exit_code: int) -> None:
        """Take the bar away."""
        if self._bar is not None:
            self._bar.stop()

    def _say(self, text: str) -> None:
        with self._lock:
            self._screen.print(text)


def _interval(values: Mapping[str, float], mean: str, low: str, high: str) -> str:
    return f"{values[mean]:.3f} [{values[low]:.3f}, {values[high]:.3f}]"


def _gain(values: Mapping[str, float]) -> str:
    if "difference" not in values:
        return ""
    return f", from theta_0: {_interval(values, 'difference', 'difference_low', 'difference_high')}"
