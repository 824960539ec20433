"""Asking the loop model about a domain: what the code does not say, and whether its skills should be regrouped."""

import json
import shutil
import textwrap
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TypeVar

from clawloop.build.part import agent, part
from clawloop.config.composed import composed
from clawloop.config.errors import AskError
from clawloop.domains.show import opened
from clawloop.protocols import Policy, Sandboxes
from clawloop.report.printable import printable
from clawloop.synthesis.analysis.observe import observe
from clawloop.synthesis.analysis.question import Completion, Regrouping
from clawloop.synthesis.dialogue import Dialogue, Judged, Question
from clawloop.synthesis.skills import completion, grouping
from clawloop.synthesis.skills.domain import OPTIONAL, PARTS, Sources, read, served, shipped
from clawloop.synthesis.skills.observed import NAME as OBSERVED
from clawloop.synthesis.skills.observed import PARTS as SERVED

T = TypeVar("T")
LOG = "asked.jsonl"
_SHOWN = 2000  # characters of a reply on the terminal; the log has all


def ask(name: str, into: Path | None, overrides: Sequence[str]) -> int:
    """Ask, check what is said, and write what was taken into graph.yaml and skills.yaml of the domain's folder.

    Limits and prompts are those of the chosen author (author=model or model_brief).

    Args:
        name: of a shipped domain, or a folder of your own.
        into: a new folder for a copy of the domain, which a shipped one needs.
        overrides: of conf/, for the model, the policy, the author and the sandbox.

    Returns:
        1 where a question found no answer that could be taken, else 0.

    Raises:
        AskError: it is no domain, or the folder cannot be used.
    """
    config = composed([*([] if any(one.startswith("author=") for one in overrides) else ["author=model"]), *overrides])
    author = config["author"]
    if "repairs" not in author:
        raise AskError("clawloop domains ask needs an author that asks a model: author=model or author=model_brief.")
    try:
        sources = read(name)
        dialogue = Dialogue(author["repairs"], author["reply_tokens"])
        policy, sandboxes = agent(config), part(config["sandbox"])
    except ValueError as error:
        raise AskError(str(error)) from error
    if name in (*shipped(), *served()) and into is None:
        raise AskError(
            f"{name} is shipped with the project and stays as it is; name a folder for a copy: --into FOLDER."
        )
    folder = (_copied(sources, into) if into is not None else sources.path).resolve()
    asker = _Asker(policy, dialogue, folder)
    done = _complete(asker, sandboxes, author["system"]) and _regroup(asker, author["system"])
    return int(not done)


class _Asker:
    """Puts questions about the domain of a folder; every attempt is printed, and kept in the folder."""

    def __init__(self, policy: Policy, dialogue: Dialogue, folder: Path) -> None:
        self._policy, self._dialogue, self.folder = policy, dialogue, folder

    def __call__(self, about: str, question: Question[T]) -> Judged[T]:
        name = f"{self.folder.name}/{about}"
        judged, attempts = self._dialogue(self._policy, question, f"domains/{name}", name)
        for number, attempt in enumerate(attempts, 1):
            said = f"refused by {attempt.fault}: {attempt.said}" if attempt.fault else "taken"
            print(printable(f"{about}, reply {number}: {said}\n{textwrap.indent(attempt.reply[:_SHOWN], '  | ')}"))
        with (self.folder / LOG).open("a", encoding="utf-8") as log:
            log.writelines(json.dumps({"about": about} | asdict(one), ensure_ascii=False) + "\n" for one in attempts)
        return judged


def _complete(asker: _Asker, sandboxes: Sandboxes, system: str) -> bool:
    """Have the model say what the code leaves open; False where nothing that it says can be taken."""
    sources = read(str(asker.folder))
    left = {name: tool for name, tool in sources.tools.items() if tool.unknown}
    if not left:
        print("The code and graph.yaml say what every tool does.")
        return True
    judged = asker(completion.NAME, Completion(sources, observe(sources, left, sandboxes), system))
    if judged.fault:
        print(
            printable(f"{completion.NAME} is not written: {judged.said} You may write it by hand; see CONTRIBUTING.md.")
        )
        return False
    return _written(asker.folder / completion.NAME, completion.dump({**sources.claims, **judged.value}))


def _regroup(asker: _Asker, system: str) -> bool:
    """Have the model keep or regroup the skills; False where neither can be taken."""
    domain = opened(str(asker.folder))
    if domain.grouping.reason:
        print(printable(f"{grouping.NAME} has groups by {domain.grouping.by} already; remove it to ask again."))
        return True
    judged = asker(grouping.NAME, Regrouping(domain, system))
    if judged.fault:
        print(printable(f"{grouping.NAME} is not written: {judged.said}"))
        return False
    if judged.value is None:
        print("The model keeps the clusters by affinity.")
        return True
    return _written(asker.folder / grouping.NAME, grouping.dump(judged.value))


def _written(path: Path, text: str) -> bool:
    path.write_text(text, encoding="utf-8")
    print(f"{path} is written:\n{printable(text)}")
    return True


def _copied(sources: Sources, into: Path) -> Path:
    """A copy of a domain in a new folder, whose name is that of the copy.

    Raises:
        AskError: the folder is there and not empty, or has the name of a shipped domain.
    """
    if into.resolve().name in (*shipped(), *served()):
        raise AskError(f"{into} has the name of a shipped domain; give the copy a name of its own.")
    if into.exists() and (not into.is_dir() or any(into.iterdir())):
        raise AskError(f"{into} is not empty; name a new folder for the copy.")
    into.mkdir(parents=True, exist_ok=True)
    for name in {*PARTS, *SERVED, OBSERVED, *OPTIONAL}:
        if (sources.path / name).is_file():
            shutil.copyfile(sources.path / name, into / name)
    return into
