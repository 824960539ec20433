"""Tokens per second of policy/hf against plain `generate` called once for each episode.

Both sides run the same model (nano) over the same prompts, and each reply has the same length on both sides: the
reply of policy/hf is cut at a fixed number of tokens, and `generate` is told to write as many. Goal: at least 3
times at 16 episodes. The two sides take turns, and the ratio is that of the medians.
"""

import json
import statistics
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import torch
from transformers import GenerationConfig

from clawloop.policy.hf import HfPolicy
from clawloop.store.weights import find
from clawloop.types import Message, Request

TOKENS, ROUNDS, GOAL = 40, 5, 3.0


def prompts(count: int, turn: int) -> list[tuple[Message, ...]]:
    """Prompts as long as the laptop's, all different, so that nothing is shared."""
    text = 'records{}.csv has columns id,site,status,weight. Count the rows whose status is open; write {{"n": N}} to out{}.json. '
    rules = (
        "Rules: filter: status is open; header: the first line holds no data. Deliver: out{}.json (json: n integer)."
    )
    return [(Message("user", (text + rules).format(f"{turn}_{i}", i, i)),) for i in range(count)]


def ours(policy: HfPolicy, batch: list[tuple[Message, ...]], turn: int) -> float:
    """Seconds for one reply to every prompt, asked for at once."""
    started = time.perf_counter()
    with ThreadPoolExecutor(len(batch)) as pool:
        asked = [
            pool.submit(policy.complete, Request(messages, f"{turn}/{i}", i, TOKENS))
            for i, messages in enumerate(batch)
        ]
        assert all(len(reply.result().ids) == TOKENS for reply in asked)
    return time.perf_counter() - started


def plain(policy: HfPolicy, batch: list[tuple[Message, ...]]) -> float:
    """Seconds for `generate` called for each prompt in turn."""
    config = GenerationConfig(
        do_sample=True, temperature=1.0, top_k=0, max_new_tokens=TOKENS, min_new_tokens=TOKENS,
        eos_token_id=policy.chat.end, pad_token_id=policy.tokenizer.pad_token_id,
    )  # fmt: skip
    started = time.perf_counter()
    for messages in batch:
        ids = torch.tensor([policy.chat.prompt_ids(messages)])
        out = policy.model.generate(ids, attention_mask=torch.ones_like(ids), generation_config=config)
        assert out.shape[1] == ids.shape[1] + TOKENS
    return time.perf_counter() - started


def main() -> None:
    """Measure at 1, 4, 16 and 32 episodes."""
    policy = HfPolicy(find("nano", Path("unused")), slots=32, context=512)
    policy.chat.end = -1  # no token ends a reply: both sides write TOKENS tokens
    figures: dict[str, float] = {}
    for count in (1, 4, 16, 32):
        mine, theirs = [], []
        for turn in range(ROUNDS + 1):
            batch = prompts(count, turn)
            mine.append(ours(policy, batch, turn))
            policy.chat.end = int(policy.tokenizer.eos_token_id)
            theirs.append(plain(policy, batch))
            policy.chat.end = -1
        fast, slow = statistics.median(mine[1:]), statistics.median(theirs[1:])
        figures[f"tokens_per_s_{count}"] = round(count * TOKENS / fast, 1)
        figures[f"generate_tokens_per_s_{count}"] = round(count * TOKENS / slow, 1)
        figures[f"ratio_{count}"] = round(slow / fast, 2)
    print(
        json.dumps(
            {"bench": "generate", "figures": figures, "goal": {"ratio_16": GOAL}, "met": figures["ratio_16"] >= GOAL}
        )
    )


if __name__ == "__main__":
    main()
