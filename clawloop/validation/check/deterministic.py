"""One seed must give one task, whatever surrounds the generator, and another seed another task."""

import json
from collections.abc import Mapping
from dataclasses import dataclass

from clawloop.protocols import Sandboxes
from clawloop.sandbox.lint import first_hazard
from clawloop.types import Candidate, Finding
from clawloop.validation import again


@dataclass(frozen=True, slots=True)
class Setting:
    """What a generator runs under, and must not depend on.

    `locale` is for LC_ALL: one that the box's system lacks is C there. `clock` is a moment as libfaketime reads it.
    """

    hash_seed: int
    time_zone: str
    hostname: str
    on_disk: bool
    clock: str
    locale: str

    def __str__(self) -> str:
        disk = "on disk" if self.on_disk else "in memory"
        where = f"hash seed {self.hash_seed}, zone {self.time_zone}, host {self.hostname}"
        return f"{where}, files {disk}, {self.clock}, locale {self.locale}"


_SETTINGS = (
    Setting(1, "Asia/Tokyo", "ash", on_disk=True, clock="@2031-03-09 23:59:58", locale="C"),
    Setting(4242, "America/New_York", "birch-7", on_disk=False, clock="@2019-12-31 11:30:00", locale="tr_TR.UTF-8"),
    Setting(90001, "Pacific/Chatham", "cedar", on_disk=True, clock="@2027-06-15 04:05:06", locale="C.UTF-8"),
)


class Deterministic:
    """Reads the program for calls that depend on the moment or the machine, then runs it again in three settings.

    Settings differ in hash seed (set order, `hash`), time zone, host name, file system (directory order), locale (sort
    order, number and date forms, the case of an i) and clock. The clock is moved where the box's system has
    libfaketime; where it has not, the reading alone finds `date.today` and its kin (see `lint.first_hazard`). All runs
    must print the same bytes, and these must say what the candidate does.
    A last run, with the next seed, must give other files or another answer.

    Args:
        sandboxes: opens the boxes, one a run.
    """

    def __init__(self, sandboxes: Sandboxes) -> None:
        self._sandboxes = sandboxes

    def __call__(self, candidate: Candidate) -> Finding:
        """Passes where nothing but the seed matters."""
        reason = first_hazard(candidate.generator.program) or self._differs(candidate)
        return Finding("deterministic", not reason, reason)

    def _differs(self, candidate: Candidate) -> str:
        generator, said = candidate.generator, _said(candidate)
        first: bytes | None = None
        for setting in _SETTINGS:
            raw = self._run(candidate, generator.seed, setting)
            if raw is None:
                return f"the generator fails under {setting}."
            if raw != (first or raw) or not _says(raw, said):
                return f"the generator gives other bytes under {setting}."
            first = raw
        other = self._run(candidate, generator.seed + 1, _SETTINGS[0])
        if other is None:
            return f"the generator fails with another seed, {generator.seed + 1}."
        if _says(other, {name: said[name] for name in ("files", "answer")}):
            return "the generator gives the same files and answer for another seed."
        return ""

    def _run(self, candidate: Candidate, seed: int, setting: Setting) -> bytes | None:
        variables = {
            "PYTHONHASHSEED": str(setting.hash_seed),
            "TZ": setting.time_zone,
            "FAKETIME": setting.clock,
            "LC_ALL": setting.locale,
            "LANG": setting.locale,
        }
        return again.output(
            candidate.generator,
            seed,
            self._sandboxes,
            variables,
            hostname=setting.hostname,
            on_disk=setting.on_disk,
        )


def _said(candidate: Candidate) -> Mapping[str, object]:
    """The parts of a generator's output that a candidate keeps as they were printed."""
    assert candidate.task is not None
    return {
        "files": {path: data.decode("utf-8", "replace") for path, data in candidate.task.workspace.files.items()},
        "instruction": candidate.task.instruction,
        "answer": json.loads(candidate.answer),
        "oracle": list(candidate.oracle),
        "verifier": candidate.task.verifier.program,
    }


def _says(raw: bytes, parts: Mapping[str, object]) -> bool:
    value = again.read(raw)
    return all(value.get(name) == part for name, part in parts.items())
