"""A small task with a real verifier: count the two lines of a.txt into n.txt."""

from clawloop.types import Card, Contract, Deliverable, Task, Verifier, Workspace

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
