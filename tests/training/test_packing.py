"""training/packing: whole sequences, shared beginnings once, micro-batches that are full."""

import random
from dataclasses import replace

import pytest
import torch

from clawloop.training.packing import cut, fill, pack
from clawloop.training.sequences import Sequence

CPU = torch.device("cpu")


def sequence(ids: list[int]) -> Sequence:
    """An episode of its own, since no two have the same tokens."""
    return Sequence(str(ids), tuple(ids), (0,) + (1,) * (len(ids) - 1), None)


def family(rng: random.Random, prompts: int, rollouts: int) -> list[Sequence]:
    """Groups: rollouts that share a prompt, some of them a first turn too; then all in random order."""
    made = []
    for _ in range(prompts):
        prompt = [rng.randrange(50) for _ in range(rng.randint(5, 30))]
        turn = prompt + [rng.randrange(50) for _ in range(rng.randint(1, 12))]
        for _ in range(rollouts):
            made.append(sequence(rng.choice([prompt, turn]) + [rng.randrange(50) for _ in range(rng.randint(1, 20))]))
    rng.shuffle(made)
    return made


def test_bins_hold_everything_once_and_no_more_than_their_room() -> None:
    sizes = [9, 3, 7, 7, 2, 1, 5, 30]
    bins = fill(sizes, 12)
    assert sorted(i for group in bins for i in group) == list(range(8))
    assert all(sum(sizes[i] for i in group) <= 12 or group == [7] for group in bins)
    assert len(bins) == 4


def test_bins_are_chosen_by_the_best_fit() -> None:
    assert fill([6, 8, 2, 4], 10) == [[1, 2], [0, 3]]


@pytest.mark.parametrize("seed", range(5))
def test_a_row_holds_every_sequence_whole_and_looks_at_its_own_past_alone(seed: int) -> None:
    batch = family(random.Random(seed), 3, 4)
    packed = pack(batch, [1.0] * len(batch), CPU)
    positions = torch.arange(len(packed.ids_N))
    looks = (positions <= positions[:, None]) & (positions[:, None] < packed.end_N)
    for one, path in zip(batch, packed.path, strict=True):
        assert packed.ids_N[path].tolist() == list(one.ids)
        assert packed.place_N[path].tolist() == list(range(len(one.ids)))
        for t, position in enumerate(path.tolist()):
            assert looks[position].nonzero()[:, 0].tolist() == path[: t + 1].tolist()
    beginnings = {one.ids[:t] for one in batch for t in range(1, len(one.ids) + 1)}
    assert len(packed.ids_N) == len(beginnings)
    for (i, t), column in zip(packed.origin, packed.column_A.tolist(), strict=True):
        assert column == packed.path[i][t - 1]
    assert packed.origin == [(i, t) for i, one in enumerate(batch) for t in range(1, len(one.ids))]


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("room", [40, 90, 200])
def test_micro_batches_hold_every_sequence_once_and_stay_small(seed: int, room: int) -> None:
    batch = [*family(random.Random(seed), 4, 6), sequence(list(range(1000, 1250)))]
    parts = cut(batch, room)
    assert sorted(i for part in parts for i in part) == list(range(len(batch)))
    for part in parts:
        tokens = len(pack([batch[i] for i in part], [1.0] * len(part), CPU).ids_N)
        assert tokens <= room or (part == [len(batch) - 1] and tokens == 250) or len(part) == 1


def test_rollouts_of_a_group_are_kept_together() -> None:
    rng = random.Random(0)
    prompts = [[rng.randrange(50) for _ in range(60)] for _ in range(4)]
    batch = [sequence(prompts[i % 4] + [rng.randrange(50) for _ in range(10)]) for i in range(16)]
    parts = cut(batch, 100)
    assert sorted(sorted(part) for part in parts) == [[i, i + 4, i + 8, i + 12] for i in range(4)]


def test_a_group_too_large_repeats_its_prompt_in_as_few_micro_batches_as_hold_it() -> None:
    rng = random.Random(0)
    prompt = [rng.randrange(50) for _ in range(60)]
    batch = [sequence([*prompt, i, *(rng.randrange(50) for _ in range(19))]) for i in range(10)]
    assert [len(part) for part in cut(batch, 120)] == [3, 3, 3, 1]


def test_hundreds_of_nested_sequences_are_cut_and_packed() -> None:
    ids = list(range(3000))
    batch = [sequence(ids[: 10 * (i + 1)]) for i in range(300)]
    assert [sorted(part) for part in cut(batch, 3000)] == [list(range(300))]
    assert len(pack(batch, [1.0] * 300, CPU).ids_N) == 3000


def test_padded_rows_go_by_length() -> None:
    batch = family(random.Random(1), 5, 4)
    parts = cut(batch, 60, shared=False)
    assert sorted(i for part in parts for i in part) == list(range(20))
    assert all(len(part) * max(len(batch[i].ids) for i in part) <= 60 for part in parts)
    assert len(cut(batch, 10**6, shared=False)) == 1


@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize("room", [1, 60, 120, 10**6])
def test_the_sequences_of_an_episode_stay_in_one_micro_batch(room: int, shared: bool) -> None:
    batch = [replace(one, episode=str(i % 7)) for i, one in enumerate(family(random.Random(2), 4, 5))]
    parts = cut(batch, room, shared)
    assert sorted(i for part in parts for i in part) == list(range(20))
    homes = {name: {n for n, part in enumerate(parts) for i in part if batch[i].episode == name} for name in "0123456"}
    assert all(len(home) == 1 for home in homes.values())
    for part in parts:
        chosen = [batch[i] for i in part]
        width = max(len(one.ids) for one in chosen) * len(part)
        tokens = len(pack(chosen, [1.0] * len(part), CPU).ids_N) if shared else width
        assert tokens <= room or len({one.episode for one in chosen}) == 1
    assert len(cut(batch, 1, shared)) == 7
