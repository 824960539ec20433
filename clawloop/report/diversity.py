"""How different the tasks of an iteration are from each other."""

from collections.abc import Iterable, Sequence
from statistics import fmean

from datasketch import MinHash, MinHashLSH

from clawloop.types import Candidate, Task

_ALIKE = 0.8  # the similarity from which two instructions are near duplicates
_PERMUTATIONS, _SEED = 128, 1
_SHINGLE = 3  # words


def diversity(candidates: Iterable[Candidate]) -> dict[str, float | None]:
    """Of the candidates that have a task, in order.

    `cells` are the different (capability, domain, form); `coverage` is their share of as many as so many tasks could
    have, given the capabilities, domains and forms that occur. `near_duplicates` is the share of tasks whose
    instruction has an estimated Jaccard similarity of 0.8 or more, over runs of three words, to one before it (MinHash,
    128 permutations, a fixed seed). `instruction_words` is a mean. Over no tasks, shares and means are None.
    """
    tasks = [candidate.task for candidate in candidates if candidate.task is not None]
    cells = {(task.card.capability, task.card.domain, task.card.form) for task in tasks}
    kinds = [len({cell[part] for cell in cells}) for part in range(3)]
    most = min(len(tasks), kinds[0] * kinds[1] * kinds[2])
    return {
        "capabilities": kinds[0],
        "domains": kinds[1],
        "forms": kinds[2],
        "cells": len(cells),
        "coverage": len(cells) / most if most else None,
        "near_duplicates": _near_duplicates(tasks) / len(tasks) if tasks else None,
        "instruction_words": fmean(len(task.instruction.split()) for task in tasks) if tasks else None,
    }


def _near_duplicates(tasks: Sequence[Task]) -> int:
    """How many tasks are near duplicates of an earlier one."""
    index, seen, found = MinHashLSH(threshold=_ALIKE, num_perm=_PERMUTATIONS), dict[int, MinHash](), 0
    for place, task in enumerate(tasks):
        sketch = MinHash(num_perm=_PERMUTATIONS, seed=_SEED)
        sketch.update_batch([shingle.encode() for shingle in _shingles(task.instruction)])
        found += any(sketch.jaccard(seen[other]) >= _ALIKE for other in index.query(sketch))
        index.insert(place, sketch)
        seen[place] = sketch
    return found


def _shingles(text: str) -> list[str]:
    """Every run of three words; all of a shorter text.

    >>> _shingles("Sum the frames of it"), _shingles("Sum it")
    (['sum the frames', 'the frames of', 'frames of it'], ['sum it'])
    """
    words = text.casefold().split()
    return [" ".join(words[i : i + _SHINGLE]) for i in range(max(len(words) - _SHINGLE + 1, 1))]
