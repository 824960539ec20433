r"""How a model writes thinking and tool calls in its text, and how they are read.

What does not parse stays in the text, to the letter.
"""

import json
import re
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from clawloop.gateway.wire import Reply
from clawloop.types import Tool, ToolCall

_BLOCK = re.compile(r"<tool_call>\s*(.*?)\s*</tool_call>", re.DOTALL)
_FUNCTION = re.compile(r"<function=([^>\s]+)>\s*(.*?)\s*</function>", re.DOTALL)
_PARAMETER = re.compile(r"<parameter=([^>\s]+)>\n?(.*?)\n?</parameter>", re.DOTALL)


class Format(Protocol):
    """Reads a reply; `name(n)` makes the id of its n-th call."""

    def read(self, text: str, tools: Sequence[Tool], name: Callable[[int], str]) -> Reply:
        """Thinking, text and calls."""
        ...


class Plain:
    """No tool calls: all that is not thinking is text."""

    def read(self, text: str, tools: Sequence[Tool], name: Callable[[int], str]) -> Reply:
        """Thinking and text."""
        return Reply(*_thinking(text))


class Hermes:
    """`<tool_call>{"name": ..., "arguments": {...}}</tool_call>`, as Qwen3 and Hermes write them."""

    def read(self, text: str, tools: Sequence[Tool], name: Callable[[int], str]) -> Reply:
        """Thinking, text and calls; with no tools all that is not thinking is text."""
        return _read(text, tools, name, _from_json)


class Coder:
    """`<tool_call><function=...><parameter=...>...`, as Qwen3-Coder and its successors write them."""

    def read(self, text: str, tools: Sequence[Tool], name: Callable[[int], str]) -> Reply:
        """Thinking, text and calls; a value is text where the tool's schema says string, and JSON elsewhere."""
        schemas = {tool.name: json.loads(tool.parameters).get("properties", {}) for tool in tools}
        return _read(text, tools, name, lambda block: _from_xml(block, schemas))


_Call = tuple[str, dict[str, Any]]


def _thinking(text: str) -> tuple[str, str]:
    """What stands in `<think>` at the start, and the rest. A template may have opened it already."""
    opened = text.lstrip().startswith("<think>")
    inside, closed, rest = text.partition("</think>")
    if not opened and not closed:
        return "", text.strip()
    return inside.strip().removeprefix("<think>").strip(), rest.strip()


def _read(text: str, tools: Sequence[Tool], name: Callable[[int], str], parse: Callable[[str], _Call | None]) -> Reply:
    thinking, content = _thinking(text)
    if not tools:
        return Reply(thinking, content)
    calls: list[ToolCall] = []

    def take(found: re.Match[str]) -> str:
        call = parse(found.group(1))
        if call is None:
            return found.group()
        calls.append(ToolCall(name(len(calls)), call[0], json.dumps(call[1], ensure_ascii=False)))
        return ""

    content = _BLOCK.sub(take, content).strip()
    return Reply(thinking, content, tuple(calls))


def _no_number(name: str) -> float:
    """NaN and Infinity are no JSON."""
    raise ValueError(name)


def _from_json(block: str) -> _Call | None:
    try:
        call = json.loads(block, parse_constant=_no_number)
    except (ValueError, RecursionError):
        return None
    if not isinstance(call, dict) or not isinstance(call.get("name"), str) or not call["name"]:
        return None
    arguments = call.get("arguments", {})
    return (call["name"], arguments) if isinstance(arguments, dict) else None


def _from_xml(block: str, schemas: dict[str, Any]) -> _Call | None:
    found = _FUNCTION.fullmatch(block)
    if found is None or _PARAMETER.sub("", found.group(2)).strip():
        return None
    properties = schemas.get(found.group(1), {})
    arguments = {key: _value(text, properties.get(key, {})) for key, text in _PARAMETER.findall(found.group(2))}
    return found.group(1), arguments


def _value(text: str, schema: Any) -> Any:
    if not isinstance(schema, dict) or schema.get("type", "string") == "string":
        return text
    try:
        return json.loads(text, parse_constant=_no_number)
    except (ValueError, RecursionError):
        return text
