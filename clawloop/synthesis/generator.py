"""Running a generator: a program in a box, one JSON object on its stdout, and the candidate that it makes.

    {"files": {path: text}, "instruction": str, "answer": {...}, "contract": {...},
     "oracle": [command, ...], "verifier": str,
     "alternatives": {decision: [answer, ...]}, "noise": [kind, ...],
     "hops": {"index": path, "details": {entity: path}, "reference": [path, ...]}}

`contract` is read by `contract.parse_contract`. `answer` is the verifier's key. `oracle` is the reference solution. The
last three may be left out: `alternatives` are the answers under other choices of a hidden decision, which
`validation.check.contract` holds against the contract; `noise` lists the kinds of `NOISE` that are in the files; `hops`
is the multi-hop structure, which `validation.check.growth` proves.
"""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from clawloop.protocols import Sandboxes
from clawloop.sandbox.workspace import check_path
from clawloop.synthesis.contract import parse_contract
from clawloop.types import Candidate, Card, Contract, Generator, Hops, Limits, Task, Verifier, Workspace

_KEYS = ("files", "instruction", "answer", "contract", "oracle", "verifier")
_OPTIONAL = ("alternatives", "noise", "hops")
NOISE = ("distractors", "missing", "drift", "units")
_LIMITS = Limits(output=4 << 20)
_MOST_FILES = 1000
_DEEPEST = 50
# -I would ignore PYTHONHASHSEED, without which sets differ from run to run; the box holds nothing but the program.
_ENVIRONMENT = {"PYTHONHASHSEED": "0", "TZ": "UTC"}
_COMMAND = ("python3", "-s", "-B", "generator.py")


class GeneratorError(Exception):
    """A generator gave no task: one sentence that says how it failed.

    `kind` is timeout, stopped (too much memory or output), crash, output (it printed no task), contract (that part of
    the output is wrong), or author (there is no program).
    """

    def __init__(self, text: str, kind: str = "author") -> None:
        super().__init__(text)
        self.kind = kind


@dataclass(frozen=True, slots=True)
class Build:
    """What `build(seed)` made: (s0, y, C), the instruction, the oracle and the verifier; `raw` is its whole stdout."""

    raw: bytes
    files: Mapping[str, bytes]
    instruction: str
    answer: str
    contract: Contract
    oracle: tuple[str, ...]
    verifier: str
    alternatives: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    noise: tuple[str, ...] = ()
    hops: Hops | None = None


def run(generator: Generator, sandboxes: Sandboxes, *, seed: int | None = None) -> Build:
    """Run a generator in a box of its own, with its own seed or another one.

    Raises:
        GeneratorError: it failed, ran too long or printed something else than one object of the form above.
        InfrastructureError: the box broke.
    """
    try:
        program = Workspace({"generator.py": generator.program.encode()})
    except UnicodeEncodeError as error:
        raise GeneratorError("the generator's program is not text that UTF-8 can hold.", "crash") from error
    with sandboxes.open(program, _LIMITS) as box:
        result = box.run(
            [*_COMMAND, str(generator.seed if seed is None else seed)],
            timeout_s=generator.timeout_s,
            environment=_ENVIRONMENT,
        )
    if result.stopped:
        bound = {"timeout": f"{generator.timeout_s:g} s", "output": f"{_LIMITS.output} bytes of output"}
        raise GeneratorError(
            f"the generator was stopped: more than its {bound.get(result.stopped, result.stopped)}.",
            "timeout" if result.stopped == "timeout" else "stopped",
        )
    if result.exit_code != 0:
        raise GeneratorError(f"the generator ended with code {result.exit_code}: {_last_line(result.stderr)}", "crash")
    try:
        return _parse(result.stdout)
    except (ValueError, RecursionError) as error:
        kind = "contract" if isinstance(error, _ContractError) else "output"
        raise GeneratorError(f"the generator's output is not a task: {str(error)[:300]}", kind) from error


def candidate(id: str, card: Card, generator: Generator, build: Build) -> Candidate:
    """The candidate that a build makes; its task has the same id, and the card tells which noise is in it."""
    card = replace(card, noise=build.noise)
    verifier = Verifier(build.verifier, build.answer)
    task = Task(id, build.instruction, Workspace(build.files), verifier, build.contract, card)
    return Candidate(
        id, card, generator, task, build.oracle, build.answer, alternatives=build.alternatives, hops=build.hops
    )


def _parse(raw: bytes) -> Build:
    value = json.loads(raw.decode(), object_pairs_hook=_unique, parse_constant=_refuse, parse_float=_finite)
    if not isinstance(value, dict):
        raise ValueError("it must be one JSON object.")
    if missing := [key for key in _KEYS if key not in value]:
        raise ValueError(f"it lacks {missing[0]!r}.")
    if unknown := [key for key in value if key not in (*_KEYS, *_OPTIONAL)]:
        raise ValueError(f"it has an unknown key {unknown[0]!r:.60}.")
    if not isinstance(value["answer"], dict) or not value["answer"]:
        raise ValueError("answer must be an object that is not empty.")
    _shallow(value["answer"], "answer")
    oracle = value["oracle"]
    if not isinstance(oracle, list) or not oracle:
        raise ValueError("oracle must be a list of commands that is not empty.")
    return Build(
        raw=raw,
        files=_files(value["files"]),
        instruction=_text(value["instruction"], "instruction"),
        answer=json.dumps(value["answer"], ensure_ascii=False),
        contract=_contract(value["contract"]),
        oracle=tuple(_text(command, f"oracle[{i}]") for i, command in enumerate(oracle)),
        verifier=_text(value["verifier"], "verifier"),
        alternatives=_alternatives(value.get("alternatives", {})),
        noise=_noise(value.get("noise", [])),
        hops=_hops(value["hops"]) if "hops" in value else None,
    )


class _ContractError(ValueError):
    """What is wrong lies in the contract."""


def _contract(value: object) -> Contract:
    try:
        return parse_contract(value)
    except ValueError as error:
        raise _ContractError(str(error)) from error


def _alternatives(value: object) -> Mapping[str, tuple[str, ...]]:
    if not isinstance(value, dict):
        raise ValueError("alternatives must be an object of decisions and lists of answers.")
    for name, answers in value.items():
        if not isinstance(answers, list) or not all(isinstance(answer, dict) and answer for answer in answers):
            raise ValueError(f"alternatives[{name!a:.60}] must be a list of answers, each an object that is not empty.")
        _shallow(answers, f"alternatives[{name!a:.60}]")
    return {name: tuple(json.dumps(one, ensure_ascii=False) for one in answers) for name, answers in value.items()}


def _noise(value: object) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(kind in NOISE for kind in value):
        raise ValueError(f"noise must be a list of some of {', '.join(NOISE)}.")
    return tuple(kind for kind in NOISE if kind in value)


def _hops(value: object) -> Hops:
    if not isinstance(value, dict) or set(value) != {"index", "details", "reference"}:
        raise ValueError("hops must be an object of index, details and reference.")
    index, details, reference = value["index"], value["details"], value["reference"]
    if not isinstance(details, dict) or not details:
        raise ValueError("hops.details must be an object of entities and paths that is not empty.")
    if not isinstance(reference, list) or not reference:
        raise ValueError("hops.reference must be a list of paths that is not empty.")
    return Hops(
        _text(index, "hops.index"),
        {_text(name, "an entity of hops.details"): _text(path, "hops.details") for name, path in details.items()},
        tuple(_text(path, "hops.reference") for path in reference),
    )


def _files(value: object) -> Mapping[str, bytes]:
    if not isinstance(value, dict) or not 1 <= len(value) <= _MOST_FILES:
        raise ValueError(f"files must be an object of 1 to {_MOST_FILES} paths and texts.")
    for path, text in value.items():
        parts = check_path(path)
        if not isinstance(text, str):
            raise ValueError(f"files[{path!a:.200}] must be a string.")
        if any("/".join(parts[:depth]) in value for depth in range(1, len(parts))):
            raise ValueError(f"files[{path!a:.200}] lies in a folder that is itself a file.")
    if len({path.casefold() for path in value}) < len(value):
        raise ValueError("files has two paths that differ in case only.")
    return {path: text.encode() for path, text in value.items()}


def _text(value: object, at: str) -> str:
    if not isinstance(value, str) or not value.strip():
        raise ValueError(f"{at} must be a string that is not empty.")
    if "\0" in value:
        raise ValueError(f"{at} must hold no NUL.")
    value.encode()
    return value


def _shallow(value: object, at: str) -> None:
    """Refuse what recursion could not walk through."""
    level = [value]
    for _ in range(_DEEPEST):
        level = [
            inner
            for outer in level
            if isinstance(outer, dict | list)
            for inner in (outer.values() if isinstance(outer, dict) else outer)
        ]
        if not level:
            return
    raise ValueError(f"{at} is nested more than {_DEEPEST} deep.")


def _unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a key appears twice in one object.")
    return found


def _refuse(constant: str) -> object:
    raise ValueError(f"{constant} is no JSON.")


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"the number {text[:40]} is too large.")
    return number


def _last_line(text: bytes) -> str:
    lines = text.decode("utf-8", "backslashreplace").splitlines()
    return next((line.strip() for line in reversed(lines) if line.strip()), "nothing on stderr.")[:300]
