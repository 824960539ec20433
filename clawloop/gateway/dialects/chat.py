"""OpenAI Chat Completions: POST /v1/chat/completions."""

from collections.abc import Iterator, Mapping
from typing import Any

from msgspec import Struct

from clawloop.gateway.openai import OpenAI
from clawloop.gateway.wire import Answer, Ask, Refusal, demand, event, pieces, positive, refuse, schema, shape, taken
from clawloop.types import Message, Tool, ToolCall

_HARMLESS = {
    "n": (1,),
    "logit_bias": ({},),
    "logprobs": (False,),
    "top_logprobs": (0,),
    "response_format": ({"type": "text"},),
    "modalities": (["text"],),
    "audio": (),
    "functions": ([],),
    "function_call": ("auto", "none"),
    "tool_choice": ("auto", "none"),
    "web_search_options": (),
}
_SAMPLING = {
    name: name for name in ("temperature", "top_p", "top_k", "min_p", "seed", "frequency_penalty", "presence_penalty")
}


class _Part(Struct):
    type: str
    text: str | None = None
    refusal: str | None = None


class _Function(Struct):
    name: str
    arguments: str = "{}"
    description: str | None = None
    parameters: dict[str, Any] | None = None


class _Call(Struct):
    id: str
    function: _Function


class _Message(Struct):
    role: str
    content: str | list[_Part] | None = None
    tool_calls: list[_Call] | None = None
    tool_call_id: str | None = None


class _Tool(Struct):
    type: str
    function: _Function | None = None


class _Request(Struct):
    messages: list[_Message]
    model: str = ""
    tools: list[_Tool] | None = None
    tool_choice: str | None = None
    max_completion_tokens: int | None = None
    max_tokens: int | None = None
    stop: str | list[str] | None = None
    stream: bool | None = None


class Chat(OpenAI):
    """The codec."""

    name = "chat"
    ping = b": ping\n\n"

    def decode(self, body: Mapping[str, Any], path: str) -> Ask:
        """Read a request."""
        demand(body, _HARMLESS)
        request = shape(body, _Request)
        return Ask(
            model=request.model,
            messages=tuple(_message(message, at) for at, message in enumerate(request.messages)),
            tools=() if request.tool_choice == "none" else tuple(map(_tool, request.tools or ())),
            max_tokens=positive("max_tokens", request.max_completion_tokens, request.max_tokens),
            stop=(request.stop,) if isinstance(request.stop, str) else tuple(request.stop or ()),
            sampling=taken(body, _SAMPLING),
            stream=bool(request.stream),
            ignored=("parallel_tool_calls",) if body.get("parallel_tool_calls") is False else (),
        )

    def encode(self, answer: Answer) -> dict[str, Any]:
        """A whole reply."""
        reply = answer.reply
        message: dict[str, Any] = {
            "role": "assistant",
            "content": reply.content if reply.content or not reply.calls else None,
            "refusal": None,
        }
        if reply.thinking:
            message["reasoning_content"] = reply.thinking
        if reply.calls:
            message["tool_calls"] = [_call(call, call.arguments) for call in reply.calls]
        choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": _finish(answer)}
        return self._head(answer, "chat.completion") | {"choices": [choice], "usage": _usage(answer)}

    def stream(self, answer: Answer) -> Iterator[bytes]:
        """A reply as chunks, usage last where it was asked for."""
        head = self._head(answer, "chat.completion.chunk")
        counted = bool((answer.body.get("stream_options") or {}).get("include_usage"))

        def chunk(delta: dict[str, Any], finish: str | None = None) -> bytes:
            choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
            return event(head | {"choices": [choice]} | ({"usage": None} if counted else {}))

        yield chunk({"role": "assistant", "content": ""})
        for piece in pieces(answer.reply.thinking):
            yield chunk({"reasoning_content": piece})
        for piece in pieces(answer.reply.content):
            yield chunk({"content": piece})
        for index, call in enumerate(answer.reply.calls):
            yield chunk({"tool_calls": [{"index": index} | _call(call, "")]})
            for piece in pieces(call.arguments):
                yield chunk({"tool_calls": [{"index": index, "function": {"arguments": piece}}]})
        yield chunk({}, _finish(answer))
        if counted:
            yield event(head | {"choices": [], "usage": _usage(answer)})
        yield b"data: [DONE]\n\n"

    def broken(self, refusal: Refusal) -> bytes:
        """An error in the middle of a stream."""
        return event(self.error(refusal))

    def count(self, tokens: int) -> dict[str, Any]:
        """The protocol has no such call."""
        raise Refusal(404, "Chat Completions counts no tokens beforehand.", "not_found")

    @staticmethod
    def _head(answer: Answer, kind: str) -> dict[str, Any]:
        return {
            "id": f"chatcmpl-{answer.index}",
            "object": kind,
            "created": answer.created,
            "model": answer.model,
            "system_fingerprint": None,
        }


def _finish(answer: Answer) -> str:
    return "length" if answer.cut else "tool_calls" if answer.reply.calls else "stop"


def _usage(answer: Answer) -> dict[str, Any]:
    total = answer.prompt_tokens + answer.tokens
    return {"prompt_tokens": answer.prompt_tokens, "completion_tokens": answer.tokens, "total_tokens": total}


def _call(call: ToolCall, arguments: str) -> dict[str, Any]:
    return {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": arguments}}


def _tool(tool: _Tool) -> Tool:
    if tool.type != "function" or tool.function is None:
        refuse(f"tools: type {tool.type} is not supported here; offer functions only.")
    return Tool(tool.function.name, tool.function.description or "", schema(tool.function.parameters))


def _message(message: _Message, at: int) -> Message:
    role = {"developer": "system"}.get(message.role, message.role)
    if role not in ("system", "user", "assistant", "tool"):
        refuse(f"messages[{at}].role: {message.role} is not supported here; use system, user, assistant or tool.")
    calls = [ToolCall(call.id, call.function.name, call.function.arguments) for call in message.tool_calls or ()]
    return Message(role, _text(message.content, at), None, tuple(calls), message.tool_call_id)


def _text(content: str | list[_Part] | None, at: int) -> str:
    if content is None or isinstance(content, str):
        return content or ""
    for part in content:
        if part.type not in ("text", "refusal"):
            refuse(f"messages[{at}].content: a part of type {part.type} is not supported here; send text only.")
    return "\n".join(part.text or part.refusal or "" for part in content)
