"""Gemini: POST /v1beta/models/MODEL:generateContent, :streamGenerateContent, :countTokens, also under /v1."""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from msgspec import Struct

from clawloop.gateway.wire import Answer, Ask, Refusal, demand, event, pieces, positive, refuse, schema, shape, taken
from clawloop.types import Message, Tool, ToolCall

_HARMLESS = {"cachedContent": ("",)}
_GENERATION = {
    "candidateCount": (1,),
    "responseMimeType": ("text/plain", ""),
    "responseSchema": (),
    "responseJsonSchema": (),
    "responseLogprobs": (False,),
    "responseModalities": (["TEXT"], []),
    "speechConfig": (),
}
_SAMPLING = {
    "temperature": "temperature",
    "topP": "top_p",
    "topK": "top_k",
    "seed": "seed",
    "presencePenalty": "presence_penalty",
    "frequencyPenalty": "frequency_penalty",
}
_STATUS = {401: "UNAUTHENTICATED", 404: "NOT_FOUND", 413: "INVALID_ARGUMENT", 500: "INTERNAL", 503: "UNAVAILABLE"}


_OPAQUE = {"args", "response", "parameters", "parametersJsonSchema", "responseSchema", "responseJsonSchema", "labels"}
_UNDERSCORE = re.compile(r"(?<=\w)_([a-z])")


class _Call(Struct):
    name: str
    args: dict[str, Any] | None = None
    id: str | None = None


class _Result(Struct):
    name: str
    response: dict[str, Any] | None = None
    id: str | None = None


class _Part(Struct, rename="camel"):
    text: str | None = None
    thought: bool | None = None
    function_call: _Call | None = None
    function_response: _Result | None = None


class _Content(Struct):
    parts: list[dict[str, Any]] = []
    role: str | None = None


class _Function(Struct, rename="camel"):
    name: str
    description: str | None = None
    parameters: dict[str, Any] | None = None
    parameters_json_schema: dict[str, Any] | None = None


class _Mode(Struct):
    mode: str | None = None


class _Config(Struct, rename="camel"):
    function_calling_config: _Mode | None = None


class _Generation(Struct, rename="camel"):
    max_output_tokens: int | None = None
    stop_sequences: list[str] | None = None


class _Request(Struct, rename="camel"):
    contents: list[_Content]
    system_instruction: _Content | None = None
    tools: list[dict[str, Any]] | None = None
    tool_config: _Config | None = None
    generation_config: _Generation | None = None


class Gemini:
    """The codec."""

    name = "gemini"
    ping = b"\n"
    """An empty line: clients of this protocol take a comment for data."""

    def key(self, headers: Mapping[str, str], query: Mapping[str, str]) -> str | None:
        """The key of the header, or of the address."""
        return headers.get("x-goog-api-key") or query.get("key")

    def decode(self, body: Mapping[str, Any], path: str) -> Ask:
        """Read a request; one that counts may hold the request that it is about."""
        body = _camel(body)
        inner = body.get("generateContentRequest")
        body = inner if isinstance(inner, dict) else body
        demand(body, _HARMLESS)
        generation = body.get("generationConfig")
        generation = generation if isinstance(generation, dict) else {}
        demand(generation, _GENERATION, "generationConfig.")
        request = shape(body, _Request)
        mode = (request.tool_config or _Config()).function_calling_config or _Mode()
        if (mode.mode or "AUTO").upper() not in ("AUTO", "NONE", "MODE_UNSPECIFIED"):
            refuse(
                f"toolConfig: mode {mode.mode} is not supported here, since no tool can be forced; use AUTO or NONE."
            )
        messages: list[Message] = []
        if request.system_instruction is not None:
            said = _parts(request.system_instruction.parts, "systemInstruction")
            messages.append(Message("system", _text(said)))
        for at, content in enumerate(request.contents):
            messages += _messages(content, at, messages)
        config = request.generation_config or _Generation()
        return Ask(
            model=path.rpartition("/")[2].rpartition(":")[0],
            messages=tuple(messages),
            tools=() if (mode.mode or "").upper() == "NONE" else tuple(_tools(request.tools or [])),
            max_tokens=positive("generationConfig.maxOutputTokens", config.max_output_tokens),
            stop=tuple(config.stop_sequences or ()),
            sampling=taken(generation, _SAMPLING),
            stream=path.endswith(":streamGenerateContent"),
            ignored=tuple(name for name in ("safetySettings",) if body.get(name)),
        )

    def encode(self, answer: Answer) -> dict[str, Any]:
        """A whole response."""
        reply = answer.reply
        parts: list[dict[str, Any]] = []
        if reply.thinking:
            parts.append({"text": reply.thinking, "thought": True})
        if reply.content or not reply.calls:
            parts.append({"text": reply.content})
        return _response(answer, parts + [_call(call) for call in reply.calls], _finish(answer))

    def stream(self, answer: Answer) -> Iterator[bytes]:
        """A response as chunks; a call comes whole, and the last chunk says why the reply ended."""
        reply = answer.reply
        for piece in pieces(reply.thinking):
            yield event(_response(answer, [{"text": piece, "thought": True}]))
        for piece in pieces(reply.content):
            yield event(_response(answer, [{"text": piece}]))
        last = [_call(call) for call in reply.calls] or [{"text": ""}]
        yield event(_response(answer, last, _finish(answer)))

    def error(self, refusal: Refusal) -> dict[str, Any]:
        """The error object."""
        bounded = "FAILED_PRECONDITION" if refusal.stop is not None else "INVALID_ARGUMENT"
        status = _STATUS.get(refusal.status, bounded)
        return {"error": {"code": refusal.status, "message": refusal.message, "status": status}}

    def broken(self, refusal: Refusal) -> bytes:
        """An error in the middle of a stream."""
        return event(self.error(refusal))

    def count(self, tokens: int) -> dict[str, Any]:
        """The tokens of a prompt."""
        return {"totalTokens": tokens}

    def models(self, name: str) -> dict[str, Any]:
        """The list of one model."""
        return {"models": [self.model(name)]}

    def model(self, name: str) -> dict[str, Any]:
        """The model."""
        methods = ["generateContent", "countTokens"]
        return {
            "name": f"models/{name}",
            "displayName": name,
            "version": "1",
            "supportedGenerationMethods": methods,
        }


def _camel(value: Any) -> Any:
    """Fields in camel case; the protocol lets clients write them either way. What is the user's own is left alone."""
    if isinstance(value, list):
        return [_camel(item) for item in value]
    if not isinstance(value, dict):
        return value
    named = {_UNDERSCORE.sub(lambda found: found[1].upper(), name): item for name, item in value.items()}
    return {name: item if name in _OPAQUE else _camel(item) for name, item in named.items()}


def _parts(raw: list[dict[str, Any]], at: str) -> list[_Part]:
    known = {"text", "thought", "thoughtSignature", "functionCall", "functionResponse", "partMetadata"}
    for part in raw:
        odd = {name for name, value in part.items() if value is not None} - known
        if odd:
            refuse(f"{at}: a part with {min(odd)} is not supported here; send text and functions only.")
    return [shape(part, _Part) for part in raw]


def _text(parts: list[_Part]) -> str:
    return "\n".join(part.text for part in parts if part.text is not None and not part.thought)


def _messages(content: _Content, at: int, before: list[Message]) -> Iterator[Message]:
    """The parts of a content in their order; results of functions are messages of their own."""
    if content.role not in (None, "user", "model", "function", "system"):
        refuse(f"contents[{at}].role: {content.role} is not supported here; use user or model.")
    parts = _parts(content.parts, f"contents[{at}]")
    if content.role == "model":
        called = [part.function_call for part in parts if part.function_call is not None]
        calls = [ToolCall(call.id or "", call.name, json.dumps(call.args or {})) for call in called]
        said = "".join(part.text for part in parts if part.text is not None and not part.thought)
        yield Message("assistant", said, None, tuple(calls))
        return
    asked = next((list(m.calls) for m in reversed(before) if m.role == "assistant"), [])
    for part in parts:
        if part.function_response is not None:
            yield _result(part.function_response, asked)
    said = _text(parts)
    if said or not any(part.function_response for part in parts):
        yield Message("system" if content.role == "system" else "user", said)


def _result(result: _Result, asked: list[ToolCall]) -> Message:
    """What a function gave. Without an id it answers the first call of its name that has no answer yet."""
    call = next((c for c in asked if (c.id == result.id if result.id else c.name == result.name)), None)
    if call is not None:
        asked.remove(call)
    response = result.response or {}
    shown = response.get("output", response.get("result")) if len(response) == 1 else None
    text = shown if isinstance(shown, str) else json.dumps(response, ensure_ascii=False)
    return Message("tool", text, None, (), result.id or (call.id if call is not None else ""))


def _tools(raw: list[dict[str, Any]]) -> Iterator[Tool]:
    for tool in raw:
        odd = {name for name, value in tool.items() if value is not None} - {"functionDeclarations"}
        if odd:
            refuse(f"tools: {min(odd)} is not supported here; turn it off and declare functions only.")
        for declared in tool.get("functionDeclarations") or ():
            function = shape(declared, _Function)
            parameters = function.parameters_json_schema or _lower(function.parameters)
            yield Tool(function.name, function.description or "", schema(parameters))


def _lower(value: Any) -> Any:
    """Gemini's schema as JSON Schema: its types are written in capitals."""
    if isinstance(value, list):
        return [_lower(item) for item in value]
    if not isinstance(value, dict):
        return value
    return {
        key: item.lower() if key == "type" and isinstance(item, str) else _lower(item) for key, item in value.items()
    }


def _call(call: ToolCall) -> dict[str, Any]:
    return {"functionCall": {"id": call.id, "name": call.name, "args": json.loads(call.arguments)}}


def _finish(answer: Answer) -> str:
    return "MAX_TOKENS" if answer.cut else "STOP"


def _response(answer: Answer, parts: list[dict[str, Any]], finish: str | None = None) -> dict[str, Any]:
    candidate: dict[str, Any] = {"content": {"role": "model", "parts": parts}, "index": 0}
    if finish is not None:
        candidate["finishReason"] = finish
    return {
        "candidates": [candidate],
        "usageMetadata": {
            "promptTokenCount": answer.prompt_tokens,
            "candidatesTokenCount": answer.tokens,
            "totalTokenCount": answer.prompt_tokens + answer.tokens,
        },
        "modelVersion": answer.model,
        "responseId": f"gemini-{answer.index}",
    }
