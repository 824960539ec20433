"""The answer contract C as a generator prints it: JSON to `types.Contract`, strictly."""

import math
from collections.abc import Mapping, Set

from clawloop.sandbox.workspace import check_path
from clawloop.types import Contract, Decision, Deliverable

FORMS = ("json", "csv", "text", "state")


def parse_contract(value: object) -> Contract:
    """A contract from {"decisions": [[name, rule]], "deliverables": [{"path", "form", "fields", "tolerance"}]}.

    `fields` and `tolerance` may be left out. There is at least one deliverable, and no path appears twice.

    Raises:
        ValueError: something is missing, unknown or of another type; the sentence names it.

    >>> parse_contract({"decisions": [], "deliverables": [{"path": "n.txt", "form": "text"}]}).deliverables[0].path
    'n.txt'
    >>> parse_contract({"decisions": [], "deliverables": [{"path": "n.txt", "form": "xml"}]})
    Traceback (most recent call last):
    ValueError: contract.deliverables[0].form must be one of json, csv, text, state, not 'xml'.
    """
    contract = _object(value, "contract", {"decisions", "deliverables"})
    decisions = _list(contract["decisions"], "contract.decisions")
    deliverables = _list(contract["deliverables"], "contract.deliverables")
    if not deliverables:
        raise ValueError("contract.deliverables must name at least one deliverable.")
    parsed = tuple(_deliverable(item, f"contract.deliverables[{i}]") for i, item in enumerate(deliverables))
    if len({item.path for item in parsed}) < len(parsed):
        raise ValueError("contract.deliverables must name each path once.")
    return Contract(tuple(_decision(item, f"contract.decisions[{i}]") for i, item in enumerate(decisions)), parsed)


def _decision(value: object, at: str) -> Decision:
    pair = _list(value, at)
    if len(pair) != 2:
        raise ValueError(f"{at} must be a pair of a name and a rule.")
    return Decision(_text(pair[0], f"{at}[0]"), _text(pair[1], f"{at}[1]"))


def _deliverable(value: object, at: str) -> Deliverable:
    item = _object(value, at, {"path", "form"}, {"fields", "tolerance"})
    path, form = _text(item["path"], f"{at}.path"), item["form"]
    try:
        check_path(path)
    except ValueError as error:
        raise ValueError(f"{at}.path: {error}") from error
    if form not in FORMS:
        raise ValueError(f"{at}.form must be one of {', '.join(FORMS)}, not {form!r:.60}.")
    fields = item.get("fields", {})
    if not isinstance(fields, dict):
        raise ValueError(f"{at}.fields must be an object of names and types.")
    types = {_text(name, f"{at}.fields' name"): _text(kind, f"{at}.fields.{name}") for name, kind in fields.items()}
    tolerance = item.get("tolerance", 0.0)
    if isinstance(tolerance, bool) or not isinstance(tolerance, int | float) or not 0 <= tolerance < math.inf:
        raise ValueError(f"{at}.tolerance must be a number that is not negative, not {tolerance!r:.60}.")
    return Deliverable(path, str(form), types, float(tolerance))


def _object(value: object, at: str, needed: Set[str], allowed: Set[str] = frozenset()) -> Mapping[str, object]:
    if not isinstance(value, dict):
        raise ValueError(f"{at} must be an object.")
    if missing := sorted(needed - set(value)):
        raise ValueError(f"{at} lacks {missing[0]!r}.")
    if unknown := sorted(set(value) - needed - allowed):
        raise ValueError(f"{at} has an unknown key {unknown[0]!r:.60}.")
    return value


def _list(value: object, at: str) -> list[object]:
    if not isinstance(value, list):
        raise ValueError(f"{at} must be a list.")
    return value


def _text(value: object, at: str) -> str:
    if not isinstance(value, str) or not value.strip():
        raise ValueError(f"{at} must be a string that is not empty.")
    return value
