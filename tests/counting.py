"""A small task with a real verifier, count the two lines of a.txt into n.txt, and what remembers its trials."""

from clawloop.types import Card, Contract, Deliverable, Rollout, Task, Verifier, Workspace

CHECK = """
import json
try:
    reason = None if open("work/n.txt").read().strip() == "2" else "wrong_value"
except FileNotFoundError:
    reason = "missing"
print(json.dumps({"fields": {"n": reason}}))
"""
TASK = Task(
    "t1",
    "a.txt has two lines. Count its lines into n.txt.",
    Workspace({"a.txt": b"x\ny\n"}),
    Verifier(CHECK, '"2"', 5.0),
    Contract((), (Deliverable("n.txt", "text", {"n": "integer"}),)),
    Card("capability", "audit/analysis", "analysis", "hives", 0, "text", 1, "l1"),
)


class Journal:
    """Keeps trials in memory."""

    def __init__(self) -> None:
        self.kept: list[Rollout] = []

    def find(self, at: str, task_id: str, index: int) -> Rollout | None:
        return None

    def add(self, at: str, rollout: Rollout) -> None:
        self.kept.append(rollout)
