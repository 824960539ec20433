"""Forward passes over a batch of whole sequences: cut into micro-batches, with a loss that does not depend on the cut.

With several ranks a batch is this rank's part of the step. Counts are those of all ranks, so that the gradients of the
ranks add up to that of the step.
"""

from collections import Counter
from collections.abc import Callable
from collections.abc import Sequence as Many
from typing import Any

import torch

from clawloop.training import loss
from clawloop.training.attention import takes_trees
from clawloop.training.fit import autocast
from clawloop.training.logprobs import token_logprobs
from clawloop.training.packing import cut, pack
from clawloop.training.ranks import largest, summed
from clawloop.training.source import Sequence

Backward = Callable[[torch.Tensor], None]


def sft(model: Any, batch: Many[Sequence], backward: Backward, *, micro_tokens: int) -> dict[str, float]:
    """Call `backward` with Eq. 1 of each micro-batch, divided by the trained tokens of the step; return its numbers."""
    device = next(model.parameters()).device
    (tokens,) = summed([sum(one.actions for one in batch)], device)
    total = 0.0
    for part in cut(batch, micro_tokens, takes_trees(model)):
        packed = pack([batch[i] for i in part], [1 / tokens] * len(part), device)
        value = loss.sft(token_logprobs(model, packed), packed.weight_A)
        backward(value)
        total += float(value.detach())
    return {"loss": summed([total], device)[0], "tokens": tokens}


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
    episodes, tokens, reward = summed([len(own), own.total(), sum(rewards.values())], device)
    weight = {name: normalisation(count, int(episodes), int(tokens)) for name, count in own.items()}
    sums: Counter[str] = Counter()
    farthest = 0.0
    for part in cut(batch, micro_tokens, takes_trees(model)):
        chosen = [batch[i] for i in part]
        packed = pack(chosen, [weight[one.episode] for one in chosen], device)
        found = loss.grpo(token_logprobs(model, packed, temperature), packed, choices)
        backward(found.loss)
        added = {"loss": found.loss.detach() * tokens, **found.sums}
        sums.update(dict(zip(added, torch.stack(list(added.values())).tolist(), strict=True)))
        farthest = max(farthest, float(found.farthest))
    means = dict(zip(sums, (value / tokens for value in summed(list(sums.values()), device)), strict=True))
    (farthest,) = largest([farthest], device)
    return means | {"drift_max": farthest, "reward": reward / episodes, "tokens": tokens}


@torch.no_grad()
def logprobs(
    model: Any, sequences: Many[Sequence], *, temperature: float, micro_tokens: int, precision: str
) -> list[tuple[float, ...]]:
    """By sequence and position, the log-probability that the model gives each trained token; 0 at the others."""
    device = next(model.parameters()).device
    found = [[0.0] * len(sequence.ids) for sequence in sequences]
    for part in cut(sequences, micro_tokens, takes_trees(model)):
        packed = pack([sequences[i] for i in part], [1.0] * len(part), device)
        with autocast(device, precision):
            values = token_logprobs(model, packed, temperature).tolist()
        for (i, t), value in zip(packed.origin, values, strict=True):
            found[part[i]][t] = value
    return [tuple(values) for values in found]
