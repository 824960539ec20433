"""OpenAI Responses: POST /v1/responses, /v1/responses/input_tokens."""

from collections.abc import Iterator, Mapping
from typing import Any

from msgspec import Struct

from clawloop.gateway.openai import OpenAI
from clawloop.gateway.wire import (
    Answer,
    Ask,
    Refusal,
    Reply,
    demand,
    event,
    pieces,
    positive,
    refuse,
    schema,
    shape,
    taken,
)
from clawloop.types import Message, Tool, ToolCall

_HARMLESS = {
    "background": (False,),
    "conversation": (),
    "prompt": (),
    "truncation": ("disabled",),
    "top_logprobs": (0,),
    "tool_choice": ("auto", "none"),
    "modalities": (["text"],),
}
_SAMPLING = {name: name for name in ("temperature", "top_p")}
_ECHOED = ("instructions", "metadata", "temperature", "top_p", "reasoning", "text", "max_output_tokens", "user")


class _Part(Struct):
    type: str
    text: str | None = None
    refusal: str | None = None


class _Item(Struct):
    type: str = "message"
    role: str = ""
    content: str | list[_Part] | None = None
    call_id: str = ""
    name: str = ""
    arguments: str = "{}"
    output: str | list[_Part] | None = None


class _Tool(Struct):
    type: str
    name: str = ""
    description: str | None = None
    parameters: dict[str, Any] | None = None


class _Request(Struct):
    input: str | list[_Item]
    model: str = ""
    instructions: str | None = None
    tools: list[_Tool] | None = None
    tool_choice: str | None = None
    max_output_tokens: int | None = None
    stream: bool | None = None
    previous_response_id: str | None = None


class Responses(OpenAI):
    """The codec."""

    name = "responses"
    ping = b": ping\n\n"

    def decode(self, body: Mapping[str, Any], path: str) -> Ask:
        """Read a request."""
        demand(body, _HARMLESS)
        text = body.get("text")
        if isinstance(text, dict):
            demand(text, {"format": ({"type": "text"},)}, "text.")
        request = shape(body, _Request)
        items = [_Item(role="user", content=request.input)] if isinstance(request.input, str) else request.input
        messages = [Message("system", request.instructions)] if request.instructions else []
        for at, item in enumerate(items):
            _add(messages, item, at)
        return Ask(
            model=request.model,
            messages=tuple(messages),
            tools=() if request.tool_choice == "none" else tuple(map(_tool, request.tools or ())),
            max_tokens=positive("max_output_tokens", request.max_output_tokens),
            sampling=taken(body, _SAMPLING),
            stream=bool(request.stream),
            ignored=tuple(name for name in ("parallel_tool_calls", "store") if body.get(name) is not None),
            previous=_previous(request.previous_response_id),
        )

    def encode(self, answer: Answer) -> dict[str, Any]:
        """A whole response."""
        return _response(answer, "incomplete" if answer.cut else "completed", _items(answer))

    def stream(self, answer: Answer) -> Iterator[bytes]:
        """A response as numbered events: every item is added, written and done."""
        numbered = enumerate(_events(answer))
        return (event({"type": kind, "sequence_number": n, **data}, kind) for n, (kind, data) in numbered)

    def broken(self, refusal: Refusal) -> bytes:
        """An error in the middle of a stream."""
        error = {"code": "server_error" if refusal.status >= 500 else refusal.code, "message": refusal.message}
        failed = _response(Answer(0, "", Reply("", ""), False, 0, 0, 0, {}), "failed", []) | {
            "error": error,
            "usage": None,
        }
        return event({"type": "response.failed", "sequence_number": 0, "response": failed}, "response.failed")

    def count(self, tokens: int) -> dict[str, Any]:
        """The tokens of an input."""
        return {"object": "response.input_tokens", "input_tokens": tokens}


def _previous(id: str | None) -> int | None:
    if id is None:
        return None
    index = id.removeprefix("resp_")
    if not index.isdecimal():
        refuse(f"previous_response_id: {id} is not known here; send the whole conversation as input.")
    return int(index)


def _tool(tool: _Tool) -> Tool:
    if tool.type != "function":
        refuse(f"tools: type {tool.type} is not supported here; turn it off and offer functions only.")
    return Tool(tool.name, tool.description or "", schema(tool.parameters))


def _add(messages: list[Message], item: _Item, at: int) -> None:
    """An item becomes a message, or joins the assistant's before it: what one reply said comes as several items."""
    if item.type == "reasoning":
        return
    if item.type == "function_call_output":
        messages.append(Message("tool", _text(item.output, at), None, (), item.call_id))
        return
    if item.type == "function_call":
        role, content = "assistant", ""
        calls: tuple[ToolCall, ...] = (ToolCall(item.call_id, item.name, item.arguments),)
    elif item.type == "message":
        role, content, calls = {"developer": "system"}.get(item.role, item.role), _text(item.content, at), ()
    else:
        refuse(f"input[{at}]: an item of type {item.type} is not supported here; send messages and function calls.")
    if role not in ("system", "user", "assistant"):
        refuse(f"input[{at}].role: {role or 'none'} is not supported here; use system, developer, user or assistant.")
    last = messages[-1] if messages else None
    if role == "assistant" and last is not None and last.role == "assistant" and not (content and last.calls):
        messages[-1] = Message(role, last.content + content, None, (*last.calls, *calls))
    else:
        messages.append(Message(role, content, None, calls))


def _text(content: str | list[_Part] | None, at: int) -> str:
    if content is None or isinstance(content, str):
        return content or ""
    for part in content:
        if part.type not in ("input_text", "output_text", "text", "refusal"):
            refuse(f"input[{at}]: a part of type {part.type} is not supported here; send text only.")
    return "\n".join(part.text or part.refusal or "" for part in content)


def _items(answer: Answer) -> list[dict[str, Any]]:
    """The items of a reply: its thinking, what it says, its calls."""
    reply, index = answer.reply, answer.index
    status = "incomplete" if answer.cut else "completed"
    items: list[dict[str, Any]] = []
    if reply.thinking:
        content = [{"type": "reasoning_text", "text": reply.thinking}]
        item = {"id": f"rs_{index}", "type": "reasoning", "summary": [], "content": content, "status": status}
        if "reasoning.encrypted_content" in (answer.body.get("include") or ()):
            item["encrypted_content"] = f"resp_{index}"
        items.append(item)
    if reply.content or not reply.calls:
        text = {"type": "output_text", "text": reply.content, "annotations": [], "logprobs": []}
        items.append(
            {"id": f"msg_{index}", "type": "message", "role": "assistant", "status": status, "content": [text]}
        )
    items += [
        {
            "id": f"fc_{index}_{n}",
            "type": "function_call",
            "call_id": call.id,
            "name": call.name,
            "arguments": call.arguments,
            "status": "completed",
        }
        for n, call in enumerate(reply.calls)
    ]
    return items


def _response(answer: Answer, status: str, items: list[dict[str, Any]]) -> dict[str, Any]:
    body = answer.body
    usage = {
        "input_tokens": answer.prompt_tokens,
        "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
        "output_tokens": answer.tokens,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": answer.prompt_tokens + answer.tokens,
    }
    return {name: body.get(name) for name in _ECHOED} | {
        "id": f"resp_{answer.index}",
        "object": "response",
        "created_at": answer.created,
        "status": status,
        "error": None,
        "incomplete_details": {"reason": "max_output_tokens"} if status == "incomplete" else None,
        "model": answer.model,
        "output": items,
        "parallel_tool_calls": True,
        "previous_response_id": body.get("previous_response_id"),
        "store": bool(body.get("store", True)),
        "tool_choice": body.get("tool_choice") or "auto",
        "tools": body.get("tools") or [],
        "truncation": "disabled",
        "usage": usage if status in ("completed", "incomplete") else None,
    }


def _events(answer: Answer) -> Iterator[tuple[str, dict[str, Any]]]:
    items = _items(answer)
    started = _response(answer, "in_progress", [])
    yield "response.created", {"response": started}
    yield "response.in_progress", {"response": started}
    for at, item in enumerate(items):
        empty: dict[str, Any] = {"arguments": ""} if item["type"] == "function_call" else {"content": []}
        yield "response.output_item.added", {"output_index": at, "item": item | empty | {"status": "in_progress"}}
        where = {"item_id": item["id"], "output_index": at}
        if item["type"] == "function_call":
            for piece in pieces(item["arguments"]):
                yield "response.function_call_arguments.delta", where | {"delta": piece}
            yield (
                "response.function_call_arguments.done",
                where | {"name": item["name"], "arguments": item["arguments"]},
            )
        else:
            yield from _written(item, where | {"content_index": 0})
        yield "response.output_item.done", {"output_index": at, "item": item}
    final = _response(answer, "incomplete" if answer.cut else "completed", items)
    yield f"response.{final['status']}", {"response": final}


def _written(item: dict[str, Any], where: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """The one part of a message or a reasoning item."""
    part = item["content"][0]
    kind = "reasoning_text" if item["type"] == "reasoning" else "output_text"
    extra: dict[str, Any] = {"logprobs": []} if kind == "output_text" else {}
    yield "response.content_part.added", where | {"part": part | {"text": ""}}
    for piece in pieces(part["text"]):
        yield f"response.{kind}.delta", where | {"delta": piece} | extra
    yield f"response.{kind}.done", where | {"text": part["text"]} | extra
    yield "response.content_part.done", where | {"part": part}
