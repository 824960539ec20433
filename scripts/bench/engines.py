"""Tokens per second of policy/vllm against policy/hf: one model, the same prompts, all asked for at once.

A reply has at most a given number of tokens, and those that were sampled are counted. Both use the same arithmetic, in
the environment of `scripts/vllm`:

    PYTHONPATH=. "$(scripts/vllm)" scripts/bench/engines.py

Goal: policy/vllm is no slower at 16 episodes. The two sides take turns, a round to warm up is left out, and the ratio
is that of the median rates. Every prompt is new in every round, so that neither finds its keys and values kept.
"""

import argparse
import json
import statistics
import time
from concurrent.futures import ThreadPoolExecutor

from clawloop.policy.hf import HfPolicy
from clawloop.policy.vllm.local import VllmPolicy
from clawloop.protocols import Agent
from clawloop.store.layout import cache
from clawloop.store.weights import find
from clawloop.types import Message, Request

GOAL = 1.0


def prompts(count: int, turn: int) -> list[tuple[Message, ...]]:
    """Prompts of the laptop's kind, all different from their first words on."""
    text = "{}_{}.csv has columns id,site,status,weight. Count the rows whose status is open; write it to out.json. "
    rules = "Rules: filter: status is open; header: the first line holds no data. Deliver: out.json (json: n integer)."
    return [(Message("user", text.format(turn, i) + rules),) for i in range(count)]


def rate(policy: Agent, batch: list[tuple[Message, ...]], tokens: int, turn: int) -> float:
    """Tokens per second over one reply to every prompt."""
    started = time.perf_counter()
    with ThreadPoolExecutor(len(batch)) as pool:
        asked = [
            pool.submit(policy.complete, Request(messages, f"{turn}/{i}", i, tokens))
            for i, messages in enumerate(batch)
        ]
        sampled = sum(len(reply.result().ids) for reply in asked)
    return sampled / (time.perf_counter() - started)


def main() -> None:
    """Measure and print one JSON line."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", default="nano", help="a source of conf/model")
    parser.add_argument("--dtype", default="float32", help="float32 or bfloat16, for both")
    parser.add_argument("--episodes", type=int, default=16)
    parser.add_argument("--tokens", type=int, default=40, help="of a reply, at most")
    parser.add_argument("--rounds", type=int, default=5)
    given = parser.parse_args()
    weights = find(given.model, cache())
    shared = {"weights": weights, "slots": given.episodes, "context": 1024, "dtype": given.dtype}
    vllm = VllmPolicy(**shared)
    sides: dict[str, HfPolicy | VllmPolicy] = {"vllm": vllm, "hf": HfPolicy(**shared)}
    rates: dict[str, list[float]] = {name: [] for name in sides}
    for turn in range(given.rounds + 1):
        for name, policy in sides.items():
            rates[name].append(rate(policy, prompts(given.episodes, turn), given.tokens, turn))
    medians = {name: statistics.median(found[1:]) for name, found in rates.items()}
    figures = {f"{name}_tokens_per_s": round(median, 1) for name, median in medians.items()}
    figures["ratio"] = round(medians["vllm"] / medians["hf"], 2)
    settings = {name: getattr(given, name) for name in ("model", "dtype", "episodes", "tokens", "rounds")}
    reached = {"goal": {"ratio": GOAL}, "met": figures["ratio"] >= GOAL}
    print(json.dumps({"bench": "engines", "settings": settings, "figures": figures} | reached))
    vllm.engine.close()


if __name__ == "__main__":
    main()
