"""Conversations as tokens: what was sampled stays as it was sampled."""

import json
from collections.abc import Callable
from functools import lru_cache
from typing import Any

from transformers import PreTrainedTokenizerBase

from clawloop.protocols import RequestError
from clawloop.types import Message, Tool, ToolCall

_MARK = "\u2063reply\u2063"


class Chat:
    """Renders messages with a tokenizer's own chat template, one turn at a time.

    A template is asked for text only up to the first reply and between replies, so that the tokens of a reply are
    never decoded and encoded again. It must be one that does not rewrite earlier turns. Messages between two replies
    are rendered together, since a template may set several results of tools into one turn.
    """

    def __init__(self, tokenizer: PreTrainedTokenizerBase) -> None:
        if tokenizer.chat_template is None or tokenizer.eos_token_id is None:
            raise ValueError(
                f"model: {tokenizer.name_or_path} has no chat template or no end-of-turn token; use an instruct model."
            )
        self.tokenizer = tokenizer
        self.end = int(tokenizer.eos_token_id)
        self._opening = lru_cache(maxsize=4096)(self._encode_opening)
        self._bridge = lru_cache(maxsize=4096)(self._encode_bridge)

    def prompt_ids(self, messages: tuple[Message, ...], tools: tuple[Tool, ...] = ()) -> tuple[int, ...]:
        """The token ids of a conversation that waits for a reply.

        Raises:
            RequestError: there are tools, and the template has no place for them.
        """
        if tools and "tools" not in str(self.tokenizer.chat_template):
            raise RequestError(
                f"tools: the chat template of {self.tokenizer.name_or_path} has no place for tools; leave them out."
            )
        starts = [i for i, message in enumerate(messages) if message.ids is not None]
        ids = list(self._opening(messages[: starts[0]] if starts else messages, tools))
        for start, until in zip(starts, [*starts[1:], len(messages)], strict=False):
            sampled = messages[start].ids or ()
            ids += sampled if sampled[-1:] == (self.end,) else (*sampled, self.end)
            ids += self._bridge(messages[start + 1 : until], tools)
        return tuple(ids)

    def written(self, thinking: str, content: str, calls: tuple[ToolCall, ...]) -> str:
        """A reply that a server took apart, as this template writes it: thinking, text, tool calls."""
        text = f"<think>\n{thinking}\n</think>\n\n{content}" if thinking else content
        if not calls:
            return text
        asked = [{"role": "user", "content": "?"}, _turn(Message("assistant", _MARK, calls=calls))]
        whole = self._render(asked, ())
        after = whole[whole.index(_MARK) + len(_MARK) :].partition(str(self.tokenizer.eos_token))[0]
        return text + after if text else after.lstrip()

    def encode_reply(self, text: str, ended: bool) -> tuple[int, ...]:
        """A reply's text as tokens, with the end of turn where it `ended` by itself."""
        return (*self._encode(text), self.end) if ended else self._encode(text)

    def _encode(self, text: str) -> tuple[int, ...]:
        return tuple(self.tokenizer(text, add_special_tokens=False)["input_ids"])

    def _render(self, messages: list[dict[str, Any]], tools: tuple[Tool, ...]) -> str:
        functions: list[dict[Any, Any] | Callable[..., Any]] = [
            {
                "type": "function",
                "function": {
                    "name": tool.name,
                    "description": tool.description,
                    "parameters": json.loads(tool.parameters),
                },
            }
            for tool in tools
        ]
        return str(
            self.tokenizer.apply_chat_template(
                messages, tools=functions or None, tokenize=False, add_generation_prompt=True
            )
        )

    def _encode_opening(self, messages: tuple[Message, ...], tools: tuple[Tool, ...]) -> tuple[int, ...]:
        return self._encode(self._render([_turn(message) for message in messages], tools))

    def _encode_bridge(self, messages: tuple[Message, ...], tools: tuple[Tool, ...]) -> tuple[int, ...]:
        before = [{"role": "user", "content": "?"}, {"role": "assistant", "content": _MARK}]
        text = self._render([*before, *map(_turn, messages)], tools)
        end = str(self.tokenizer.eos_token)
        return self._encode(text[text.index(end, text.index(_MARK)) + len(end) :])


def _turn(message: Message) -> dict[str, Any]:
    """A message as chat templates take it: arguments are an object where they are one."""
    turn: dict[str, Any] = {"role": message.role, "content": message.content}
    if message.calls:
        turn["tool_calls"] = [
            {
                "id": call.id,
                "type": "function",
                "function": {"name": call.name, "arguments": _arguments(call.arguments)},
            }
            for call in message.calls
        ]
    if message.call_id is not None:
        turn["tool_call_id"] = message.call_id
    return turn


def _arguments(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text
