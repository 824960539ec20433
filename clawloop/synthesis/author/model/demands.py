"""What a card demands of a build: two sources, the form of its deliverables, its growth declared (paper, 4.1)."""

from clawloop.sandbox.lint import first_hazard
from clawloop.synthesis.generator import Build
from clawloop.types import Card


def unmet(card: Card, build: Build) -> str:
    """The first demand that a build does not meet, as a sentence; empty where it meets all."""
    if len(build.files) < 2:
        return "The workspace holds one file, and a task needs at least two sources that are read together."
    if hazard := first_hazard(build.verifier):
        return f"The verifier must be deterministic: {hazard}"
    return _form(card, build) or _growth(card, build)


def _form(card: Card, build: Build) -> str:
    forms = [item.form for item in build.contract.deliverables]
    if card.track == "terminal":
        return "" if "state" in forms else "A terminal task needs a deliverable of form state in its contract."
    if card.form == "files":
        return "" if len(forms) > 1 else "The contract names one deliverable, and two or more were asked for."
    wanted = ("text", "json") if card.form == "report" else (card.form,)
    missing = [form for form in wanted if form not in forms]
    return f"The contract has no deliverable of form {missing[0]}, which was asked for." if missing else ""


def _growth(card: Card, build: Build) -> str:
    """What is not declared; whether it is there is proved by `validation.check.growth`."""
    if "multi_hop" in card.growth and build.hops is None:
        return 'A multi-hop task has hops: {"index": path, "details": {entity: path}, "reference": [path]}.'
    if "dirtiness" in card.growth and not build.noise:
        return "A task with dirt has noise, the list of the kinds that are in its files."
    return ""
