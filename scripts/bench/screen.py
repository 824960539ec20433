"""How many candidates of a route pass the screen, level by level: `python scripts/bench/screen.py domain 40 1`.

The arguments are the route (capability or domain), the candidates a level, and the seed. Generators are those of
`author: library`, checks those of `conf/config.yaml`. Commands are those of the reference solutions; those that have one
twice recover from a refusal.
"""

import sys
import time
from collections import Counter

from clawloop.policy.scripted import ScriptedPolicy
from clawloop.rollout.grade import SandboxGrader
from clawloop.sandbox.bubblewrap import Bubblewrap
from clawloop.synthesis.author.library.library import Library
from clawloop.synthesis.difficulty.none import NoGrowth
from clawloop.synthesis.growth.dirtiness import Dirtiness
from clawloop.synthesis.growth.multi_hop import MultiHop
from clawloop.synthesis.routine.capability import Capability
from clawloop.synthesis.routine.domain import DomainGrounded
from clawloop.synthesis.synthesize import Synthesize
from clawloop.types import DiagnosisReport
from clawloop.validation.check.deterministic import Deterministic
from clawloop.validation.check.leakage import Leakage
from clawloop.validation.check.oracle import Oracle
from clawloop.validation.check.trivial import Trivial
from clawloop.validation.screen import Screen

ROUTES = {"capability": Capability, "domain": DomainGrounded}


def main() -> None:
    """Print a line a level, with every finding, and the share of all."""
    route, each, seed = ROUTES[sys.argv[1]](), int(sys.argv[2]), int(sys.argv[3])
    boxes = Bubblewrap()
    grader = SandboxGrader(boxes)
    checks = {
        "deterministic": Deterministic(boxes),
        "oracle": Oracle(boxes, grader, 10.0),
        "leakage": Leakage(),
        "trivial": Trivial(grader),
    }
    growth, passed = [MultiHop(), Dirtiness()], 0
    for level in range(5):
        started = time.monotonic()
        synthesize = Synthesize([route], Library(), growth, NoGrowth(level), boxes, each, seed)
        made = synthesize(ScriptedPolicy(), DiagnosisReport.empty(), 1)
        between = time.monotonic()
        screening = Screen(checks)(made, 1)
        passed += len(screening.tasks)
        commands = Counter(len(one.oracle) for one in made)
        recover = sum(len(set(one.oracle)) < len(one.oracle) for one in made)
        print(
            f"level {level}: {len(screening.tasks)} of {each} pass; commands {dict(sorted(commands.items()))};"
            f" {recover} recover; {between - started:.0f} s of synthesis, {time.monotonic() - between:.0f} s of screening",
            flush=True,
        )
        for one in made:
            if (last := screening.findings[one.id][-1]) and not last.passed:
                print(f"  {one.card.capability}: {last.check}: {last.reason}")
    print(f"{passed} of {5 * each} pass, {passed / (5 * each):.1%}")


if __name__ == "__main__":
    main()
