"""Abstract task graphs (paper, 4.1): knowledge states and actions, drawn by structure, without business content.

State 0 is what the instruction tells; action i leads to state i + 1, where its result is known or its change made.
"""

import random
from dataclasses import dataclass

_MOST_GOALS, _MOST_LOOKS, _TRIES = 3, 3, 2000


@dataclass(frozen=True, slots=True)
class Action:
    """One action, and the earlier actions whose results it uses; with none it uses the initial knowledge alone.

    A change is a goal; what is no change looks something up. A blocked change fails until another change, which no
    goal asks for, removes what stands in its way.
    """

    change: bool
    after: tuple[int, ...] = ()
    blocked: bool = False


@dataclass(frozen=True, slots=True)
class TaskGraph:
    """Actions in an order in which they can be done. Its properties are the features that control difficulty."""

    actions: tuple[Action, ...]

    @property
    def edges(self) -> tuple[tuple[int, int, int], ...]:
        """(state it starts from, state it leads to, action); an action that joins several states has several edges."""
        return tuple(
            (source, index + 1, index)
            for index, action in enumerate(self.actions)
            for source in ([before + 1 for before in action.after] or [0])
        )

    @property
    def lookups(self) -> int:
        """Actions that only find something out."""
        return sum(not action.change for action in self.actions)

    @property
    def goals(self) -> int:
        """Changes that are asked for."""
        return sum(action.change for action in self.actions)

    @property
    def convergence(self) -> int:
        """Actions that join the results of several others."""
        return sum(len(action.after) > 1 for action in self.actions)

    @property
    def branching(self) -> int:
        """Results that several actions use."""
        used = [before for action in self.actions for before in action.after]
        return sum(used.count(index) > 1 for index in range(len(self.actions)))

    @property
    def long_range(self) -> int:
        """Actions that use a result with at least one other action in between."""
        return sum(bool(action.after) and index - min(action.after) > 1 for index, action in enumerate(self.actions))

    @property
    def recovery(self) -> int:
        """Changes that fail at first."""
        return sum(action.blocked for action in self.actions)

    @property
    def level(self) -> int:
        """0 to 4, by the sum of the features; a goal counts from the second on, and a recovery counts twice.

        Sums of 0, 1, 2 to 3, 4 to 5, and 6 or more.
        """
        plain = self.lookups + self.goals - 1 + self.convergence + self.branching + self.long_range
        return (0, 1, 2, 2, 3, 3, 4)[min(plain + 2 * self.recovery, 6)]


def sample(level: int, rng: random.Random) -> TaskGraph:
    """A graph of a level.

    Raises:
        ValueError: the level is none of 0 to 4.
    """
    if not 0 <= level <= 4:
        raise ValueError(f"a task graph has a level of 0 to 4, not {level}.")
    for _ in range(_TRIES):
        graph = _draw(rng)
        if graph.level == level:
            return graph
    raise ValueError(f"no task graph of level {level} was drawn in {_TRIES} tries.")


def _draw(rng: random.Random) -> TaskGraph:
    actions: list[Action] = []
    for _ in range(rng.randint(1, _MOST_GOALS)):
        open_: list[int] = []
        for _ in range(rng.randint(0, _MOST_LOOKS)):
            after = (open_.pop(rng.randrange(len(open_))),) if open_ and rng.random() < 0.6 else ()
            if after and rng.random() < 0.3:
                open_ += after
            open_.append(len(actions))
            actions.append(Action(change=False, after=after))
        looks = [index for index, action in enumerate(actions) if not action.change and index not in open_]
        if looks and rng.random() < 0.3:
            open_.append(rng.choice(looks))
        actions.append(Action(change=True, after=tuple(sorted(open_)), blocked=rng.random() < 0.3))
    return TaskGraph(tuple(actions))
