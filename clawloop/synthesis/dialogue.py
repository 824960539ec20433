"""Asking a model, and saying what was wrong with its reply until it is right or no repair is left (paper, 4.1)."""

import hashlib
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from clawloop.protocols import Agent
from clawloop.types import Attempt, Message, Request

T = TypeVar("T")
_BOUND = {"context": "the conversation's context", "length": "the tokens that a reply may have"}


@dataclass(frozen=True, slots=True)
class Judged(Generic[T]):
    """What a reply comes to, where it was refused and why; the last two are empty where it was taken."""

    value: T
    fault: str = ""
    said: str = ""


class Question(Protocol[T]):
    """One question to a model: how it begins, what a reply comes to, and the turn that asks for a better one."""

    @property
    def opening(self) -> tuple[Message, ...]:
        """The first messages."""

    @property
    def nothing(self) -> T:
        """What a reply that did not end comes to."""

    def judge(self, reply: str) -> Judged[T]:
        """What a reply comes to."""

    def again(self, said: str) -> Message:
        """The turn that asks for a better reply."""


class Dialogue:
    """Puts questions to a model, and has it mend its replies.

    A reply that did not end has the fault context (no room for a reply) or length (it was cut); all others are the
    question's own.

    Args:
        repairs: how often a reply may be mended.
        reply_tokens: tokens that one reply may have.

    Raises:
        ValueError: one of them is too small.
    """

    def __init__(self, repairs: int, reply_tokens: int) -> None:
        if repairs < 0 or reply_tokens < 1:
            raise ValueError(f"author needs repairs >= 0 and reply_tokens >= 1, not {repairs} and {reply_tokens}.")
        self._repairs, self._reply_tokens = repairs, reply_tokens

    def __call__(
        self, agent: Agent, question: Question[T], session: str, seed: str
    ) -> tuple[Judged[T], tuple[Attempt, ...]]:
        """What the last reply comes to, and every attempt; `seed` alone decides the sampling noise.

        Raises:
            InfrastructureError: a box or the engine broke.
        """
        asked = question.opening
        messages: tuple[Message, ...] = ()
        attempts: list[Attempt] = []
        while True:
            messages += asked
            noise = hashlib.sha256(f"{seed}/{len(attempts)}".encode()).digest()
            reply = agent.complete(Request(messages, session, int.from_bytes(noise[:6], "big"), self._reply_tokens))
            if reply.finish in _BOUND:
                said = f"The reply did not end: it ran out of {_BOUND[reply.finish]}."
                judged = Judged(question.nothing, reply.finish, said)
            else:
                judged = question.judge(reply.text)
            attempts.append(Attempt(asked, reply.text, judged.fault, judged.said))
            if judged.fault in ("", "context") or len(attempts) > self._repairs:
                return judged, tuple(attempts)
            messages += (Message("assistant", reply.text, reply.ids),)
            asked = (question.again(judged.said),)
