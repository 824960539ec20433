"""What makes a task harder must be in its workspace (paper, 4.1: "enforced by construction")."""

import json
import re
from collections.abc import Mapping, Sequence
from itertools import islice
from pathlib import PurePosixPath

from clawloop.protocols import Grader, Sandboxes
from clawloop.rollout.grade import GraderError
from clawloop.types import Candidate, Finding, Hops, Workspace
from clawloop.validation.solution import play
from clawloop.validation.source import emptied, leaves, turned, values
from clawloop.validation.tokens import contains, tokens

_ENTITIES, _DECIDING = 3, 2
_NOISE = "distractors, missing, drift, units"


class Growth:
    """Proves on the workspace what the card's growth says; a card without growth passes, and nothing is run.

    `multi_hop`: the generator declares `Candidate.hops`: an index, the detail files of three entities or more, and
    references. By reading: the files are there; the index names each entity and its file, and beside these names it
    holds nothing that begins with a digit, and no word that a detail file, a reference or the answer has as a value. By
    playing the oracle in workspaces that are changed in one place, after which it must not pass its verifier any more:

    1. the index without its entries: who does not go through it does not know the details;
    2. each reference, with its values on other rows (without its rows where that changes nothing, or where it is
       neither a .csv nor JSON): it decides the answer, and is not only read;
    3. details, one after the other, each with what the next one holds, until two were found that decide the answer. It
       depends on both then, so no single one suffices.

    A crash counts as not passing. It costs 1 run and grading of the oracle for the index, 1 for each reference and 2 to
    `tries` for the details: mostly 4 in all.

    `dirtiness`: the generator lists as many kinds of noise as the level asks for, and the contract has a decision of
    the name of each. Where the generator tells the answers of other readings of one (`Candidate.alternatives`), some
    reading gives another answer. Where the workspace has .csv files, a cell of them is empty if `missing` is
    listed, and two of them (of the details, where there are such) differ in their header if `drift` is.

    Args:
        sandboxes: opens the box.
        grader: runs the verifier.
        command_s: seconds that one command of the oracle may take.
        tries: detail files to try at most.
        kinds: kinds of noise that each level asks for, from level 0 on; the last counts for all above.
    """

    def __init__(
        self,
        sandboxes: Sandboxes,
        grader: Grader,
        command_s: float = 20.0,
        tries: int = 12,
        kinds: Sequence[int] = (2, 2, 2, 2, 3),
    ) -> None:
        if tries < _DECIDING or not kinds:
            raise ValueError(f"check.growth needs tries of at least {_DECIDING} and kinds for a level, or more.")
        self._sandboxes, self._grader, self._command_s = sandboxes, grader, command_s
        self._tries, self._kinds = tries, tuple(kinds)

    def __call__(self, candidate: Candidate) -> Finding:
        """Passes where every growth of the card acted."""
        assert candidate.task is not None
        reason = ""
        if "dirtiness" in candidate.card.growth:
            reason = _clean(candidate, self._kinds[min(candidate.card.level, len(self._kinds) - 1)])
        if not reason and "multi_hop" in candidate.card.growth:
            reason = self._unproved(candidate, candidate.hops)
        return Finding("growth", not reason, reason)

    def _unproved(self, candidate: Candidate, hops: Hops | None) -> str:
        """Why the structure is not there."""
        assert candidate.task is not None
        if hops is None:
            return "the generator declares no hops, and multi-hop needs an index, details and a reference."
        files = {path: data.decode("utf-8", "replace") for path, data in candidate.task.workspace.files.items()}
        if reason := _misshapen(hops, files) or _told(hops, files, candidate.answer):
            return reason
        if self._passes(candidate, {hops.index: emptied(files[hops.index])}):
            return f"the index {hops.index} is not needed: the oracle passes without its entries."
        for path in hops.reference:
            if self._passes(candidate, {path: turned(path, files[path])}):
                return f"the reference {path} is not needed: the oracle passes with other values in it."
        found, details = 0, list(hops.details.values())
        for path, other in islice(zip(details, details[1:] + details[:1], strict=True), self._tries):
            found += not self._passes(candidate, {path: files[other]})
            if found == _DECIDING:
                return ""
        return f"only {found} of the detail files {', '.join(details[:3])}, ... decides the answer, and two must."

    def _passes(self, candidate: Candidate, changed: Mapping[str, str]) -> bool:
        assert candidate.task is not None
        start = candidate.task.workspace
        files = {**start.files, **{path: text.encode() for path, text in changed.items()}}
        left, last, _ = play(candidate.oracle, Workspace(files, start.environment), self._sandboxes, self._command_s)
        try:
            return not last.stopped and self._grader(candidate.task, left).passed
        except GraderError:
            return False


def _misshapen(hops: Hops, files: Mapping[str, str]) -> str:
    paths = [hops.index, *hops.details.values(), *hops.reference]
    if missing := [path for path in paths if path not in files]:
        return f"hops names {missing[0]}, which is no file of the workspace."
    if twice := [path for path in paths if paths.count(path) > 1]:
        return f"hops names {twice[0]} twice, and each source is a file of its own."
    if len(hops.details) < _ENTITIES:
        return f"hops has {len(hops.details)} details, and multi-hop needs those of {_ENTITIES} entities or more."
    named = tokens(files[hops.index])
    for entity, path in hops.details.items():
        if not contains(named, tokens(entity)):
            return f"the index {hops.index} does not name the entity {entity}."
        if not any(contains(named, tokens(name)) for name in _names(path)):
            return f"the index {hops.index} does not name the detail file {path}."
    return ""


def _names(path: str) -> tuple[str, ...]:
    """How an index may name a file: by its path, its name, or that without the suffix; the longest first."""
    name = PurePosixPath(path)
    return path, name.name, name.stem


def _told(hops: Hops, files: Mapping[str, str], answer: str) -> str:
    """The first value in the index beside names: what begins with a digit, or what a source or the answer has too."""
    rest = files[hops.index]
    known = [name for entity, path in hops.details.items() for name in (entity, *_names(path))]
    for name in sorted(known, key=len, reverse=True):
        rest = re.sub(rf"(?<!\w){re.escape(name)}(?!\w)", " ", rest)
    held = tokens(rest)
    if counted := [token for token in held if token.lstrip("-")[:1].isdigit()]:
        return f"the index {hops.index} holds {counted[0]!r:.60} beside names, and it may hold names only."
    for path in (*hops.details.values(), *hops.reference):
        if both := sorted(set(held) & set(values(path, files[path]))):
            return f"the index {hops.index} holds {both[0]!r:.60}, which is a value of {path}; it may hold names only."
    if both := sorted(set(held) & {token for value in leaves(json.loads(answer)) for token in tokens(value)}):
        return f"the index {hops.index} holds {both[0]!r:.60}, which is a value of the answer."
    return ""


def _clean(candidate: Candidate, wanted: int) -> str:
    """Why the noise is not there, or not declared."""
    assert candidate.task is not None
    noise, answer = candidate.card.noise, json.loads(candidate.answer)
    if len(noise) < wanted:
        listed = f" ({', '.join(noise)})" if noise else ""
        level = candidate.card.level
        return f"{len(noise)} kinds of noise{listed} are listed, and level {level} asks for {wanted} of {_NOISE}."
    declared = {decision.name for decision in candidate.task.contract.decisions}
    if silent := [kind for kind in noise if kind not in declared]:
        return f"the contract has no decision {silent[0]!r} that says how that noise is to be read."
    for kind in noise:
        others = candidate.alternatives.get(kind, ())
        if others and all(json.loads(other) == answer for other in others):
            return f"the noise {kind!r} changes no answer, however it is read."
    files = candidate.task.workspace.files
    tables = {path: data.decode("utf-8", "replace") for path, data in files.items() if path.endswith(".csv")}
    lines = [line for text in tables.values() for line in text.splitlines() if line]
    if "missing" in noise and tables and not any(",," in f",{line},".replace(" ", "") for line in lines):
        return "'missing' is listed, and no cell of a table is empty."
    details = [tables[path] for path in candidate.hops.details.values() if path in tables] if candidate.hops else []
    heads = {text.partition("\n")[0] for text in details or tables.values()}
    return "'drift' is listed, and all tables have one header." if "drift" in noise and len(heads) == 1 else ""
