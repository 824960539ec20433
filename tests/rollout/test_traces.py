"""From calls to sequences: every sampled token is trained once, after what the engine saw, whatever a harness does."""

import random
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace

import pytest

from clawloop.protocols import InfrastructureError
from clawloop.rollout.audit import Seen, check, faithful, fresh, packed, tally
from clawloop.rollout.tokens import TraceBuilder
from clawloop.types import Audit, Completion, Outcome, Rollout, RolloutGroup, TokenTrace
from tests.bare import bare, trial

SYSTEM, ASK, END = (1, 2, 3), (4, 5), 9


def call(prompt: Iterable[int], reply: Iterable[int], known: bool = True) -> Completion:
    ids = tuple(reply)
    return Completion("", tuple(prompt), ids, tuple(-i / 8 for i in ids) if known else None, "stop")


def built(*calls: Completion) -> tuple[tuple[TokenTrace, ...], Audit]:
    builder = TraceBuilder()
    for one in calls:
        builder.add(one)
    return builder.build()


def trained_once_in_context(calls: Iterable[Completion], traces: Iterable[TokenTrace]) -> bool:
    """Token by token, what was sampled after what is what is trained after what, as often."""
    sampled = Counter(one.prompt_ids + one.ids[: n + 1] for one in calls for n in range(len(one.ids)))
    places = [(trace, t) for trace in traces for t, mine in enumerate(trace.mask) if mine]
    assert all(trace.logprobs is None or trace.logprobs[t] == -trace.ids[t] / 8 for trace, t in places)
    return sampled == Counter(trace.ids[: t + 1] for trace, t in places)


def test_prompts_that_extend_one_another_are_one_sequence() -> None:
    one = call((*SYSTEM, *ASK), (6, END))
    two = call((*SYSTEM, *ASK, 6, END, 7), (8, END))
    (trace,), audit = built(one, two)
    assert trace.ids == (*SYSTEM, *ASK, 6, END, 7, 8, END)
    assert trace.mask == (0, 0, 0, 0, 0, 1, 1, 0, 1, 1)
    assert trace.logprobs == (0.0, 0.0, 0.0, 0.0, 0.0, -6 / 8, -9 / 8, 0.0, -8 / 8, -9 / 8)
    assert audit == Audit(sampled=4, trained=4, mismatched=0, prompted=13, reused=7)


def test_a_prompt_that_is_asked_again_opens_a_sequence_and_the_reply_that_was_kept_goes_on() -> None:
    prompt = (*SYSTEM, *ASK)
    calls = call(prompt, (6, 7, END)), call(prompt, (6, 8, END)), call((*prompt, 6, 8, END, 5), (7, END))
    traces, audit = built(*calls)
    assert [trace.ids[5:] for trace in traces] == [(6, 7, END), (6, 8, END, 5, 7, END)]
    assert [sum(trace.mask) for trace in traces] == [3, 5], "the 6 that both begin with was sampled twice"
    assert traces[1].shares == (0, 5)
    assert trained_once_in_context(calls, traces) and audit.trained == 8


def test_the_same_reply_to_the_same_prompt_is_trained_as_often_as_it_was_sampled() -> None:
    calls = [call(ASK, (6, END))] * 3 + [call((*ASK, 6, END, 5), (7, END))]
    traces, _ = built(*calls)
    assert sorted(len(trace.ids) for trace in traces) == [4, 4, 7]
    assert trained_once_in_context(calls, traces)


def test_a_title_in_between_is_a_sequence_of_its_own() -> None:
    main = call((*SYSTEM, *ASK), (6, END))
    title = call((30, 31, *ASK), (32, END))
    after = call((*SYSTEM, *ASK, 6, END, 7), (8, END))
    traces, audit = built(main, title, after)
    assert [trace.ids for trace in traces] == [(*SYSTEM, *ASK, 6, END, 7, 8, END), (30, 31, *ASK, 32, END)]
    assert traces[1].shares == (0, 0)
    assert (audit.trained, audit.mismatched, audit.reused) == (6, 0, 7)


def test_a_history_that_became_a_summary_begins_anew_after_what_it_keeps() -> None:
    first = call((*SYSTEM, *ASK), (6, END))
    second = call((*SYSTEM, *ASK, 6, END, 7), (8, END))
    compact = call((*SYSTEM, 20, 21), (22, END))
    third = call((*SYSTEM, 20, 21, 22, END, 7), (6, END))
    calls = first, second, compact, third
    traces, audit = built(*calls)
    assert [sum(trace.mask) for trace in traces] == [4, 4]
    assert traces[1].shares == (0, 3)
    assert trained_once_in_context(calls, traces) and audit.reused == 7 + 3 + 7


def test_thinking_that_is_stripped_is_trained_where_it_was_sampled_and_only_there() -> None:
    """The prompts hold the answers (60 + t) without the thoughts (50, 51) before them."""
    calls, history = [], (*SYSTEM, *ASK)
    for turn in range(4):
        calls.append(call(history, (50, 51, 60 + turn, END)))
        history = (*history, 60 + turn, END, 7)
    traces, audit = built(*calls)
    assert [len(trace.ids) for trace in traces] == [9, 12, 15, 18]
    assert [sum(trace.mask) for trace in traces] == [4] * 4
    assert [trace.shares for trace in traces] == [(0, 0), (0, 5), (1, 8), (2, 11)]
    assert trained_once_in_context(calls, traces)
    assert (audit.sampled, audit.trained, audit.mismatched) == (16, 16, 0)


def test_a_prompt_that_ends_inside_of_a_reply_does_not_train_it_again() -> None:
    calls = call(ASK, (6, 7, 8, END)), call((*ASK, 6, 7), (5, END))
    traces, _ = built(*calls)
    assert traces[1].mask == (0, 0, 0, 0, 1, 1) and traces[1].shares == (0, 4)
    assert trained_once_in_context(calls, traces)


def test_sub_agents_that_speak_in_turns_grow_each_for_itself() -> None:
    agents = [(*SYSTEM, 40 + n) for n in range(3)]
    calls = []
    for turn in range(5):
        for n in range(3):
            calls.append(call(agents[n], (50 + turn, END)))
            agents[n] = (*agents[n], 50 + turn, END, 7)
    traces, audit = built(*calls)
    assert [trace.ids for trace in traces] == [agent[:-1] for agent in agents]
    assert [trace.shares for trace in traces] == [(0, 0), (0, 3), (1, 3)]
    assert trained_once_in_context(calls, traces) and audit.trained == 30


def test_a_reply_that_was_cut_goes_on_without_a_token_between() -> None:
    calls = call(ASK, (6, 7)), call((*ASK, 6, 7), (8, END))
    (trace,), audit = built(*calls)
    assert trace.mask == (0, 0, 1, 1, 1, 1) and audit.mismatched == 0
    assert trained_once_in_context(calls, [trace])


def test_a_call_that_sampled_nothing_leaves_nothing() -> None:
    assert built(call(ASK, ())) == ((), Audit())
    calls = call(ASK, (6, END)), call((*ASK, 6, END, 7), ()), call((*ASK, 6, END, 7), (8, END))
    (trace,), _ = built(*calls)
    assert trace == built(calls[0], calls[2])[0][0]


def test_only_the_sequence_of_a_reply_without_log_probabilities_has_none() -> None:
    calls = call(ASK, (6, END)), call((*ASK, 6, END, 7), (8, END), known=False), call((30,), (31, END))
    traces, _ = built(*calls)
    assert [trace.logprobs is None for trace in traces] == [True, False]
    assert traces[0].mask == (0, 0, 1, 1, 0, 1, 1)


def tree(seed: int) -> list[Completion]:
    """Calls as harnesses may make them, of so few different tokens that much is alike by chance."""
    rng = random.Random(seed)

    def some(least: int, most: int) -> tuple[int, ...]:
        return tuple(rng.randrange(2 + seed % 3) for _ in range(rng.randint(least, most)))

    histories, calls = [some(1, 4)], []
    for _ in range(rng.randint(1, 40)):
        history = rng.choice(histories)
        what = rng.choice(["on", "on", "again", "strip", "cut", "summary", "agent"])
        if what == "strip":
            place = rng.randrange(len(history))
            history = history[:place] + history[place + rng.randint(1, 3) :] + some(1, 2)
        elif what == "cut":
            history = history[: rng.randint(1, len(history))]
        elif what == "summary":
            history = histories[0] + some(1, 3)
        elif what == "agent":
            history = some(1, 5)
        history = history or (0,)
        calls.append(call(history, some(0, 4)))
        if what != "again":
            histories.append(history + calls[-1].ids + some(0, 3))
    return calls


@pytest.mark.parametrize("seeds", [range(start, start + 100) for start in range(0, 600, 100)], ids=str)
def test_on_any_tree_of_calls_every_sampled_token_is_trained_once_in_its_context(seeds: range) -> None:
    for seed in seeds:
        calls = tree(seed)
        traces, audit = built(*calls)
        said = [one for one in calls if one.ids]
        assert trained_once_in_context(said, traces), seed
        sampled = sum(len(one.ids) for one in said)
        assert (audit.sampled, audit.trained, audit.mismatched) == (sampled, sampled, 0), seed
        assert audit.prompted == sum(len(one.prompt_ids) for one in said)
        assert audit.reused == sum(read_before(said[:i], one) for i, one in enumerate(said)), seed
        for trace in traces:
            of, length = trace.shares
            assert trace.ids[:length] == traces[of].ids[:length] and not any(trace.mask[:length]), seed


def read_before(earlier: Sequence[Completion], one: Completion) -> int:
    """How far a prompt is the beginning of what an earlier call read and said."""
    longest = 0
    for other in earlier:
        pairs = list(zip(one.prompt_ids, other.prompt_ids + other.ids, strict=False))
        longest = max(longest, next((t for t, (mine, theirs) in enumerate(pairs) if mine != theirs), len(pairs)))
    return longest


def test_the_longest_sequence_that_a_prompt_begins_with_goes_on() -> None:
    calls = [call((1,), (2,)), call((5,), (6,)), call((1, 2, 3), (4,)), call((1,), (2,)), call((1, 2, 3, 4, 5), (6,))]
    traces, _ = built(*calls)
    assert [trace.ids for trace in traces] == [(1, 2, 3, 4, 5, 6), (5, 6), (1, 2)]


def mismatched(calls: Iterable[Completion], *traces: TokenTrace) -> int:
    """Trained tokens that the audit does not find where one of the calls sampled them; the first trace has them all."""
    seen = []
    for one in calls:
        digest = fresh()
        digest.update(packed(one.prompt_ids))
        seen.append(Seen(0, digest.digest(), len(one.prompt_ids), one.ids))
    return sum(sum(trace.mask) for trace in traces) - faithful(seen, traces)


def test_the_audit_finds_what_is_trained_out_of_context() -> None:
    calls = [call((*SYSTEM, *ASK), (6, 7, END)), call((*SYSTEM, *ASK, 6, 7, END, 7), (8, END))]
    (right,), _ = built(*calls)
    assert mismatched(calls, right) == 0
    joined_on = replace(right, ids=(*SYSTEM, *ASK, 50, 51, 6, 7, END, 7, 8, END), mask=(0,) * 7 + right.mask[5:])
    assert mismatched(calls, joined_on) == 5, "after thoughts that the engine never saw"
    changed = replace(right, ids=(*right.ids[:8], 5, *right.ids[9:]))
    assert mismatched(calls, changed) == 2, "what stands between the replies is another token"
    assert mismatched(calls, replace(right, mask=(0, 0, 0, 0, 1, *right.mask[5:]))) == 1, "one too many"
    assert mismatched(calls, replace(right, ids=(*right.ids[:6], 5, *right.ids[7:]))) == 5, "another token was sampled"
    assert mismatched(calls, right, right) == 5, "trained twice"
    assert mismatched([*calls, calls[0]], right) == 0, (
        "a call too many loses tokens, which the share of the trained shows"
    )
    assert mismatched(calls[:1], right) == 2, "never sampled"


def rollout(index: int, audit: Audit, sequences: int = 1) -> Rollout:
    traces = (TokenTrace((1, 2), (0, 1), None),) * sequences
    played = trial("t", index, 1.0, *traces)
    assert played.trajectory is not None
    return replace(played, trajectory=replace(played.trajectory, audit=audit))


def test_audits_are_taken_together_by_tokens() -> None:
    trials = [rollout(0, Audit(10, 10, 0, 40, 20)), rollout(1, Audit(30, 28, 2, 60, 55), 3), rollout(2, Audit())]
    broken = Rollout("t", 3, Outcome.INFRASTRUCTURE_FAILED, None, None, None)
    assert tally([*trials, broken]) == {
        "trained": 36 / 40,
        "context_mismatch_tokens": 2,
        "prefix_reuse": 0.75,
        "sequences": 2.0,
    }
    assert tally([trials[2], broken]) == {}


def test_below_the_floor_the_worst_trial_is_named_and_nothing_is_trained() -> None:
    trials = RolloutGroup(bare("t"), (rollout(0, Audit(10, 10)), rollout(1, Audit(30, 28, 2))))
    with pytest.raises(
        InfrastructureError, match=r"k1/admission: 4 of 40 sampled .* trained_floor=1 .*; t#1 lost 4 of 30\."
    ):
        check([trials], 1.0, "k1/admission")
    check([trials], 0.9, "k1/admission")
    check([], 1.0, "k1/admission")


def test_an_episode_of_300_turns_takes_time_linear_in_its_tokens() -> None:
    rng = random.Random(0)
    ids: tuple[int, ...] = tuple(rng.randrange(50_000) for _ in range(1_000))
    calls = []
    for _ in range(300):
        calls.append(call(ids, (rng.randrange(50_000) for _ in range(100))))
        ids += (*calls[-1].ids, *(rng.randrange(50_000) for _ in range(100)))
    started = time.process_time()
    (trace,), audit = built(*calls)
    assert time.process_time() - started < 2.0, "a node for each token of each prompt takes longer"
    assert len(trace.ids) == len(ids) - 100 and audit.trained == 30_000
