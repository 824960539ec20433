"""Tokens per second of policy/vllm, policy/hf and plain `generate`, and whether they say the same: one model, one work.

The work is one reply to each of 16 prompts, all asked for at once; `generate` is called for one after the other. A
reply has at most a given number of tokens, and those that were sampled are counted. The sides take turns, a round to warm
up is left out, and a ratio is that of the median rates. Every prompt is new in every round, so that nobody finds its
keys and values kept. Beside the rates:

- greedy_equal: the share of prompts whose most likely reply is that of `generate`, token for token;
- gap: mean |d log p| between an engine's sampled tokens and one plain forward pass of the trainer's network, in nats;
- update_s: from a changed network to an engine that samples with it, the check included (median of 5).

Goal: policy/vllm is no slower than policy/hf at 16 episodes, all greedy replies are equal in float32, and the gaps are
within policy/vllm's tolerance. It runs in the environment of `scripts/vllm`, which it makes and enters by itself.

    python scripts/bench/engines.py
"""

import argparse
import importlib.util
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import torch
from transformers import GenerationConfig

from clawloop.policy.hf import HfPolicy
from clawloop.policy.network import Network
from clawloop.policy.vllm.engine import TOLERANCE
from clawloop.policy.vllm.local import VllmPolicy
from clawloop.policy.vllm.sampler import distance, token_logprobs
from clawloop.protocols import Agent
from clawloop.store.layout import cache
from clawloop.store.weights import find
from clawloop.types import Completion, Message, Request

GOAL = 1.0
TOP = Path(__file__).parents[2]
Prompt = tuple[Message, ...]


def prompts(count: int, turn: int) -> list[Prompt]:
    """Prompts of the laptop's kind, all different from their first words on."""
    text = "{}_{}.csv has columns id,site,status,weight. Count the rows whose status is open; write it to out.json. "
    rules = "Rules: filter: status is open; header: the first line holds no data. Deliver: out.json (json: n integer)."
    return [(Message("user", text.format(turn, i) + rules),) for i in range(count)]


def replies(policy: Agent, batch: list[Prompt], tokens: int, turn: int) -> list[Completion]:
    """One reply to every prompt, asked for at once."""
    with ThreadPoolExecutor(len(batch)) as pool:
        asked = [
            pool.submit(policy.complete, Request(messages, f"{turn}/{i}", i, tokens))
            for i, messages in enumerate(batch)
        ]
        return [reply.result() for reply in asked]


def generated(network: Network, batch: list[Prompt], tokens: int, greedy: bool) -> list[tuple[int, ...]]:
    """The same by `generate`."""
    config = GenerationConfig(
        do_sample=not greedy, temperature=None if greedy else 1.0, top_k=None if greedy else 0, max_new_tokens=tokens,
        eos_token_id=network.chat.end, pad_token_id=network.tokenizer.pad_token_id,
    )  # fmt: skip
    found = []
    for messages in batch:
        ids = torch.tensor([network.chat.prompt_ids(messages)])
        out = network.model.generate(ids, attention_mask=torch.ones_like(ids), generation_config=config)
        found.append(tuple(out[0, ids.shape[1] :].tolist()))
    return found


def gap(network: Network, found: list[Completion]) -> float:
    """Mean |d log p| of sampled tokens, in nats."""
    ours = [token_logprobs(network.model, (*one.prompt_ids, *one.ids))[-len(one.ids) :] for one in found]
    return distance([p for one in found for p in one.logprobs], [p for one in ours for p in one])


def updates(policy: VllmPolicy) -> list[float]:
    """Seconds of updates after changes of all weights."""
    took = []
    for turn in range(5):
        policy.sleep()
        with torch.no_grad():
            for weight in policy.model.parameters():
                weight *= 1.0 + 1e-3 * (-1) ** turn
        started = time.perf_counter()
        policy.renamed(f"theta_{turn}")
        took.append(time.perf_counter() - started)
    return took


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
    vllm, hf = VllmPolicy(**shared), HfPolicy(**shared)

    def sampled(policy: Agent) -> Callable[[list[Prompt], int], int]:
        return lambda batch, turn: sum(len(reply.ids) for reply in replies(policy, batch, given.tokens, turn))

    sides: dict[str, Callable[[list[Prompt], int], int]] = {
        "vllm": sampled(vllm),
        "hf": sampled(hf),
        "generate": lambda batch, turn: sum(map(len, generated(hf, batch, given.tokens, greedy=False))),
    }
    rates: dict[str, list[float]] = {name: [] for name in sides}
    for turn in range(given.rounds + 1):
        for name, side in sides.items():
            batch, started = prompts(given.episodes, turn), time.perf_counter()
            count = side(batch, turn)
            rates[name].append(count / (time.perf_counter() - started))
    medians = {name: statistics.median(found[1:]) for name, found in rates.items()}
    figures = {f"{name}_tokens_per_s": round(median, 1) for name, median in medians.items()}
    figures["vllm_to_hf"] = round(medians["vllm"] / medians["hf"], 2)
    figures["hf_to_generate"] = round(medians["hf"] / medians["generate"], 2)
    batch = prompts(given.episodes, given.rounds + 1)
    policies: dict[str, VllmPolicy | HfPolicy] = {"vllm": vllm, "hf": hf}
    for name, policy in policies.items():
        figures[f"{name}_gap"] = float(f"{gap(policy, replies(policy, batch, given.tokens, 0)):.2g}")
    expected = generated(hf, batch, given.tokens, greedy=True)
    for name, policy in policies.items():
        policy.temperature = 0.0
        same = [reply.ids == ids for reply, ids in zip(replies(policy, batch, given.tokens, 1), expected, strict=True)]
        figures[f"{name}_greedy_equal"] = sum(same) / len(same)
    figures["update_s"] = round(statistics.median(updates(vllm)), 3)
    goals = [
        figures["vllm_to_hf"] >= GOAL,
        given.dtype != "float32" or figures["vllm_greedy_equal"] == figures["hf_greedy_equal"] == 1.0,
        max(figures["vllm_gap"], figures["hf_gap"]) <= TOLERANCE[given.dtype],
    ]
    settings = {name: getattr(given, name) for name in ("model", "dtype", "episodes", "tokens", "rounds")}
    goal = {"vllm_to_hf": GOAL, "greedy_equal": "all in float32", "gap": TOLERANCE[given.dtype]}
    print(
        json.dumps({"bench": "engines", "settings": settings, "figures": figures, "goal": goal, "met": all(goals)}),
        flush=True,
    )
    vllm.engine.close()


if __name__ == "__main__":
    if importlib.util.find_spec("vllm") is None:
        python = subprocess.run(
            [TOP / "scripts" / "vllm"], stdout=subprocess.PIPE, text=True, check=True
        ).stdout.strip()
        os.execve(python, [python, *sys.argv], {**os.environ, "PYTHONPATH": str(TOP)})
    main()
