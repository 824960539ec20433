"""What was sampled goes through the official clients and comes back as the same ids, whatever the dialect."""

import json
from collections.abc import Callable, Iterable
from typing import Any

import pytest

from clawloop.gateway.server import Gateway
from clawloop.gateway.sessions import Record, Session
from clawloop.policy.hf import HfPolicy
from clawloop.rollout.tokens import TraceBuilder
from clawloop.types import Completion, TokenTrace

DIALECTS = ("chat", "responses", "messages", "gemini")
Agents = Callable[..., Any]
Sessions = Callable[..., Session]


def call(command: Any, name: str = "bash") -> str:
    body = json.dumps({"name": name, "arguments": {"command": command}}, ensure_ascii=False)
    return f"<tool_call>\n{body}\n</tool_call>"


CONVERSATIONS = {
    "one call": ("I look.\n" + call("ls"), "done"),
    "no text": (call("ls"), call("cat a"), "done"),
    "parallel calls": ("Both.\n" + call("ls") + "\n" + call("pwd"), "done"),
    "the same call twice": (call("ls") + call("ls"), call("ls"), "done"),
    "thinking": ("<think>\nHm, files.\n</think>\n\nI look.\n\n" + call("ls"), "<think>Fine.</think>done"),
    "thinking alone": ("<think>First.</think>" + call("ls"), "<think>Last.</think>"),
    "unicode": (
        "Sehen wir \U0001f642 \u200d \u00e9 e\u0301\n" + call("echo '\U0001f600 \u2028 \\n\"'"),
        "fertig \u2713",
    ),
    "white space": ("  \n I look. \n\n " + call("ls") + "  \n", "\ndone\n"),
    "empty reply": (call("ls"), ""),
    "malformed calls": ("a <tool_call>{not json}</tool_call> b" + call("ls"), '<tool_call>{"name": 3}</tool_call>'),
    "long": ("x" * 1500 + call("y" * 1500), "z" * 1000),
}


def traces(completions: Iterable[Completion]) -> tuple[TokenTrace, ...]:
    builder = TraceBuilder()
    for one in completions:
        builder.add(one)
    return builder.build()[0]


def sound(record: Record) -> None:
    """Every reply is in the next prompt with its own ids, and all of them join into one sequence."""
    completions = [one.completion for one in record.calls if one.completion is not None]
    assert len(completions) == len(record.calls)
    assert (record.rewritten, record.dropped, record.stop, record.error) == (0, 0, None, None)
    for before, after in zip(record.calls, record.calls[1:], strict=False):
        ids = [m.ids for m in after.messages if m.role == "assistant"]
        assert before.completion is not None and ids[-1] == before.completion.ids
    (joined,) = traces(completions)
    assert sum(joined.mask) == sum(len(one.ids) for one in completions)
    assert all(one.delivered for one in record.calls)


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("texts", CONVERSATIONS.values(), ids=list(CONVERSATIONS))
@pytest.mark.parametrize("dialect", DIALECTS)
def test_replies_come_back_as_they_were_sampled(
    dialect: str, texts: tuple[str, ...], stream: bool, agent: Agents, opened: Sessions, gateway: Gateway
) -> None:
    session = opened(texts)
    agent(dialect, session).run("Look around.", stream)
    record = gateway.close(session)
    assert len(record.calls) == len(texts)
    sound(record)


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_reply_is_split_into_thinking_text_and_calls(
    dialect: str, stream: bool, agent: Agents, opened: Sessions
) -> None:
    one = agent(dialect, opened(["<think>Hm.</think>I look.\n" + call("ls \u00e9") + call("pwd"), "done"])).run(
        "Go.", stream
    )
    assert (one.thought, one.said, one.called) == (["Hm.", ""], ["I look.", "done"], [["ls \u00e9", "pwd"], []])


@pytest.mark.parametrize("dialect", DIALECTS)
def test_what_the_model_reads_is_the_same_in_every_dialect(
    dialect: str, agent: Agents, opened: Sessions, gateway: Gateway
) -> None:
    session = opened([call("ls"), "done"])
    agent(dialect, session).run("Look.", False)
    last = gateway.close(session).calls[-1]
    assert [(m.role, m.content) for m in last.messages] == [
        ("system", "Be brief."), ("user", "Look."), ("assistant", ""), ("tool", "ran ls"),
    ]  # fmt: skip
    assert last.messages[-1].call_id == last.messages[-2].calls[0].id == "call_0_0"
    assert [(t.name, json.loads(t.parameters)["required"]) for t in last.tools] == [("bash", ["command"])]


TEMPLATE = """{%- if tools %}<|im_start|>system
{% for t in tools %}{{ t | tojson }}
{% endfor %}<|im_end|>
{% endif %}{% for m in messages %}{% if m.role == 'tool' -%}
{% set before = '' if loop.first else messages[loop.index0 - 1].role -%}
{% set after = '' if loop.last else messages[loop.index0 + 1].role -%}
{% if before != 'tool' %}<|im_start|>user
{% endif %}<tool_response>{{ m.content }}</tool_response>{% if after != 'tool' %}<|im_end|>
{% endif %}{% else %}<|im_start|>{{ m.role }}
{{ m.content }}{% for c in m.tool_calls or [] %}<tool_call>{{ c.function | tojson }}</tool_call>{% endfor %}<|im_end|>
{% endif %}{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant
{% endif %}"""


@pytest.fixture(scope="module")
def nano(tmp_path_factory: pytest.TempPathFactory) -> HfPolicy:
    """The laptop's model, with a chat template that has a place for tools."""
    from clawloop.store.weights import find

    policy = HfPolicy(find("nano", tmp_path_factory.mktemp("nano")), slots=8, context=1024)
    policy.tokenizer.chat_template = TEMPLATE
    return policy


class Kept:
    """A policy that keeps what it said."""

    def __init__(self, policy: HfPolicy) -> None:
        self.policy, self.version = policy, policy.version
        self.said: list[Any] = []

    def complete(self, request: Any) -> Any:
        self.said.append(self.policy.complete(request))
        return self.said[-1]


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_real_model_is_recorded_token_for_token(
    dialect: str, stream: bool, nano: HfPolicy, agent: Agents, opened: Sessions, gateway: Gateway
) -> None:
    kept = Kept(nano)
    session = opened(kept, seed=5, reply_tokens=24)
    one = agent(dialect, session)
    one.run("Count the rows of a.csv.", stream, turns=1)
    record = gateway.close(session)
    assert [one.completion for one in record.calls] == kept.said
    assert kept.said[0].ids and len(kept.said[0].logprobs) == len(kept.said[0].ids)
    again = opened(nano, seed=5, reply_tokens=24)
    agent(dialect, again).run("Count the rows of a.csv.", not stream, turns=1)
    assert gateway.close(again).calls[0].completion.ids == kept.said[0].ids


def test_a_real_model_talks_for_turns_and_its_tokens_join(nano: HfPolicy, opened: Sessions, gateway: Gateway) -> None:
    import openai

    kept = Kept(nano)
    session = opened(kept, seed=3, reply_tokens=40)
    client = openai.OpenAI(base_url=gateway.url + "/v1", api_key=session.key)
    messages: list[Any] = [{"role": "user", "content": "Count the rows of a.csv."}]
    for turn in range(6):
        reply = client.chat.completions.create(model="m", messages=messages)
        messages += [reply.choices[0].message.model_dump(exclude_none=True)]
        messages += [{"role": "tool", "tool_call_id": "x", "content": f"exit {turn}"}] * 2
        assert reply.usage is not None and reply.usage.prompt_tokens == len(kept.said[-1].prompt_ids)
        assert reply.usage.completion_tokens == len(kept.said[-1].ids)
    record = gateway.close(session)
    sound(record)
    assert traces([one.completion for one in record.calls if one.completion]) == traces(kept.said)
    shown = nano.tokenizer.decode(kept.said[-1].prompt_ids)
    assert "<tool_response>exit 4</tool_response><tool_response>exit 4</tool_response><|im_end|>" in shown


def test_results_of_tools_between_replies_are_rendered_as_the_template_does_at_once(
    nano: HfPolicy, opened: Sessions
) -> None:
    from clawloop.types import Message, Tool, ToolCall

    tools = (Tool("bash", "Runs.", '{"type": "object", "properties": {}}'),)
    said = nano.tokenizer("hello", add_special_tokens=False)["input_ids"]
    tail = (Message("tool", "one", None, (), "a"), Message("tool", "two", None, (), "b"))
    sampled = (Message("user", "Go."), Message("assistant", "hello", tuple(said)), *tail)
    as_text = (Message("user", "Go."), Message("assistant", "hello"), *tail)
    assert nano.chat.prompt_ids(sampled, tools) == nano.chat.prompt_ids(as_text, tools)
    rewritten = (Message("user", "Go."), Message("assistant", "x", None, (ToolCall("a", "bash", "{}"),)), *tail)
    assert '"name": "bash"' in nano.tokenizer.decode(nano.chat.prompt_ids(rewritten)).replace(": ", ": ")
