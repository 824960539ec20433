"""Finding what was sampled in what a client sends back, so that its ids are used and nothing is tokenised again."""

import json
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace
from hashlib import blake2b

from clawloop.gateway.wire import Reply
from clawloop.types import Message, ToolCall

_Key = tuple[str, tuple[tuple[str, str], ...]]


class Recall:
    """The replies of one session.

    A client may leave out the thinking of a reply, trim its text, reorder its calls, split it and write its arguments
    as other JSON: it is still the reply that was sampled. Where it changed the text or a call, its version is used
    as text and the reply is in `rewritten`; where it went on without the reply, the reply is in `dropped`.
    """

    def __init__(self) -> None:
        self.rewritten: set[int] = set()
        self.dropped: set[int] = set()
        self._ids: dict[int, tuple[int, ...]] = {}
        self._keys: dict[int, _Key] = {}
        self._by_key: dict[_Key, list[int]] = defaultdict(list)
        self._by_call: dict[str, int] = {}
        self._after: dict[bytes, list[int]] = defaultdict(list)
        self._delivered: set[int] = set()

    def add(self, index: int, chain: bytes, reply: Reply, ids: tuple[int, ...]) -> None:
        """Remember the reply of call `index` to the conversation that `restore` named `chain`."""
        key = _key(reply.content, reply.calls)
        self._ids[index], self._keys[index] = ids, key
        self._by_key[key].append(index)
        self._by_call |= {call.id: index for call in reply.calls}
        self._after[chain].append(index)

    def delivered(self, index: int) -> None:
        """The client has the reply, and may be expected to send it back."""
        self._delivered.add(index)

    def restore(self, messages: Sequence[Message], note: bool = True) -> tuple[tuple[Message, ...], bytes]:
        """The messages with the ids of every reply that is one of ours, and a name for this conversation.

        `note` what was changed or left out.
        """
        restored: list[Message] = []
        used: set[int] = set()
        rewritten: set[int] = set()
        dropped: set[int] = set()
        chain = b""
        for message in self._joined(messages):
            index: int | None = None
            expected = [i for i in self._after.get(chain, ()) if i in self._delivered]
            if message.role == "assistant":
                index = self._find(message, expected, used)
                if index is None:
                    rewritten.update({self._by_call[c.id] for c in message.calls if c.id in self._by_call})
                    rewritten.update(expected[-1:])
                else:
                    used.add(index)
                    message = replace(message, ids=self._ids[index])
            elif message.role != "system":
                dropped.update(expected[-1:])
            restored.append(message)
            chain = _link(chain, message, index)
        if note:
            self.rewritten |= rewritten
            self.dropped |= dropped
        return tuple(restored), chain

    def _joined(self, messages: Sequence[Message]) -> list[Message]:
        """A reply whose calls came in several messages, with results between them, is one again."""
        joined: list[Message] = []
        place: dict[int, int] = {}
        for message in messages:
            index = self._by_call.get(message.calls[0].id) if message.calls else None
            if index is not None and index in place:
                first = joined[place[index]]
                content = first.content + message.content
                joined[place[index]] = replace(first, content=content, calls=first.calls + message.calls)
                continue
            if index is not None:
                place[index] = len(joined)
            joined.append(message)
        return joined

    def _find(self, message: Message, expected: Sequence[int], used: set[int]) -> int | None:
        """The reply that a message is: by its calls' ids, its place in the conversation, or its text in order."""
        key = _key(message.content, message.calls)
        called = {self._by_call.get(call.id) for call in message.calls} - {None}
        candidates = [index for index in self._by_key.get(key, ()) if index not in used]
        here = [index for index in candidates if index in called] or [i for i in candidates if i in expected]
        return here[-1] if here else candidates[0] if candidates else None


def _key(content: str, calls: Iterable[ToolCall]) -> _Key:
    return content.strip(), tuple(sorted((call.name, _canonical(call.arguments)) for call in calls))


def _canonical(arguments: str) -> str:
    try:
        return json.dumps(json.loads(arguments), sort_keys=True)
    except (ValueError, RecursionError):
        return arguments


def _link(chain: bytes, message: Message, index: int | None) -> bytes:
    """The name of a conversation that is one message longer. System messages may change from call to call."""
    if message.role == "system":
        return chain
    said = (
        index if index is not None else (message.role, message.content, [(c.name, c.arguments) for c in message.calls])
    )
    return blake2b(chain + repr(said).encode(), digest_size=16).digest()
