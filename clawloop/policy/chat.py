"""Conversations as tokens: what was sampled stays as it was sampled."""

from functools import lru_cache

from transformers import PreTrainedTokenizerBase

from clawloop.types import Message

_MARK = "\u2063reply\u2063"


class Chat:
    """Renders messages with a tokenizer's own chat template, one turn at a time.

    A template is asked for text only up to the first reply and between replies, so that the tokens of a reply are
    never decoded and encoded again. It must be one that does not rewrite earlier turns.
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

    def prompt_ids(self, messages: tuple[Message, ...]) -> tuple[int, ...]:
        """The token ids of a conversation that waits for a reply."""
        first = next((i for i, m in enumerate(messages) if m.ids is not None), len(messages))
        ids = list(self._opening(tuple((m.role, m.content) for m in messages[:first])))
        for i in range(first, len(messages)):
            message = messages[i]
            if message.ids is not None:
                ids += message.ids if message.ids[-1:] == (self.end,) else (*message.ids, self.end)
            else:
                ids += self._bridge(message.role, message.content)
        return tuple(ids)

    def _encode(self, text: str) -> tuple[int, ...]:
        return tuple(self.tokenizer(text, add_special_tokens=False)["input_ids"])

    def _encode_opening(self, messages: tuple[tuple[str, str], ...]) -> tuple[int, ...]:
        turns = [{"role": role, "content": content} for role, content in messages]
        return self._encode(str(self.tokenizer.apply_chat_template(turns, tokenize=False, add_generation_prompt=True)))

    def _encode_bridge(self, role: str, content: str) -> tuple[int, ...]:
        turns = [
            {"role": "user", "content": "?"},
            {"role": "assistant", "content": _MARK},
            {"role": role, "content": content},
        ]
        text = str(self.tokenizer.apply_chat_template(turns, tokenize=False, add_generation_prompt=True))
        end = str(self.tokenizer.eos_token)
        return self._encode(text[text.index(end, text.index(_MARK)) + len(end) :])
