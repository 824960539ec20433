"""How full the rows are, and how long it takes to fill them: our best-fit decreasing beside a plain first-fit decreasing.

The paper gives means of its trajectories (Table 6: 1,978 of 1,207 tokens, 892 of 2,946, 1,694 of 1,899), rows of 65,536
tokens (Table 5), and no spread. Lengths are drawn as a mixture of three log-normals with these means and weights, whose
deviation of the logarithm is `--spread` (ours); those over the row are drawn again, since such a trajectory is left out.

    python scripts/bench/packing.py

Goal: 50,000 lengths fill their rows to 0.998 or more, within a second. Times are of the processor.
"""

import argparse
import json
import math
import random
import time
from collections.abc import Callable

from clawloop.training.packing import fill

ITERATIONS = {1207: 1978, 2946: 892, 1899: 1694}  # mean tokens: trajectories
GOAL = {"efficiency": 0.998, "seconds": 1.0}


def lengths(count: int, row: int, spread: float, seed: int) -> list[int]:
    """Lengths of trajectories, each at least 1 and at most `row`."""
    rng = random.Random(seed)
    found: list[int] = []
    while len(found) < count:
        (mean,) = rng.choices(list(ITERATIONS), list(ITERATIONS.values()))
        length = math.ceil(rng.lognormvariate(math.log(mean) - spread**2 / 2, spread))
        if length <= row:
            found.append(length)
    return found


def plain(sizes: list[int], room: int) -> list[list[int]]:
    """First-fit decreasing as it is told in books: every bin is looked at in turn."""
    bins: list[list[int]] = []
    left: list[int] = []
    for i in sorted(range(len(sizes)), key=lambda i: -sizes[i]):
        for b, rest in enumerate(left):
            if sizes[i] <= rest:
                bins[b].append(i)
                left[b] -= sizes[i]
                break
        else:
            bins.append([i])
            left.append(room - sizes[i])
    return bins


def measure(pack: Callable[[list[int], int], list[list[int]]], sizes: list[int], row: int) -> dict[str, float]:
    """Rows, efficiency and seconds; every sequence whole and in one row."""
    started = time.process_time()
    rows = pack(sizes, row)
    seconds = time.process_time() - started
    assert sorted(i for held in rows for i in held) == list(range(len(sizes)))
    assert all(sum(sizes[i] for i in held) <= row for held in rows)
    return {
        "rows": len(rows),
        "efficiency": round(sum(sizes) / (len(rows) * row), 5),
        "seconds": round(seconds, 3),
    }


def main() -> None:
    """Measure and print one JSON line."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--count", type=int, default=50_000)
    parser.add_argument("--row", type=int, default=65_536)
    parser.add_argument("--spread", type=float, nargs="+", default=[0.5, 1.0, 1.5])
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    figures: dict[str, dict[str, dict[str, float]]] = {}
    for spread in given.spread:
        sizes = lengths(given.count, given.row, spread, given.seed)
        found = {name: measure(pack, sizes, given.row) for name, pack in {"ours": fill, "first_fit": plain}.items()}
        figures[f"spread_{spread}"] = found
    ours = [found["ours"] for found in figures.values()]
    met = all(one["efficiency"] >= GOAL["efficiency"] and one["seconds"] < GOAL["seconds"] for one in ours)
    print(json.dumps({"bench": "packing", "settings": vars(given), "figures": figures, "goal": GOAL, "met": met}))


if __name__ == "__main__":
    main()
