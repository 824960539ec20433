"""The admission band and the split by lineage."""

from collections.abc import Callable
from itertools import product

import pytest

from clawloop.types import RolloutGroup, TaskPool
from clawloop.validation.band import Band, Sequential
from clawloop.validation.split import Split

Group = Callable[..., RolloutGroup]


@pytest.mark.parametrize(
    ("rewards", "admitted"),
    [
        ("00000000", False),
        ("10000000", True),
        ("11111000", True),
        ("11111100", False),
        ("11111111", False),
        ("1000000?", True),
        ("1111?000", True),
        ("11111?00", False),
        ("0000000?", False),
        ("????????", False),
    ],
)
def test_the_band(group: Group, rewards: str, admitted: bool) -> None:
    assert (len(Band(1, 5, 8)((group("t", rewards),), 1).groups) == 1) is admitted


def test_the_band_keeps_order_and_trials(group: Group) -> None:
    groups = (group("b", "1000"), group("a", "0000"), group("c", "0100"))
    assert Band(1, 3, 4)(groups, 1) == TaskPool((groups[0], groups[2]))


def test_a_band_without_signal_is_refused(group: Group) -> None:
    for low, high in ((0, 5), (3, 2)):
        with pytest.raises(ValueError, match="0 < low <= high"):
            Band(low, high, 8)
    with pytest.raises(ValueError, match="below the 5 rollouts"):
        Band(1, 5, rollouts=5)


@pytest.mark.parametrize(("low", "high", "n"), [(1, 5, 8), (2, 3, 5), (3, 4, 5), (1, 1, 4)])
def test_sequential_ends_a_task_just_when_no_outcome_could_admit_it(group: Group, low: int, high: int, n: int) -> None:
    full, sequential = Band(low, high, n), Sequential(low, high, n)
    marks = {1.0: "1", 0.0: "0", None: "?"}
    for rewards in product(marks, repeat=n):
        played = next(j for j in range(n + 1) if sequential.wanted(rewards[:j]) == 0)
        groups = [(group("t", "".join(marks[r] for r in rewards[:j])),) for j in (played, n)]
        assert len(sequential(groups[0], 1).groups) == len(full(groups[1], 1).groups)
        assert played == n or not full(groups[1], 1).groups
        if played:
            start = rewards[: played - 1]
            rest = product(marks, repeat=n - len(start))
            assert any(full((group("t", "".join(marks[r] for r in (*start, *end))),), 1).groups for end in rest)


@pytest.mark.parametrize(("low", "high", "n"), [(1, 5, 8), (2, 3, 5), (3, 4, 5)])
def test_trials_that_run_at_once_are_never_in_vain(low: int, high: int, n: int) -> None:
    sequential = Sequential(low, high, n)
    for rewards in product((1.0, 0.0, None), repeat=n):
        for done in range(n):
            if (at_once := sequential.wanted(rewards[:done])) > 1:
                assert all(sequential.wanted(rewards[: done + j]) > 0 for j in range(at_once))


def pool(group: Group, lineages: dict[str, int], capability: dict[str, str] | None = None) -> TaskPool:
    return TaskPool(
        tuple(
            group(f"{lineage}-{i}", "10", lineage, (capability or {}).get(lineage, "sum"))
            for i in range(3)
            for lineage, size in lineages.items()
            if i < size
        )
    )


def ids(side: TaskPool) -> list[str]:
    return [task.id for task in side.tasks]


@pytest.mark.parametrize("count", [0, 1, 2, 3, 5, 8, 40])
@pytest.mark.parametrize("share", [0.01, 0.25, 0.5, 0.99])
def test_sides_are_disjoint_exhaustive_and_whole(group: Group, count: int, share: float) -> None:
    given = pool(group, {f"s{i:02}": 1 + i % 3 for i in range(count)}, {f"s{i:02}": "abc"[i % 3] for i in range(count)})
    practice, held_out = Split(share, seed=3)(given, 1)
    assert sorted(ids(practice) + ids(held_out)) == sorted(ids(given))
    assert ids(practice) == [name for name in ids(given) if name in set(ids(practice))]
    left, right = ({task.card.lineage for task in side.tasks} for side in (practice, held_out))
    assert not left & right
    assert len(right) == (0 if count < 2 else min(max(round(share * count), 1), count - 1))


def test_each_capability_gives_its_share(group: Group) -> None:
    lineages = {f"{name}{i}": 1 for name in "abc" for i in range(8)}
    given = pool(group, lineages, {lineage: lineage[0] for lineage in lineages})
    for k in range(1, 6):
        held_out = Split(0.25)(given, k)[1]
        assert sorted(task.card.capability for task in held_out.tasks) == ["a", "a", "b", "b", "c", "c"]


def test_the_draw_depends_on_seed_and_iteration_alone(group: Group) -> None:
    given = pool(group, {f"s{i:02}": 1 for i in range(20)})
    drawn = {tuple(ids(Split(seed=seed)(given, k)[1])) for seed in (0, 1) for k in (1, 2)}
    assert len(drawn) == 4
    backwards = TaskPool(given.groups[::-1])
    assert set(ids(Split()(given, 1)[1])) == set(ids(Split()(backwards, 1)[1]))


def test_a_share_is_a_share() -> None:
    for share in (0.0, 1.0, -1.0):
        with pytest.raises(ValueError, match="between 0 and 1"):
            Split(share)
