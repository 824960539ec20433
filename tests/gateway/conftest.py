"""Agents that speak to a gateway through the official clients, and a policy that says given texts."""

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from clawloop.gateway.formats import Hermes
from clawloop.gateway.server import Gateway
from clawloop.gateway.sessions import Budget, Session
from clawloop.policy.scripted import ScriptedPolicy
from clawloop.types import Request

SCHEMA = {"type": "object", "properties": {"command": {"type": "string"}}, "required": ["command"]}
BUDGET = Budget(turns=50, tokens=100_000, reply_tokens=4_000, wall_s=60.0)


class Speaker(ScriptedPolicy):
    """Says its texts in turn: the n-th after n replies in the conversation."""

    def __init__(self, *texts: str) -> None:
        super().__init__()
        self.texts = texts

    def _reply(self, request: Request) -> str:
        return self.texts[sum(message.role == "assistant" for message in request.messages)]


class Agent:
    """Asks, answers every tool call with `ran COMMAND`, and goes on until a reply has no call. Texts are kept."""

    def __init__(self, dialect: str, gateway: Gateway, key: str, **options: Any) -> None:
        self.dialect, self.gateway, self.key, self.options = dialect, gateway, key, options
        self.said: list[str] = []
        self.called: list[list[str]] = []
        self.thought: list[str] = []

    def run(self, prompt: str, stream: bool, turns: int = 10, **extra: Any) -> "Agent":
        getattr(self, f"_{self.dialect}")(prompt, stream, turns, extra)
        return self

    def _keep(self, thought: str, said: str, called: list[str]) -> None:
        self.thought.append(thought), self.said.append(said), self.called.append(called)

    def client(self) -> Any:
        if self.dialect in ("chat", "responses"):
            import openai

            return openai.OpenAI(base_url=self.gateway.url + "/v1", api_key=self.key, **self.options)
        if self.dialect == "messages":
            import anthropic

            return anthropic.Anthropic(base_url=self.gateway.url, api_key=self.key, **self.options)
        from google import genai

        return genai.Client(api_key=self.key, http_options={"base_url": self.gateway.url, **self.options})

    def _chat(self, prompt: str, stream: bool, turns: int, extra: dict[str, Any]) -> None:
        client = self.client()
        function = {"name": "bash", "description": "Runs a command.", "parameters": SCHEMA}
        asked = {"model": "m", "tools": [{"type": "function", "function": function}], **extra}
        messages: list[dict[str, Any]] = [{"role": "system", "content": "Be brief."}]
        messages.append({"role": "user", "content": prompt})
        for _ in range(turns):
            if stream:
                message = _joined_chat(client.chat.completions.create(messages=messages, stream=True, **asked))
            else:
                reply = client.chat.completions.create(messages=messages, **asked).choices[0].message
                message = reply.model_dump(exclude_none=True, exclude={"refusal"})
            calls = message.get("tool_calls", [])
            commands = [json.loads(c["function"]["arguments"])["command"] for c in calls]
            self._keep(message.pop("reasoning_content", ""), message.get("content") or "", commands)
            messages.append(message)
            if not calls:
                return
            for one, command in zip(calls, commands, strict=True):
                messages.append({"role": "tool", "tool_call_id": one["id"], "content": f"ran {command}"})

    def _responses(self, prompt: str, stream: bool, turns: int, extra: dict[str, Any]) -> None:
        client = self.client()
        tool = {"type": "function", "name": "bash", "description": "Runs.", "parameters": SCHEMA, "strict": False}
        asked = {"model": "m", "tools": [tool], "instructions": "Be brief.", "store": False, **extra}
        items: list[Any] = [{"role": "user", "content": prompt}]
        for _ in range(turns):
            if stream:
                with client.responses.stream(input=items, **asked) as events:
                    events.until_done()
                    reply = events.get_final_response()
            else:
                reply = client.responses.create(input=items, **asked)
            calls = [item for item in reply.output if item.type == "function_call"]
            commands = [json.loads(c.arguments)["command"] for c in calls]
            thought = "".join(p.text for i in reply.output if i.type == "reasoning" for p in i.content)
            self._keep(thought, reply.output_text, commands)
            items += [item.model_dump(exclude_none=True) for item in reply.output]
            if not calls:
                return
            for one, command in zip(calls, commands, strict=True):
                items.append({"type": "function_call_output", "call_id": one.call_id, "output": f"ran {command}"})

    def _messages(self, prompt: str, stream: bool, turns: int, extra: dict[str, Any]) -> None:
        client = self.client()
        tool = {"name": "bash", "description": "Runs.", "input_schema": SCHEMA}
        asked = {"model": "m", "tools": [tool], "system": "Be brief.", "max_tokens": 8000, **extra}
        messages: list[dict[str, Any]] = [{"role": "user", "content": prompt}]
        for _ in range(turns):
            if stream:
                with client.messages.stream(messages=messages, **asked) as events:
                    reply = events.get_final_message()
            else:
                reply = client.messages.create(messages=messages, **asked)
            calls = [block for block in reply.content if block.type == "tool_use"]
            commands = [c.input["command"] for c in calls]
            thought = "".join(block.thinking for block in reply.content if block.type == "thinking")
            said = "".join(block.text for block in reply.content if block.type == "text")
            self._keep(thought, said, commands)
            messages.append({"role": "assistant", "content": reply.content})
            if not calls:
                return
            results = [
                {"type": "tool_result", "tool_use_id": c.id, "content": f"ran {command}"}
                for c, command in zip(calls, commands, strict=True)
            ]
            messages.append({"role": "user", "content": results})

    def _gemini(self, prompt: str, stream: bool, turns: int, extra: dict[str, Any]) -> None:
        from google.genai import types

        client = self.client()
        declared = types.FunctionDeclaration(name="bash", description="Runs.", parameters_json_schema=SCHEMA)
        config = types.GenerateContentConfig(
            system_instruction="Be brief.",
            tools=[types.Tool(function_declarations=[declared])],
            automatic_function_calling=types.AutomaticFunctionCallingConfig(disable=True),
            **extra,
        )
        contents = [types.Content(role="user", parts=[types.Part(text=prompt)])]
        for _ in range(turns):
            asked = {"model": "m", "contents": contents, "config": config}
            models = client.models
            chunks = models.generate_content_stream(**asked) if stream else [models.generate_content(**asked)]
            parts = [part for chunk in chunks for part in chunk.candidates[0].content.parts]
            calls = [part.function_call for part in parts if part.function_call]
            commands = [c.args["command"] for c in calls]
            thought = "".join(part.text for part in parts if part.thought)
            self._keep(thought, "".join(p.text for p in parts if p.text and not p.thought), commands)
            contents.append(types.Content(role="model", parts=parts))
            if not calls:
                return
            results = [
                types.Part(
                    function_response=types.FunctionResponse(
                        name=c.name, id=c.id, response={"output": f"ran {command}"}
                    )
                )
                for c, command in zip(calls, commands, strict=True)
            ]
            contents.append(types.Content(role="user", parts=results))


def _joined_chat(chunks: Any) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": ""}
    calls: dict[int, dict[str, Any]] = {}
    for chunk in chunks:
        for choice in chunk.choices:
            message["content"] += choice.delta.content or ""
            thought = getattr(choice.delta, "reasoning_content", None) or ""
            message["reasoning_content"] = message.get("reasoning_content", "") + thought
            for delta in choice.delta.tool_calls or ():
                if delta.index not in calls:
                    function = {"name": delta.function.name, "arguments": ""}
                    calls[delta.index] = {"id": delta.id, "type": "function", "function": function}
                calls[delta.index]["function"]["arguments"] += delta.function.arguments or ""
    if calls:
        message["tool_calls"] = list(calls.values())
    return message


@pytest.fixture(scope="module")
def gateway() -> Iterator[Gateway]:
    with Gateway(Hermes(), ping_s=0.3, bodies=True) as one:
        yield one


@pytest.fixture
def opened(gateway: Gateway) -> Callable[..., Session]:
    """Opens a session for a policy, or for texts to say, with a budget that may be changed by name."""

    def open_session(what: Any, seed: int = 1, **bounds: Any) -> Session:
        policy = Speaker(*what) if isinstance(what, (list, tuple)) else what
        return gateway.open(policy, replace(BUDGET, **bounds), seed)

    return open_session


@pytest.fixture
def agent(gateway: Gateway) -> Callable[..., Agent]:
    """An agent with its client: of a dialect and a session."""

    def make(dialect: str, session: Session, **options: Any) -> Agent:
        return Agent(dialect, gateway, session.key, **options)

    return make
