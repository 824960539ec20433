"""Containers that wait for their box, so that opening one takes no start. None serves two boxes."""

from collections import OrderedDict, deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from threading import Lock, Semaphore

from clawloop.protocols import InfrastructureError
from clawloop.sandbox.docker.container import Container, Shape

_STARTERS = 4
_AT_ONCE = 8
_SHAPES = 3


class Pool:
    """Keeps `warm` containers of each of the shapes last asked for; may be used from many threads at once.

    An engine starts few at a time well: four threads fill the pool, and at most eight containers start together.
    """

    def __init__(self, make: Callable[[Shape], Container], warm: int) -> None:
        self._make = make
        self._warm = warm
        self._lock = Lock()
        self._shelves: OrderedDict[Shape, deque[Future[Container]]] = OrderedDict()
        self._starters = ThreadPoolExecutor(_STARTERS, "clawloop-containers")
        self._slots = Semaphore(_AT_ONCE)

    def take(self, shape: Shape) -> Container:
        """A container that nobody has used.

        Raises:
            InfrastructureError: there is none and none can be made.
        """
        while (waiting := self._next(shape)) is not None:
            with suppress(InfrastructureError):  # it failed to start, or died while it waited
                container = waiting.result()
                try:
                    container.kill_all()
                except InfrastructureError:
                    container.close()
                    raise
                self.fill(shape)
                return container
        container = self._start(shape)
        self.fill(shape)
        return container

    def fill(self, shape: Shape) -> None:
        """Have containers of this shape wait."""
        if not self._warm:
            return
        dropped: list[Future[Container]] = []
        with self._lock:
            shelf = self._shelves.setdefault(shape, deque())
            self._shelves.move_to_end(shape)
            while len(shelf) < self._warm:
                shelf.append(self._starters.submit(self._start, shape))
            if len(self._shelves) > _SHAPES:
                dropped += self._shelves.popitem(last=False)[1]
        _drop(dropped)

    def close(self) -> None:
        """Remove all that wait."""
        with self._lock:
            waiting = [one for shelf in self._shelves.values() for one in shelf]
            self._shelves.clear()
            self._warm = 0
        _drop(waiting)
        self._starters.shutdown()

    def _next(self, shape: Shape) -> Future[Container] | None:
        with self._lock:
            shelf = self._shelves.get(shape)
            return shelf.popleft() if shelf else None

    def _start(self, shape: Shape) -> Container:
        with self._slots:
            return self._make(shape)


def _drop(waiting: list[Future[Container]]) -> None:
    for one in waiting:
        if not one.cancel():
            with suppress(InfrastructureError):
                one.result().close()
