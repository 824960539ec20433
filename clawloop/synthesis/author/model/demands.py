"""What a card demands of a build: two sources, the form of its deliverables, a multi-hop structure (paper, 4.1)."""

from pathlib import PurePosixPath

from clawloop.sandbox.lint import first_hazard
from clawloop.synthesis.generator import Build
from clawloop.types import Card

_ENTITIES = 3


def unmet(card: Card, build: Build) -> str:
    """The first demand that a build does not meet, as a sentence; empty where it meets all."""
    if len(build.files) < 2:
        return "The workspace holds one file, and a task needs at least two sources that are read together."
    if hazard := first_hazard(build.verifier):
        return f"The verifier must be deterministic: {hazard}"
    return _form(card, build) or ("multi_hop" in card.growth and _hops(build)) or ""


def _form(card: Card, build: Build) -> str:
    forms = [item.form for item in build.contract.deliverables]
    if card.track == "terminal":
        return "" if "state" in forms else "A terminal task needs a deliverable of form state in its contract."
    if card.form == "files":
        return "" if len(forms) > 1 else "The contract names one deliverable, and two or more were asked for."
    wanted = ("text", "json") if card.form == "report" else (card.form,)
    missing = [form for form in wanted if form not in forms]
    return f"The contract has no deliverable of form {missing[0]}, which was asked for." if missing else ""


def _hops(build: Build) -> str:
    """An index names the files of at least three entities, and a reference that it does not name cuts across."""
    names = {path: PurePosixPath(path).name.encode() for path in build.files}
    for path, text in build.files.items():
        named = [other for other, name in names.items() if other != path and name in text]
        if len(named) >= _ENTITIES and len(named) + 1 < len(names):
            return ""
    return (
        f"A multi-hop task needs an index file that names the detail files of at least {_ENTITIES} entities, "
        "and a reference file beside them that the index does not name."
    )
