"""Candidates as text for a person. What a generator wrote is made printable, so that it cannot drive a terminal."""

import json
import textwrap
from collections.abc import Iterator, Mapping

from clawloop.report.fates import Fate
from clawloop.report.printable import printable
from clawloop.types import Contract, Hops, Task

_LINES, _WIDTH = 6, 100


def line(fate: Fate) -> str:
    """One line: id, route, capability, domain, level, form, outcome."""
    card = fate.candidate.card
    shown = (
        f"{fate.candidate.id:<10}",
        f"{card.route:<10}",
        f"{card.capability:<24}",
        f"{card.domain:<16}",
        f"level {card.level}",
        f"{card.form:<6}",
        fate.words,
    )
    return printable("  ".join(shown)).replace("\n", " ")


def page(fate: Fate, *, answer: bool) -> str:
    """All of one candidate; what tells the answer only with `answer`."""
    candidate, task = fate.candidate, fate.candidate.task
    parts = [("Task", _card(fate))]
    if task is not None:
        parts += [
            (
                "Instruction",
                [part for text in task.instruction.splitlines() for part in textwrap.wrap(text, _WIDTH) or [""]],
            ),
            ("Contract", _contract(task.contract)),
            (f"Workspace: {len(task.workspace.files)} files", list(_files(task))),
        ]
    parts.append(("Findings", [_finding(fate, index) for index in range(len(fate.findings))] or ["none yet"]))
    if answer and task is not None:
        parts += [
            ("Answer", _pretty(candidate.answer)),
            ("Verifier key", _pretty(task.verifier.key)),
            ("Oracle", [text for command in candidate.oracle for text in ("$ " + command).splitlines()]),
            ("Verifier", task.verifier.program.splitlines()),
        ]
    elif task is not None:
        parts.append(("Answer", ["hidden; --answer shows it, with the oracle and the verifier"]))
    return "\n\n".join("\n".join([title, *(f"  {printable(text)}" for text in lines)]) for title, lines in parts)


def _card(fate: Fate) -> list[str]:
    card = fate.candidate.card
    return _aligned(
        {
            "id": fate.candidate.id,
            "outcome": fate.words,
            "route": card.route,
            "capability": f"{card.capability} ({card.track})",
            "domain": card.domain,
            "level": str(card.level),
            "form": card.form,
            "growth": ", ".join(card.growth) or "none",
            "hops": _hops(fate.candidate.hops),
            "noise": ", ".join(card.noise) or "none",
            "seed": str(card.seed),
            "lineage": card.lineage,
        }
    )


def _hops(hops: Hops | None) -> str:
    return f"{hops.index} to {len(hops.details)} details and {', '.join(hops.reference)}" if hops else "none"


def _contract(contract: Contract) -> list[str]:
    rules = [f"rule {decision.name}: {decision.rule}" for decision in contract.decisions] or ["no hidden decisions"]
    for item in contract.deliverables:
        within = f", within {item.tolerance:g}" if item.tolerance else ""
        rules.append(f"deliver {item.path} ({item.form}{within})")
        rules += [f"  {name}: {kind}" for name, kind in item.fields.items()]
    return rules


def _files(task: Task) -> Iterator[str]:
    for name, value in sorted(task.workspace.environment.items()):
        yield f"${name} = {value}"
    for path, data in sorted(task.workspace.files.items()):
        yield f"{path} ({len(data)} bytes)"
        lines = data.decode("utf-8", "backslashreplace").splitlines()
        yield from (f"  | {text[:_WIDTH]}" for text in lines[:_LINES])
        if len(lines) > _LINES:
            yield f"  | ... {len(lines) - _LINES} more lines"


def _finding(fate: Fate, index: int) -> str:
    finding = fate.findings[index]
    return (
        f"{'passed' if finding.passed else 'FAILED'}  {finding.check}{': ' + finding.reason if finding.reason else ''}"
    )


def _pretty(text: str) -> list[str]:
    return json.dumps(json.loads(text), indent=2, ensure_ascii=False).splitlines()


def _aligned(rows: Mapping[str, str]) -> list[str]:
    return [f"{name:<10} {value}" for name, value in rows.items()]
