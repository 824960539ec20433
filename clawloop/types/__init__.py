"""Every noun, as frozen dataclasses. This floor imports nothing of ours and nothing heavy."""

from clawloop.types.report import DiagnosisReport, Evidence, FailureSummary, Pattern, Proficiency, RootCause
from clawloop.types.rollout import FieldResult, Outcome, Rollout, RolloutGroup, TaskPool, Verdict
from clawloop.types.sandbox import CommandResult, Limits, Snapshot
from clawloop.types.task import (
    Assignment,
    Candidate,
    Card,
    Contract,
    Decision,
    Deliverable,
    Finding,
    Generator,
    Screening,
    Task,
    Verifier,
    Workspace,
)
from clawloop.types.trajectory import Completion, Message, Request, Stop, TokenTrace, Trajectory, Turn

__all__ = [
    "Assignment",
    "Candidate",
    "Card",
    "CommandResult",
    "Completion",
    "Contract",
    "Decision",
    "Deliverable",
    "DiagnosisReport",
    "Evidence",
    "FailureSummary",
    "FieldResult",
    "Finding",
    "Generator",
    "Limits",
    "Message",
    "Outcome",
    "Pattern",
    "Proficiency",
    "Request",
    "Rollout",
    "RolloutGroup",
    "RootCause",
    "Screening",
    "Snapshot",
    "Stop",
    "Task",
    "TaskPool",
    "TokenTrace",
    "Trajectory",
    "Turn",
    "Verdict",
    "Verifier",
    "Workspace",
]
