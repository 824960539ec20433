"""Building traces: how long it takes, and how many of the sampled tokens are kept, beside a plain joiner.

The episodes are scripted as harnesses make them: histories that only grow, thoughts that are stripped from the history,
histories that become a summary, sub-agents that speak in turns, titles and second attempts in between. The plain joiner
keeps one sequence and leaves out every call whose prompt does not extend it. (One that refuses such an episode keeps
nothing of it.)

A prompt repeats nearly all that came before it, so the prompts of an episode of 61,000 tokens hold 9 million. Each is read
once, when its call ends; `calls_ms` is that, over all calls. `build_ms` is what is left to do when the episode has ended. Times are of
the processor, the best of several.

    python scripts/bench/traces.py

Goal: every sampled token is trained after what the engine saw; 300 turns with 61,000 tokens take less than 10 ms, calls
and the rest together. Where only the rest does, the goal is not met.
"""

import argparse
import json
import random
import time
from collections.abc import Callable

from clawloop.rollout.tokens import TraceBuilder
from clawloop.types import Audit, Completion, TokenTrace

Ids = tuple[int, ...]
GOAL_MS = 10.0


class Script:
    """Draws tokens and notes calls."""

    def __init__(self, seed: int) -> None:
        self._rng = random.Random(seed)
        self.calls: list[Completion] = []

    def some(self, count: int) -> Ids:
        """New tokens."""
        return tuple(self._rng.randrange(150_000) for _ in range(count))

    def ask(self, prompt: Ids, tokens: int) -> Ids:
        """What the engine samples."""
        reply = self.some(tokens)
        self.calls.append(Completion("", prompt, reply, (-0.5,) * tokens, "stop"))
        return reply


def grows(script: Script, turns: int = 300) -> None:
    """Every prompt is what came before it and an observation."""
    history = script.some(1_000)
    for _ in range(turns):
        history += script.ask(history, 100) + script.some(100)


def stripped(script: Script, turns: int = 8, thought: int = 300, answer: int = 80) -> None:
    """Thoughts are not in later prompts."""
    history = script.some(500)
    for _ in range(turns):
        history += script.ask(history, thought + answer)[thought:] + script.some(100)


def compacted(script: Script, turns: int = 60, every: int = 15) -> None:
    """Now and then the model writes a summary, and goes on from the system prompt and that."""
    system = script.some(800)
    history = system + script.some(200)
    for turn in range(1, turns + 1):
        history += script.ask(history, 100) + script.some(100)
        if turn % every == 0:
            history = system + script.ask(history + script.some(30), 300) + script.some(50)


def delegated(script: Script, agents: int = 4, turns: int = 12) -> None:
    """A title first; then sub-agents with one system prompt speak in turns, and the main agent reads what they found."""
    main = script.some(1_000)
    script.ask(script.some(60), 10)
    main += script.ask(main, 200) + script.some(20)
    system = script.some(600)
    histories = [system + script.some(80) for _ in range(agents)]
    for _ in range(turns):
        for n, history in enumerate(histories):
            histories[n] += script.ask(history, 80) + script.some(120)
    main += script.some(300)
    script.ask(main, 150)


def repeated(script: Script, turns: int = 30) -> None:
    """Every third reply is sampled again from the same prompt, and the second one is kept."""
    history = script.some(800)
    for turn in range(turns):
        reply = script.ask(history, 100)
        if turn % 3 == 0:
            reply = script.ask(history, 100)
        history += reply + script.some(100)


EPISODES: dict[str, Callable[[Script], None]] = {
    "grows": grows,
    "stripped": stripped,
    "compacted": compacted,
    "sub-agents": delegated,
    "second attempts": repeated,
}


def plain(calls: list[Completion]) -> int:
    """Sampled tokens that one sequence keeps."""
    ids: Ids = ()
    kept = 0
    for call in calls:
        if call.prompt_ids[: len(ids)] == ids:
            ids, kept = call.prompt_ids + call.ids, kept + len(call.ids)
    return kept


def build(calls: list[Completion]) -> tuple[tuple[TokenTrace, ...], Audit, float, float]:
    """The traces, their audit, and milliseconds of the processor: over all calls, and after the last."""
    builder, started = TraceBuilder(), time.process_time()
    for call in calls:
        builder.add(call)
    ended = time.process_time()
    traces, audit = builder.build()
    return traces, audit, 1e3 * (ended - started), 1e3 * (time.process_time() - ended)


def in_context(calls: list[Completion], traces: tuple[TokenTrace, ...]) -> int:
    """Trained tokens that the longest search finds too: the whole prompt, then the reply, none of it used before."""
    free = [{t for t, mine in enumerate(trace.mask) if mine} for trace in traces]
    found = 0
    for call in calls:
        end = len(call.prompt_ids) + len(call.ids)
        spots = set(range(len(call.prompt_ids), end))
        for trace, left in zip(traces, free, strict=True):
            if spots <= left and trace.ids[:end] == call.prompt_ids + call.ids:
                left -= spots
                found += len(spots)
                break
    return found


def main() -> None:
    """Print a table and one line of JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=20)
    given = parser.parse_args()
    figures: dict[str, dict[str, float]] = {}
    print(
        f"{'episode':16}{'calls':>6}{'sampled':>9}{'kept':>8}{'plain':>8}{'wrong':>7}{'reused':>8}{'sequences':>11}{'tokens':>9}"
    )
    for name, play in EPISODES.items():
        script = Script(0)
        play(script)
        calls = script.calls
        traces, audit, _, _ = build(calls)
        kept, one = in_context(calls, traces) / audit.sampled, plain(calls) / audit.sampled
        assert kept == (audit.trained - audit.mismatched) / audit.sampled
        size = sum(len(trace.ids) for trace in traces)
        reused = audit.reused / audit.prompted
        print(
            f"{name:16}{len(calls):6}{audit.sampled:9,}{kept:8.1%}{one:8.1%}{audit.mismatched:7}{reused:8.1%}"
            f"{len(traces):11}{size:9,}"
        )
        figures[name] = {"kept": kept, "plain": round(one, 3), "context_mismatch_tokens": audit.mismatched}
    for turns in (75, 150, 300):
        script = Script(1)
        grows(script, turns)
        took = [build(script.calls)[2:] for _ in range(given.repeats)]
        asked, built = min(calls for calls, _ in took), min(after for _, after in took)
        prompts = sum(len(call.prompt_ids) for call in script.calls)
        size = len(script.calls[-1].prompt_ids) + len(script.calls[-1].ids)
        print(
            f"{turns} turns, {size:,} tokens, {prompts:,} in prompts: {asked:.1f} ms over the calls "
            f"({1e6 * asked / prompts:.1f} ns a token), then {built:.1f} ms"
        )
        figures[f"{turns} turns"] = {"tokens": size, "calls_ms": round(asked, 2), "build_ms": round(built, 2)}
    whole = all(one["kept"] == 1.0 for one in figures.values() if "kept" in one)
    goal = {"kept": 1.0, "context_mismatch_tokens": 0, "calls_ms + build_ms": GOAL_MS}
    met = whole and figures["300 turns"]["calls_ms"] + figures["300 turns"]["build_ms"] < GOAL_MS
    print(json.dumps({"bench": "traces", "figures": figures, "goal": goal, "met": met}))


if __name__ == "__main__":
    main()
