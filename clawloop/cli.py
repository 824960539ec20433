"""The command line: compose a config, print the plan, run, close."""

import json
import logging
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

import hydra
from hydra.core.hydra_config import HydraConfig
from hydra.experimental.callback import Callback
from hydra.types import RunMode
from omegaconf import DictConfig

from clawloop.config.errors import ConfigError, sentence
from clawloop.config.folders import data_dir
from clawloop.config.parts import check_parts, plain
from clawloop.config.plugins import register
from clawloop.protocols import InfrastructureError

_log = logging.getLogger(__name__)


def main() -> None:
    """Run an experiment, print the report of a folder, show and check tasks, or examine domains and sandboxes.

    Exit codes: 0, 2 where the config is wrong, 1 where the run or a cell of a sweep failed, 130 after Ctrl-C.
    """
    match sys.argv[1:]:
        case ["report", folder] if not folder.startswith("-"):
            _report(Path(folder))
        case ["report", *_]:
            _end(2, "clawloop report needs one folder: that of a run or of a sweep, such as outputs/main/<date_time>.")
        case ["tasks", *words]:
            from clawloop.tasks.command import tasks

            _command(tasks, words)
        case ["domains", *words]:
            from clawloop.domains.command import domains

            _command(domains, words)
        case ["doctor"]:
            from clawloop.doctor.command import doctor

            _command(lambda _: (doctor(), ""), [])
        case _:
            _experiment()


def _experiment() -> None:
    os.environ["HYDRA_FULL_ERROR"] = "1"  # so that Hydra hands its errors on
    register()
    start = hydra.main(version_base="1.3", config_path=str(data_dir("conf")), config_name="config")(_task)
    try:
        start()
    except KeyboardInterrupt:
        _end(130, "Interrupted.")
    except Exception as error:  # the boundary where errors become sentences; the others go on
        text = sentence(error)
        if text is None:
            raise
        _end(2, text)


def _task(config: DictConfig) -> None:
    """One run. A failed cell of a sweep is written down, and leaves the others alone."""
    settings = HydraConfig.get()
    folder = Path(settings.runtime.output_dir)
    try:
        _run(config, folder)
    except KeyboardInterrupt:
        _end(130, f"Interrupted; the same command with resume={_short(folder)} goes on.")
    except (InfrastructureError, FloatingPointError) as error:
        _failed(error, folder, settings.mode, 1)
    except Exception as error:  # the boundary of one run
        _failed(error, folder, settings.mode, 2)


def _run(config: DictConfig, folder: Path) -> None:
    settings = HydraConfig.get()
    values = plain(config, tuple(settings.overrides.task))
    check_parts(values, settings.runtime.choices)

    from clawloop.build.run import build

    try:
        built = build(values, folder)
    except ValueError as error:
        raise ConfigError(str(error)) from error
    exit_code = 1
    try:
        print(*built.plan, sep="\n", flush=True)
        built.run()
        exit_code = 0
    except InfrastructureError as error:
        said = str(error).rstrip(".")
        raise InfrastructureError(f"{said}. The same command with resume={_short(folder)} goes on.") from error
    except KeyboardInterrupt:
        exit_code = 130
        raise
    finally:
        built.close(exit_code)


def _failed(error: Exception, folder: Path, mode: RunMode | None, exit_code: int) -> None:
    text = str(error) if isinstance(error, InfrastructureError | FloatingPointError) else sentence(error)
    if mode is not RunMode.MULTIRUN:
        if text is None:
            raise error
        _end(exit_code, text)
    if text is None:
        _log.exception("%s failed", folder)
    _write_status(folder, "failed", text or f"{type(error).__name__}: {error}")


def _write_status(folder: Path, status: str, reason: str) -> None:
    from clawloop.store.layout import Layout

    Layout(folder).status.write_text(json.dumps({"status": status, "reason": reason}) + "\n", encoding="utf-8")


def _report(folder: Path) -> None:
    from clawloop.report.tables import compare, show
    from clawloop.store.layout import Layout

    try:
        print(show(folder) if Layout(folder).summary.is_file() else compare(folder))
    except FileNotFoundError as error:
        _end(2, f"{error}.")


def _command(run: Callable[[list[str]], tuple[int, str]], words: list[str]) -> NoReturn:
    try:
        ended = run(words)
    except KeyboardInterrupt:
        ended = 130, "Interrupted."
    _end(*ended)


class Comparison(Callback):
    """Prints the table over all cells when a sweep has ended, and ends with exit code 1 where one of them failed."""

    def on_multirun_end(self, config: DictConfig, **kwargs: Any) -> None:
        """Read what the cells left behind."""
        from clawloop.report.tables import compare
        from clawloop.store.layout import Layout

        folder = Path(config.hydra.sweep.dir)
        print(compare(folder))
        if any(
            json.loads(path.read_text())["status"] == "failed"
            for path in folder.glob(f"*/{Layout(folder).status.name}")
        ):
            raise SystemExit(1)


def _short(folder: Path) -> str:
    here = Path.cwd()
    return str(folder.relative_to(here)) if folder.is_relative_to(here) else str(folder)


def _end(exit_code: int, text: str) -> NoReturn:
    if text:
        print(" ".join(text.split()), file=sys.stderr)
    raise SystemExit(exit_code)
