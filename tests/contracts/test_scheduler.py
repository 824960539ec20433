"""Every part of conf/scheduler: it names harnesses that there are, by its state and the step alone."""

import io
import random
from typing import Any

import pytest
import torch
import yaml

from clawloop.build.part import part
from clawloop.config.folders import data_dir, options
from clawloop.protocols import Scheduler
from clawloop.types import StepSignal

NAMES = ("shell", "tools", "xml", "react")


@pytest.fixture(params=options("scheduler"))
def make(request: pytest.FixtureRequest) -> Any:
    settings = yaml.safe_load((data_dir("conf") / "scheduler" / f"{request.param}.yaml").read_text())
    return lambda seed=0: part(settings, harnesses=NAMES, seed=seed)


def advance(scheduler: Scheduler, steps: range, k: int = 1) -> list[tuple[str, ...]]:
    """Choose and observe, with signals that depend on the step and the choice."""
    chosen = []
    for step in steps:
        names = scheduler.choose(k, step)
        chance = random.Random(f"{step}/{names}")
        cosines = {name: chance.uniform(-1, 1) for name in NAMES if name not in names} if scheduler.sketch else {}
        numbers = scheduler.observe(StepSignal(names or NAMES[:2], chance.random(), cosines))
        assert all(isinstance(value, float) for value in numbers.values())
        chosen.append(names)
    return chosen


def test_it_chooses_among_the_harnesses_each_at_most_once(make: Any) -> None:
    for names in advance(make(), range(1, 80)):
        assert set(names) <= set(NAMES) and len(set(names)) == len(names)


def test_to_choose_changes_nothing(make: Any) -> None:
    one, other = make(), make()
    for step in range(1, 70):
        assert one.choose(1, step) == one.choose(1, step)
        assert advance(one, range(step, step + 1)) == advance(other, range(step, step + 1))


@pytest.mark.parametrize("stop", [0, 1, 17, 31, 60])
def test_a_stop_at_any_step_goes_on_with_the_same_choices(make: Any, stop: int) -> None:
    whole = advance(make(), range(1, 100))
    first, second = make(), make()
    before = advance(first, range(1, stop + 1))
    kept = io.BytesIO()
    torch.save(first.state_dict(), kept)
    kept.seek(0)
    second.load_state_dict(torch.load(kept, weights_only=True))
    assert before + advance(second, range(stop + 1, 100)) == whole
    advance(first, range(stop + 1, 100))
    assert repr(first.state_dict()) == repr(second.state_dict())


def test_chance_comes_from_no_global_state(make: Any) -> None:
    random.seed(1)
    one = advance(make(), range(1, 60))
    random.seed(2)
    state = random.getstate()
    assert advance(make(), range(1, 60)) == one
    assert random.getstate() == state
