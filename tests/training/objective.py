"""The loss of the main experiment, as the parts that it is made of."""

from typing import Any

from clawloop.build.part import parts

_TRAINING = "clawloop.training"
CHOSEN: dict[str, dict[str, Any]] = {
    "advantage": {"_target_": f"{_TRAINING}.advantage.GroupRelative", "epsilon": 1e-4},
    "clip": {"_target_": f"{_TRAINING}.clip.Clip", "low": 0.2, "high": 0.2},
    "normalisation": {"_target_": f"{_TRAINING}.normalisation.PerSequence"},
    "ratio": {"_target_": f"{_TRAINING}.ratio.TokenLevel"},
    "kl": {"_target_": f"{_TRAINING}.kl.K3"},
    "reference": {"_target_": f"{_TRAINING}.reference.Stage"},
    "correction": {"_target_": f"{_TRAINING}.correction.NoCorrection"},
    "schedule": {"_target_": f"{_TRAINING}.schedule.Cosine"},
}
OBJECTIVE: dict[str, Any] = {"beta": 0.04, **parts(CHOSEN)}
