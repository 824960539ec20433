"""Finding out what the tools of an MCP server do, and keeping it in the domain's folder."""

from collections.abc import Sequence
from pathlib import Path

from clawloop.build.part import part
from clawloop.config.composed import composed
from clawloop.config.errors import AskError
from clawloop.domains.show import show
from clawloop.report.printable import printable
from clawloop.synthesis.skills.domain import place
from clawloop.synthesis.skills.observe import observe as observed


def observe(name: str, overrides: Sequence[str]) -> int:
    """Call the server's tools in a box, write observed.json into the folder, and print what was seen.

    Args:
        name: of a domain that comes with the project, or a folder of your own.
        overrides: of conf/, for the sandbox and its mounts.

    Raises:
        AskError: the folder is no domain of an MCP server.
        ObservationError: the server broke or is not what server.yaml says.
    """
    folder = Path(place(name))
    try:
        seen = observed(folder, part(composed(overrides)["sandbox"]))
    except ValueError as error:
        raise AskError(str(error)) from error
    for tool, why in seen.left_out.items():
        print(printable(f"left out: {tool}: {why}"))
    print(f"the running server {'sees' if seen.rereads else 'does not see'} a state that is put back under it\n")
    return show(str(folder))
