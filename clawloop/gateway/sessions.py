"""One episode at the gateway: its key, its budget, and everything that was asked and answered."""

import _thread
import asyncio
import hashlib
import secrets
import sys
import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from clawloop.gateway.formats import Format
from clawloop.gateway.recall import Recall
from clawloop.gateway.wire import Answer, Ask, Refusal, Reply, settled
from clawloop.protocols import Agent, Counter, InfrastructureError, RequestError
from clawloop.types import Budget, Call, Completion, Message, Record, Request, Stop, Tool

_TEMPERED = ("temperature", "top_p")


class Session:
    """One episode. All of it runs in the gateway's own thread.

    Args:
        policy: who answers; `complete` is called in a thread of its own for each call, and must end.
        budget: what the episode may take.
        seed: with a call's number it decides the noise of its sampling.
        format: how the policy writes tool calls.
        client_sampling: whether the client's temperature and top_p count, or the policy's.
        bodies: whether the bodies of requests are kept.
    """

    def __init__(
        self, policy: Agent, budget: Budget, seed: int, format: Format, client_sampling: bool, bodies: bool
    ) -> None:
        self.key = secrets.token_urlsafe(32)
        self.budget = budget
        self._policy, self._seed, self._format, self._client_sampling = policy, seed, format, client_sampling
        self._bodies = bodies
        self._opened = time.monotonic()
        self._calls: list[Call] = []
        self._said: dict[Any, Any] = {}  # what calls have in common is there once
        self._recall = Recall()
        self._waiting: dict[int, asyncio.Future[Answer]] = {}
        self._idle = asyncio.Event()
        self._ended: tuple[Stop | None, float] | None = None
        self._turns = self._used = self._reserved = 0
        self._stop: Stop | None = None
        self._error: str | None = None
        self._raised: BaseException | None = None
        self._record: Record | None = None

    def receive(self, dialect: str, body: bytes) -> int:
        """Write a call down before anything can go wrong with it; its place in the record."""
        self._calls.append(Call(None, dialect, body if self._bodies else None, self._elapsed()))
        return len(self._calls) - 1

    async def ask(self, place: int, ask: Ask, body: Mapping[str, Any]) -> "asyncio.Future[Answer]":
        """Have the policy answer within the budget.

        Raises:
            Refusal: it may not, or cannot.
        """
        while True:
            self._check()
            room = self.budget.tokens - self._used - self._reserved
            if room > 0:
                break
            await asyncio.wait(self._waiting.values(), return_when=asyncio.FIRST_COMPLETED)
        request, ignored, chain = self._request(ask, room)
        index, self._turns = self._turns, self._turns + 1
        request = replace(request, seed=self._noise(index))
        messages = tuple(self._said.setdefault(message, message) for message in request.messages)
        tools = self._said.setdefault(request.tools, request.tools)
        self._write(place, index=index, messages=messages, tools=tools, ignored=ignored)
        self._reserved += request.max_tokens
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Answer] = loop.create_future()
        self._waiting[place] = future
        timer = loop.call_later(self.budget.wall_s - self._elapsed(), self._expire, future)

        def settle(done: "asyncio.Future[Answer]") -> None:
            """Stop the clock; an error that nobody waits for any more is no news."""
            timer.cancel()
            if not done.cancelled():
                done.exception()

        future.add_done_callback(settle)

        def arrived(outcome: Completion | BaseException) -> None:
            self._reserved -= request.max_tokens
            self._waiting.pop(place, None)
            self._arrived(place, index, chain, ask, body, request, outcome, future)
            if not self._waiting:
                self._idle.set()

        _thread.start_new_thread(_work, (self._policy, request, loop, arrived))  # one that is not waited for
        return future

    async def count(self, ask: Ask) -> int:
        """The tokens of a prompt."""
        if not isinstance(self._policy, Counter):
            raise Refusal(404, "This policy counts no tokens beforehand.", "not_found")
        self._check()
        try:
            return await asyncio.to_thread(self._policy.count, self._request(ask, self.budget.tokens, note=False)[0])
        except RequestError as error:
            raise Refusal(400, str(error)) from error

    def delivered(self, place: int) -> None:
        """The answer of a call is with the client."""
        self._write(place, delivered=True)
        index = self._calls[place].index
        if index is not None:
            self._recall.delivered(index)

    def refused(self, place: int, refusal: Refusal) -> None:
        """A call got no answer."""
        if self._record is None:
            self._write(place, refused=refusal.message, answered_s=self._elapsed())
            self._stop = refusal.stop or self._stop

    def fail(self, error: BaseException) -> None:
        """Something broke that is not the agent's doing."""
        self._error = self._error or f"{type(error).__name__}: {error}"
        if not isinstance(error, InfrastructureError):
            self._raised = self._raised or error

    def end(self) -> None:
        """Refuse what waits and what comes."""
        if self._ended is None:
            self._ended = self._stop, self._elapsed()
            for future in list(self._waiting.values()):
                if not future.done():
                    future.set_exception(Refusal(400, "This episode is over.", "episode_over"))

    async def shut(self) -> Record:
        """End, wait for the policy's last word, and hand back all that was recorded.

        Without that word a client that gave up on an engine that hangs could not be told from one that failed.
        """
        self.end()
        while self._waiting:
            self._idle.clear()
            await self._idle.wait()
        if self._record is None:
            assert self._ended is not None
            (stop, seconds), recall = self._ended, self._recall
            turned = len(recall.rewritten), len(recall.dropped)
            self._record = Record(tuple(self._calls), stop, self._error, *turned, seconds)
        if self._raised is not None:
            raise self._raised
        return self._record

    def _elapsed(self) -> float:
        return time.monotonic() - self._opened

    def _write(self, place: int, **changes: Any) -> None:
        if self._record is None:
            self._calls[place] = replace(self._calls[place], **changes)

    def _noise(self, index: int) -> int:
        return int.from_bytes(hashlib.sha256(f"{self._seed}/{index}".encode()).digest()[:8], "big")

    def _check(self) -> None:
        budget = self.budget
        if self._ended is not None:
            raise Refusal(400, "This episode is over.", "episode_over")
        if self._error is not None:
            raise Refusal(400, "The model's engine failed earlier in this episode.", "engine_failed")
        if self._elapsed() >= budget.wall_s:
            raise _bounded(f"{budget.wall_s:g} seconds", Stop.TIME)
        if self._turns >= budget.turns:
            raise _bounded(f"{budget.turns} turns", Stop.TURNS)
        if self._used >= budget.tokens:
            raise _bounded(f"{budget.tokens} tokens", Stop.TOKENS)

    def _request(self, ask: Ask, room: int, note: bool = True) -> tuple[Request, tuple[str, ...], bytes]:
        """What the policy is asked, which fields have no effect on it, and the name of the conversation."""
        messages = ask.messages if ask.previous is None else self._continued(ask.previous, ask.messages)
        limit = min(room, self.budget.reply_tokens, ask.max_tokens or room)
        own = self._client_sampling
        if own:
            other = sorted(set(ask.sampling) - {*_TEMPERED, "seed"})
            if other:
                raise Refusal(400, f"{other[0]}: this server honours temperature and top_p only; leave it out.")
        ignored = (*ask.ignored, *(name for name in ask.sampling if not own or name not in _TEMPERED))
        if ask.max_tokens is not None and limit < ask.max_tokens:
            ignored = (*ignored, "max_tokens")
        restored, chain = self._recall.restore(settled(messages), note)
        request = Request(restored, self.key[:16], self._seed, limit, ask.tools, ask.stop)
        if own:
            request = replace(request, temperature=ask.sampling.get("temperature"), top_p=ask.sampling.get("top_p"))
        return request, ignored, chain

    def _continued(self, index: int, messages: tuple[Message, ...]) -> tuple[Message, ...]:
        """The conversation up to the reply of call `index`, and what is added; new instructions replace the old."""
        call = next((call for call in self._calls if call.index == index and call.completion is not None), None)
        if call is None or call.completion is None:
            raise Refusal(400, f"previous_response_id: resp_{index} is not known here; send the whole conversation.")
        reply = self._read(call.completion, call.tools, index)
        new = [message for message in messages if message.role == "system"]
        old = [message for message in call.messages if not new or message.role != "system"]
        added = [message for message in messages if message.role != "system"]
        return (*new, *old, Message("assistant", reply.content, None, reply.calls), *added)

    def _read(self, completion: Completion, tools: tuple[Tool, ...], index: int) -> Reply:
        return self._format.read(completion.text, tools, lambda n: f"call_{index}_{n}")

    def _expire(self, future: "asyncio.Future[Answer]") -> None:
        if not future.done():
            future.set_exception(_bounded(f"{self.budget.wall_s:g} seconds", Stop.TIME))

    def _arrived(
        self,
        place: int,
        index: int,
        chain: bytes,
        ask: Ask,
        body: Mapping[str, Any],
        request: Request,
        outcome: Completion | BaseException,
        future: "asyncio.Future[Answer]",
    ) -> None:
        """Record what the policy said, wanted or not, and hand it to whoever still waits."""
        failed: Refusal | None = None
        if isinstance(outcome, RequestError):
            failed = Refusal(400, str(outcome))
        elif isinstance(outcome, BaseException):
            self.fail(outcome)
            failed = Refusal(500, "The model's engine failed.", "engine_failed")
        else:
            self._used += len(outcome.ids)
            self._write(place, completion=outcome, answered_s=self._elapsed())
            if outcome.finish == "context" and not outcome.ids:
                said = f"prompt is too long: {len(outcome.prompt_ids)} tokens exceed the context length of the model."
                failed = Refusal(400, said, "context_length_exceeded", Stop.CONTEXT)
        if isinstance(outcome, Completion) and failed is None:
            reply = self._read(outcome, request.tools, index)
            self._recall.add(index, chain, reply, outcome.ids)
            if outcome.finish == "length" and self._used >= self.budget.tokens:
                self._stop = Stop.TOKENS
            elif outcome.finish == "context" or self._stop is Stop.CONTEXT:
                self._stop = Stop.CONTEXT if outcome.finish == "context" else None
            if not future.done():
                sizes = len(outcome.prompt_ids), len(outcome.ids)
                future.set_result(
                    Answer(index, ask.model, reply, outcome.finish != "stop", *sizes, int(time.time()), body)
                )
        elif failed is not None and not future.done():
            future.set_exception(failed)


def _bounded(bound: str, stop: Stop) -> Refusal:
    return Refusal(400, f"The budget of this episode is used up: {bound}.", "budget_exhausted", stop)


def _work(policy: Agent, request: Request, loop: asyncio.AbstractEventLoop, arrived: Any) -> None:
    """Ask the policy, in a thread; whatever it does comes back to the loop, an error as a value."""
    outcome: Completion | BaseException = RuntimeError("The policy gave no answer.")
    try:
        outcome = policy.complete(request)
    except (InfrastructureError, RequestError) as error:
        outcome = error
    finally:
        if not loop.is_closed():
            loop.call_soon_threadsafe(arrived, sys.exception() or outcome)
