"""One W&B run over all phases of a run."""

import hashlib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any


class Wandb:
    """Logs every axis against its own step, `axis/step`, so that phases do not share an x axis.

    The run's id comes from its folder, so that a resumed run goes on in the same place. Offline runs are uploaded by
    `wandb sync`.

    Args:
        folder: the run's folder; W&B keeps its files in wandb/ there.
        config: the run's config.
        mode: offline, online or disabled.
        project: the W&B project.
        group: the group of all cells of a sweep; none if empty.

    Raises:
        ValueError: W&B could not start.
    """

    def __init__(
        self,
        folder: Path,
        config: Mapping[str, Any],
        mode: str = "offline",
        project: str = "clawloop",
        group: str | None = None,
    ) -> None:
        os.environ.setdefault("WANDB_SILENT", "true")
        os.environ.setdefault("WANDB_ERROR_REPORTING", "false")
        import wandb

        settings = wandb.Settings(console="off", disable_git=True, save_code=False, x_disable_stats=True)
        identity = hashlib.sha256(str(folder.resolve()).encode()).hexdigest()[:12]
        try:
            self._run: Any = wandb.init(
                project=project, dir=str(folder), id=identity, name=folder.name, group=group or None,
                mode=mode, config=dict(config), settings=settings, reinit="create_new",  # type: ignore[arg-type]
            )  # fmt: skip
        except (wandb.errors.Error, OSError) as error:
            reason = str(error).strip().splitlines()[0]
            raise ValueError(
                f"tracker wandb: W&B did not start ({reason}); set tracker.wandb.mode=offline, or leave it out."
            ) from error
        self._axes: set[str] = set()

    def log(self, axis: str, step: int, values: Mapping[str, float]) -> None:
        """Numbers of one step of an axis."""
        if axis not in self._axes:
            self._axes.add(axis)
            self._run.define_metric(f"{axis}/step", hidden=True)
            self._run.define_metric(f"{axis}/*", step_metric=f"{axis}/step")
        self._run.log({f"{axis}/{name}": value for name, value in values.items()} | {f"{axis}/step": step})

    def event(self, name: str, detail: Mapping[str, object]) -> None:
        """Events are for the ledger and for jsonl."""

    def progress(self, phase: str, done: int, total: int) -> None:
        """Progress is not kept."""

    def close(self, exit_code: int) -> None:
        """End the W&B run."""
        self._run.finish(exit_code=exit_code)
