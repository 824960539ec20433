"""The harnesses of a run, each with its boxes and, where it asks for one, a gateway."""

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from clawloop.build.part import asks_for, part
from clawloop.gateway.server import Gateway
from clawloop.harness.by_task import ByTask
from clawloop.harness.command.command import GATEWAY
from clawloop.protocols import Agent, Grader, Harness, Sandboxes
from clawloop.rollout.episode import Episode
from clawloop.sandbox.folder import claim, sweep
from clawloop.types import Rollout, Task

SOCKETS = Path("/var/tmp"), "clawloop-run-"
"""Where the gateways of a run have their sockets."""


def arena(
    chosen: Mapping[str, Any], sandbox: Mapping[str, Any], sandboxes: Sandboxes, closing: ExitStack
) -> tuple[Harness, Sandboxes]:
    """A harness and the boxes of its episodes. One that asks for a gateway gets one, whose socket its boxes see.

    Args:
        chosen: the harness as its yaml has it.
        sandbox: the sandbox as its yaml has it, for boxes of its own.
        sandboxes: opens the boxes of those that need nothing further.
        closing: closes the gateway.

    Raises:
        ValueError: a folder that its boxes must see is not there.
    """
    if not asks_for(chosen, "gateway"):
        return part(chosen), sandboxes
    for place, folder in (chosen.get("mounts") or {}).items():
        if not Path(folder).is_dir():
            raise ValueError(
                f"harness.mounts: {place} must show {folder}, which is not there; run scripts/install_clis.sh."
            )
    sweep(*SOCKETS)
    home, _ = closing.enter_context(claim(*SOCKETS))
    home.chmod(0o755)
    gateway = closing.enter_context(Gateway(part(chosen["format"]), host=None, unix=home / "socket"))
    mounts = {**(sandbox.get("mounts") or {}), **(chosen.get("mounts") or {}), GATEWAY: str(home)}
    limits = {**(sandbox.get("limits") or {}), **(chosen.get("limits") or {})}
    settings = {name: value for name, value in chosen.items() if name != "format"}
    return part(settings, gateway=gateway), part({**sandbox, "mounts": mounts, "limits": limits})


def players(
    config: Mapping[str, Any], sandboxes: Sandboxes, grader: Grader, closing: ExitStack
) -> tuple[ByTask, Callable[..., Rollout]]:
    """What says which harness a task has, and what plays a trial of a task in that one, or in a given `harness`."""
    arenas = {name: arena(one, config["sandbox"], sandboxes, closing) for name, one in config["harness"].items()}
    choice = ByTask({name: harness for name, (harness, _) in arenas.items()})
    reply_s = float(config["budget"]["reply_s"])
    episodes = {h.name: Episode(h, boxes, grader, reply_s=reply_s) for h, boxes in arenas.values()}

    def play(policy: Agent, task: Task, index: int, seed: int, harness: str | None = None) -> Rollout:
        return episodes[harness or choice.of(task.id).name](policy, task, index, seed)

    return choice, play
