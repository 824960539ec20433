"""A client may reshape what it gives back; only what it changed is no longer what was sampled."""

import json
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from clawloop.gateway.server import Gateway
from clawloop.gateway.sessions import Record, Session

Sessions = Callable[..., Session]
CALL = '<tool_call>\n{"name": "bash", "arguments": {"a": 1, "b": "x"}}\n</tool_call>'
TOOLS = [{"type": "function", "function": {"name": "bash", "parameters": {"type": "object"}}}]
USER = {"role": "user", "content": "Go."}


class Wire:
    """A client of Chat Completions that sends what it is told to."""

    def __init__(self, gateway: Gateway, session: Session) -> None:
        self.url, self.key = gateway.url, session.key

    def ask(self, *messages: dict[str, Any], path: str = "/v1/chat/completions", **body: Any) -> httpx.Response:
        body = {"model": "m", "messages": messages, "tools": TOOLS} | body
        return httpx.post(self.url + path, json=body, headers={"authorization": f"Bearer {self.key}"}, timeout=30)

    def reply(self, *messages: dict[str, Any]) -> dict[str, Any]:
        answer = self.ask(*messages)
        assert answer.status_code == 200, answer.text
        found: dict[str, Any] = answer.json()["choices"][0]["message"]
        return found


def result(id: str, text: str = "ok") -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": id, "content": text}


def ids(record: Record, at: int = -1) -> list[bool]:
    return [message.ids is not None for message in record.calls[at].messages if message.role == "assistant"]


def test_spelling_order_and_white_space_do_not_matter(gateway: Gateway, opened: Sessions) -> None:
    second = CALL.replace('"x"', '"y"')
    session = opened([f"  Look.  {CALL}{second}", "done"])
    wire = Wire(gateway, session)
    reply = wire.reply(USER)
    one, two = reply["tool_calls"]
    one["function"]["arguments"] = '{ "b":"x",   "a": 1}'
    wire.reply(USER, {**reply, "content": "Look.\n", "tool_calls": [two, one]}, result(one["id"]), result(two["id"]))
    record = gateway.close(session)
    assert (ids(record), record.rewritten, record.dropped) == ([True], 0, 0)


def test_calls_that_come_one_by_one_are_one_reply(gateway: Gateway, opened: Sessions) -> None:
    session = opened([f"Look.{CALL}{CALL}", "done"])
    wire = Wire(gateway, session)
    reply = wire.reply(USER)
    one, two = reply["tool_calls"]
    first = {"role": "assistant", "content": "Look.", "tool_calls": [one]}
    second = {"role": "assistant", "content": None, "tool_calls": [two]}
    wire.reply(USER, first, result(one["id"], "1"), second, result(two["id"], "2"))
    record = gateway.close(session)
    assert (ids(record), record.rewritten) == ([True], 0)
    assert [message.content for message in record.calls[-1].messages[-2:]] == ["1", "2"]


@pytest.mark.parametrize("change", ["text", "arguments", "name", "a call less"])
def test_what_the_client_changed_goes_as_its_text_and_is_counted(
    change: str, gateway: Gateway, opened: Sessions
) -> None:
    session = opened([f"Look.{CALL}{CALL}", "done", "done"])
    wire = Wire(gateway, session)
    reply = wire.reply(USER)
    if change == "text":
        reply["content"] = "I looked."
    elif change == "a call less":
        reply["tool_calls"].pop()
    else:
        reply["tool_calls"][0]["function"][change] = '{"a": 2}'
    history = (USER, reply, *(result(call["id"]) for call in reply["tool_calls"]))
    answer = wire.reply(*history)
    wire.reply(*history, answer, USER)
    record = gateway.close(session)
    assert (ids(record), record.rewritten, record.dropped) == ([False, True], 1, 0)
    assert record.calls[1].messages[1].content == reply["content"]
    assert len(record.calls[1].messages[1].calls) == len(reply["tool_calls"])


def test_a_reply_that_is_left_out_is_counted(gateway: Gateway, opened: Sessions) -> None:
    session = opened(["one", "two", "three"])
    wire = Wire(gateway, session)
    wire.reply(USER)
    wire.reply(USER, {"role": "user", "content": "Go on."})
    assert (gateway.close(session).dropped, len(session.key) > 30) == (1, True)


def test_asking_again_and_asking_besides_lose_nothing(gateway: Gateway, opened: Sessions) -> None:
    session = opened(["same", "same", "end"])
    wire = Wire(gateway, session)
    first = wire.reply(USER)
    wire.reply(USER)
    wire.reply({"role": "user", "content": "A title, please."})
    wire.reply({"role": "system", "content": "Now at noon."}, USER, first, USER)
    record = gateway.close(session)
    assert (ids(record), record.rewritten, record.dropped) == ([True], 0, 0)


def test_equal_texts_keep_their_places(gateway: Gateway, opened: Sessions) -> None:
    """Two replies of one text may have different ids; each gets those that were sampled at its place."""
    from clawloop.types import Completion, Request

    class Numbered:
        version = "theta"

        def complete(self, request: Request) -> Completion:
            turn = sum(message.role == "assistant" for message in request.messages)
            known = tuple(i for m in request.messages for i in (m.ids or (0,)))
            return Completion("ok", known, (100 + turn, 7), (-1.0, -1.0), "stop")

    session = opened(Numbered())
    wire = Wire(gateway, session)
    history: list[dict[str, Any]] = [USER]
    for _ in range(4):
        history += [wire.reply(*history), USER]
    last = gateway.close(session).calls[-1]
    assert [m.ids for m in last.messages if m.ids] == [(100, 7), (101, 7), (102, 7)]


def test_a_message_that_nobody_sampled_is_no_rewriting(gateway: Gateway, opened: Sessions) -> None:
    session = opened(["one", "two", "three", "four"])
    wire = Wire(gateway, session)
    shown = {"role": "assistant", "content": "An example."}
    reply = wire.reply(USER, shown, USER)
    wire.reply(USER, shown, USER, reply, USER, {"role": "assistant", "content": "The steps are used up."})
    record = gateway.close(session)
    assert (ids(record), record.rewritten, record.dropped) == ([False, True, False], 0, 0)


def test_a_response_continues_one_of_its_session(gateway: Gateway, opened: Sessions) -> None:
    import openai

    session = opened(["one", "two"])
    client = openai.OpenAI(base_url=gateway.url + "/v1", api_key=session.key)
    first = client.responses.create(model="m", input="Go.", instructions="Old.")
    client.responses.create(model="m", input="On.", instructions="New.", previous_response_id=first.id)
    with pytest.raises(openai.BadRequestError, match="resp_99 is not known"):
        client.responses.create(model="m", input="On.", previous_response_id="resp_99")
    record = gateway.close(session)
    said = [(m.role, m.content, m.ids is not None) for m in record.calls[1].messages]
    assert said == [
        ("system", "New.", False),
        ("user", "Go.", False),
        ("assistant", "one", True),
        ("user", "On.", False),
    ]


def test_halves_of_pairs_and_unknown_fields_do_no_harm(gateway: Gateway, opened: Sessions) -> None:
    session = opened(["fine"])
    wire = Wire(gateway, session)
    raw = json.dumps({"model": "m", "messages": [{"role": "user", "content": "cut \ud83d", "x": 1}], "odd": {"a": [1]}})
    answer = httpx.post(
        gateway.url + "/v1/chat/completions", content=raw, headers={"authorization": f"Bearer {wire.key}"}
    )
    record = gateway.close(session)
    assert (answer.status_code, record.calls[0].messages[0].content) == (200, "cut ?")
    assert record.calls[0].received == raw.encode()
