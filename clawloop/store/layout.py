"""Where things lie: the names in a run's folder, and the cache that runs share."""

import os
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Layout:
    """The names in a run's folder.

    >>> Layout(Path("outputs/main/x")).checkpoint("theta_1").as_posix()
    'outputs/main/x/checkpoints/theta_1'
    """

    folder: Path

    @property
    def ledger(self) -> Path:
        """Everything that happened."""
        return self.folder / "ledger.sqlite"

    @property
    def metrics(self) -> Path:
        """Numbers and events as lines of JSON."""
        return self.folder / "metrics.jsonl"

    @property
    def summary(self) -> Path:
        """What it came to."""
        return self.folder / "summary.json"

    @property
    def report(self) -> Path:
        """The same as tables."""
        return self.folder / "report.md"

    @property
    def status(self) -> Path:
        """How a cell of a sweep ended."""
        return self.folder / "status.json"

    @property
    def checkpoints(self) -> Path:
        """The folder of all weights."""
        return self.folder / "checkpoints"

    @property
    def training(self) -> Path:
        """A folder for each stage that has not ended, such as theta_1-sft: what it goes on from after a kill."""
        return self.folder / "training"

    def checkpoint(self, version: str) -> Path:
        """The weights of one theta."""
        return self.checkpoints / version


def cache() -> Path:
    """The folder that runs share: converted models and cold starts."""
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base) / "clawloop"
