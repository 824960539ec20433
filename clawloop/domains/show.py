"""Domains as text: listed, one in full, and the graph of one."""

import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from clawloop.config.errors import AskError
from clawloop.report.printable import printable
from clawloop.synthesis.routine.domain import carried
from clawloop.synthesis.skills.domain import Domain, load, served, shipped
from clawloop.synthesis.skills.graph import dot, tripartite
from clawloop.synthesis.skills.read import Tool


def list_domains(folders: Sequence[str]) -> int:
    """One line a domain, the shipped ones first.

    Raises:
        AskError: a folder is no domain.
    """
    for place in (*shipped(), *served(), *folders):
        domain = opened(place)
        whole = set.intersection(*({*levels} for levels in carried(domain).values()))
        held = "held for the probe" if domain.held else "an MCP server's" if domain.server else "for practice"
        print(
            printable(
                f"{domain.name:<16}  {len(domain.tools):>2} tools  {len(domain.skills)} skills  {held:<18}  "
                f"levels {_levels(sorted(whole))}  {', '.join(skill.name for skill in domain.skills)}"
            )
        )
    return 0


def show(name: str) -> int:
    """Tables, tools and skills of a domain.

    Raises:
        AskError: it is no domain.
    """
    domain = opened(name)
    levels = carried(domain)
    lines = [f"{domain.name}{' (held for the probe)' if domain.held else ''}", f"  {domain.about}", "", "Tables"]
    for table in domain.tables.values():
        lines.append(f"  {table.name}: {', '.join(table.columns)}; found by {', '.join(table.key)}")
    lines += ["", "Skills"]
    if domain.grouping.reason:
        lines.append(f"  grouped by {domain.grouping.by}, not by affinity: {domain.grouping.reason}")
    for skill in domain.skills:
        lines += ["", f"  {skill.name}: tasks of levels {_levels(levels[skill.name])}"]
        for tool in skill.tools:
            lines += _tool(domain, domain.tools[tool])
    print(printable("\n".join(lines)))
    return 0


def graph(name: str, svg: Path | None) -> int:
    """The tripartite graph of a domain, as DOT on stdout or drawn into a file.

    Raises:
        AskError: it is no domain, or Graphviz is not there or fails.
    """
    domain = opened(name)
    text = dot(tripartite(domain.tools.values()), {skill.name: skill.tools for skill in domain.skills})
    if svg is None:
        print(text)
        return 0
    if (program := shutil.which("dot")) is None:
        raise AskError("Graphviz's dot is not installed: apt install graphviz, or leave out --svg for DOT as text.")
    drawn = subprocess.run([program, "-Tsvg"], input=text.encode(), capture_output=True, check=False)
    if drawn.returncode:
        raise AskError(f"{program} failed: {drawn.stderr.decode(errors='replace').strip()[:300]}")
    svg.write_bytes(drawn.stdout)
    print(f"{svg} shows {domain.name}")
    return 0


def opened(name: str) -> Domain:
    """A domain by its name or folder.

    Raises:
        AskError: it is none.
    """
    try:
        return load(name)
    except ValueError as error:
        raise AskError(str(error)) from error


def _tool(domain: Domain, tool: Tool) -> list[str]:
    takes = ", ".join(f"{name}: {kind}" for name, kind in tool.params.items())
    fields = ", ".join(tool.gives) or "what it was handed"
    gives = f"{tool.rows}: rows of {fields}" if tool.rows else fields
    does = f"reads {', '.join(tool.reads) or 'nothing'}; changes {', '.join(tool.writes) or 'nothing'}"
    lines = [f"    {tool.name}({takes}): {tool.about}", f"      gives {gives}; {does}"]
    lines += [f"      refuses: {text}" for text in tool.refusals]
    if claim := domain.claims.get(tool.name):
        lines.append(f"      {', '.join(claim.parts)} by {claim.by}, not read from the code: {claim.reason}")
    return lines


def _levels(levels: Sequence[int]) -> str:
    return " ".join(map(str, levels)) or "none"
