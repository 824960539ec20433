"""Composing configs in this process."""

from collections.abc import Callable
from typing import Any

import pytest
from hydra import compose, initialize_config_dir
from hydra.core.global_hydra import GlobalHydra
from omegaconf import DictConfig, OmegaConf

from clawloop.config.folders import data_dir
from clawloop.config.parts import plain
from clawloop.config.plugins import register

Composed = tuple[dict[str, Any], dict[str, Any]]


def compose_raw(*overrides: str) -> DictConfig:
    register()
    GlobalHydra.instance().clear()
    with initialize_config_dir(config_dir=str(data_dir("conf")), version_base="1.3"):
        return compose("config", overrides=list(overrides), return_hydra_config=True)


@pytest.fixture(scope="session")
def composed() -> Callable[..., Composed]:
    """From overrides to (plain values, chosen file of each group)."""

    def run(*overrides: str) -> Composed:
        config = compose_raw(*overrides)
        choices = dict(config.hydra.runtime.choices)
        bare = OmegaConf.masked_copy(config, [key for key in config if key != "hydra"])
        return plain(bare, overrides), choices

    return run
