"""Each field is honoured, ignored or refused, and everything that is wrong is said in the protocol's own form."""

import json
from collections.abc import Callable, Iterator
from typing import Any

import anthropic
import httpx
import openai
import pytest
from google import genai

from clawloop.gateway.formats import Plain
from clawloop.gateway.server import Gateway
from clawloop.gateway.sessions import Budget, Session
from clawloop.policy.scripted import ScriptedPolicy
from clawloop.types import Completion, Request

Sessions = Callable[..., Session]
PATHS = {
    "chat": "/v1/chat/completions",
    "responses": "/v1/responses",
    "messages": "/v1/messages",
    "gemini": "/v1beta/models/m:generateContent",
}
MINIMAL: dict[str, dict[str, Any]] = {
    "chat": {"model": "m", "messages": [{"role": "user", "content": "Go."}]},
    "responses": {"model": "m", "input": "Go."},
    "messages": {"model": "m", "max_tokens": 99, "messages": [{"role": "user", "content": "Go."}]},
    "gemini": {"contents": [{"role": "user", "parts": [{"text": "Go."}]}]},
}
TEXT = {"type": "text", "text": "a"}
INPUT = {"type": "input_text", "text": "a"}
IMAGE = {"url": "data:image/png;base64,AA=="}
REFUSED = [
    ("chat", {"n": 2}, "n: 2"),
    ("chat", {"logit_bias": {"1": 2}}, "logit_bias"),
    ("chat", {"logprobs": True}, "logprobs"),
    ("chat", {"response_format": {"type": "json_schema", "json_schema": {"name": "x" * 90}}}, "response_format"),
    ("chat", {"tool_choice": "required"}, "tool_choice"),
    ("chat", {"tool_choice": {"type": "function", "function": {"name": "a"}}}, "tool_choice"),
    ("chat", {"functions": [{"name": "a"}]}, "functions"),
    ("chat", {"tools": [{"type": "custom", "custom": {"name": "a"}}]}, "type custom"),
    ("chat", {"max_tokens": 0}, "max_tokens"),
    ("chat", {"messages": []}, "no message"),
    ("chat", {"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": IMAGE}]}]}, "image_url"),
    ("chat", {"messages": [{"role": "oracle", "content": "x"}]}, "oracle"),
    ("chat", {"messages": "Go."}, "Expected `array`"),
    ("responses", {"text": {"format": {"type": "json_schema", "name": "x", "schema": {}}}}, "text.format"),
    ("responses", {"previous_response_id": "resp_7"}, "resp_7"),
    ("responses", {"previous_response_id": "other"}, "other"),
    ("responses", {"background": True}, "background"),
    ("responses", {"truncation": "auto"}, "truncation"),
    ("responses", {"tool_choice": "required"}, "tool_choice"),
    ("responses", {"tools": [{"type": "web_search"}]}, "web_search"),
    ("responses", {"input": [{"type": "item_reference", "id": "x"}]}, "item_reference"),
    ("responses", {"input": [{"role": "user", "content": [{"type": "input_image", "image_url": "x"}]}]}, "input_image"),
    ("messages", {"tool_choice": {"type": "any"}}, "any"),
    ("messages", {"tools": [{"type": "web_search_20250305", "name": "web_search"}]}, "web_search"),
    ("messages", {"output_config": {"format": {"type": "json_schema", "schema": {}}}}, "output_config.format"),
    ("messages", {"messages": [{"role": "user", "content": [{"type": "image", "source": {}}]}]}, "image"),
    ("messages", {"mcp_servers": [{"url": "x"}]}, "mcp_servers"),
    ("gemini", {"generationConfig": {"candidateCount": 2}}, "candidateCount"),
    ("gemini", {"generationConfig": {"responseMimeType": "application/json"}}, "responseMimeType"),
    ("gemini", {"generation_config": {"response_mime_type": "application/json"}}, "responseMimeType"),
    ("gemini", {"toolConfig": {"functionCallingConfig": {"mode": "ANY"}}}, "ANY"),
    ("gemini", {"tools": [{"googleSearch": {}}]}, "googleSearch"),
    ("gemini", {"cachedContent": "x"}, "cachedContent"),
    ("gemini", {"contents": [{"role": "user", "parts": [{"inlineData": {"data": "AA=="}}]}]}, "inlineData"),
]
TOLERATED: list[tuple[str, dict[str, Any]]] = [
    ("chat", {"n": 1, "store": False, "parallel_tool_calls": True, "stream_options": None, "user": "u"}),
    ("chat", {"reasoning_effort": "low", "prompt_cache_key": "k", "tool_choice": "auto", "metadata": {}}),
    ("chat", {"response_format": {"type": "text"}, "verbosity": "low", "service_tier": "auto"}),
    ("chat", {"messages": [{"role": "developer", "content": "Be."}, {"role": "user", "content": [TEXT]}]}),
    ("responses", {"include": ["reasoning.encrypted_content"], "store": False, "reasoning": {"effort": "low"}}),
    ("responses", {"prompt_cache_key": "k", "client_metadata": {"a": "b"}, "text": {"verbosity": "low"}, "tools": []}),
    ("responses", {"input": [{"type": "message", "role": "developer", "content": [INPUT]}, {"role": "user"}]}),
    ("messages", {"metadata": {"user_id": "u"}, "thinking": {"type": "enabled", "budget_tokens": 1024}, "top_k": 3}),
    ("messages", {"messages": [{"role": "user", "content": "a"}, {"role": "system", "content": "b"}]}),
    ("messages", {"system": [TEXT | {"cache_control": {"type": "ephemeral"}}], "context_management": {}}),
    ("gemini", {"safetySettings": [{"category": "x"}], "generationConfig": {"topK": 1, "thinkingConfig": {}}}),
]  # fmt: skip


class Caller:
    """Posts JSON with the key of a session in every header that a client may use."""

    def __init__(self, gateway: Gateway, key: str) -> None:
        headers = {"authorization": f"Bearer {key}", "x-goog-api-key": key}
        self.client = httpx.Client(base_url=gateway.url, headers=headers, timeout=20)

    def post(self, dialect: str, body: Any) -> httpx.Response:
        return self.client.post(PATHS[dialect], content=body if isinstance(body, bytes) else json.dumps(body))


def proper(dialect: str, answer: httpx.Response) -> str:
    """The sentence of an error, after a look at the form of that protocol."""
    body = answer.json()
    error: dict[str, Any] = body["error"]
    if dialect in ("chat", "responses"):
        assert set(error) == {"message", "type", "param", "code"}
    elif dialect == "messages":
        assert body["type"] == "error" and error["type"].endswith(("_error", "too_large"))
    else:
        assert error["code"] == answer.status_code and error["status"].isupper()
    message: str = error["message"]
    return message


@pytest.mark.parametrize(("dialect", "change", "named"), REFUSED, ids=[f"{d}-{n}" for d, _, n in REFUSED])
def test_what_cannot_be_honoured_is_refused_by_name(
    dialect: str, change: dict[str, Any], named: str, opened: Sessions, gateway: Gateway
) -> None:
    session = opened(["never"])
    answer = Caller(gateway, session.key).post(dialect, MINIMAL[dialect] | change)
    assert answer.status_code == 400
    message = proper(dialect, answer)
    assert named in message and len(message) < 200 and message.endswith(".")
    record = gateway.close(session)
    assert (record.calls[0].refused, record.calls[0].index, record.stop) == (message, None, None)


@pytest.mark.parametrize(("dialect", "change"), TOLERATED)
def test_what_command_line_agents_send_does_no_harm(
    dialect: str, change: dict[str, Any], opened: Sessions, gateway: Gateway
) -> None:
    session = opened(["fine"])
    body = MINIMAL[dialect] | change
    answer = Caller(gateway, session.key).post(dialect, body)
    assert answer.status_code == 200, answer.text
    assert json.loads(gateway.close(session).calls[0].received) == body


@pytest.mark.parametrize("dialect", PATHS)
def test_wrong_keys_bodies_paths_and_methods(dialect: str, opened: Sessions) -> None:
    with Gateway(Plain(), body_bytes=2000) as small:
        session = small.open(ScriptedPolicy(), Budget(9, 99, 99, 9.0), 1)
        right, wrong = Caller(small, session.key), Caller(small, "guess")
        version = {"anthropic-version": "2023-06-01"} if dialect == "messages" else {}
        if dialect != "gemini":
            for caller in (right, wrong):
                del caller.client.headers["x-goog-api-key"]
        lost = PATHS[dialect].replace("m:generateContent", "m:embed") if dialect == "gemini" else PATHS[dialect] + "/no"
        cases = [
            (401, wrong.post(dialect, MINIMAL[dialect])),
            (400, right.post(dialect, b"{")),
            (400, right.post(dialect, b"[]")),
            (400, right.post(dialect, b"[" * 1500)),
            (413, right.post(dialect, MINIMAL[dialect] | {"x": "y" * 3000})),
            (404, right.client.post("/v2" + lost, headers=version)),
            (405, right.client.delete(PATHS[dialect], headers=version)),
        ]
        assert [answer.status_code for _, answer in cases] == [status for status, _ in cases]
        for _, answer in cases:
            assert proper(dialect, answer).endswith(".")
        assert len(small.close(session).calls) == 3


def test_refusals_are_the_exceptions_of_the_clients(opened: Sessions, gateway: Gateway) -> None:
    key = opened(["x"]).key
    with pytest.raises(openai.AuthenticationError, match="No open episode"):
        openai.OpenAI(base_url=gateway.url + "/v1", api_key="no").models.list()
    with pytest.raises(openai.BadRequestError, match="n: 2"):
        openai.OpenAI(base_url=gateway.url + "/v1", api_key=key).chat.completions.create(n=2, **MINIMAL["chat"])
    with pytest.raises(anthropic.AuthenticationError, match="No open episode"):
        anthropic.Anthropic(base_url=gateway.url, api_key="no").messages.create(**MINIMAL["messages"])
    client = genai.Client(api_key="no", http_options={"base_url": gateway.url})
    with pytest.raises(genai.errors.ClientError, match="UNAUTHENTICATED"):
        client.models.generate_content(model="m", contents="Go.")


def test_models_are_listed_and_tokens_are_counted(opened: Sessions, gateway: Gateway) -> None:
    session = opened(["done"] * 3)
    key = session.key
    chat = openai.OpenAI(base_url=gateway.url + "/v1", api_key=key)
    messages = anthropic.Anthropic(base_url=gateway.url, api_key=key)
    gemini = genai.Client(api_key=key, http_options={"base_url": gateway.url})
    assert [one.id for one in chat.models.list()] == [one.id for one in messages.models.list()] == ["clawloop"]
    assert [one.name for one in gemini.models.list()] == ["models/clawloop"]
    assert chat.models.retrieve("any").id == messages.models.retrieve("any").id == "any"
    asked = [{"role": "user", "content": "Go."}]
    counted = messages.messages.count_tokens(model="m", messages=asked).input_tokens
    assert counted == chat.responses.input_tokens.count(model="m", input="Go.").input_tokens
    assert counted == gemini.models.count_tokens(model="m", contents="Go.").total_tokens
    message = messages.messages.create(model="m", max_tokens=99, messages=asked)
    assert (message.usage.input_tokens, message.usage.output_tokens) == (counted, len("done") + 1)
    usage = chat.responses.create(model="m", input="Go.").usage
    assert (usage.input_tokens, usage.output_tokens, usage.total_tokens) == (counted, 5, counted + 5)
    metadata = gemini.models.generate_content(model="m", contents="Go.").usage_metadata
    assert (metadata.prompt_token_count, metadata.candidates_token_count) == (counted, 5)
    assert len(gateway.close(session).calls) == 3


def test_usage_is_streamed_where_it_is_asked_for(opened: Sessions, gateway: Gateway) -> None:
    client = openai.OpenAI(base_url=gateway.url + "/v1", api_key=opened(["done"]).key)
    asked: dict[str, Any] = {"stream": True, **MINIMAL["chat"]}
    assert [chunk.usage for chunk in client.chat.completions.create(**asked)] == [None] * 3
    *rest, last = client.chat.completions.create(stream_options={"include_usage": True}, **asked)
    assert (last.choices, last.usage.completion_tokens, {chunk.usage for chunk in rest}) == ([], 5, {None})


class Sampler:
    """A policy that says how it was asked to sample."""

    version = "theta"

    def complete(self, request: Request) -> Completion:
        said = f"{request.temperature} {request.top_p} {request.stop} {request.max_tokens}"
        return Completion(said, (1,), (2,), (0.0,), "stop")


@pytest.fixture
def open_hand() -> Iterator[Gateway]:
    with Gateway(Plain(), sampling="client") as gateway:
        yield gateway


def test_sampling_is_the_experiments_unless_the_client_is_to_decide(
    opened: Sessions, gateway: Gateway, open_hand: Gateway
) -> None:
    budget = Budget(9, 9999, 50, 9.0)
    change = {"temperature": 0.3, "top_p": 0.5, "seed": 4, "presence_penalty": 1, "stop": ["a"], "max_tokens": 99}
    session = opened(Sampler(), reply_tokens=50)
    answer = Caller(gateway, session.key).post("chat", MINIMAL["chat"] | change)
    assert answer.json()["choices"][0]["message"]["content"] == "None None ('a',) 50"
    ignored = gateway.close(session).calls[0].ignored
    assert set(ignored) == {"temperature", "top_p", "seed", "presence_penalty", "max_tokens"}
    free = open_hand.open(Sampler(), budget, 1)
    refused = Caller(open_hand, free.key).post("chat", MINIMAL["chat"] | change)
    assert refused.status_code == 400 and "presence_penalty" in proper("chat", refused)
    del change["presence_penalty"]
    honoured = Caller(open_hand, free.key).post("chat", MINIMAL["chat"] | change)
    assert honoured.json()["choices"][0]["message"]["content"] == "0.3 0.5 ('a',) 50"
    assert set(open_hand.close(free).calls[-1].ignored) == {"seed", "max_tokens"}


def test_a_wrong_setting_says_what_to_choose() -> None:
    with pytest.raises(ValueError, match=r"gateway\.sampling: model is neither policy nor client"):
        Gateway(Plain(), sampling="model")
    with pytest.raises(ValueError, match="no address"):
        Gateway(Plain(), host=None)
