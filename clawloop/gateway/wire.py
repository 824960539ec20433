"""What every dialect comes down to: an `Ask`, an `Answer`, a `Refusal`, and the codec between them and JSON."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NoReturn, Protocol, TypeVar

import msgspec

from clawloop.types import Message, Stop, Tool, ToolCall

T = TypeVar("T")

PIECE = 256
"""Characters of a text in one event of a stream."""


class Refusal(Exception):
    """A call that is not answered: an HTTP status, one sentence, a code, and the bound of the budget that it met."""

    def __init__(self, status: int, message: str, code: str = "invalid_request", stop: Stop | None = None) -> None:
        super().__init__(message)
        self.status, self.message, self.code, self.stop = status, message, code, stop


@dataclass(frozen=True, slots=True)
class Ask:
    """One request to the model, in no dialect.

    `sampling` are the sampling parameters that the client sent, by the names temperature, top_p, and so on. `ignored`
    are fields that were understood and have no effect. `previous` is the index of the call that it continues.
    """

    model: str
    messages: tuple[Message, ...]
    tools: tuple[Tool, ...] = ()
    max_tokens: int | None = None
    stop: tuple[str, ...] = ()
    sampling: Mapping[str, Any] = field(default_factory=dict)
    stream: bool = False
    ignored: tuple[str, ...] = ()
    previous: int | None = None


@dataclass(frozen=True, slots=True)
class Reply:
    """A model's text, read: its thinking, what it says, and its tool calls."""

    thinking: str
    content: str
    calls: tuple[ToolCall, ...] = ()


@dataclass(frozen=True, slots=True)
class Answer:
    """A reply as it goes back. `index` is the call's number in its session, `cut` that it met the limit of tokens."""

    index: int
    model: str
    reply: Reply
    cut: bool
    prompt_tokens: int
    tokens: int
    created: int
    body: Mapping[str, Any]


class Dialect(Protocol):
    """A codec of one protocol. It has no state and does no I/O."""

    name: str
    ping: bytes

    def key(self, headers: Mapping[str, str], query: Mapping[str, str]) -> str | None: ...
    def decode(self, body: Mapping[str, Any], path: str) -> Ask: ...
    def encode(self, answer: Answer) -> dict[str, Any]: ...
    def stream(self, answer: Answer) -> Iterator[bytes]: ...
    def error(self, refusal: Refusal) -> dict[str, Any]: ...
    def broken(self, refusal: Refusal) -> bytes: ...
    def count(self, tokens: int) -> dict[str, Any]: ...
    def models(self, name: str) -> dict[str, Any]: ...
    def model(self, name: str) -> dict[str, Any]: ...


def refuse(message: str) -> NoReturn:
    """Say that a request cannot be honoured."""
    raise Refusal(400, message)


def shape(body: Mapping[str, Any], kind: type[T]) -> T:
    """The fields of a request that matter, typed; others are left alone."""
    try:
        return msgspec.convert(body, kind)
    except msgspec.ValidationError as error:
        refuse(f"The request has a wrong shape: {error}.")


def demand(body: Mapping[str, Any], harmless: Mapping[str, Sequence[Any]], at: str = "") -> None:
    """Refuse fields whose value changes what a reply means, where it is not one of the harmless ones."""
    for name, accepted in harmless.items():
        value = body.get(name)
        if value is not None and value not in accepted:
            shown = json.dumps(value)
            shown = shown if len(shown) <= 60 else f"{shown[:57]}..."
            refuse(f"{at}{name}: {shown} is not supported here; leave it out.")


def taken(body: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    """The given fields of a request, by our names for them."""
    return {ours: body[theirs] for theirs, ours in names.items() if body.get(theirs) is not None}


def positive(name: str, *values: int | None) -> int | None:
    """The first limit of tokens that is given."""
    given = next((value for value in values if value is not None), None)
    if given is not None and given < 1:
        refuse(f"{name}: {given} leaves no room for a reply; ask for at least 1 token.")
    return given


def settled(messages: Sequence[Message]) -> tuple[Message, ...]:
    """System messages before the first reply become one at the front; later ones become the user's.

    Chat templates know one system message, the first.
    """
    first = next((i for i, message in enumerate(messages) if message.role == "assistant"), len(messages))
    system = "\n\n".join(message.content for message in messages[:first] if message.role == "system")
    rest = [message for message in messages[:first] if message.role != "system"]
    rest += [replace(m, role="user") if m.role == "system" else m for m in messages[first:]]
    if not rest:
        refuse("The request has no message; send at least one of the user.")
    return (*((Message("system", system),) if system else ()), *rest)


def schema(value: Any) -> str:
    """A JSON Schema as text."""
    return json.dumps(value or {"type": "object", "properties": {}}, ensure_ascii=False)


def pieces(text: str) -> Iterator[str]:
    """A text in the pieces that a stream sends."""
    return (text[at : at + PIECE] for at in range(0, len(text), PIECE))


def event(data: Mapping[str, Any], name: str | None = None) -> bytes:
    """One server-sent event."""
    head = f"event: {name}\n" if name else ""
    return f"{head}data: {json.dumps(data)}\n\n".encode()
