"""A policy without weights: rules that answer by pattern. It is deterministic, and for that reason useful."""

import hashlib
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Self

from clawloop.types import Completion, Message, Request


class ScriptedPolicy:
    """Answers the first rule whose pattern is found in the assignment, and hands in at its next turn.

    A share `slip` of the sessions answers wrongly, chosen by the request's seed alone, so that groups are mixed the
    way a real agent's are. Its tokens are the bytes of its text, with 256 as the end of a turn.

    Args:
        rules: each has `when`, a regular expression, and `say`, a reply in which {name} stands for a named group.
        slip: the share of sessions that give `wrong` instead of a rule's reply, 0 to 1.
        wrong: the reply of a slip, and of an assignment that no rule knows.
        version: the name of theta.
        done: the reply that hands in.
    """

    end = 256

    def __init__(
        self,
        rules: Sequence[Mapping[str, str]] = (),
        slip: float = 0.5,
        wrong: str = "```bash\ntrue\n```",
        version: str = "theta_0",
        done: str = "done",
    ) -> None:
        self._rules = tuple((re.compile(rule["when"], re.DOTALL), rule["say"]) for rule in rules)
        self._slip, self._wrong, self._version, self._done = slip, wrong, version, done

    @property
    def version(self) -> str:
        """The name of theta."""
        return self._version

    def renamed(self, version: str) -> Self:
        """Take another name."""
        self._version = version
        return self

    def save(self, folder: Path) -> None:
        """There is nothing to keep but the name."""
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "version.txt").write_text(self._version)

    def load(self, folder: Path, version: str) -> Self:
        """Take the name."""
        return self.renamed(version)

    def complete(self, request: Request) -> Completion:
        """Answer at once. A rule may say tool calls, in the form that whoever asks reads out of a text."""
        text = self._reply(request)
        for stop in request.stop:
            text = text.partition(stop)[0]
        ids = (*text.encode(), self.end)[: request.max_tokens]
        finish = "stop" if ids[-1:] == (self.end,) else "length"
        text = bytes(byte for byte in ids if byte != self.end).decode(errors="ignore")
        return Completion(text, self._prompt_ids(request), ids, (0.0,) * len(ids), finish)

    def count(self, request: Request) -> int:
        """The tokens of a request's prompt."""
        return len(self._prompt_ids(request))

    def _prompt_ids(self, request: Request) -> tuple[int, ...]:
        ids: tuple[int, ...] = ()
        for message in request.messages:
            ids += message.ids if message.ids is not None else (*self._bytes(message), self.end)
        return ids

    @staticmethod
    def _bytes(message: Message) -> bytes:
        calls = "".join(f" {call.name}({call.arguments})" for call in message.calls)
        return f"{message.role}: {message.content}{calls}".encode()

    def _reply(self, request: Request) -> str:
        if any(message.role == "assistant" for message in request.messages):
            return self._done
        draw = int.from_bytes(hashlib.sha256(str(request.seed).encode()).digest()[:8], "big") / 2**64
        if draw < self._slip:
            return self._wrong
        assignment = next(m.content for m in request.messages if m.role == "user")
        for pattern, say in self._rules:
            found = pattern.search(assignment)
            if found:
                for name, value in found.groupdict(default="").items():
                    say = say.replace("{" + name + "}", value)
                return say
        return self._wrong
