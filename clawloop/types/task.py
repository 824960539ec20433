"""What an agent is asked to do, and what proves that it did (paper, section 3: tau = <p, s0, A, F, V>)."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field

from clawloop.types.trajectory import Message


@dataclass(frozen=True, slots=True)
class Workspace:
    """The initial state s0: files by relative POSIX path, and extra environment variables.

    >>> Workspace({"a.txt": b"1"}).digest == Workspace({"a.txt": b"1"}).digest
    True
    """

    files: Mapping[str, bytes] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)

    @property
    def digest(self) -> str:
        """SHA-256 over sorted paths, contents and environment, as 64 hex digits."""
        h = hashlib.sha256()
        for path, data in sorted(self.files.items()):
            h.update(f"{len(path)}:{path}:{len(data)}:".encode() + data)
        for name, value in sorted(self.environment.items()):
            h.update(f"env:{name}={value};".encode())
        return h.hexdigest()


@dataclass(frozen=True, slots=True)
class Decision:
    """One hidden decision, declared: a filter, a rounding, a tie-break, a join key."""

    name: str
    rule: str


@dataclass(frozen=True, slots=True)
class Deliverable:
    """One file or path that the final workspace must hold.

    `form` is json, csv, text, or state (a path that must exist or be absent, or a database).
    `fields` names each graded value and its type (integer, number, string, list, rows, absent, ...).
    `tolerance` is the absolute difference that a number may have.
    """

    path: str
    form: str
    fields: Mapping[str, str] = field(default_factory=dict)
    tolerance: float = 0.0


@dataclass(frozen=True, slots=True)
class Contract:
    """The answer contract C: every hidden decision and the deliverables' schema, and no answer (paper, 4.1)."""

    decisions: tuple[Decision, ...]
    deliverables: tuple[Deliverable, ...]


@dataclass(frozen=True, slots=True)
class Verifier:
    """V_tau as a program: `python3 -I -S -B verify.py`, with a copy of the final workspace in `work/`.

    Beside it lie key.json, refused.json (path to reason, of what could not be copied) and directories.json (all
    folders). It prints one JSON object {"fields": {name: null | "reason"}}; null means that the field is right. Only a
    grader may read it: a harness is handed an `Assignment`.
    """

    program: str
    key: str
    timeout_s: float = 20.0


@dataclass(frozen=True, slots=True)
class Card:
    """Where a task comes from.

    `level` is its difficulty, 0 to 4. `lineage` names the seed it grew from: two tasks with one lineage are siblings.
    `noise` are the kinds that its generator says are in the files: distractors, missing, drift, units (paper, 4.1).
    """

    route: str
    capability: str
    track: str
    domain: str
    level: int
    form: str
    seed: int
    lineage: str
    growth: tuple[str, ...] = ()
    noise: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Assignment:
    """All that an agent may see of a task."""

    task_id: str
    instruction: str
    workspace: Workspace
    contract: Contract


@dataclass(frozen=True, slots=True)
class Task:
    """tau = (id, instruction p, workspace s0, verifier V, contract C, card)."""

    id: str
    instruction: str
    workspace: Workspace
    verifier: Verifier
    contract: Contract
    card: Card

    @property
    def assignment(self) -> Assignment:
        """The task without its verifier."""
        return Assignment(self.id, self.instruction, self.workspace, self.contract)


@dataclass(frozen=True, slots=True)
class Generator:
    """A program whose `build(seed)` makes (s0, y, C).

    It runs alone in a sandbox as `python3 -s -B generator.py SEED` and prints one JSON object
    (see `synthesis.generator`).
    """

    program: str
    seed: int
    timeout_s: float = 20.0


@dataclass(frozen=True, slots=True)
class Attempt:
    """One turn of a model that writes something: what it was asked, what it replied, and what was said of that.

    `prompt` holds the messages that are new at this turn. `fault` names where the reply was refused (see
    `synthesis.author.model.model`), and `said` is the sentence that went back; both are empty where it was taken.
    """

    prompt: tuple[Message, ...]
    reply: str
    fault: str = ""
    said: str = ""


@dataclass(frozen=True, slots=True)
class Draft:
    """What an author wrote for a card. `failure` says, in a sentence, why there is no program that could run."""

    generator: Generator
    attempts: tuple[Attempt, ...] = ()
    failure: str = ""


@dataclass(frozen=True, slots=True)
class Finding:
    """What one check said of one candidate; `reason` is empty where it passed."""

    check: str
    passed: bool
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Hops:
    """The multi-hop structure of a workspace, by its paths (paper, 4.1).

    `index` names the entities and the file of each one, `details` holds that file by entity, and `reference` are the
    files that cut across all entities.
    """

    index: str
    details: Mapping[str, str]
    reference: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Candidate:
    """A generator and what it made. Only validation may see it: it holds the oracle and the answer.

    `task` is None where the generator failed; then `findings` says how. `oracle` is the reference solution, one
    shell command a turn. `attempts` is how a model came to the generator; a generator that the project ships has none.
    `alternatives` are, by hidden decision, the answers that other choices would give. `hops` is the multi-hop structure
    that the generator says its workspace has.
    """

    id: str
    card: Card
    generator: Generator
    task: Task | None = None
    oracle: tuple[str, ...] = ()
    answer: str = ""
    findings: tuple[Finding, ...] = ()
    attempts: tuple[Attempt, ...] = ()
    alternatives: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    hops: Hops | None = None


@dataclass(frozen=True, slots=True)
class Screening:
    """P_k^af: the tasks that passed every agent-free check, and what each check said of each candidate (by id)."""

    tasks: tuple[Task, ...]
    findings: Mapping[str, tuple[Finding, ...]]
