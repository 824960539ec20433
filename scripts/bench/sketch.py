"""What the sketch of a gradient costs beside a GRPO step, and how near its cosines are to those of whole gradients.

nano, in float32, on sequences in the forms of the four native harnesses: a made-up request to rename a file, and the reply
that does it. Advantages alternate in sign, so a gradient is that of a GRPO step without clipping.

- Cost: a step is 16 sequences, forward, backward, clipping and AdamW; the sketch is the sample of 65,536 coordinates, the
  cosines with five other harnesses and the average. Medians over 5 steps of processor seconds on one thread, which others
  at work on the machine do not change much. Goal: below 1%.
- Agreement: 12 batches of 8 sequences, three a harness, so 66 pairs. The error is that of the sketched cosine from the
  cosine over all coordinates of the last four blocks, by D, over 5 seeds of the sample.
"""

import json
import random
import statistics
import time
from collections.abc import Sequence as Many
from itertools import combinations
from pathlib import Path
from typing import Any

import torch

from clawloop.harness.react.react import React
from clawloop.harness.shell.shell import Shell
from clawloop.harness.tools.tools import Tools
from clawloop.harness.xml.xml import Xml
from clawloop.policy.hf import HfPolicy
from clawloop.store.weights import find
from clawloop.training import loss
from clawloop.training.packing import pack
from clawloop.training.sequences import Sequence
from clawloop.training.sketch import GradientSketch, last_blocks
from clawloop.types import Assignment, Completion, Contract, Request, Workspace

FULL, SIZES, SEEDS, STEPS = 65_536, (256, 1_024, 4_096, 16_384, 65_536), 5, 5
HARNESSES = {kind.name: kind(system="brief.md") for kind in (Shell, Tools, Xml, React)}


class Asked(Exception):
    """What a harness asks first."""


class Ask:
    """An agent that ends the episode with what it was asked."""

    version = "none"

    def complete(self, request: Request) -> Completion:
        """Raise it."""
        raise Asked(request)


def sequences(policy: HfPolicy, name: str, count: int, seed: int) -> list[Sequence]:
    """Requests and replies in the form of one harness."""
    harness = HARNESSES[name]
    chance, made = random.Random(f"{name}/{seed}"), []
    for i in range(count):
        one, two = ("".join(chance.choices("abcdefghijklmnop", k=6)) + ".txt" for _ in range(2))
        assignment = Assignment("t", f"Rename {one} to {two}.", Workspace({one: b""}), Contract((), ()))
        try:
            harness.run(assignment, Ask(), None, 0)
        except Asked as asked:
            prompt = policy.chat.prompt_ids(asked.args[0].messages)
        reply = policy.chat.encode_reply(harness.reply(f"mv {one} {two}"), ended=True)
        mask = (0,) * len(prompt) + (1,) * len(reply)
        made.append(Sequence(f"{name}{i}", (*prompt, *reply), mask, None, (1.0, -0.6)[i % 2]))
    return made


def backward(model: Any, batch: Many[Sequence]) -> None:
    """The gradient of the advantages times the log-probabilities, a mean over tokens and sequences."""
    packed = pack(batch, [1 / (len(batch) * one.actions) for one in batch], next(model.parameters()).device)
    logprobs_A = loss.token_logprobs(model, packed)
    (-(logprobs_A * packed.advantage_A * packed.weight_A).sum()).backward()


def cost(policy: HfPolicy) -> dict[str, float]:
    """Seconds of a step and of its sketch."""
    model, sketch = policy.model, GradientSketch(FULL, 4, 0.3, 0)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.0, weight_decay=0.0, foreach=True)
    names, steps, sketches = [*HARNESSES, "fifth", "sixth"], [], []
    batch = [one for name in HARNESSES for one in sequences(policy, name, 4, 0)]
    for number in range(STEPS + len(names)):
        optimizer.zero_grad()
        began = time.process_time()
        backward(model, batch)
        between = time.process_time()
        sketch(names[number % len(names)], model)
        done = time.process_time()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        if number >= len(names):  # by then every harness has an average
            steps.append(between - began + time.process_time() - done)
            sketches.append(done - between)
    step_s, sketch_s = statistics.median(steps), statistics.median(sketches)
    return {"step_s": step_s, "sketch_s": sketch_s, "share": sketch_s / step_s}


def agreement(policy: HfPolicy) -> tuple[dict[int, list[float]], list[float]]:
    """By D the errors of all pairs and seeds; and the true cosines."""
    whole, parts = [], {(size, seed): [] for size in SIZES for seed in range(SEEDS)}
    tools = {key: GradientSketch(key[0], 4, 0.3, key[1]) for key in parts}
    for name in HARNESSES:
        for seed in range(3):
            policy.model.zero_grad()
            backward(policy.model, sequences(policy, name, 8, seed))
            whole.append(torch.cat([p.grad.flatten() for p in last_blocks(policy.model, 4).values()]))
            for key, sketch in tools.items():
                parts[key].append(sketch.sample(policy.model))

    def cosines(found: list[torch.Tensor]) -> list[float]:
        return [float(torch.nn.functional.cosine_similarity(a, b, dim=0)) for a, b in combinations(found, 2)]

    true, errors = cosines(whole), {size: list[float]() for size in SIZES}
    for (size, _), found in parts.items():
        errors[size] += [abs(a - b) for a, b in zip(cosines(found), true, strict=True)]
    return errors, true


def main() -> None:
    """Print the tables and the JSON line."""
    torch.set_num_threads(1)
    policy = HfPolicy(find("nano", Path()))
    figures: dict[str, Any] = cost(policy)
    print(f"step {figures['step_s']:.3f} s, sketch {figures['sketch_s']:.4f} s: {100 * figures['share']:.2f}%\n")
    errors, true = agreement(policy)
    coordinates = sum(p.numel() for p in last_blocks(policy.model, 4).values())
    print(f"{len(true)} pairs, cosines {min(true):.2f} to {max(true):.2f}, {coordinates:,} coordinates in all")
    print("      D  mean error  greatest")
    for size, found in errors.items():
        print(f"{size:7,}  {statistics.fmean(found):10.4f}  {max(found):8.4f}")
    figures["errors"] = {size: [statistics.fmean(found), max(found)] for size, found in errors.items()}
    goal = "the sketch below 1% of the step"
    print(json.dumps({"bench": "sketch", "figures": figures, "goal": goal, "met": figures["share"] < 0.01}))


if __name__ == "__main__":
    main()
