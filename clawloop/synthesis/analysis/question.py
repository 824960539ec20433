"""What a model is asked of a domain: to complete what the code does not say, and whether to regroup the skills."""

import json
import re
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from importlib.resources import files
from string import Template
from typing import Any

import yaml

from clawloop.synthesis.analysis.observe import Seen, contradiction
from clawloop.synthesis.dialogue import Judged
from clawloop.synthesis.routine.domain import carrying
from clawloop.synthesis.skills.completion import Claim, read_claims
from clawloop.synthesis.skills.domain import Domain, Sources
from clawloop.synthesis.skills.grouping import Grouping, grouped
from clawloop.synthesis.skills.materialise import specification
from clawloop.types import Message

_BLOCK = re.compile(r"^```(?:ya?ml)[ \t]*\n(.*?)^```[ \t]*$", re.DOTALL | re.MULTILINE)
_LONGEST = 16 << 10  # characters of a block


class Completion:
    """Asks for the graph.yaml of a domain. The reply is read as that file is, and held against what was seen.

    Args:
        sources: of a domain with tools of which the code leaves something open.
        seen: what calls of these tools did.
        system: full.md or brief.md.
    """

    def __init__(self, sources: Sources, seen: Mapping[str, Seen], system: str) -> None:
        self._sources, self._seen = sources, seen
        self._open = {name: tool for name, tool in sources.tools.items() if tool.unknown}
        told = "\n".join(f"- {tool.name}: {', '.join(tool.unknown)}" for tool in self._open.values())
        task = _filled("complete.md", schema=sources.schema.strip(), code=sources.code.strip(), open=told)
        self.opening = (Message("system", _filled(f"complete_{system}")), Message("user", task))
        self.nothing: dict[str, Claim] = {}

    def judge(self, reply: str) -> Judged[dict[str, Claim]]:
        """The fault is reply (not one block), form (it is no graph.yaml for these tools) or seen (calls say other)."""
        text, said = _block(reply)
        if said:
            return Judged(self.nothing, "reply", said)
        try:
            claims = read_claims(_signed(text, each=True), self._open, self._sources.tables, "graph.yaml")
        except ValueError as error:
            return Judged(self.nothing, "form", str(error))
        if left := [name for name in self._open if name not in claims]:
            return Judged(self.nothing, "form", f"{left[0]} is missing.")
        for name, claim in claims.items():
            if said := contradiction(self._open[name], claim, self._seen[name]):
                return Judged(self.nothing, "seen", said)
        return Judged(claims)

    def again(self, said: str) -> Message:
        """The turn that asks for a better block."""
        return Message("user", _filled("repair.md", said=said))


class Regrouping:
    """Shows the skills of a domain with their tools, and asks whether to keep them; a reply of None keeps them.

    Args:
        domain: one whose skills are clusters by affinity.
        system: full.md or brief.md.
    """

    def __init__(self, domain: Domain, system: str) -> None:
        self._domain = domain
        shown = yaml.safe_dump({skill.name: list(skill.tools) for skill in domain.skills}, sort_keys=False)
        tools = "\n".join(f"- {name}: {json.dumps(_abilities(domain, name))}" for name in domain.tools)
        task = _filled("regroup.md", about=domain.about, groups=shown.strip(), tools=tools)
        self.opening = (Message("system", _filled(f"regroup_{system}")), Message("user", task))
        self.nothing: Grouping | None = None

    def judge(self, reply: str) -> Judged[Grouping | None]:
        """The fault is reply (neither `keep` nor one block), or form.

        That is: it is no skills.yaml for these tools, or none of its skills carries tasks of every level.
        """
        if _said(reply).strip().strip(".`\"'").casefold() == "keep":
            return Judged(None)
        text, said = _block(reply)
        if said:
            return Judged(None, "reply", f"{said} To keep the groups, reply with the one word keep.")
        try:
            found = grouped(self._domain.tools, _signed(text, each=False), "skills.yaml")
            carrying(replace(self._domain, grouping=found))
            return Judged(found)
        except ValueError as error:
            return Judged(None, "form", str(error))

    def again(self, said: str) -> Message:
        """The turn that asks for a better reply."""
        return Message("user", _filled("repair.md", said=said))


def _abilities(domain: Domain, name: str) -> dict[str, object]:
    return {part: value for part, value in specification(domain.tools[name]).items() if part != "rows_under"}


def _said(reply: str) -> str:
    return reply.rpartition("</think>")[2].replace("\r\n", "\n")


def _block(reply: str) -> tuple[str, str]:
    """The text of the one block of a reply, or a sentence that says why there is none."""
    blocks = _BLOCK.findall(_said(reply))
    if len(blocks) != 1 or len(blocks[0]) > _LONGEST:
        return "", f"The reply holds {len(blocks)} closed yaml blocks; one of at most {_LONGEST} characters is needed."
    return blocks[0], ""


def _signed(text: str, *, each: bool) -> str:
    """The YAML that a model wrote with `by: model`, in each of its entries or once; as it is where it is no mapping."""
    try:
        value = yaml.safe_load(text)
    except (yaml.YAMLError, ValueError, RecursionError):
        return text  # the reader says what is wrong
    if not isinstance(value, dict):
        return text
    signed: dict[Any, Any] = {**value, "by": "model"}
    if each:
        signed = {name: {**one, "by": "model"} if isinstance(one, dict) else one for name, one in value.items()}
    return yaml.safe_dump(signed, sort_keys=False, allow_unicode=True)


def _filled(name: str, **gaps: str) -> str:
    return Template(_text(name)).substitute(gaps).strip()


@cache
def _text(name: str) -> str:
    return files("clawloop.synthesis.analysis").joinpath(name).read_text()
