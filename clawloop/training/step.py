"""Forward passes over a batch of whole sequences: cut into micro-batches, with a loss that does not depend on the cut.

Each rank has the whole batch and its share of the micro-batches, so that the gradients of the ranks add up to that of
the step; the numbers are those of the step.

Shapes: A trained tokens of a micro-batch.
"""

from collections import Counter
from collections.abc import Callable
from collections.abc import Sequence as Many
from typing import Any

import torch

from clawloop.training import loss, ranks
from clawloop.training.attention import takes_trees
from clawloop.training.fit import autocast
from clawloop.training.logprobs import logprobs_and_entropy, token_logprobs
from clawloop.training.packing import cut, pack
from clawloop.training.sequences import Sequence

Backward = Callable[[torch.Tensor], None]


def sft(model: Any, batch: Many[Sequence], backward: Backward, *, micro_tokens: int) -> dict[str, float]:
    """Call `backward` with Eq. 1 of each micro-batch, divided by the trained tokens of the step; return its numbers."""
    device = next(model.parameters()).device
    tokens = sum(one.actions for one in batch)
    total = 0.0
    for part, share in ranks.share(cut(batch, micro_tokens, takes_trees(model))):
        packed = pack([batch[i] for i in part], [share / tokens] * len(part), device)
        value = loss.sft(token_logprobs(model, packed), packed.weight_A)
        backward(value)
        total += float(value.detach())
    return ranks.add({"loss": total}) | {"tokens": float(tokens)}


def grpo(
    model: Any,
    batch: Many[Sequence],
    backward: Backward,
    choices: loss.Choices,
    normalisation: Callable[[int, int, int], float],
    *,
    temperature: float,
    micro_tokens: int,
) -> dict[str, float]:
    """Call `backward` with the loss of each micro-batch, and return the loss of the step and means over its tokens."""
    device = next(model.parameters()).device
    own: Counter[str] = Counter()
    for one in batch:
        own[one.episode] += one.actions
    rewards = {one.episode: one.reward for one in batch}
    tokens = own.total()
    weight = {name: normalisation(count, len(own), tokens) for name, count in own.items()}
    sums: Counter[str] = Counter()
    farthest = 0.0
    for part, share in ranks.share(cut(batch, micro_tokens, takes_trees(model))):
        chosen = [batch[i] for i in part]
        packed = pack(chosen, [share * weight[one.episode] for one in chosen], device)
        logprobs_A, entropy_A = logprobs_and_entropy(model, packed, temperature)
        found = loss.grpo(logprobs_A, packed, choices)
        backward(found.loss)
        added = {"loss": found.loss.detach() * tokens, "entropy": entropy_A.sum(), **found.sums}
        sums.update(dict(zip(added, (share * torch.stack(list(added.values()))).tolist(), strict=True)))
        farthest = max(farthest, float(found.farthest))
    means = {name: value / tokens for name, value in ranks.add(sums).items()}
    reward = sum(rewards.values()) / len(own)
    return means | {"drift_max": max(ranks.gather([farthest])), "reward": reward, "tokens": float(tokens)}


@torch.no_grad()
def logprobs(
    model: Any, sequences: Many[Sequence], *, temperature: float, micro_tokens: int, precision: str
) -> list[tuple[float, ...]]:
    """By sequence and position, the log-probability that the model gives each trained token; 0 at the others."""
    device = next(model.parameters()).device
    found = [[0.0] * len(sequence.ids) for sequence in sequences]
    mine: list[tuple[int, int, float]] = []
    for part, share in ranks.share(cut(sequences, micro_tokens, takes_trees(model))):
        packed = pack([sequences[i] for i in part], [1.0] * len(part), device)
        with autocast(device, precision):
            values = token_logprobs(model, packed, temperature).tolist()
        if share:
            mine += [(part[i], t, value) for (i, t), value in zip(packed.origin, values, strict=True)]
    for i, t, value in ranks.gather(mine):
        found[i][t] = value
    return [tuple(values) for values in found]
