"""`clawloop doctor`: the machine, and each sandbox of conf/sandbox with each property that it holds."""

from pathlib import Path

import yaml

from clawloop.build.part import part
from clawloop.config.folders import data_dir
from clawloop.doctor.attempts import ATTEMPTS, Attempt
from clawloop.doctor.examine import Bait, Finding, bait, examine
from clawloop.doctor.machine import facts
from clawloop.protocols import InfrastructureError


def doctor(attempts: tuple[Attempt, ...] = ATTEMPTS) -> int:
    """Make the attempts and print what is found.

    Returns:
        The exit code: 0 where there is a sandbox, and all that are there hold; 1 otherwise.
    """
    for name, fact in facts().items():
        print(f"{name:<12} {fact}")
    there, wrong = 0, 0
    with bait() as laid:
        for path in sorted(data_dir("conf").glob("sandbox/*.yaml")):
            findings = _one(path, laid, attempts)
            there += findings is not None
            wrong += sum(finding.verdict == "not held" for finding in findings or ())
    if not there:
        print("\nThere is no sandbox on this machine, and no way without: install bubblewrap or Docker.")
    return 1 if wrong or not there else 0


def _one(path: Path, laid: Bait, attempts: tuple[Attempt, ...]) -> list[Finding] | None:
    """Examine a sandbox as its yaml says, with no containers waiting; None where it is not there."""
    settings = yaml.safe_load(path.read_text(encoding="utf-8"))
    print(f"\n{path.stem}", flush=True)
    findings = []
    try:
        sandboxes = part(settings | ({"warm": 0} if "warm" in settings else {}))
        if engine := getattr(sandboxes, "engine", None):
            print(f"  {engine.name} at {engine.address}")
        for finding in examine(sandboxes, laid, attempts):
            print(f"  {finding.holds:<38} {finding.verdict:<12} {finding.words}".rstrip(), flush=True)
            findings.append(finding)
    except InfrastructureError as error:
        print(f"  {'broke' if findings else 'not here'}: {error}")
        return None
    return findings
