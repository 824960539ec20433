"""A checked config without a run: for commands that need some of its parts."""

from collections.abc import Sequence
from typing import Any

from hydra import compose, initialize_config_dir
from hydra.core.global_hydra import GlobalHydra
from hydra.errors import HydraException
from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException
from yaml import YAMLError

from clawloop.config.errors import ConfigError, sentence
from clawloop.config.folders import data_dir
from clawloop.config.parts import check_parts, plain
from clawloop.config.plugins import register


def composed(overrides: Sequence[str] = ()) -> dict[str, Any]:
    """The plain values of conf/ with these overrides; the experiment is main where they name none.

    Raises:
        ConfigError: something in the overrides or in conf/ cannot be; in one sentence.
    """
    named = any(override.lstrip("+~").startswith("experiment=") for override in overrides)
    given = [*([] if named else ["+experiment=main"]), *overrides]
    try:
        values, choices = chosen(given)
    except (HydraException, OmegaConfBaseException, YAMLError) as error:
        raise ConfigError(sentence(error) or str(error)) from error
    check_parts(values, choices)
    return values


def chosen(overrides: Sequence[str]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The plain values of conf/ with these overrides, and the chosen file of each group; parts are not looked at.

    Raises:
        ConfigError: as `parts.plain`. The errors of Hydra, OmegaConf and YAML, for `errors.sentence`.
    """
    register()
    GlobalHydra.instance().clear()
    with initialize_config_dir(config_dir=str(data_dir("conf")), version_base="1.3"):
        config = compose("config", overrides=list(overrides), return_hydra_config=True)
    bare = OmegaConf.masked_copy(config, [str(key) for key in config if key != "hydra"])
    return plain(bare, tuple(overrides)), dict(config.hydra.runtime.choices)
