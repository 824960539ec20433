"""In which order a stage passes over its episodes."""

from operator import attrgetter

import pytest

from clawloop.training.fit import Epochs
from clawloop.training.sequences import Sequence


def rollouts(tasks: int, each: int) -> list[Sequence]:
    """Two sequences a rollout; those of a task lie far apart."""
    return [
        Sequence(f"{task}#{j}.{branch}", (1, 2), (0, 1), None, episode=f"{task}#{j}", group=str(task))
        for j in range(each)
        for task in range(tasks)
        for branch in range(2)
    ]


def test_an_epoch_holds_every_sequence_once_and_an_episode_whole():
    sequences = rollouts(5, 3)
    batches = list(Epochs(sequences, 4, 2, "0"))
    assert len(batches) == len(Epochs(sequences, 4, 2, "0")) == 8
    for epoch in (batches[:4], batches[4:]):
        assert sorted(one.name for batch in epoch for one in batch) == sorted(one.name for one in sequences)
        assert [len({one.episode for one in batch}) for batch in epoch] == [4, 4, 4, 3]
        assert all(len(batch) == 2 * len({one.episode for one in batch}) for batch in epoch)
    assert batches[:4] != batches[4:]


def test_groups_stay_whole_but_at_the_end_of_a_batch():
    sequences = rollouts(9, 8)[:-4]  # two rollouts of the last task were left out
    apart = Epochs(sequences, 16, 1, "0")
    together = Epochs(sequences, 16, 1, "0", attrgetter("group"))
    assert len(together) == len(apart) == 5
    batches = list(together)
    assert [len({one.episode for one in batch}) for batch in batches] == [16, 16, 16, 16, 6]
    whole = [{one.group for one in batch} for batch in batches]
    assert sum(map(len, whole)) <= 9 + len(batches) - 1
    assert all(len({one.group for one in batch}) > 3 for batch in list(apart)[:-1])


@pytest.mark.parametrize("neighbours", ["episode", "group"])
def test_the_order_follows_from_the_seed_alone(neighbours: str):
    orders = [list(Epochs(rollouts(6, 4), 8, 2, seed, attrgetter(neighbours))) for seed in ("0", "0", "1")]
    assert orders[0] == orders[1] != orders[2]
