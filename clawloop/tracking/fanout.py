"""Several sinks as one."""

from collections.abc import Mapping, Sequence

from clawloop.protocols import Tracker


class Fanout:
    """Passes everything on to each tracker, in order; what one raises, stops the run."""

    def __init__(self, trackers: Sequence[Tracker]) -> None:
        self._trackers = tuple(trackers)

    def log(self, axis: str, step: int, values: Mapping[str, float]) -> None:
        """Numbers of one step of an axis."""
        for tracker in self._trackers:
            tracker.log(axis, step, values)

    def event(self, name: str, detail: Mapping[str, object]) -> None:
        """Something that happened."""
        for tracker in self._trackers:
            tracker.event(name, detail)

    def progress(self, phase: str, done: int, total: int) -> None:
        """How far a phase is."""
        for tracker in self._trackers:
            tracker.progress(phase, done, total)

    def close(self, exit_code: int) -> None:
        """The run is over."""
        for tracker in self._trackers:
            tracker.close(exit_code)
