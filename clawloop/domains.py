"""`clawloop domain`: what the tools of an MCP server do, found out and kept, and what a domain carries."""

from collections.abc import Sequence
from pathlib import Path

from clawloop.config.errors import ConfigError
from clawloop.protocols import InfrastructureError

_USAGE = "clawloop domain takes one of: observe FOLDER [override ...]; show FOLDER."


def domain(words: Sequence[str]) -> tuple[int, str]:
    """Do what the words say.

    Returns:
        The exit code and what is to be said on stderr: 0; 1 where the server or a box broke; 2 where the words or what
        they name are wrong.
    """
    from clawloop.synthesis.skills.observe import ObservationError  # slow, as what builds parts

    try:
        match list(words):
            case ["observe", folder, *overrides] if not folder.startswith("-"):
                _observe(folder, overrides)
            case ["show", folder] if not folder.startswith("-"):
                _show(folder)
            case _:
                return 2, _USAGE
    except (ObservationError, InfrastructureError) as error:
        return 1, str(error)
    except (ValueError, ConfigError) as error:
        return 2, str(error)
    return 0, ""


def _observe(folder: str, overrides: Sequence[str]) -> None:
    from clawloop.build import part
    from clawloop.config.composed import composed
    from clawloop.synthesis.skills.domain import place
    from clawloop.synthesis.skills.observe import observe

    at = Path(place(folder))
    seen = observe(at, part(composed(overrides)["sandbox"]))
    for tool in seen.tools:
        does = f"changes {', '.join(tool.writes)}" if tool.writes else "changes nothing"
        rows = f"rows of {', '.join(tool.gives)}" if tool.rows else ", ".join(tool.gives) or "nothing"
        print(
            f"{tool.name}({', '.join(tool.params)}): gives {rows}; reads {', '.join(tool.reads) or 'nothing'}; {does}"
        )
    for name, why in seen.left_out.items():
        print(f"left out: {name}: {why}")
    print(f"the running server {'sees' if seen.rereads else 'does not see'} a state that is put back under it")
    _show(folder)


def _show(folder: str) -> None:
    from clawloop.synthesis.routine.domain import carried
    from clawloop.synthesis.skills.cluster import cluster
    from clawloop.synthesis.skills.domain import load, place

    known = load(place(folder))
    for skill in cluster(known.tools):
        levels = ", ".join(map(str, carried(known, skill))) or "none"
        print(f"skill {skill.name}: {', '.join(skill.tools)}; carries levels {levels}")
