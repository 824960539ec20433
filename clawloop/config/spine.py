"""The typed spine of conf/: every key that is not an argument of a part, with its type."""

from dataclasses import dataclass, field
from typing import Any

from hydra.core.config_store import ConfigStore
from omegaconf import MISSING


@dataclass
class Split:
    """How the pool is split."""

    held_out: float = MISSING
    """The share of E_k, 0 to 1."""


@dataclass
class Budget:
    """What one episode may take."""

    turns: int = MISSING
    wall_s: float = MISSING
    command_s: float = MISSING
    observation_chars: int = MISSING
    reply_tokens: int = MISSING
    reply_s: float = MISSING
    """Seconds that the engine may take for one reply, its tries included; after that it hangs."""


@dataclass
class Probe:
    """The fixed tasks that nothing trains on."""

    tasks: int = MISSING
    trials: int = MISSING
    levels: list[int] = MISSING


@dataclass
class ColdStart:
    """Oracle demonstrations that a small model starts from; none where `demonstrations` is 0."""

    demonstrations: int = MISSING
    epochs: int = MISSING
    lr: float = MISSING
    batch_size: int = MISSING


@dataclass
class Setup:
    """How stages are run (`training.setup.Setup`)."""

    gradient_checkpointing: bool = MISSING
    save_every: int = MISSING


@dataclass
class Model:
    """Where theta_0 comes from (`store.weights.find`)."""

    source: str = MISSING


@dataclass
class Config:
    """One run. The part groups hold `_target_` and its arguments: one part each, or several by name."""

    seed: int = 0
    name: str = "unnamed"
    resume: str | None = None

    iterations: int = MISSING
    rollouts: int = MISSING
    temperature: float = MISSING
    trained_floor: float = 1.0
    """The share of sampled tokens that must be trained after what the engine saw; below it the run stops."""
    split: Split = field(default_factory=Split)

    candidates: int = MISSING
    workers: int = MISSING
    max_tokens: int = MISSING
    precision: str = MISSING
    budget: Budget = field(default_factory=Budget)
    probe: Probe = field(default_factory=Probe)
    cold_start: ColdStart = field(default_factory=ColdStart)
    model: Model = field(default_factory=Model)
    setup: Setup = field(default_factory=Setup)

    adapter: dict[str, Any] = field(default_factory=dict)
    author: dict[str, Any] = field(default_factory=dict)
    band: dict[str, Any] = field(default_factory=dict)
    difficulty: dict[str, Any] = field(default_factory=dict)
    diagnosis: dict[str, Any] = field(default_factory=dict)
    launch: dict[str, Any] = field(default_factory=dict)
    policy: dict[str, Any] = field(default_factory=dict)
    sandbox: dict[str, Any] = field(default_factory=dict)
    scheduler: dict[str, Any] = field(default_factory=dict)
    source: dict[str, Any] = field(default_factory=dict)

    advantage: dict[str, Any] = field(default_factory=dict)
    clip: dict[str, Any] = field(default_factory=dict)
    normalisation: dict[str, Any] = field(default_factory=dict)
    ratio: dict[str, Any] = field(default_factory=dict)
    kl: dict[str, Any] = field(default_factory=dict)
    reference: dict[str, Any] = field(default_factory=dict)
    correction: dict[str, Any] = field(default_factory=dict)
    schedule: dict[str, Any] = field(default_factory=dict)

    harness: dict[str, Any] = field(default_factory=dict)
    routine: dict[str, Any] = field(default_factory=dict)
    growth: dict[str, Any] = field(default_factory=dict)
    check: dict[str, Any] = field(default_factory=dict)
    trainer: dict[str, Any] = field(default_factory=dict)
    tracker: dict[str, Any] = field(default_factory=dict)


OBJECTIVE = ("advantage", "clip", "normalisation", "ratio", "kl", "reference", "correction", "schedule")
"""Groups whose part is handed to the trainers that ask for it."""
ONE_PART = (
    "author", "band", "difficulty", "diagnosis", "policy", "sandbox", "scheduler", "source", "adapter", "launch",
    *OBJECTIVE,
)  # fmt: skip
SEVERAL_PARTS = ("harness", "routine", "growth", "check", "trainer", "tracker")


def register() -> None:
    """Make the spine known to Hydra, as the base that conf/config.yaml starts from."""
    ConfigStore.instance().store("spine", Config, provider="clawloop")
