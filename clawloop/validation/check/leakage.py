"""No answer may be read off what the agent is shown (paper, 4.2: leakage audit)."""

import itertools
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import PurePosixPath

from clawloop.types import Candidate, Contract, Finding, Task
from clawloop.validation.tokens import (
    NUMBER,
    Tokens,
    contains,
    dates,
    decoded,
    digits,
    is_date,
    readings,
    rounds_to,
    starts,
    tokens,
)

_SHORTEST_TEXT = 8
_NAMES = ("answer", "result", "solution", "expected", "truth")
"""What a value is called by somebody who gives it away, beside its own key."""


class Leakage:
    """Looks for the answer's values in the instruction, the contract and the workspace; runs nothing.

    A value is *telling* if it is a number with two or more significant digits, or a string of four or more characters
    that is no name of the contract (a deliverable, a field, a type) and no column of a .csv or .tsv. Texts are compared
    as whole tokens without regard to case; 1234, 1,234, 1.234,0 and 1234.0 are one number, as are 5 March 2024 and
    2024-03-05 one date; 12 is not in 2024-12-01, 12:30, a12. What base64 or hexadecimal digits stand for is read too.

    In the instruction and the contract, a leak is
      - a telling value that stands alone in the answer or under a key, or the number rounded to three digits or more;
      - of a list, two items that follow each other there and of which one is telling (a string from two characters
        on), or a whole list of three or more.
    Single items of a list are no leak: to ask about rows is to name some.

    In the workspace, which holds what the answer is made of, hidden and nested files included, a leak is
      - the whole answer as JSON, whatever its white space;
      - a file that holds nothing but the answer or but one of its telling values or lists (keys or not);
      - a telling value, rounded or not, right behind its key or a word such as "answer" on one line, where that key
        never has another value in the workspace (a column or a setting that many files have is data; a key that has
        only the answer states it); file names and variables count as lines;
      - a file named by a telling number, where no file beside it is named by another;
      - a variable that holds nothing but a telling value;
      - a telling value or list in what an encoded run stands for.
    """

    def __call__(self, candidate: Candidate) -> Finding:
        """Passes where none was found."""
        assert candidate.task is not None
        reason = _leak(candidate.task, json.loads(candidate.answer))
        return Finding("leakage", not reason, reason)


def _leak(task: Task, answer: Mapping[str, object]) -> str:
    files = sorted(task.workspace.files.items())
    texts = {path: data.decode("utf-8", "replace") for path, data in files}
    public = _public(task.contract, texts)
    shown = {"instruction": task.instruction, "contract": _rendered(task.contract)}
    for where, text in shown.items():
        if (name := _stated(text, answer, public)) is not None:
            return f"the {where} states the answer's {name}."
    environment = {f"${name}": value for name, value in sorted(task.workspace.environment.items())}
    for where, text in {**shown, **texts, **environment, "a file's name": "\n".join(texts)}.items():
        for plain in decoded(text):
            if (name := _stated(plain, answer, public)) is not None:
                return f"{where} holds the answer's {name} in an encoded form."
    return _workspace_leak(texts, environment, answer, public)


def _stated(text: str, answer: Mapping[str, object], public: frozenset[str]) -> str | None:
    """The first value of the answer that a text states, as words for a reason."""
    days = dates(text)
    read = readings(text)
    for name, _, value in _values(answer):
        for found in read:
            if isinstance(value, list):
                if _has_run(found, value, public):
                    return f"{name!r}: several of its values in a row"
            elif _telling(value, public) and (contains(found, tokens(value)) or _rounded(found, value)):
                return f"{name!r}: {value!r:.80}"
        if isinstance(value, str) and is_date(value) and dates(value) & days:
            return f"{name!r}: {value!r:.80}"
    return None


def _workspace_leak(
    texts: Mapping[str, str], environment: Mapping[str, str], answer: Mapping[str, object], public: frozenset[str]
) -> str:
    whole = {
        _squeezed(json.dumps(answer, sort_keys=order, ensure_ascii=ascii))
        for order in (False, True)
        for ascii in (False, True)
    }
    alone = {"answer": [tokens(answer), tokens(list(answer.values()))]}
    telling = [(name, key, value) for name, key, value in _values(answer) if _telling(value, public)]
    for name, key, value in _values(answer):
        if (isinstance(value, list) and len(value) > 1) or _telling(value, public):
            alone[name] = [tokens(value), tokens({key: value})]
    for path, text in (*texts.items(), *environment.items()):
        squeezed = _squeezed(text)
        if any(form in squeezed for form in whole if len(form) >= _SHORTEST_TEXT):
            return f"{path} holds the whole answer."
        for found in readings(text):
            for name, forms in alone.items():
                if found in forms:
                    return f"{path} holds nothing but the answer's {name!r}."
    for path, number in _numbered(texts):
        for name, _, value in telling:
            if not isinstance(value, str) and number == tokens(value):
                return f"the name of {path} is the answer's {name!r}."
    lines = [line for path, text in texts.items() for line in (path, re.sub(r"[._/-]", " ", path), *text.splitlines())]
    lines += [f"{name} {value}" for name, value in environment.items()]
    having = _indexed([readings(line) for line in lines])
    for name, key, value in telling:
        if any(_states(having, said, value) for said in (tokens(key), *((word,) for word in _NAMES))):
            return f"the workspace states {name!r} beside its value {value!r:.80}"
    return ""


def _numbered(texts: Mapping[str, str]) -> Iterator[tuple[str, Tokens]]:
    """The files whose name is a number, where no other file of the folder has such a name."""
    named: dict[str, list[tuple[str, Tokens]]] = {}
    for path in texts:
        name = PurePosixPath(path)
        stem = name.name if NUMBER.fullmatch(name.name) else name.stem
        if NUMBER.fullmatch(stem):
            named.setdefault(str(name.parent), []).append((path, tokens(stem)))
    for found in named.values():
        if len(found) == 1:
            yield found[0]


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
    return digits(value) >= 2


def _rounded(found: Tokens, value: object) -> bool:
    return isinstance(value, int | float) and any(rounds_to(token, value) for token in found)


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
        lines += [item.path, re.sub(r"[._/-]", " ", item.path)]
        lines += [f"{name} {kind}" for name, kind in item.fields.items()]
    return "\n".join(lines)


def _has_run(found: Tokens, items: Sequence[object], public: frozenset[str]) -> bool:
    if any(isinstance(item, dict | list) for item in items):
        return False
    for first, second in itertools.pairwise(items):
        both = tokens(first), tokens(second)
        if (
            all(both)
            and (_telling(first, public, 2) or _telling(second, public, 2))
            and contains(found, both[0] + both[1])
        ):
            return True
    return (
        len(items) >= 3
        and not all(str(item).casefold() in public for item in items)
        and contains(found, tokens(list(items)))
    )


def _indexed(lines: Sequence[tuple[Tokens, ...]]) -> Mapping[str, Sequence[tuple[Tokens, ...]]]:
    """The lines in which each token stands, in order."""
    having: dict[str, list[tuple[Tokens, ...]]] = {}
    for line in lines:
        for token in {token for found in line for token in found}:
            having.setdefault(token, []).append(line)
    return having


def _states(having: Mapping[str, Sequence[tuple[Tokens, ...]]], key: Tokens, value: object) -> bool:
    """Whether the key stands before the value on a line, and before nothing else of its kind on any line."""
    said, part = False, tokens(value)
    for line in having.get(key[0], ()) if key else ():
        behind = [right for found in line if (right := list(_behind(found, key, value, part)))]
        if behind and not any(all(right) for right in behind):
            return False
        said = said or bool(behind)
    return said


def _behind(found: Tokens, key: Tokens, value: object, part: Tokens) -> Iterator[bool]:
    """For each place of the key that has something of the value's kind behind it, whether it is the value."""
    for start in starts(found, key):
        behind = found[start + len(key) :]
        kind = isinstance(value, str) or (behind and NUMBER.fullmatch(behind[0]))
        if found[start : start + len(key)] == key and behind and kind:
            yield behind[: len(part)] == part or _rounded(behind[:1], value)


def _squeezed(text: str) -> str:
    return "".join(text.split()).casefold()
