"""A policy whose weights are trained here and sampled by a vLLM engine, wherever that is."""

import gc
import secrets
import tempfile
import threading
import time
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path
from statistics import fmean
from typing import Any, Self

import torch

from clawloop.policy.adapter import attached, bare, written
from clawloop.policy.network import Network
from clawloop.policy.vllm.engine import TOLERANCE, Ask, Engine, Sampled, check_version
from clawloop.protocols import InfrastructureError, RequestError, Tracker
from clawloop.types import Completion, Message, Request


class SampledPolicy(Network):
    """The shared part of `policy=vllm` and `policy=vllm_server`: token ids in and out, and checked updates.

    While the network has an adapter (`policy.adapter`), an update hands over that alone, and the engine lays it over
    the weights that it has; once it is merged, the engine is given all weights.

    Where there is a GPU, the trained network and the engine take turns on it: a trainer has the engine sleep
    (`sleep`), and the stage's `renamed` gives it the new weights and sends the network back to the CPU.

    After each update, and at the start, the engine's log-probabilities of a fixed text are held against the network's.
    Two kernels never agree to the bit: the mean distance may be `tolerance`, and more ends the run.

    An engine is told a name at the start. One that may have been started anew meanwhile is asked for it before its
    replies count, and is given the weights again where it has lost it.

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
        self._confirming, self._confirmed = threading.Lock(), 0
        self._name = secrets.token_hex(8)
        check_version(engine.version())
        question, _, reply = files("clawloop.policy.vllm").joinpath("text.txt").read_text("utf-8").partition("\n\n")
        ids = self.chat.prompt_ids((Message("user", question),)) + self.chat.encode_reply(reply, ended=True)
        self._text = ids[: self.context - 1]
        self._compare()
        engine.remember(self._name)

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
        found = self._sample(Ask(prompt_ids, request.seed, room, self.temperature, self.chat.end, request.stop))
        finish = "stop" if found.ended else "length" if room == request.max_tokens else "context"
        text = found.text if request.stop else str(self.tokenizer.decode(found.ids, skip_special_tokens=True))
        return Completion(text, prompt_ids, found.ids, found.logprobs, finish)

    def _ready(self) -> None:
        if self._stale:
            raise InfrastructureError("policy vllm: the weights are in training; `renamed` gives them to the engine.")

    def _sample(self, ask: Ask) -> Sampled:
        """A reply of an engine of which it is known, before and after, that it is the one that has the weights."""
        while True:
            confirmed = self._confirm()
            try:
                found = self.engine.sample(ask)
            except RequestError:
                if self.engine.interruptions() == confirmed:
                    raise
            else:
                if self.engine.interruptions() == confirmed:
                    return found

    def _confirm(self) -> int:
        """Find out whether an engine that may have been started anew was, and give it the weights where it was.

        Raises:
            InfrastructureError: it cannot be given them.
        """
        with self._confirming:
            interruptions = self.engine.interruptions()
            if interruptions != self._confirmed:
                if not self.engine.recall(self._name):
                    if self._adapted and not attached(self.model):
                        raise InfrastructureError(
                            f"policy vllm: the engine was started anew without the adapter of {self._version}; "
                            "hand it over again."
                        )
                    if self._tracker is not None:
                        self._tracker.event("engine/restarted", {"version": self._version})
                    self._update(whole=True)
                    self.engine.remember(self._name)
                self._confirmed = interruptions
            return interruptions

    def _update(self, whole: bool = False) -> None:
        """Hand over what changed; `whole`: to an engine that has nothing of it."""
        started = time.monotonic()
        if self._asleep:
            self.model.to("cpu")
            gc.collect()
            torch.cuda.empty_cache()  # what training leaves on a GPU is the engine's; without one it does nothing
            self.engine.wake()
            self._asleep = False
        self._stale = False
        with tempfile.TemporaryDirectory(dir=self._scratch) as folder:
            weights, overlay = Path(folder, "weights"), Path(folder, "adapter")
            if whole or not attached(self.model):
                state = {name: tensor.to(self._dtype) for name, tensor in bare(self.model).items()}
                self.model.save_pretrained(weights, state_dict=state)
                self.engine.update(weights)
                self._adapted = False
            if attached(self.model):
                overlay.mkdir()
                for name, data in written(self.model).items():
                    (overlay / name).write_bytes(data)
                self.adapted(overlay, self._version)
        gap = self._compare()
        if self._tracker is not None:
            seconds = time.monotonic() - started
            self._tracker.event("engine/update", {"version": self._version, "gap": gap, "seconds": seconds})

    def _compare(self) -> float:
        """The mean distance of engine and network, in nats a token."""
        ours = token_logprobs(self.model, self._text)
        theirs = self.engine.score(self._text)
        gap = distance(ours, theirs)
        if not gap <= self._tolerance:
            raise InfrastructureError(
                f"policy vllm: at {self._version} the engine's log-probabilities of a fixed text are {gap:.4f} nats a "
                f"token from the trainer's, and {self._tolerance:g} is the tolerance: it samples from other weights."
            )
        return gap


def distance(ours: Sequence[float], theirs: Sequence[float]) -> float:
    """Mean absolute difference of log-probabilities, in nats a token.

    >>> distance([-1.0, -2.0], [-1.5, -2.5])
    0.5
    """
    return fmean(abs(one - other) for one, other in zip(ours, theirs, strict=True))


@torch.no_grad()
def token_logprobs(model: Any, ids: tuple[int, ...]) -> list[float]:
    """The network's own log-probabilities of all tokens but the first."""
    ids_1T = torch.tensor([ids], device=next(model.parameters()).device)
    logprobs_TV = torch.log_softmax(model(input_ids=ids_1T, use_cache=False).logits[0].float(), dim=-1)
    return [float(one) for one in logprobs_TV[:-1].gather(-1, ids_1T[0, 1:, None])[:, 0]]
