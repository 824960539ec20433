"""No answer may be read off what the agent is shown (paper, 4.2: leakage audit)."""

import itertools
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal

from clawloop.types import Candidate, Contract, Finding, Task

Tokens = tuple[str, ...]

_NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:e[+-]?\d+)?")
_TOKEN = re.compile(r"(?<![\w.])-\d+(?:\.\d+)?(?![\w])|\d+(?::\d+)+|\w+(?:[-.@]\w+)*")
_GROUPED = re.compile(r"(?<![\d,.])\d{1,3}(?:,\d{3})+(?![\d,])")
_SHORTEST_TEXT = 8


class Leakage:
    """Looks for the answer's values in the instruction, the contract and the workspace; runs nothing.

    A value is *telling* if it is a number with two or more significant digits, or a string of four or more characters
    that is no name of the contract (a deliverable, a field, a type) and no column of a .csv or .tsv. Texts are compared
    as whole tokens without regard to case; 1234, 1,234 and 1234.0 are one number; 12 is not in 2024-12-01, 12:30, a12.

    In the instruction and the contract, a leak is
      - a telling value that stands alone in the answer or under a key;
      - of a list, two items that follow each other there and of which one is telling (a string from two characters
        on), or a whole list of three or more.
    Single items of a list are no leak: to ask about rows is to name some.

    In the workspace, which holds what the answer is made of, a leak is
      - the whole answer as JSON, whatever its white space;
      - a file that holds nothing but the answer or but one of its telling values or lists (keys or not);
      - a telling value right behind its key on one line, where that key never has another value in the workspace
        (a column or a setting that many files have is data; a key that has only the answer states it).
    """

    def __call__(self, candidate: Candidate) -> Finding:
        """Passes where none was found."""
        assert candidate.task is not None
        reason = _leak(candidate.task, json.loads(candidate.answer))
        return Finding("leakage", not reason, reason)


def _leak(task: Task, answer: Mapping[str, object]) -> str:
    texts = {path: data.decode("utf-8", "replace") for path, data in sorted(task.workspace.files.items())}
    public = _public(task.contract, texts)
    for where, text in (("instruction", task.instruction), ("contract", _rendered(task.contract))):
        for tokens in _readings(text):
            for name, _, value in _values(answer):
                if isinstance(value, list):
                    if _has_run(tokens, value, public):
                        return f"the {where} lists values of the answer's {name!r}."
                elif _telling(value, public) and _contains(tokens, _tokens(value)):
                    return f"the {where} states the answer's {name!r}: {value!r:.80}"
    return _workspace_leak(texts, task.workspace.environment, answer, public)


def _workspace_leak(
    texts: Mapping[str, str], environment: Mapping[str, str], answer: Mapping[str, object], public: frozenset[str]
) -> str:
    whole = {
        _squeezed(json.dumps(answer, sort_keys=order, ensure_ascii=ascii))
        for order in (False, True)
        for ascii in (False, True)
    }
    alone = {"answer": [_tokens(answer), _tokens(list(answer.values()))]}
    for name, key, value in _values(answer):
        if (isinstance(value, list) and len(value) > 1) or _telling(value, public):
            alone[name] = [_tokens(value), _tokens({key: value})]
    for path, text in texts.items():
        squeezed = _squeezed(text)
        if any(form in squeezed for form in whole if len(form) >= _SHORTEST_TEXT):
            return f"{path} holds the whole answer."
        for tokens in _readings(text):
            for name, forms in alone.items():
                if tokens in forms:
                    return f"{path} holds nothing but the answer's {name!r}."
    lines = [line for path, text in texts.items() for line in (re.sub(r"[._/-]", " ", path), *text.splitlines())]
    lines += [f"{name} {value}" for name, value in sorted(environment.items())]
    read = [tokens for line in lines for tokens in _readings(line)]
    for name, key, value in _values(answer):
        if not isinstance(value, list) and _telling(value, public) and _states(read, _tokens(key), value):
            return f"the workspace states {name!r} beside its value {value!r:.80}"
    return ""


def _values(value: object, name: str = "", key: str = "") -> Iterator[tuple[str, str, object]]:
    """The scalars of an answer that stand alone or under keys, and its lists: dotted name, last key, value."""
    if isinstance(value, dict):
        for inner_key, inner in value.items():
            yield from _values(inner, f"{name}.{inner_key}" if name else inner_key, inner_key)
        return
    yield name, key, value
    if isinstance(value, list):
        for index, inner in enumerate(value):
            row = list(inner.values()) if isinstance(inner, dict) else inner
            if isinstance(row, list):
                yield from _values(row, f"{name}[{index}]")


def _telling(value: object, public: frozenset[str], shortest: int = 4) -> bool:
    if isinstance(value, str):
        return len(value) >= shortest and value.casefold() not in public
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return len(Decimal(str(value)).normalize().as_tuple().digits) >= 2


def _public(contract: Contract, texts: Mapping[str, str]) -> frozenset[str]:
    names = {
        word for item in contract.deliverables for word in (item.path, item.form, *item.fields, *item.fields.values())
    }
    for path, text in texts.items():
        if path.endswith((".csv", ".tsv")):
            names.update(cell.strip().strip('"') for cell in re.split(r"[,;\t|]", text.split("\n", 1)[0]))
    return frozenset(name.casefold() for name in names)


def _rendered(contract: Contract) -> str:
    lines = [f"{decision.name}: {decision.rule}" for decision in contract.decisions]
    for item in contract.deliverables:
        lines += [item.path, *(f"{name} {kind}" for name, kind in item.fields.items())]
    return "\n".join(lines)


def _readings(text: str) -> tuple[Tokens, ...]:
    """The tokens of a text; twice where commas may group thousands."""
    plain = _tokens(text)
    grouped = _tokens(_GROUPED.sub(lambda found: found[0].replace(",", ""), text))
    return (plain,) if grouped == plain else (plain, grouped)


def _tokens(value: object) -> Tokens:
    """The tokens of a text, or of all that a JSON value holds, keys included, in order."""
    if isinstance(value, dict):
        return tuple(token for key, inner in value.items() for token in (*_tokens(key), *_tokens(inner)))
    if isinstance(value, list):
        return tuple(token for inner in value for token in _tokens(inner))
    return tuple(_token(found) for found in _TOKEN.findall(str(value).casefold()))


def _token(text: str) -> str:
    if not _NUMBER.fullmatch(text):
        return text
    digits = f"{Decimal(text):f}" if len(text) < 40 else text
    return digits.rstrip("0").rstrip(".") if "." in digits else digits


def _contains(tokens: Tokens, part: Tokens) -> bool:
    return any(tokens[i : i + len(part)] == part for i in _starts(tokens, part))


def _starts(tokens: Tokens, part: Tokens) -> Iterator[int]:
    return (i for i, token in enumerate(tokens) if token in part[:1])


def _has_run(tokens: Tokens, items: Sequence[object], public: frozenset[str]) -> bool:
    if any(isinstance(item, dict | list) for item in items):
        return False
    for first, second in itertools.pairwise(items):
        both = _tokens(first), _tokens(second)
        if (
            all(both)
            and (_telling(first, public, 2) or _telling(second, public, 2))
            and _contains(tokens, both[0] + both[1])
        ):
            return True
    return (
        len(items) >= 3
        and not all(str(item).casefold() in public for item in items)
        and _contains(tokens, _tokens(list(items)))
    )


def _states(lines: Sequence[Tokens], key: Tokens, value: object) -> bool:
    """Whether the key stands before the value on a line, and before nothing else of its kind on any line."""
    part, number, said = _tokens(value), not isinstance(value, str), False
    for tokens in lines:
        for start in _starts(tokens, key):
            behind = tokens[start + len(key) :]
            if tokens[start : start + len(key)] != key or not behind or (number and not _NUMBER.fullmatch(behind[0])):
                continue
            if behind[: len(part)] != part:
                return False
            said = True
    return said


def _squeezed(text: str) -> str:
    return "".join(text.split()).casefold()
