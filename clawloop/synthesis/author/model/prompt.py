"""What the author is asked: the card and the report, set into files of text."""

import json
from functools import cache
from importlib.resources import files
from string import Template
from typing import Any

from clawloop.synthesis.author.model.reading import MODULES
from clawloop.synthesis.lexicon import vocabulary
from clawloop.types import Card, DiagnosisReport, Message

_PATTERNS, _CHARACTERS = 5, 300  # of a report: the most patterns that are told, and the most of each text


@cache
def text(name: str) -> str:
    """A file that lies beside this module."""
    return files("clawloop.synthesis.author.model").joinpath(name).read_text()


@cache
def _guide() -> dict[str, Any]:
    guide: dict[str, Any] = json.loads(text("guide.json"))
    return guide


def opening(card: Card, report: DiagnosisReport, system: str) -> tuple[Message, ...]:
    """The messages that ask for a card's generator.

    Raises:
        ValueError: there is no such domain.
    """
    guide = _guide()
    pattern, _, track = card.capability.partition("/")
    task = Template(text("task.md")).substitute(
        capability=card.capability,
        pattern=guide["pattern"].get(pattern, ""),
        track=guide["track"].get(track, ""),
        domain=card.domain,
        words=_words(card.domain),
        level=card.level,
        demand=guide["level"][min(card.level, len(guide["level"]) - 1)],
        form=guide["form"].get(card.form, card.form),
        growth=" ".join(guide["growth"].get(name, name) for name in card.growth),
        report="\n".join(weaknesses(card.capability, report)),
    )
    example = text("grown.py.txt" if card.growth else "example.py.txt").strip()
    rules = Template(text(system)).safe_substitute(modules=", ".join(MODULES), example=example)
    return Message("system", rules.strip()), Message("user", task.strip())


def repair(said: str) -> Message:
    """The turn that asks for a better program."""
    return Message("user", Template(text("repair.md")).substitute(said=said).strip())


def weaknesses(capability: str, report: DiagnosisReport) -> list[str]:
    """What F_{k-1} knows of a capability: how it does at its level, and its commonest failures first."""
    lines, words = [], _guide()["report"]
    known = report.proficiency.get(capability)
    if known is not None and known.trials:
        lines.append(Template(words["tried"]).substitute(level=known.level, passes=known.passes, trials=known.trials))
    own = sorted((p for p in report.patterns if p.capability == capability), key=lambda p: -p.count)
    for pattern in own[:_PATTERNS]:
        lines.append(
            Template(words["pattern"]).substitute(
                count=pattern.count,
                cause=pattern.root_cause.value,
                missing=pattern.missing_capability[:_CHARACTERS],
                example=pattern.example[:_CHARACTERS],
            )
        )
    return lines or [words["none"]]


def _words(domain: str) -> str:
    known, guide = vocabulary(domain), _guide()
    parts: dict[str, str] = {}
    for part in ("place", "status", "person"):
        parts |= {f"{part}_name": known[part]["name"], part: ", ".join(known[part]["values"])}
    numbers = ", ".join(Template(guide["number"]).substitute(number) for number in known["numbers"])
    return Template(guide["words"]).substitute(parts, entity=known["entity"], numbers=numbers)
