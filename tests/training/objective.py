"""The loss of the main experiment, as the parts that it is made of."""

from typing import Any

from clawloop.training.advantage import GroupRelative
from clawloop.training.clip import Clip
from clawloop.training.correction import NoCorrection
from clawloop.training.kl import K3
from clawloop.training.normalisation import PerSequence
from clawloop.training.ratio import TokenLevel
from clawloop.training.reference import Stage
from clawloop.training.schedule import Cosine

OBJECTIVE: dict[str, Any] = {
    "beta": 0.04,
    "advantage": GroupRelative(1e-4),
    "clip": Clip(0.2, 0.2),
    "normalisation": PerSequence(),
    "ratio": TokenLevel(),
    "kl": K3(),
    "reference": Stage(),
    "correction": NoCorrection(),
    "schedule": Cosine(),
}
