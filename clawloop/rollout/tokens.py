"""From the replies of an episode to the sequence that is trained."""

from collections.abc import Sequence

from clawloop.protocols import InfrastructureError
from clawloop.types import Completion, TokenTrace


def trace(completions: Sequence[Completion]) -> TokenTrace:
    """Join replies whose prompts extend one another; the mask is 1 exactly where the policy sampled (m_t of Eq. 1).

    The log-probabilities are there only if those of every reply are.

    Raises:
        InfrastructureError: a prompt does not extend what came before, so no single sequence holds the episode.

    >>> a = Completion("x", (1, 2), (3,), (-0.5,), "stop")
    >>> trace([a, Completion("y", (1, 2, 3, 4), (5,), (-0.1,), "stop")]).mask
    (0, 0, 1, 0, 1)
    """
    ids: list[int] = []
    mask: list[int] = []
    logprobs: list[float] = []
    for turn, completion in enumerate(completions):
        if list(completion.prompt_ids[: len(ids)]) != ids:
            raise InfrastructureError(f"Turn {turn + 1}: the prompt does not extend the tokens of the turns before it.")
        added = completion.prompt_ids[len(ids) :]
        ids += [*added, *completion.ids]
        mask += [0] * len(added) + [1] * len(completion.ids)
        logprobs += [0.0] * len(added) + list(completion.logprobs or [0.0] * len(completion.ids))
    while mask and not mask[-1]:
        ids.pop(), mask.pop(), logprobs.pop()
    known = all(completion.logprobs is not None for completion in completions)
    return TokenTrace(tuple(ids), tuple(mask), tuple(logprobs) if known else None)
