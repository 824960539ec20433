"""From the calls of an episode to the sequences that are trained.

Tokens are packed, four bytes each, so that to compare two sequences is to compare memory.
"""

from bisect import bisect, insort
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from clawloop.rollout.audit import Seen, faithful, fresh, packed
from clawloop.types import Audit, Completion, TokenTrace


@dataclass(slots=True, eq=False)
class _Branch:
    """A sequence that grows, up to the reply of its last call. `tokens` are packed, and `digest` is theirs.

    `shares` is the trace that it began alike with and for how many tokens; `replies` are where each begins, how long it
    is, and its log-probabilities.
    """

    number: int
    shares: tuple[int, int]
    last: Completion
    tokens: bytes = b""
    digest: Any = field(default_factory=fresh)
    replies: list[tuple[int, int, tuple[float, ...] | None]] = field(default_factory=list)

    def begins(self, call: Completion) -> bool:
        """Whether a call's prompt begins with this sequence. Where it does not, the last reply mostly shows it."""
        middle = len(self.last.prompt_ids)
        end = middle + len(self.last.ids)
        return call.prompt_ids[middle:end] == self.last.ids and call.prompt_ids[:middle] == self.last.prompt_ids

    def grow(self, added: bytes, call: Completion) -> Seen:
        """Go on with a call whose prompt is this sequence and what is `added`."""
        reply = packed(call.ids)
        self.digest.update(added)
        seen = Seen(self.number, self.digest.digest(), len(call.prompt_ids), call.ids)
        self.digest.update(reply)
        self.tokens += added + reply
        self.last = call
        self.replies.append((len(call.prompt_ids), len(call.ids), call.logprobs))
        return seen

    def trace(self) -> TokenTrace:
        """The sequence with its mask. Log-probabilities are there only if those of every reply are."""
        mask: list[int] = []
        logprobs: list[float] = []
        for start, length, given in self.replies:
            before = start - len(mask)
            mask += [0] * before + [1] * length
            logprobs += [0.0] * before + list(given or [0.0] * length)
        known = all(given is not None for _, _, given in self.replies)
        ids = self.last.prompt_ids + self.last.ids
        return TokenTrace(ids, tuple(mask), tuple(logprobs) if known else None, self.shares)


class TraceBuilder:
    """Joins the calls of an episode, as they come, into sequences that hold each sampled token once (m_t of Eq. 1).

    A call whose prompt begins with a whole sequence goes on with it, the longest where several fit. Any other call
    opens a sequence: one that is asked again, that starts from a summary, from a history that was rewritten, or for
    another purpose. A token is thus trained after what the engine saw when it sampled it, and after nothing else.
    Calls cost what it takes to read their prompts once, and `build` what it takes to write the sequences.

    >>> builder = TraceBuilder()
    >>> builder.add(Completion("x", (1, 2), (3,), (-0.5,), "stop"))
    >>> builder.add(Completion("y", (1, 2, 3, 4), (5,), (-0.1,), "stop"))
    >>> builder.add(Completion("z", (1, 2, 4), (6,), (-0.2,), "stop"))
    >>> traces, audit = builder.build()
    >>> [(trace.ids, trace.mask) for trace in traces]
    [((1, 2, 3, 4, 5), (0, 0, 1, 0, 1)), ((1, 2, 4, 6), (0, 0, 0, 1))]
    >>> audit
    Audit(sampled=3, trained=3, mismatched=0, prompted=9, reused=5)
    """

    def __init__(self) -> None:
        self._branches: list[_Branch] = []  # in the order of their tokens: those that begin alike are neighbours
        self._seen: list[Seen] = []
        self._prompted = self._reused = 0

    def add(self, call: Completion) -> None:
        """The next call of the episode. One that sampled nothing leaves nothing to train."""
        if not call.ids:
            return
        fitting = (branch for branch in self._branches if branch.begins(call))
        branch = max(fitting, key=lambda branch: len(branch.tokens), default=None)
        if branch is not None and self._alone(branch):
            reused = len(branch.tokens) // 4
            added = packed(call.prompt_ids[reused:])
        else:
            prompt = packed(call.prompt_ids)
            place = bisect(self._branches, prompt, key=_tokens)
            neighbours = self._branches[max(place - 1, 0) : place + 1]
            reused, of = max(((_alike(prompt, one.tokens), one.number) for one in neighbours), default=(0, 0))
            branch = branch or _Branch(len(self._branches), (of, reused), call)
            added = prompt[len(branch.tokens) :]
        self._prompted += len(call.prompt_ids)
        self._reused += reused
        if branch.replies:
            self._branches.remove(branch)
        self._seen.append(branch.grow(added, call))
        insort(self._branches, branch, key=_tokens)

    def build(self) -> tuple[tuple[TokenTrace, ...], Audit]:
        """The sequences in the order in which they were opened, and how they hold up against the calls."""
        traces = tuple(branch.trace() for branch in sorted(self._branches, key=lambda branch: branch.number))
        sampled = sum(len(call.ids) for call in self._seen)
        trained = sum(sum(trace.mask) for trace in traces)
        mismatched = trained - faithful(self._seen, traces)
        return traces, Audit(sampled, trained, mismatched, self._prompted, self._reused)

    def _alone(self, branch: _Branch) -> bool:
        """Whether no other sequence begins with this one; they would follow it in order."""
        place = self._branches.index(branch) + 1
        return not any(other.tokens.startswith(branch.tokens) for other in self._branches[place : place + 1])


def _tokens(branch: _Branch) -> bytes:
    return branch.tokens


def _alike(one: bytes, other: bytes) -> int:
    """How many tokens two packed sequences begin alike with."""
    size = min(len(one), len(other)) // 4
    differ = np.frombuffer(one, np.int32, size) != np.frombuffer(other, np.int32, size)
    return int(differ.argmax()) if differ.any() else size
