"""Function calls in a reply: read, and held against the schemas of the tools."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

_BLOCK = re.compile(r"<tool_call>\s*(.*?)\s*</tool_call>", re.DOTALL)
_KINDS: Mapping[str, type] = {"string": str, "integer": int}


class MalformedError(ValueError):
    """A reply has no call that can be read; the message says why, as a clause."""


@dataclass(frozen=True, slots=True)
class Call:
    """One call, with the piece of the reply that ends with it. The pieces of all calls together are the reply."""

    action: str
    name: str
    arguments: Mapping[str, Any]

    @property
    def text(self) -> str:
        """The arguments as JSON text."""
        return json.dumps(self.arguments, ensure_ascii=False)


def read(reply: str, start: int = 0) -> tuple[list[Call], str]:
    """The calls of a reply from `start` on, and its text without them.

    Raises:
        MalformedError: there is no call, or one of them is no JSON object with a name and arguments.

    >>> [call.name for call in read('Look. <tool_call>{"name": "ls", "arguments": {}}</tool_call>')[0]]
    ['ls']
    """
    found = list(_BLOCK.finditer(reply, start))
    rest = reply[:start] + _BLOCK.sub("", reply[start:])
    if "<tool_call>" in rest[start:]:
        raise MalformedError("a <tool_call> has no </tool_call>")
    if not found:
        raise MalformedError("the reply holds no call")
    begins = [0, *(block.end() for block in found[:-1])]
    ends = [*begins[1:], len(reply)]
    pieces = zip(found, begins, ends, strict=True)
    return [_call(block.group(1), reply[begin:end]) for block, begin, end in pieces], rest.strip()


def fault(call: Call, tools: Mapping[str, Any]) -> str:
    """Why a call cannot be made, as a clause, or nothing.

    >>> tools = {"ls": {"properties": {"path": {"type": "string"}}, "required": ["path"]}}
    >>> fault(Call("", "ls", {"path": 1}), tools), fault(Call("", "ls", {"path": "."}), tools)
    ('path of ls must be of type string', '')
    """
    if call.name not in tools:
        return f"there is no tool {call.name[:100]!a}, only {', '.join(tools)}"
    properties = tools[call.name]["properties"]
    for name in tools[call.name]["required"]:
        if name not in call.arguments:
            return f"{call.name} needs {name}"
    for name, value in call.arguments.items():
        if name not in properties:
            return f"{call.name} has no parameter {name[:100]!a}"
        kind = properties[name]["type"]
        if not isinstance(value, _KINDS[kind]) or isinstance(value, bool):
            return f"{name} of {call.name} must be of type {kind}"
    return ""


def _call(block: str, piece: str) -> Call:
    try:
        value = json.loads(block)
        json.dumps(value, ensure_ascii=False).encode()  # half a surrogate pair is no text
    except (ValueError, RecursionError) as error:
        raise MalformedError("what stands between the tags is not valid JSON") from error
    if not isinstance(value, dict) or not isinstance(value.get("name"), str):
        raise MalformedError("a call must be a JSON object with name and arguments")
    arguments = value.get("arguments", {})
    if not isinstance(arguments, dict):
        raise MalformedError("the arguments of a call must be a JSON object")
    return Call(piece, value["name"], arguments)
