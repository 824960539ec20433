"""Tool calls in a model's text: what is one is read, and what is none stays as it was written."""

import json

import pytest

from clawloop.gateway.formats import Coder, Format, Hermes, Plain
from clawloop.gateway.wire import Reply
from clawloop.types import Tool

SCHEMA = {"properties": {"path": {"type": "string"}, "lines": {"type": "integer"}, "flags": {"type": "array"}}}
TOOLS = (Tool("read", "", json.dumps(SCHEMA)),)


def read(format: Format, text: str) -> Reply:
    return format.read(text, TOOLS, lambda n: f"c{n}")


def test_hermes_reads_calls_and_the_text_around_them() -> None:
    second = '<tool_call>\n{"name": "ls"}\n</tool_call>'
    reply = read(Hermes(), 'A <tool_call>{"name": "read", "arguments": {"path": "ä"}}</tool_call> B' + second)
    assert reply.content == "A  B"
    assert [(c.id, c.name, c.arguments) for c in reply.calls] == [("c0", "read", '{"path": "ä"}'), ("c1", "ls", "{}")]


def test_coder_types_its_values_by_the_schema() -> None:
    text = (
        "Go.\n<tool_call>\n<function=read>\n<parameter=path>\n12\n</parameter>\n<parameter=lines>\n34\n</parameter>\n"
        '<parameter=flags>\n["a"]\n</parameter>\n<parameter=more>\na\n\nb\n</parameter>\n</function>\n</tool_call>'
    )
    reply = read(Coder(), text)
    assert reply.content == "Go."
    assert json.loads(reply.calls[0].arguments) == {"path": "12", "lines": 34, "flags": ["a"], "more": "a\n\nb"}


@pytest.mark.parametrize(
    "block",
    [
        "<tool_call>",
        "<tool_call></tool_call>",
        "<tool_call>[1]</tool_call>",
        '<tool_call>{"name": ""}</tool_call>',
        '<tool_call>{"name": "a", "arguments": "b"}</tool_call>',
        '<tool_call>{"name": "a", "arguments": {"x": NaN}}</tool_call>',
        "<tool_call>" + "[" * 100_000 + "</tool_call>",
        '<tool_call>{"name": "a"',
        "<tool_call><function=a><parameter=b>1</tool_call>",
        "<tool_call><function=a>stray</function></tool_call>",
        "<function=a></function>",
        "</tool_call>",
    ],
)
@pytest.mark.parametrize("format", [Hermes(), Coder()], ids=["hermes", "coder"])
def test_what_is_malformed_stays_in_the_text(format: Format, block: str) -> None:
    assert read(format, f"a {block} b") == Reply("", f"a {block} b")


def test_thinking_is_told_apart_with_and_without_its_opening() -> None:
    assert read(Plain(), "<think>\nwhy\n</think>\n\nso") == Reply("why", "so")
    assert read(Plain(), "why\n</think>\nso") == Reply("why", "so")
    assert read(Plain(), "<think>why, and cut") == Reply("why, and cut", "")
    assert read(Hermes(), '<think><tool_call>{"name": "a"}</tool_call></think>so').calls == ()


def test_without_tools_a_call_is_text() -> None:
    text = '<tool_call>{"name": "a", "arguments": {}}</tool_call>'
    assert Hermes().read(text, (), str) == Reply("", text)
