"""A transformers model in this process: token-in, token-out, batched over the episodes that wait."""

import inspect
import random
import threading
import time
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import torch
from torch import Tensor

from clawloop.policy.cache import Prefix, Prefixes, RowCache
from clawloop.policy.network import Network
from clawloop.protocols import InfrastructureError, RequestError
from clawloop.types import Completion, Request


@dataclass(slots=True)
class _Row:
    """One reply in the making."""

    request: Request
    prompt_ids: tuple[int, ...]
    noise: random.Random
    future: Future[Completion]
    since: float
    ids: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)


class HfPolicy(Network):
    """pi_theta in this process, with continuous batching: a reply that ends makes room for the next at once.

    Sampling draws from softmax(logits / temperature) by inverse transform with noise from the request's seed alone;
    the log-probabilities returned are those of that very distribution. `temperature` 0 is greedy. The keys and values
    of a prompt are computed once for all trials of a task, and those of an episode once for all its turns.

    Args:
        weights: folder of the model and its tokenizer.
        version: the name of theta.
        temperature: softmax temperature of sampling.
        slots: replies written at once.
        context: tokens that one conversation may have, prompt and replies together.
        prefixes: how many conversations' keys and values are kept.
        dtype: float32, or bfloat16 for autocast where that is faster.
        threads: torch threads; None leaves them as they are.
    """

    def __init__(
        self,
        weights: str | Path,
        version: str = "theta_0",
        temperature: float = 1.0,
        slots: int = 32,
        context: int = 1024,
        prefixes: int = 256,
        dtype: str = "float32",
        threads: int | None = None,
    ) -> None:
        super().__init__(weights, version, temperature, context, threads)
        self.slots = slots
        self._autocast = getattr(torch, dtype) if dtype != "float32" else None
        known = inspect.signature(self.model.get_decoder().forward).parameters
        self._cache_name = "cache" if "cache" in known else "past_key_values"  # transformers renamed it
        self._prefixes = Prefixes(prefixes)
        self._waiting: list[_Row] = []
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None

    def renamed(self, version: str) -> Self:
        """The same model after its weights have changed in place; what was cached of the old ones is dropped."""
        self._prefixes.clear()
        return super().renamed(version)

    def complete(self, request: Request) -> Completion:
        """Wait for a reply.

        Raises:
            InfrastructureError: the engine broke.
            RequestError: the request asks for a stop text or another distribution, or the template knows no tools.
        """
        self._refuse(request)
        prompt_ids = self.chat.prompt_ids(request.messages, request.tools)
        if len(prompt_ids) >= self.context:
            return Completion("", prompt_ids, (), (), "context")
        row = _Row(request, prompt_ids, random.Random(request.seed), Future(), time.monotonic())
        with self._changed:
            self._waiting.append(row)
            if self._thread is None or not self._thread.is_alive():
                self._thread = threading.Thread(target=self._serve, name="policy", daemon=True)
                self._thread.start()
            self._changed.notify()
        return row.future.result()

    def _refuse(self, request: Request) -> None:
        if request.stop:
            raise RequestError("stop: policy/hf ends a reply at the end-of-turn token only; leave it out.")
        self.refuse_sampling(request)

    @torch.inference_mode()
    def _serve(self) -> None:
        config: Any = self.model.config
        heads = config.num_key_value_heads
        width = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
        like = next(self.model.parameters())
        cache = RowCache(config.num_hidden_layers, self.slots, heads, self.context + 1, width, like)
        rows: list[_Row] = []
        arrived: list[_Row] = []
        while True:
            try:
                arrived = self._arrivals(rows)
                if arrived:
                    logits_RV = self._prefill(cache, len(rows), arrived)
                    rows += arrived
                    self._advance(rows[-len(arrived) :], logits_RV)
                else:
                    position = torch.tensor([[len(r.prompt_ids) + len(r.ids) - 1] for r in rows], device=like.device)
                    ids = torch.tensor([[r.ids[-1]] for r in rows], device=like.device)
                    self._advance(rows, self._forward(cache, slice(0, len(rows)), ids, position)[:, -1])
                self._retire(cache, rows)
            except (RuntimeError, ValueError, IndexError) as error:
                for row in [*rows, *(r for r in arrived if r not in rows)]:
                    row.future.set_exception(InfrastructureError(f"The engine failed: {error}"))
                rows.clear()

    def _arrivals(self, rows: list[_Row]) -> list[_Row]:
        """Requests to take in now: all that fit when idle, and otherwise a worthwhile number or old ones."""
        with self._changed:
            while not rows and not self._waiting:
                self._changed.wait()
            free = self.slots - len(rows)
            if not free or not self._waiting:
                return []
            old = time.monotonic() - self._waiting[0].since > 0.02
            if rows and not old and len(self._waiting) < min(8, free):
                return []
            arrived, self._waiting = self._waiting[:free], self._waiting[free:]
            return arrived

    def _prefill(self, cache: RowCache, first: int, arrived: list[_Row]) -> Tensor:
        """Read the prompts into rows `first` onward and return the logits at their ends, [R, V]."""
        fresh: dict[tuple[int, ...], _Row] = {}
        for row in arrived:
            if self._prefixes.find(row.request.session, row.prompt_ids) is None:
                fresh.setdefault(row.prompt_ids, row)
        leaders = list(fresh.values())
        if leaders:
            self._read(cache, first, leaders, [0] * len(leaders))
            for i, row in enumerate(leaders):
                self._prefixes.add(row.prompt_ids, Prefix(row.prompt_ids, *cache.take(first + i, len(row.prompt_ids))))
        starts = []
        for i, row in enumerate(arrived):
            prefix = self._prefixes.find(row.request.session, row.prompt_ids)
            known = 0 if prefix is None else min(len(prefix.ids), len(row.prompt_ids) - 1)
            if prefix is not None:
                cache.put(first + i, prefix.keys_LHTD, prefix.values_LHTD, known)
            starts.append(known)
        return self._read(cache, first, arrived, starts)

    def _read(self, cache: RowCache, first: int, rows: list[_Row], starts: list[int]) -> Tensor:
        """Forward each prompt from its start; short ones are padded to the right and overwritten later."""
        device = cache.keys_LRHTD.device
        lengths = torch.tensor([len(r.prompt_ids) - s for r, s in zip(rows, starts, strict=True)], device=device)
        q = int(lengths.max())
        ids_RQ = torch.zeros((len(rows), q), dtype=torch.long, device=device)
        for i, (row, start) in enumerate(zip(rows, starts, strict=True)):
            ids_RQ[i, : lengths[i]] = torch.tensor(row.prompt_ids[start:], device=device)
        position_RQ = torch.tensor(starts, device=device)[:, None] + torch.arange(q, device=device)
        position_RQ = position_RQ.clamp(max=self.context)
        last = torch.stack([torch.arange(len(rows), device=device), lengths - 1])
        return self._forward(cache, slice(first, first + len(rows)), ids_RQ, position_RQ, last)[:, 0]

    def _forward(
        self, cache: RowCache, rows: slice, ids_RQ: Tensor, position_RQ: Tensor, last: Tensor | None = None
    ) -> Tensor:
        """Logits [R, 1, V] at the last position of each row, or at `last` (row, position) pairs."""
        mask = cache.aim(rows, position_RQ)
        backbone: Any = self.model.get_decoder()
        with torch.autocast(ids_RQ.device.type, self._autocast, enabled=self._autocast is not None):
            hidden_RQE = backbone(
                input_ids=ids_RQ, attention_mask=mask, position_ids=position_RQ, **{self._cache_name: cache}
            ).last_hidden_state
            hidden_RE = hidden_RQE[:, -1] if last is None else hidden_RQE[last[0], last[1]]
            head: Any = self.model.get_output_embeddings()
            return torch.as_tensor(head(hidden_RE)).float()[:, None]

    def _advance(self, rows: list[_Row], logits_RV: Tensor) -> None:
        """Sample one token for each row."""
        logprobs_RV = torch.log_softmax(logits_RV / (self.temperature or 1.0), dim=-1)
        if self.temperature == 0:
            picks_R = logprobs_RV.argmax(-1)
        else:
            noise_R = torch.tensor([row.noise.random() for row in rows], device=logits_RV.device)
            mass_RV = logprobs_RV.exp().cumsum(-1)
            picks_R = torch.searchsorted(mass_RV, noise_R[:, None] * mass_RV[:, -1:], right=True)[:, 0]
            picks_R = picks_R.clamp(max=logits_RV.shape[-1] - 1)
        taken = logprobs_RV.gather(-1, picks_R[:, None])[:, 0].tolist()
        for row, token, logprob in zip(rows, picks_R.tolist(), taken, strict=True):
            row.ids.append(token)
            row.logprobs.append(logprob)

    def _retire(self, cache: RowCache, rows: list[_Row]) -> None:
        """Hand back the replies that ended, keep their keys and values, and close the gaps."""
        for i in reversed(range(len(rows))):
            row = rows[i]
            length = len(row.prompt_ids) + len(row.ids)
            stopped = row.ids[-1] == self.chat.end
            if not stopped and len(row.ids) < row.request.max_tokens and length < self.context:
                continue
            known = (*row.prompt_ids, *row.ids[:-1])
            self._prefixes.add(row.request.session, Prefix(known, *cache.take(i, len(known))))
            finish = "stop" if stopped else "length" if len(row.ids) >= row.request.max_tokens else "context"
            text = self.tokenizer.decode(row.ids, skip_special_tokens=True)
            row.future.set_result(Completion(str(text), row.prompt_ids, tuple(row.ids), tuple(row.logprobs), finish))
            end = rows.pop()
            if i < len(rows):
                cache.move(len(rows), i, len(end.prompt_ids) + len(end.ids))
                rows[i] = end
