"""What an agent did: turns, and the tokens behind them."""

from dataclasses import dataclass
from enum import StrEnum


@dataclass(frozen=True, slots=True)
class Tool:
    """A function that the model may call; `parameters` is the JSON Schema of its arguments, as JSON text."""

    name: str
    description: str
    parameters: str


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A call of a tool; `arguments` is JSON text."""

    id: str
    name: str
    arguments: str


@dataclass(frozen=True, slots=True)
class Message:
    """One message of a conversation; `ids` are the tokens that were sampled, where a policy wrote it.

    `calls` are the tool calls of an assistant; `call_id` says which call a message of role tool answers.
    """

    role: str
    content: str
    ids: tuple[int, ...] | None = None
    calls: tuple[ToolCall, ...] = ()
    call_id: str | None = None


@dataclass(frozen=True, slots=True)
class Request:
    """One question to a policy.

    `session` is the same for all turns of one episode, so that an engine may keep its cache. `seed` alone decides the
    sampling noise. At most `max_tokens` are sampled. `tools` are what the model may call. A reply ends before the first
    of the texts in `stop`. `temperature` and `top_p` are the policy's own where they are None.
    """

    messages: tuple[Message, ...]
    session: str
    seed: int
    max_tokens: int
    tools: tuple[Tool, ...] = ()
    stop: tuple[str, ...] = ()
    temperature: float | None = None
    top_p: float | None = None


@dataclass(frozen=True, slots=True)
class Completion:
    """A policy's reply, token for token.

    `prompt_ids` are what the engine read, `ids` what it sampled (end-of-turn included), `logprobs` the sampled tokens'
    log-probabilities under the distribution they were drawn from. `logprobs` is None where an engine did not say which
    tokens these were, or how likely: then both ids are the text's, tokenised again, and nothing may be weighed by them.
    `finish` is stop, length or context.
    """

    text: str
    prompt_ids: tuple[int, ...]
    ids: tuple[int, ...]
    logprobs: tuple[float, ...] | None
    finish: str


@dataclass(frozen=True, slots=True)
class Turn:
    """One action a_t and what the workspace answered.

    `command` is None where the action held none. `exit_code` is None where nothing ran or it was stopped.
    """

    action: str
    command: str | None
    observation: str
    exit_code: int | None
    seconds: float


@dataclass(frozen=True, slots=True)
class TokenTrace:
    """A sequence that is trained: ids_T, mask_T (1 where a token is trained in it), behaviour log-probabilities.

    What stands before a trained token is what the engine saw when it sampled it. `logprobs` is 0 where `mask` is, and
    None where those of one reply or more are not known. `shares` says which earlier trace of the episode it begins
    alike with, and for how many tokens, none of which is trained in this one.
    """

    ids: tuple[int, ...]
    mask: tuple[int, ...]
    logprobs: tuple[float, ...] | None
    shares: tuple[int, int] = (0, 0)


@dataclass(frozen=True, slots=True)
class Audit:
    """How the sequences of an episode hold up against its calls, in tokens.

    `sampled` is what the engine sampled, `trained` what the sequences train, and `mismatched` what of that stands after
    something else than the engine saw. `prompted` is what the engine read in all calls, and `reused` what of that an
    earlier call had at the same place after the same tokens.
    """

    sampled: int = 0
    trained: int = 0
    mismatched: int = 0
    prompted: int = 0
    reused: int = 0


class Stop(StrEnum):
    """Why an episode ended. A program crashed where it failed of itself, or used more than its box allows."""

    SUBMITTED = "submitted"
    TURNS = "turns"
    TOKENS = "tokens"
    TIME = "time"
    CONTEXT = "context"
    CRASHED = "crashed"


@dataclass(frozen=True, slots=True)
class Trajectory:
    """xi = (s0, a1, s1, ..., aT, sT) as text, and the same as tokens.

    `traces` is one sequence where each prompt extends what came before it, and one more wherever a prompt does not.
    Sequences may begin alike; each sampled token is trained in exactly one of them.
    """

    task_id: str
    harness: str
    policy_version: str
    turns: tuple[Turn, ...]
    traces: tuple[TokenTrace, ...]
    stop: Stop
    seconds: float
    audit: Audit = Audit()
