"""conf/ composes, and its parts fit their classes."""

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from clawloop.config.errors import ConfigError
from clawloop.config.folders import data_dir, options
from clawloop.config.parts import check_parts
from clawloop.config.spine import OBJECTIVE, ONE_PART, SEVERAL_PARTS

Composed = tuple[dict[str, Any], dict[str, Any]]
Compose = Callable[..., Composed]
PART_FILES = sorted(path for group in (*ONE_PART, *SEVERAL_PARTS) for path in (data_dir("conf") / group).glob("*.yaml"))


@pytest.mark.parametrize("scale", options("scale"))
@pytest.mark.parametrize("experiment", options("experiment"))
def test_every_experiment_composes_at_every_scale(composed: Compose, experiment: str, scale: str) -> None:
    values, _ = composed(f"+experiment={experiment}", f"scale={scale}")
    assert values["name"] == experiment
    assert values["policy"]["_target_"]
    assert list(values["trainer"]) == (["grpo"] if experiment.startswith("harness") else ["sft", "grpo"])


@pytest.mark.parametrize("path", PART_FILES, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_every_part_fits_its_class(composed: Compose, path: Path) -> None:
    group, name = path.parent.name, path.stem
    choice = f"{group}=[{name}]" if group in SEVERAL_PARTS else f"{group}={name}"
    values, choices = composed("+experiment=main", choice)
    part = values[group][name] if group in SEVERAL_PARTS else values[group]
    empty = {key: {} for key in SEVERAL_PARTS}
    alone = dict.fromkeys(ONE_PART, part) | empty | ({group: {name: part}} if group in SEVERAL_PARTS else {})
    check_parts(alone, dict.fromkeys(ONE_PART, name) | choices)


def test_every_file_of_a_group_of_several_wraps_its_own_name() -> None:
    for group in SEVERAL_PARTS:
        for path in (data_dir("conf") / group).glob("*.yaml"):
            assert list(yaml.safe_load(path.read_text())) == [path.stem], path


def test_the_main_experiment_holds_the_paper_s_table_5(composed: Compose) -> None:
    values, _ = composed("+experiment=main", "scale=paper")
    assert (values["iterations"], values["rollouts"], values["temperature"]) == (3, 8, 1.0)
    assert (values["band"]["low"], values["band"]["high"], values["band"]["rollouts"]) == (1, 5, 8)
    assert (values["candidates"], values["workers"], values["max_tokens"]) == (1024, 32, 65536)
    assert (values["budget"]["turns"], values["budget"]["wall_s"]) == (300, 24 * 3600)
    sft, grpo = values["trainer"]["sft"], values["trainer"]["grpo"]
    table = ("lr", "epochs", "warmup", "weight_decay", "batch_size", "lr_multiplier")
    assert [sft[key] for key in table] == [2e-5, 3, 0.03, 0.1, 128, 1.0]
    assert [grpo[key] for key in table] == [5e-7, 1, 0.05, 0.0, 64, 1.0]
    assert grpo["beta"] == 0.04
    assert values["schedule"]["_target_"].endswith(".Cosine")
    assert values["model"]["source"] == "Qwen/Qwen3.6-27B"


def test_the_harness_experiments_hold_what_their_paper_states(composed: Compose) -> None:
    six = "harness=[openclaw,codex,gemini,opencode,qwen,pi]"
    values, _ = composed("+experiment=harness_bandit", "scale=paper", six)
    grpo, scheduler = values["trainer"]["grpo"], values["scheduler"]
    assert (grpo["lr"], grpo["lr_multiplier"], grpo["beta"]) == (1e-6, 1.0, 0.05)
    kinds = [values[name]["_target_"].rsplit(".", 1)[1] for name in ("schedule", "advantage")]
    assert kinds == ["Constant", "LeaveOneOut"]
    assert (grpo["batch_size"], values["rollouts"], values["source"]["steps"]) == (8 * 8, 8, 150)
    constants = ("alpha", "beta", "tau", "c", "epsilon", "warmup", "window", "dimension", "blocks", "decay")
    assert [scheduler[key] for key in constants] == [0.5, 0.3, 0.3, 0.2, 0.15, 30, 32, 65536, 4, 0.3]
    assert len(values["harness"]) == 6
    for name, count in (("harness_bandit", 4), ("harness_mixed_6", 4), ("harness_mixed_2", 2)):
        values, choices = composed(f"+experiment={name}")
        assert len(values["harness"]) == count
        assert choices["scheduler"] == ("bandit" if name == "harness_bandit" else "mixed")


def test_one_override_is_an_ablation(composed: Compose) -> None:
    values, _ = composed("+experiment=main", "trainer=[sft]", "growth=[]", "trainer.sft.lr=1e-6")
    assert list(values["trainer"]) == ["sft"]
    assert values["trainer"]["sft"]["lr"] == 1e-6
    assert values["growth"] == {}


def test_the_loss_is_chosen_part_by_part(composed: Compose) -> None:
    def objective(*overrides: str) -> dict[str, dict[str, Any]]:
        values, choices = composed(*overrides)
        check_parts(values, choices)
        return {group: values[group] for group in OBJECTIVE}

    main = objective("+experiment=main")
    other = objective("+experiment=main", "advantage=leave_one_out", "clip=higher", "clip.low=0.1")
    assert {group for group in OBJECTIVE if main[group] != other[group]} == {"advantage", "clip"}
    assert other["clip"] == main["clip"] | {"low": 0.1, "high": 0.28}
    assert objective("+experiment=main", "clip.low=0.3")["clip"]["high"] == 0.3
    drgrpo = objective("+experiment=drgrpo")
    assert {group for group in OBJECTIVE if main[group] != drgrpo[group]} == {"advantage", "normalisation", "schedule"}
    assert drgrpo["normalisation"]["length"] == composed("+experiment=drgrpo")[0]["max_tokens"]


def test_the_author_reads_the_folders_of_the_domain_route(composed: Compose) -> None:
    values, _ = composed("+experiment=main", "routine=[capability,domain]", "routine.domain.folders=[my/apiary]")
    assert values["author"]["folders"] == values["routine"]["domain"]["folders"] == ["my/apiary"]
    assert composed("+experiment=main")[0]["author"]["folders"] == []


def test_harnesses_are_chosen_like_the_stages_one_or_several(composed: Compose) -> None:
    assert list(composed("+experiment=main")[0]["harness"]) == ["shell_brief"]
    values, _ = composed("+experiment=main", "harness=[shell,tools]", "harness.tools.max_calls=2", "budget.turns=9")
    assert list(values["harness"]) == ["shell", "tools"]
    assert (values["harness"]["tools"]["max_calls"], values["harness"]["shell"]["max_turns"]) == (2, 9)
    assert list(composed("+experiment=main", "harness=react")[0]["harness"]) == ["react"]


def test_the_order_of_stages_is_the_order_that_was_typed(composed: Compose) -> None:
    assert list(composed("+experiment=main", "trainer=[grpo,sft]")[0]["trainer"]) == ["grpo", "sft"]


def test_a_setting_of_a_part_that_is_not_chosen_is_refused(composed: Compose) -> None:
    with pytest.raises(ConfigError, match=r"trainer\.grpo is set but not chosen: add grpo to trainer"):
        composed("+experiment=main", "trainer=[sft]", "trainer.grpo.lr=1")


class _Part:
    def __init__(self, grader: object, lr: float, steps: int = 1, names: list[str] | None = None) -> None: ...


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"lr": 1e-3, "stepss": 1}, "has no parameter 'stepss'; did you mean 'steps'?"),
        ({"lr": 1e-3, "zzz": 1}, "has no parameter 'zzz'; use one of lr, names, steps."),
        ({"lr": 1e-3, "grader": 1}, "has no parameter 'grader'"),
        ({"lr": "fast"}, "lr='fast' does not suit _Part: expected `float`, got `str`."),
        ({"lr": 1, "names": ["a", 2]}, "names=['a', 2] does not suit _Part: expected `str`, got `int` - at `$[1]`."),
        ({"steps": 2}, "needs a parameter 'lr'; add the line `lr: ...`."),
    ],
)
def test_arguments_that_do_not_fit_are_named(
    arguments: dict[str, object], said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("clawloop.config.parts.resolve_name", lambda name: _Part)
    config = {key: {"_target_": "x", "lr": 1} for key in ONE_PART} | {key: {} for key in SEVERAL_PARTS}
    check_parts(config, {})
    with pytest.raises(ConfigError) as caught:
        check_parts(config | {"trainer": {"sft": {"_target_": "x", **arguments}}}, {})
    assert str(caught.value).startswith("conf/trainer/sft.yaml: ")
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_target_that_is_not_there_is_named() -> None:
    config = {key: {} for key in SEVERAL_PARTS} | {key: {"_target_": "clawloop.nowhere.Part"} for key in ONE_PART}
    with pytest.raises(ConfigError, match=r"conf/author/library\.yaml: _target_ clawloop\.nowhere\.Part cannot"):
        check_parts(config, {"author": "library"})


def test_a_checked_signature_is_that_of_a_class_of_ours() -> None:
    """The handed arguments that the check lets pass are really asked for by some part."""
    from clawloop.config.parts import HANDED

    asked: set[str] = set()
    for path in PART_FILES:
        content = yaml.safe_load(path.read_text())
        target = content.get("_target_") or content.get(path.stem, {}).get("_target_")
        if target:
            from pkgutil import resolve_name

            asked |= set(inspect.signature(resolve_name(target)).parameters)
    assert asked >= HANDED
