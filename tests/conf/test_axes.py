"""An experiment says what is studied, a scale says how big: they never set one key."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from clawloop.config.folders import data_dir, options

EXPERIMENTS, SCALES = options("experiment"), options("scale")


def _leaves(value: object, key: str) -> Iterator[str]:
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from _leaves(inner, f"{key}.{name}" if key else str(name))
    else:
        yield key


def sets(path: Path) -> set[str]:
    """The leaf keys and the groups that a file sets."""
    content = yaml.safe_load(path.read_text())
    chosen = {str(key) for item in content.pop("defaults", []) if isinstance(item, dict) for key in item}
    groups = {f"group {key.removeprefix('override ').lstrip('/')}" for key in chosen}
    return groups | set(_leaves(content, ""))


def _file(group: str, name: str) -> set[str]:
    return sets(data_dir("conf") / group / f"{name}.yaml")


def test_there_are_the_scales_and_the_experiment_of_the_paper() -> None:
    assert {"laptop", "workstation", "paper", "debug"} <= set(SCALES)
    assert "main" in EXPERIMENTS


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("experiment", EXPERIMENTS)
def test_an_experiment_and_a_scale_share_no_key(experiment: str, scale: str) -> None:
    """But for the harness: an experiment about harnesses names them, and goes before the scale."""
    assert _file("experiment", experiment) & _file("scale", scale) <= {"group harness"}
    assert "group harness" not in _file("experiment", "main")


def test_what_a_file_sets_is_seen(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("defaults:\n  - override /model: nano\n  - _self_\nband: {low: 1}\nseed: 2\n")
    assert sets(tmp_path / "a.yaml") == {"group model", "band.low", "seed"}


def test_every_scale_sets_the_same_keys_so_that_none_inherits_a_size_from_another() -> None:
    wanted = {key for key in _file("scale", "laptop") if not key.startswith(("tracker.", "trainer.", "sandbox."))}
    for scale in SCALES:
        assert wanted <= _file("scale", scale), scale


def test_what_the_paper_does_not_state_says_so_with_a_reason() -> None:
    for file, key in [
        ("experiment/main", "held_out"),
        ("clip/symmetric", "low"),
        ("clip/higher", "high"),
        ("advantage/group_relative", "epsilon"),
        ("correction/truncated", "cap"),
    ]:
        lines = (data_dir("conf") / f"{file}.yaml").read_text().splitlines()
        (line,) = [line for line in lines if line.strip().startswith(f"{key}:")]
        assert "not stated in the paper: " in line, line


def test_a_learning_rate_multiplier_has_its_reason_beside_it() -> None:
    for scale in SCALES:
        for line in (data_dir("conf") / "scale" / f"{scale}.yaml").read_text().splitlines():
            assert "lr_multiplier:" not in line or len(line.partition("#")[2]) > 5, (scale, line)
