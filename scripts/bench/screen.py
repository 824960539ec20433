"""How many candidates of `author: library` pass the screen, over both routes and all levels.

Routes, growth and checks are those of `conf/` for the main experiment, with these overrides. `recover` counts tasks
whose reference solution gives one command twice, because the first time it is refused.

    python scripts/bench/screen.py                       # 16 candidates a route and level
    python scripts/bench/screen.py --each 100 --seed 2   # 1,000
    python scripts/bench/screen.py 'check=[replay]'      # another list of checks

Goal: at least 97% pass.
"""

import argparse
import json
import time
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

from clawloop.build.part import part, parts
from clawloop.config.composed import composed
from clawloop.policy.scripted import ScriptedPolicy
from clawloop.protocols import Sandboxes
from clawloop.rollout.grade import SandboxGrader
from clawloop.synthesis.difficulty.none import NoGrowth
from clawloop.synthesis.synthesize import Synthesize
from clawloop.types import DiagnosisReport
from clawloop.validation.screen import Screen

GOAL, LEVELS = 0.97, range(5)
Maker = Callable[[int, int, int], Synthesize]


def makers(config: Mapping[str, Any], boxes: Sandboxes, at_once: int = 2) -> tuple[dict[str, Maker], Screen]:
    """For each route, what makes a synthesis of (level, count, seed), and the screen that goes with them."""
    author, growth = part(config["author"]), parts(config["growth"])

    def maker(routine: Any) -> Maker:
        return lambda level, count, seed: Synthesize(
            [routine], author, growth, NoGrowth(level), boxes, count, seed, at_once
        )

    screen = Screen(parts(config["check"], sandboxes=boxes, grader=SandboxGrader(boxes)), workers=at_once)
    return {name: maker(routine) for name, routine in parts(config["routine"]).items()}, screen


def main() -> None:
    """Print a line a route and level with every refusal, and the JSON line."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--each", type=int, default=16, help="candidates a route and level")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("overrides", nargs="*", help="of conf/")
    given = parser.parse_args()
    config = composed(["routine=[capability,domain]", *given.overrides])
    routes, screen = makers(config, part(config["sandbox"]))
    figures: dict[str, object] = {}
    made_of, passed_of, refused = Counter[str](), Counter[str](), Counter[str]()
    for name, make in routes.items():
        for level in LEVELS:
            started = time.monotonic()
            made = make(level, given.each, given.seed)(ScriptedPolicy(), DiagnosisReport.empty(), 1)
            between = time.monotonic()
            screening = screen(made, 1)
            made_of[name] += len(made)
            passed_of[name] += len(screening.tasks)
            recover = sum(len(set(one.oracle)) < len(one.oracle) for one in made)
            print(
                f"{name}, level {level}: {len(screening.tasks)} of {len(made)} pass; {recover} recover;"
                f" {between - started:.0f} s of synthesis, {time.monotonic() - between:.0f} s of screening",
                flush=True,
            )
            for one in made:
                if (last := screening.findings[one.id][-1]) and not last.passed:
                    refused[f"{name}/{last.check}"] += 1
                    print(f"  {one.card.capability}: {last.check}: {last.reason}", flush=True)
    for name in made_of:
        figures[name] = {"candidates": made_of[name], "passed": passed_of[name]}
    share = passed_of.total() / made_of.total()
    figures |= {"share": round(share, 4), "refused": dict(refused)}
    print(json.dumps({"bench": "screen", "figures": figures, "goal": {"share": GOAL}, "met": share >= GOAL}))


if __name__ == "__main__":
    main()
