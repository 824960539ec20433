"""From the replies of an episode to the sequences that are trained."""

from collections.abc import Sequence

from clawloop.types import Completion, TokenTrace


def traces(completions: Sequence[Completion]) -> tuple[TokenTrace, ...]:
    """The sequences that hold each sampled token once, after what the engine saw when it sampled it (m_t of Eq. 1).

    A call whose prompt begins with a whole sequence goes on with it, the longest where several fit; any other call
    opens a sequence. Log-probabilities are there only if those of every reply of the sequence are.

    >>> a = Completion("x", (1, 2), (3,), (-0.5,), "stop")
    >>> [one.mask for one in traces([a, Completion("y", (1, 2, 3, 4), (5,), (-0.1,), "stop")])]
    [(0, 0, 1, 0, 1)]
    >>> [one.mask for one in traces([a, Completion("y", (1, 2, 4), (5,), (-0.1,), "stop")])]
    [(0, 0, 1), (0, 0, 0, 1)]
    """
    grown: list[list[Completion]] = []
    for completion in completions:
        if not completion.ids:
            continue
        fitting = [calls for calls in grown if _extends(completion, calls[-1])]
        if fitting:
            max(fitting, key=lambda calls: len(calls[-1].prompt_ids)).append(completion)
        else:
            grown.append([completion])
    return tuple(map(_joined, grown))


def _extends(completion: Completion, last: Completion) -> bool:
    middle = len(last.prompt_ids)
    end = middle + len(last.ids)
    return completion.prompt_ids[middle:end] == last.ids and completion.prompt_ids[:middle] == last.prompt_ids


def _joined(calls: Sequence[Completion]) -> TokenTrace:
    mask: list[int] = []
    logprobs: list[float] = []
    for call in calls:
        before = len(call.prompt_ids) - len(mask)
        mask += [0] * before + [1] * len(call.ids)
        logprobs += [0.0] * before + list(call.logprobs or [0.0] * len(call.ids))
    known = all(call.logprobs is not None for call in calls)
    return TokenTrace((*calls[-1].prompt_ids, *calls[-1].ids), tuple(mask), tuple(logprobs) if known else None)
