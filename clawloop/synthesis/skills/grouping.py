"""Which tools form a skill: clusters by affinity, or what skills.yaml says with a reason (paper, 4.1).

groups:
  visits: [free_times, book_visit]    # a skill's name and its tools; every tool of the domain in one skill
  referrals: [refer_patient]
by: model                             # or person
reason: one sentence
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass

import yaml

from clawloop.synthesis.skills.cluster import Skill, cluster
from clawloop.synthesis.skills.completion import names_in, read_yaml, written_by
from clawloop.synthesis.skills.read import Tool

NAME = "skills.yaml"
_SKILL = re.compile(r"[a-z][a-z0-9_]{0,39}")


@dataclass(frozen=True, slots=True)
class Grouping:
    """The skills of a domain, and who grouped them so; with clusters by affinity the reason is empty."""

    skills: tuple[Skill, ...]
    by: str = "affinity"
    reason: str = ""


def grouped(tools: Mapping[str, Tool], text: str | None, at: str) -> Grouping:
    """The grouping that a skills.yaml (its text) says, or without one that of the clusters.

    Raises:
        ValueError: it is not of the form above, or a tool is in no group, in two, or unknown.
    """
    if text is None:
        return Grouping(cluster(tools))
    value = read_yaml(text, at)
    if set(value) != {"groups", "by", "reason"} or not isinstance(value["groups"], dict) or not value["groups"]:
        raise ValueError(f"{at} must have the keys groups (skills with their tools), by and reason, and no others.")
    seen: dict[str, str] = {}
    for name, given in value["groups"].items():
        if not isinstance(name, str) or not _SKILL.fullmatch(name):
            raise ValueError(f"{at}: {name!r:.60} is no name of a skill; use small letters, digits and _, 40 at most.")
        for tool in names_in(given, f"{at}: {name}"):
            if tool not in tools:
                raise ValueError(f"{at}: {name} has a tool {tool!r:.60} that tools.py does not have.")
            if tool in seen:
                raise ValueError(f"{at}: {tool} is in {seen[tool]} and in {name}; every tool belongs to one skill.")
            seen[tool] = name
        if not given:
            raise ValueError(f"{at}: {name} has no tool; leave it out.")
    if left := [tool for tool in tools if tool not in seen]:
        raise ValueError(f"{at}: {left[0]} is in no group; every tool belongs to one skill.")
    by, reason = written_by(value, at)
    skills = [Skill(name, tuple(tool for tool in tools if seen[tool] == name)) for name in value["groups"]]
    return Grouping(tuple(sorted(skills, key=lambda skill: skill.name)), by, reason)


def dump(grouping: Grouping) -> str:
    """A grouping as the text of a skills.yaml."""
    groups = {skill.name: list(skill.tools) for skill in grouping.skills}
    told = {"groups": groups, "by": grouping.by, "reason": grouping.reason}
    return yaml.safe_dump(told, sort_keys=False, allow_unicode=True)
