"""From what a program asked at the gateway to the turns of a trajectory."""

import json
from itertools import takewhile

from clawloop.types import Call, Message, Record, ToolCall, Turn

_COMMANDS = ("command", "cmd")


def turns_of(record: Record, limit: int, ending: str) -> tuple[Turn, ...]:
    """One turn for each reply; what the program answered to it stands at the end of its next request.

    `ending` is what is to be seen after the last reply, of which no request tells.
    """
    answered = [call for call in record.calls if call.completion is not None]
    turns = []
    for call, after in zip(answered, [*answered[1:], None], strict=False):
        assert call.completion is not None
        shown, command = ending, None
        if after is not None:
            new = list(takewhile(lambda message: message.role != "assistant", reversed(after.messages)))
            shown = "\n".join(message.content for message in reversed(new))
            command = _command(after.messages[-len(new) - 1 : len(after.messages) - len(new)])
        turns.append(Turn(call.completion.text, command, clipped(shown, limit), None, _seconds(call, after)))
    return tuple(turns)


def clipped(text: str, limit: int) -> str:
    """A text with the middle left out where it is long."""
    half = limit // 2
    return (
        text if len(text) <= limit else f"{text[:half]}\n[{len(text) - 2 * half} characters left out]\n{text[-half:]}"
    )


def _command(said: tuple[Message, ...]) -> str | None:
    calls = [_words(call) for message in said for call in message.calls]
    return "\n".join(calls) or None


def _words(call: ToolCall) -> str:
    try:
        arguments = json.loads(call.arguments)
    except ValueError:
        arguments = {}
    found = [arguments[name] for name in _COMMANDS if name in arguments] if isinstance(arguments, dict) else []
    return found[0] if found and isinstance(found[0], str) else f"{call.name} {call.arguments}"


def _seconds(call: Call, after: Call | None) -> float:
    end = after.asked_s if after is not None else call.answered_s
    return max((end if end is not None else call.asked_s) - call.asked_s, 0.0)
