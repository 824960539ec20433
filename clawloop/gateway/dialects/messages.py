"""Anthropic Messages: POST /v1/messages, /v1/messages/count_tokens."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from msgspec import Struct

from clawloop.gateway.wire import Answer, Ask, Refusal, demand, event, pieces, positive, refuse, schema, shape, taken
from clawloop.types import Message, Tool, ToolCall

_HARMLESS: dict[str, tuple[Any, ...]] = {"container": (), "mcp_servers": ([],)}
_SAMPLING = {name: name for name in ("temperature", "top_p", "top_k")}
_KINDS = {401: "authentication_error", 404: "not_found_error", 413: "request_too_large"}


class _Block(Struct):
    type: str
    text: str = ""
    id: str = ""
    name: str = ""
    input: dict[str, Any] | None = None
    tool_use_id: str = ""
    content: str | list["_Block"] | None = None


class _Message(Struct):
    role: str
    content: str | list[_Block]


class _Tool(Struct):
    name: str
    type: str | None = None
    description: str = ""
    input_schema: dict[str, Any] | None = None


class _Choice(Struct):
    type: str
    disable_parallel_tool_use: bool | None = None


class _Request(Struct):
    messages: list[_Message]
    model: str = ""
    system: str | list[_Block] | None = None
    tools: list[_Tool] | None = None
    tool_choice: _Choice | None = None
    max_tokens: int | None = None
    stop_sequences: list[str] | None = None
    stream: bool | None = None


class Messages:
    """The codec."""

    name = "messages"
    ping = event({"type": "ping"}, "ping")

    def key(self, headers: Mapping[str, str], query: Mapping[str, str]) -> str | None:
        """The key of the header, or the bearer token."""
        bearer = headers.get("authorization", "").removeprefix("Bearer ").strip()
        return headers.get("x-api-key") or bearer or None

    def decode(self, body: Mapping[str, Any], path: str) -> Ask:
        """Read a request."""
        demand(body, _HARMLESS)
        output = body.get("output_config")
        if isinstance(output, dict):
            demand(output, {"format": ()}, "output_config.")
        request = shape(body, _Request)
        choice = request.tool_choice or _Choice("auto")
        if choice.type not in ("auto", "none"):
            refuse(f"tool_choice: {choice.type} is not supported here, since no tool can be forced; use auto or none.")
        messages = [Message("system", _text(request.system, "system"))] if request.system else []
        for at, message in enumerate(request.messages):
            messages += _messages(message, at)
        return Ask(
            model=request.model,
            messages=tuple(messages),
            tools=() if choice.type == "none" else tuple(map(_tool, request.tools or ())),
            max_tokens=positive("max_tokens", request.max_tokens),
            stop=tuple(request.stop_sequences or ()),
            sampling=taken(body, _SAMPLING),
            stream=bool(request.stream),
            ignored=("tool_choice.disable_parallel_tool_use",) if choice.disable_parallel_tool_use else (),
        )

    def encode(self, answer: Answer) -> dict[str, Any]:
        """A whole message."""
        return _head(answer) | {
            "content": _blocks(answer),
            "stop_reason": _stop(answer),
            "usage": {"input_tokens": answer.prompt_tokens, "output_tokens": answer.tokens},
        }

    def stream(self, answer: Answer) -> Iterator[bytes]:
        """A message as events: each block is started, written and stopped."""
        usage = {"input_tokens": answer.prompt_tokens, "output_tokens": 0}
        yield _event("message_start", message=_head(answer) | {"content": [], "stop_reason": None, "usage": usage})
        for index, block in enumerate(_blocks(answer)):
            empty, deltas = _written(block)
            yield _event("content_block_start", index=index, content_block=block | empty)
            for delta in deltas:
                yield _event("content_block_delta", index=index, delta=delta)
            yield _event("content_block_stop", index=index)
        delta = {"stop_reason": _stop(answer), "stop_sequence": None}
        yield _event("message_delta", delta=delta, usage={"output_tokens": answer.tokens})
        yield _event("message_stop")

    def error(self, refusal: Refusal) -> dict[str, Any]:
        """The error object."""
        kind = _KINDS.get(refusal.status, "invalid_request_error" if refusal.status < 500 else "api_error")
        return {"type": "error", "error": {"type": kind, "message": refusal.message}}

    def broken(self, refusal: Refusal) -> bytes:
        """An error in the middle of a stream."""
        return event(self.error(refusal), "error")

    def count(self, tokens: int) -> dict[str, Any]:
        """The tokens of a prompt."""
        return {"input_tokens": tokens}

    def models(self, name: str) -> dict[str, Any]:
        """The list of one model."""
        return {"data": [self.model(name)], "has_more": False, "first_id": name, "last_id": name}

    def model(self, name: str) -> dict[str, Any]:
        """The model."""
        made = "1970-01-01T00:00:00Z"
        return {"type": "model", "id": name, "display_name": name, "created_at": made, "lifecycle": "active"}


def _event(kind: str, **data: Any) -> bytes:
    return event({"type": kind, **data}, kind)


def _tool(tool: _Tool) -> Tool:
    if tool.type not in (None, "custom"):
        refuse(f"tools: type {tool.type} is not supported here; turn it off and offer tools with an input_schema.")
    return Tool(tool.name, tool.description, schema(tool.input_schema))


def _messages(message: _Message, at: int) -> Iterator[Message]:
    """The blocks of a message in their order; results of tools are messages of their own."""
    if message.role not in ("system", "user", "assistant"):
        refuse(f"messages[{at}].role: {message.role} is not supported here; use system, user or assistant.")
    blocks = [_Block("text", message.content)] if isinstance(message.content, str) else message.content
    if message.role == "assistant":
        calls = tuple(ToolCall(b.id, b.name, json.dumps(b.input or {})) for b in blocks if b.type == "tool_use")
        said = [b for b in blocks if b.type not in ("tool_use", "thinking", "redacted_thinking")]
        yield Message("assistant", _text(said, f"messages[{at}]"), None, calls)
        return
    said = []
    for block in blocks:
        if block.type != "tool_result":
            said.append(block)
            continue
        if said:
            yield Message(message.role, _text(said, f"messages[{at}]"))
            said = []
        yield Message("tool", _text(block.content, f"messages[{at}]"), None, (), block.tool_use_id)
    if said:
        yield Message(message.role, _text(said, f"messages[{at}]"))


def _text(content: str | list[_Block] | None, at: str) -> str:
    if content is None or isinstance(content, str):
        return content or ""
    for block in content:
        if block.type != "text":
            refuse(f"{at}: a block of type {block.type} is not supported here; send text and tools only.")
    return "\n".join(block.text for block in content)


def _head(answer: Answer) -> dict[str, Any]:
    return {
        "id": f"msg_{answer.index}",
        "type": "message",
        "role": "assistant",
        "model": answer.model,
        "stop_sequence": None,
    }


def _stop(answer: Answer) -> str:
    return "max_tokens" if answer.cut else "tool_use" if answer.reply.calls else "end_turn"


def _blocks(answer: Answer) -> list[dict[str, Any]]:
    reply = answer.reply
    blocks: list[dict[str, Any]] = []
    if reply.thinking:
        blocks.append({"type": "thinking", "thinking": reply.thinking, "signature": f"msg_{answer.index}"})
    if reply.content or not reply.calls:
        blocks.append({"type": "text", "text": reply.content})
    for call in reply.calls:
        blocks.append({"type": "tool_use", "id": call.id, "name": call.name, "input": json.loads(call.arguments)})
    return blocks


def _written(block: dict[str, Any]) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """What a block starts without, and the deltas that bring it."""
    if block["type"] == "thinking":
        deltas = [{"type": "thinking_delta", "thinking": piece} for piece in pieces(block["thinking"])]
        return {"thinking": "", "signature": ""}, [
            *deltas,
            {"type": "signature_delta", "signature": block["signature"]},
        ]
    if block["type"] == "text":
        return {"text": ""}, [{"type": "text_delta", "text": piece} for piece in pieces(block["text"])]
    text = json.dumps(block["input"])
    return {"input": {}}, [{"type": "input_json_delta", "partial_json": piece} for piece in pieces(text)]
