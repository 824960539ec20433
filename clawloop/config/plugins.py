"""What Hydra is told: the spine, the resolvers that conf/ uses, and the folder sweeps/ as the group `sweep`."""

from pathlib import Path

from hydra._internal.core_plugins.file_config_source import FileConfigSource
from hydra.core.config_search_path import ConfigSearchPath
from hydra.core.hydra_config import HydraConfig
from hydra.core.object_type import ObjectType
from hydra.core.plugins import Plugins
from hydra.plugins.config_source import ConfigResult
from hydra.plugins.search_path_plugin import SearchPathPlugin
from hydra.types import RunMode
from omegaconf import OmegaConf

from clawloop.config.errors import ConfigError
from clawloop.config.folders import data_dir
from clawloop.config.spine import register as register_spine


class SweepSource(FileConfigSource):
    """The folder sweeps/, seen as the config group `sweep`."""

    @staticmethod
    def scheme() -> str:
        """The start of its paths: sweeps://."""
        return "sweeps"

    def load_config(self, config_path: str) -> ConfigResult:
        """Read sweep/NAME from sweeps/NAME.yaml."""
        return super().load_config(config_path.removeprefix("sweep/"))

    def is_config(self, config_path: str) -> bool:
        """Whether it is sweep/NAME with a file of that name."""
        return config_path.startswith("sweep/") and super().is_config(config_path.removeprefix("sweep/"))

    def is_group(self, config_path: str) -> bool:
        """Whether it is the group itself, or its parent."""
        return config_path in ("", "sweep")

    def list(self, config_path: str, results_filter: ObjectType | None) -> list[str]:
        """The names in a group."""
        if config_path == "":
            return ["sweep"] if results_filter is not ObjectType.CONFIG else []
        if config_path != "sweep" or results_filter is ObjectType.GROUP:
            return []
        return sorted(path.stem for path in Path(self.path).glob("*.yaml"))


class SweepSearchPath(SearchPathPlugin):
    """Puts sweeps/ on Hydra's search path."""

    def manipulate_search_path(self, search_path: ConfigSearchPath) -> None:
        """Append it, so that conf/ comes first."""
        search_path.append(provider="clawloop", path=f"sweeps://{data_dir('sweeps')}")


def run_dir(resume: str | None, fresh: str) -> str:
    """The folder of a run: the one to resume, or a fresh one.

    Raises:
        ConfigError: there is nothing to resume.
    """
    if resume and not Path(resume).is_dir():
        raise ConfigError(
            f"resume={resume}: there is no such folder; give that of a run, such as outputs/main/<date_time>."
        )
    return resume or fresh


def sweep_group() -> str | None:
    """The name that all cells of one multirun share (its last two folders), or None in a single run."""
    if not HydraConfig.initialized() or HydraConfig.get().mode is not RunMode.MULTIRUN:
        return None
    return "/".join(Path(HydraConfig.get().sweep.dir).parts[-2:])


def register() -> None:
    """Make the spine, the resolvers and sweeps/ known to Hydra. Calling it again changes nothing."""
    register_spine()
    OmegaConf.register_new_resolver("run_dir", run_dir, replace=True)
    OmegaConf.register_new_resolver("sweep_group", sweep_group, replace=True)
    Plugins.instance().register(SweepSource)
    Plugins.instance().register(SweepSearchPath)
