"""Numbers and events as lines of JSON."""

import json
import math
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any


class Jsonl:
    """Appends to metrics.jsonl in the run's folder: {"time", "axis", "step", "values"} or {"time", "event", "detail"}.

    JSON has no infinity and no NaN; such a number is written as null.
    """

    def __init__(self, folder: Path) -> None:
        self._lock = threading.Lock()
        self._file = (folder / "metrics.jsonl").open("a", encoding="utf-8")

    def log(self, axis: str, step: int, values: Mapping[str, float]) -> None:
        """Numbers of one step of an axis."""
        finite = {name: value if math.isfinite(value) else None for name, value in values.items()}
        self._write({"axis": axis, "step": step, "values": finite})

    def event(self, name: str, detail: Mapping[str, object]) -> None:
        """Something that happened."""
        self._write({"event": name, "detail": dict(detail)})

    def progress(self, phase: str, done: int, total: int) -> None:
        """Progress is not kept."""

    def close(self, exit_code: int) -> None:
        """Close the file."""
        self._write({"event": "closed", "detail": {"exit_code": exit_code}})
        self._file.close()

    def _write(self, entry: dict[str, Any]) -> None:
        with self._lock:
            self._file.write(json.dumps({"time": round(time.time(), 3), **entry}, default=str) + "\n")
            self._file.flush()
