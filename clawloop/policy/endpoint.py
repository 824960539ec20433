"""Any server with OpenAI's Chat Completions: text in, text out, and tokens where the server gives them."""

import json
import logging
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn, Self

from transformers import AutoTokenizer

from clawloop.policy.chat import Chat
from clawloop.policy.server import Server
from clawloop.protocols import InfrastructureError, RequestError
from clawloop.types import Completion, Message, Request, Tool, ToolCall

_log = logging.getLogger(__name__)
_OVERFLOW = ("context length", "context_length", "context window", "prompt is too long", "maximum context")
_CLOSED = "policy endpoint: the weights are at {url}, and cannot be {verb} from here."


class EndpointPolicy:
    """Samples at a server, whose weights this program cannot train, keep or put back.

    A conversation goes as messages, which the server renders. The log-probabilities of a reply are taken for true
    where the server says which tokens it read and sampled, these are what the tokenizer here makes of the conversation,
    and the temperature is 1, at which every server means the same by them. Otherwise the reply's text is tokenised
    again, its log-probabilities are None, and a warning says so once: such rollouts serve admission and SFT, not GRPO.

    Args:
        weights: folder of the tokenizer that belongs to the server's model.
        url: the server's address up to and with /v1.
        model: the model's name there.
        key: the environment variable that holds the key; None where the server asks for none.
        version: the name of theta.
        temperature: softmax temperature of sampling.
        context: tokens that one conversation may have, prompt and replies together.
        limit: the field that bounds a reply's tokens, max_tokens or max_completion_tokens.
        extra: further fields of each request.
        timeout_s: seconds that one try may take.
        retries: further tries where the server is busy, broken, silent or not to be reached.
        wait_s: seconds before the second try; each later pause is twice as long.
        trainer: the stages that are to train the policy, so that they can be refused.
    """

    def __init__(
        self,
        weights: str | Path,
        url: str,
        model: str,
        key: str | None = None,
        version: str = "theta_0",
        temperature: float = 1.0,
        context: int = 4096,
        limit: str = "max_tokens",
        extra: Mapping[str, Any] | None = None,
        timeout_s: float = 600.0,
        retries: int = 5,
        wait_s: float = 1.0,
        trainer: Sequence[str] = (),
    ) -> None:
        if trainer:
            raise ValueError(
                f"trainer: {', '.join(trainer)} cannot train weights that are at a server; "
                "choose trainer=[], or a policy with weights of its own (hf, vllm)."
            )
        if key is not None and not os.environ.get(key):
            raise ValueError(f"policy.key: the environment variable {key} is not set; put the server's key there.")
        self._server = Server(url, os.environ[key] if key else None, timeout_s, retries, wait_s)
        self.tokenizer: Any = AutoTokenizer.from_pretrained(str(weights))
        self.chat = Chat(self.tokenizer)
        self.temperature, self.context = temperature, context
        self._model, self._version, self._limit, self._extra = model, version, limit, dict(extra or {})
        self._asks = temperature == 1.0
        self._warned = False
        if not self._asks:
            self._warn(f"at temperature {temperature:g} a server's log-probabilities are not those of its sampling")

    @property
    def version(self) -> str:
        """The name of theta."""
        return self._version

    def renamed(self, version: str) -> NoReturn:
        """Refuse: no other theta can be there."""
        self._closed("renamed")

    def save(self, folder: Path) -> NoReturn:
        """Refuse."""
        self._closed("saved")

    def load(self, folder: Path, version: str) -> Self:
        """Refuse."""
        self._closed("replaced")

    def count(self, request: Request) -> int:
        """The tokens of a request's prompt, as the tokenizer here has it."""
        return len(self.chat.prompt_ids(request.messages, request.tools))

    def complete(self, request: Request) -> Completion:
        """Wait for a reply.

        Raises:
            InfrastructureError: the server gave none, or none that can be read.
            RequestError: the server refuses the request, or the template knows no tools.
        """
        prompt_ids = self.chat.prompt_ids(request.messages, request.tools)
        room = min(request.max_tokens, self.context - len(prompt_ids))
        if room < 1:
            return Completion("", prompt_ids, (), (), "context")
        try:
            body = self._ask(request, room)
        except RequestError as error:
            if any(words in str(error).lower() for words in _OVERFLOW):
                return Completion("", prompt_ids, (), (), "context")
            raise
        try:
            return self._read(body, prompt_ids, cut=room < request.max_tokens)
        except (AttributeError, IndexError, KeyError, TypeError) as error:
            said = " ".join(str(body).split())[:200]
            raise InfrastructureError(f"{self._server.url}: this is no chat completion: {said}") from error

    def _ask(self, request: Request, room: int) -> Any:
        body: dict[str, Any] = {
            "model": self._model,
            "messages": [_message(message) for message in request.messages],
            "temperature": self.temperature if request.temperature is None else request.temperature,
            "seed": request.seed % 2**31,
            self._limit: room,
        } | self._extra
        if request.top_p is not None:
            body["top_p"] = request.top_p
        if request.stop:
            body["stop"] = list(request.stop)
        if request.tools:
            body["tools"] = [_tool(tool) for tool in request.tools]
        if self._asks and request.temperature in (None, 1.0) and request.top_p in (None, 1.0):
            try:
                tokens = {"logprobs": True, "return_token_ids": True}
                return self._server.call("POST", "/chat/completions", body | tokens)
            except RequestError as error:
                if not any(name in str(error) for name in ("logprobs", "token_ids")):
                    raise
                self._asks = False
                self._warn("the server refuses to give token ids or log-probabilities")
        return self._server.call("POST", "/chat/completions", body)

    def _read(self, body: Any, prompt_ids: tuple[int, ...], cut: bool) -> Completion:
        choice = body["choices"][0]
        message, finish = choice["message"], choice["finish_reason"]
        finish = "stop" if finish != "length" else "context" if cut else "length"
        ids = tuple(choice.get("token_ids") or ())
        given = [one["logprob"] for one in (choice.get("logprobs") or {}).get("content") or ()]
        if ids and len(given) == len(ids):
            if tuple(body.get("prompt_token_ids") or ()) == prompt_ids:
                text = str(self.tokenizer.decode(ids, skip_special_tokens=True))
                return Completion(text, prompt_ids, ids, tuple(map(float, given)), finish)
            self._warn("the server read other tokens than its model's tokenizer makes of the conversation here")
        else:
            self._warn("the server gives no token ids or no log-probabilities")
        thinking = message.get("reasoning_content") or message.get("reasoning") or ""
        calls = [
            ToolCall(call["id"], call["function"]["name"], call["function"]["arguments"])
            for call in message.get("tool_calls") or ()
        ]
        text = self.chat.written(thinking, message.get("content") or "", tuple(calls))
        ended = finish == "stop" and not isinstance(choice.get("stop_reason"), str)  # vLLM names a stop text there
        return Completion(text, prompt_ids, self.chat.encode_reply(text, ended), None, finish)

    def _warn(self, reason: str) -> None:
        if not self._warned:
            self._warned = True
            _log.warning(
                "policy endpoint: %s, so replies are tokenised again: rollouts serve admission and SFT, not GRPO.",
                reason,
            )

    def _closed(self, verb: str) -> NoReturn:
        raise TypeError(_CLOSED.format(url=self._server.url, verb=verb))


def _message(message: Message) -> dict[str, Any]:
    turn: dict[str, Any] = {"role": message.role, "content": message.content}
    if message.calls:
        turn["tool_calls"] = [
            {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
            for call in message.calls
        ]
    if message.call_id is not None:
        turn["tool_call_id"] = message.call_id
    return turn


def _tool(tool: Tool) -> dict[str, Any]:
    function = {"name": tool.name, "description": tool.description, "parameters": json.loads(tool.parameters)}
    return {"type": "function", "function": function}
