"""From the words of the command line to what `clawloop domains` does; each command returns its exit code."""

from collections.abc import Sequence
from pathlib import Path

from clawloop.config.ended import ended
from clawloop.config.errors import AskError
from clawloop.domains import show
from clawloop.protocols import InfrastructureError
from clawloop.synthesis.skills.observe import ObservationError

_USAGE = (
    "clawloop domains takes one of: list [FOLDER ...]; show NAME; graph NAME [--svg FILE]; "
    "ask NAME [--into FOLDER] [override ...]; observe NAME [override ...]; "
    "NAME is that of a shipped domain, or a folder of your own."
)
_OPTIONS = {"graph": "--svg", "ask": "--into"}


def domains(words: Sequence[str]) -> tuple[int, str]:
    """Do what the words say.

    Returns:
        The exit code and what is to be said on stderr: 0; 1 where the model's replies were refused, or something broke;
        2 with one sentence where the words or what they name are wrong.
    """
    return ended(lambda: _do(words), broken=(InfrastructureError, ObservationError))


def _do(words: Sequence[str]) -> int:
    command, named, value = words[0] if words else "", list(words[1:]), None
    if (option := _OPTIONS.get(command)) in named:
        at = named.index(str(option))
        if at + 1 == len(named) or named[at + 1].startswith("--"):
            raise AskError(f"clawloop domains {command} {option} needs a path; {_USAGE}")
        _, value = named.pop(at), Path(named.pop(at))
    if unknown := [word for word in named if word.startswith("--")]:
        raise AskError(f"clawloop domains {command} has no option {unknown[0]}; {_USAGE}")
    match command, named:
        case "list", folders:
            return show.list_domains(folders)
        case "show", [name]:
            return show.show(name)
        case "graph", [name]:
            return show.graph(name, value)
        case "ask", [name, *overrides]:
            from clawloop.domains import ask  # slow: what builds parts imports all of them

            return ask.ask(name, value, overrides)
        case "observe", [name, *overrides]:
            from clawloop.domains import observe  # slow too

            return observe.observe(name, overrides)
    raise AskError(_USAGE)
