"""What the steps on fresh rollouts showed of each harness, from axis grpo (HarnessBandit, 5.4)."""

from collections.abc import Mapping
from statistics import fmean
from typing import Any

_SIGNALS = ("learnability", "transferability")
_STATE = ("visits", "value", "p")


def harnesses(metrics: Mapping[int, Mapping[str, float]]) -> dict[str, dict[str, Any]]:
    """By harness: groups that were trained on, mean signals, the scheduler's last state, and mean cosines with others.

    What a scheduler does not log is left out; without fresh rollouts there is nothing.

    Args:
        metrics: by step, what was logged on axis grpo.
    """
    series: dict[str, list[float]] = {}
    for _, values in sorted(metrics.items()):
        for key, value in values.items():
            series.setdefault(key, []).append(value)
    names = sorted(key.removeprefix("groups/") for key in series if key.startswith("groups/"))
    return {
        name: {
            "groups": round(sum(series[f"groups/{name}"])),
            **{key: fmean(series[f"{key}/{name}"]) for key in _SIGNALS if f"{key}/{name}" in series},
            **{key: series[f"{key}/{name}"][-1] for key in _STATE if f"{key}/{name}" in series},
            "cosines": {
                other: fmean(series[f"cosine/{name}/{other}"]) for other in names if f"cosine/{name}/{other}" in series
            },
        }
        for name in names
    }
