"""What an episode may take at a gateway, and what was asked and answered there."""

from dataclasses import dataclass

from clawloop.types.trajectory import Completion, Message, Stop, Tool


@dataclass(frozen=True, slots=True)
class Budget:
    """What an episode may take: calls, sampled tokens in all and in one reply, seconds."""

    turns: int
    tokens: int
    reply_tokens: int
    wall_s: float


@dataclass(frozen=True, slots=True)
class Call:
    """One call, answered or not. Times are seconds since the session was opened.

    `received` is the body as it came, where bodies are kept. `messages` and `tools` are what the policy was asked,
    `ignored` the fields that had no effect. `refused` says why there was no answer. `delivered` is true where the whole
    answer was handed to a connection that was still open.
    """

    index: int | None
    dialect: str
    received: bytes | None
    asked_s: float
    messages: tuple[Message, ...] = ()
    tools: tuple[Tool, ...] = ()
    ignored: tuple[str, ...] = ()
    completion: Completion | None = None
    refused: str | None = None
    delivered: bool = False
    answered_s: float | None = None


@dataclass(frozen=True, slots=True)
class Record:
    """All of an episode.

    `stop` is the bound that refused or cut the last reply, if one did. `error` says that the policy broke: then there
    is no reward. `rewritten` and `dropped` count the replies that the client changed and those that it left out.
    """

    calls: tuple[Call, ...]
    stop: Stop | None
    error: str | None
    rewritten: int
    dropped: int
    seconds: float
