"""What became of each candidate, from a ledger."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from clawloop.store.ledger import Ledger, decode
from clawloop.types import Candidate, Finding


@dataclass(frozen=True, slots=True)
class Fate:
    """One candidate with what the checks and the trials said of it.

    `k` is its iteration, and 0 for the probe. `outcome` is one of `admitted`, `out of the band`, `rejected`, `probe`,
    and `screened`, `tried` or `made` where the run has not come further. `passes` of `trials` are those at admission;
    `unjudged` trials have no reward.
    """

    k: int
    candidate: Candidate
    findings: tuple[Finding, ...]
    outcome: str
    passes: int = 0
    trials: int = 0
    unjudged: int = 0
    held_out: bool = False

    @property
    def words(self) -> str:
        """The outcome for a person, in a few words and with its reason."""
        tried = f"{self.passes} of {self.trials} passes" + (f", {self.unjudged} unjudged" if self.unjudged else "")
        match self.outcome:
            case "admitted":
                return f"admitted, {tried}, {'held out' if self.held_out else 'for practice'}"
            case "out of the band" | "tried":
                return f"{self.outcome}, {tried}"
            case "rejected":
                refused = next(finding for finding in self.findings if not finding.passed)
                return f"rejected by {refused.check}: {refused.reason}"
        return self.outcome


def fates(ledger: Ledger) -> Iterator[Fate]:
    """Every candidate of a run, those of the probe first, then by iteration and in order."""
    for k in ledger.iterations():
        yield from _of(ledger, k)


def _of(ledger: Ledger, k: int) -> Iterator[Fate]:
    findings, rewards = ledger.findings(k), ledger.rewards(f"k{k}/admission")
    screened, split = ledger.ended("screen", k) is not None, ledger.ended("split", k)
    practice, held_out = decode(split, tuple[list[str], list[str]]) if split else ([], [])
    admitted = {*practice, *held_out}
    for candidate in ledger.candidates(k):
        found = findings[candidate.id] or candidate.findings
        given = rewards.get(candidate.id, ())
        if not all(finding.passed for finding in found):
            outcome = "rejected"
        elif k == 0:
            outcome = "probe"
        elif candidate.id in admitted:
            outcome = "admitted"
        elif split:
            outcome = "out of the band"
        else:
            outcome = "tried" if given else "screened" if screened else "made"
        yield Fate(
            k,
            candidate,
            found,
            outcome,
            sum(reward == 1.0 for reward in given),
            len(given),
            _unjudged(given),
            candidate.id in held_out,
        )


def _unjudged(rewards: Sequence[float | None]) -> int:
    return sum(reward is None for reward in rewards)
