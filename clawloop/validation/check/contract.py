"""The contract must declare every decision that changes the answer (paper, 4.1: the answer contract C)."""

import json

from clawloop.types import Candidate, Finding


class Declares:
    """Holds the answers that the generator gives under other choices of its hidden decisions against the contract.

    A task is ill-posed where another choice gives another answer and no decision of that name is declared: whoever
    chooses it is wrong and cannot know. Numbers within the largest tolerance of the deliverables are the same answer. A
    generator that tells no alternatives passes; nothing can be said of it. Nothing is run.
    """

    def __call__(self, candidate: Candidate) -> Finding:
        """Passes where every alternative is declared or makes no difference."""
        assert candidate.task is not None
        contract = candidate.task.contract
        declared = {decision.name for decision in contract.decisions}
        tolerance = max(item.tolerance for item in contract.deliverables)
        answer = json.loads(candidate.answer)
        for name, others in candidate.alternatives.items():
            if name in declared:
                continue
            for other in others:
                if (place := _difference(answer, json.loads(other), tolerance)) is not None:
                    return Finding("contract", False, f"the contract is silent about {name!r}, which decides {place}.")
        return Finding("contract", True)


def _difference(one: object, other: object, tolerance: float, at: str = "") -> str | None:
    """Where two answers first differ, as words, or None.

    >>> _difference({"a": {"n": 1.0}}, {"a": {"n": 1.004}}, 0.005), _difference({"a": [1]}, {"a": [2]}, 0.0)
    (None, "the answer's a")
    """
    if isinstance(one, dict) and isinstance(other, dict) and one.keys() == other.keys():
        found = (_difference(one[key], other[key], tolerance, f"{at}.{key}" if at else key) for key in one)
        return next((place for place in found if place is not None), None)
    if isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        found = (_difference(left, right, tolerance, at) for left, right in zip(one, other, strict=True))
        return next((place for place in found if place is not None), None)
    if _number(one) and _number(other):
        same = abs(float(str(one)) - float(str(other))) <= tolerance + 1e-9
    else:
        same = one == other and type(one) is type(other)
    return None if same else f"the answer's {at}" if at else "the answer"


def _number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
