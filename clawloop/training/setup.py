"""How stages are run, and what is left of a step that came to nothing."""

import json
from collections.abc import Mapping
from collections.abc import Sequence as Many
from dataclasses import asdict, dataclass
from pathlib import Path

from clawloop.training import ranks
from clawloop.training.sequences import Sequence


@dataclass(frozen=True, slots=True)
class Setup:
    """How stages are run; it does not change what comes out.

    Args:
        gradient_checkpointing: blocks are computed again in the backward pass, which takes less memory and more time.
        save_every: after so many optimizer steps a stage keeps what it needs to go on from there; 0 for never.
        folder: each stage has a folder of its own there; None keeps nothing.
    """

    gradient_checkpointing: bool = False
    save_every: int = 0
    folder: Path | None = None


def not_finite(batch: Many[Sequence], step: int, numbers: Mapping[str, float], folder: Path | None) -> str:
    """The sentence about a step whose loss or gradient is not finite; its batch is written into `folder`."""
    names, kept = ", ".join(sequence.name for sequence in batch[:3]), ""
    if folder is not None:
        path = folder / f"not-finite-{step}.json"
        kept = f", kept in {path}"
        if ranks.number() == 0:
            folder.mkdir(parents=True, exist_ok=True)
            content = {"numbers": dict(numbers), "sequences": [asdict(sequence) for sequence in batch]}
            path.write_text(json.dumps(content), encoding="utf-8")
    return (
        f"step {step}: the loss or its gradient is not finite (batch of {names}, ...{kept}); "
        "lower the trainer's lr or lr_multiplier."
    )
