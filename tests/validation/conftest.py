"""A sound generator, candidates made of variants of it, and groups of trials."""

from collections.abc import Callable

import pytest

from clawloop.rollout.grade import SandboxGrader
from clawloop.sandbox.bubblewrap import Bubblewrap
from clawloop.synthesis.generator import candidate, run
from clawloop.types import (
    Candidate,
    Card,
    Contract,
    Deliverable,
    Generator,
    Outcome,
    Rollout,
    RolloutGroup,
    Task,
    Verifier,
    Workspace,
)

PROGRAM = r'''
import json, random, sys

VERIFIER = """
import json
key = json.load(open("key.json"))
try:
    got = json.load(open("work/total.json"))
except FileNotFoundError:
    reason = "missing"
except ValueError:
    reason = "not_json"
else:
    reason = None if isinstance(got, dict) and got.get("total") == key["total"] else "wrong_value"
print(json.dumps({"fields": {"total": reason}}))
"""
ORACLE = """echo "{\\"total\\": $(awk -F, '$2=="open"{s+=$3} END{print s+0}' hives.csv)}" > total.json"""

def build(seed):
    rng = random.Random(seed)
    rows = [(f"h{i}", rng.choice(["open", "shut"]), rng.randint(10, 99)) for i in range(12)]
    files = {"hives.csv": "id,state,frames\n" + "".join(f"{a},{b},{c}\n" for a, b, c in rows)}
    return files, {"total": sum(c for a, b, c in rows if b == "open")}

files, answer = build(int(sys.argv[1]))
task = {
    "files": files,
    "instruction": "Sum the frames of the open hives in hives.csv.",
    "answer": answer,
    "contract": {"decisions": [["filter", "state is open"]],
                 "deliverables": [{"path": "total.json", "form": "json", "fields": {"total": "integer"}}]},
    "oracle": [ORACLE],
    "verifier": VERIFIER,
}
#more
print(json.dumps(task))
'''

Make = Callable[..., Candidate]


@pytest.fixture(scope="session")
def boxes() -> Bubblewrap:
    return Bubblewrap()


@pytest.fixture(scope="session")
def grader(boxes: Bubblewrap) -> SandboxGrader:
    return SandboxGrader(boxes)


@pytest.fixture(scope="session")
def make(boxes: Bubblewrap) -> Make:
    """A candidate of the sound generator, with `more` statements before it prints."""

    def made(more: str = "", seed: int = 5, id: str = "k1-0000") -> Candidate:
        card = Card("capability", "sum", "analysis", "bees", 0, "json", seed, f"sum/{seed}")
        generator = Generator(PROGRAM.replace("#more", more), seed)
        return candidate(id, card, generator, run(generator, boxes))

    return made


@pytest.fixture(scope="session")
def group() -> Callable[..., RolloutGroup]:
    """A task with trials of the given rewards."""

    def made(id: str, rewards: str, lineage: str = "", capability: str = "sum", level: int = 0) -> RolloutGroup:
        card = Card("capability", capability, "analysis", "bees", level, "json", 1, lineage or id)
        contract = Contract((), (Deliverable("n.txt", "text"),))
        task = Task(id, "Count.", Workspace({}), Verifier("", "{}"), contract, card)
        known = {"1": (Outcome.SCORED, 1.0), "0": (Outcome.SCORED, 0.0), "?": (Outcome.GRADER_FAILED, None)}
        trials = tuple(Rollout(id, j, *known[mark], None, None) for j, mark in enumerate(rewards))
        return RolloutGroup(task, trials)

    return made
