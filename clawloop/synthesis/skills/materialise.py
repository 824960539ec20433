"""A skill as files (paper, 4.1): a command line over a snapshot of the state, a document, and a specification.

The document and the specification are made from what the code does; of its documentation only the sentence that says
what a tool is for is shown, and only to readers of the document.
"""

import ast
import json
from collections.abc import Mapping

from clawloop.synthesis.skills.cluster import Skill
from clawloop.synthesis.skills.domain import Domain
from clawloop.synthesis.skills.observed import text
from clawloop.synthesis.skills.read import Tool, parsed


def specification(tool: Tool) -> dict[str, object]:
    """What a tool is able to do, as its code has it."""
    return {
        "takes": dict(tool.params),
        "gives": list(tool.gives),
        "rows_under": tool.rows or None,
        "reads": list(tool.reads),
        "changes": list(tool.writes),
        "refuses": list(tool.refusals),
    }


def materialise(domain: Domain, skill: Skill) -> Mapping[str, str]:
    """The skill's files by path: skills/<skill>/run.py, SKILL.md and capability.json."""
    folder = f"skills/{skill.name}"
    tools = [domain.tools[name] for name in skill.tools]
    specifications = {tool.name: specification(tool) for tool in tools}
    return {
        f"{folder}/run.py": command_line(domain, tools),
        f"{folder}/SKILL.md": _document(domain, skill, tools),
        f"{folder}/capability.json": json.dumps(specifications, indent=1) + "\n",
    }


def command_line(domain: Domain, tools: list[Tool]) -> str:
    """A program with a command line: the tools, their helpers and what the module defines for all of them, or a client.

    The client starts the domain's MCP server for each call.
    """
    if domain.server:
        shown = {tool.name: domain.server["tools"][tool.name] for tool in tools}
        head = f"SERVER = {dict(domain.server) | {'tools': shown}!r}\n"
        return head + "".join(map(text, ("client.py.txt", "stored.py.txt", "run_served.py.txt")))
    kept = {name for tool in tools for name in (tool.name, *tool.helpers)}
    tree = parsed(domain.code, domain.name)
    parts = [
        ast.get_source_segment(domain.code, node) or ""
        for node in tree.body[1 if ast.get_docstring(tree) else 0 :]
        if not isinstance(node, ast.FunctionDef) or node.name in kept
    ]
    types = {tool.name: dict(tool.params) for tool in tools}
    head = f"TOOLS = {types!r}\n"
    return "\n\n".join([*parts, head]) + text("run.py.txt")


def _document(domain: Domain, skill: Skill, tools: list[Tool]) -> str:
    lines = [line for tool in tools for line in _entry(skill, tool)]
    return (
        text("skill.md.txt")
        .replace("<skill>", skill.name)
        .replace("<about>", domain.about)
        .replace("<state>", _state(domain))
        .replace("<tools>", "\n".join(lines))
    )


def _entry(skill: Skill, tool: Tool) -> list[str]:
    options = "".join(f" --{name} {kind.upper()}" for name, kind in tool.params.items())
    fields = ", ".join(tool.gives) or "what it was handed"
    found = f"{tool.rows}: rows of {fields}" if tool.rows else fields
    kind = f"changes {', '.join(tool.writes)}" if tool.writes else "changes nothing"
    lines = [f"- `python3 skills/{skill.name}/run.py {tool.name}{options}`", f"  {tool.about} Gives {found}; {kind}."]
    return lines + [f"  Refuses: {text}" for text in tool.refusals]


def _state(domain: Domain) -> str:
    """The file that the tools work on, and what it is made from."""
    file = str(domain.server.get("file", "state.db"))
    made = file.rpartition(".")[0] + ".sql"
    return (
        file
        if domain.server.get("form", "sqlite") != "sqlite"
        else f"{file}, which is made from {made} when first used"
    )
