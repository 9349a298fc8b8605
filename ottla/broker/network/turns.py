"""Fair share of the event loop: how much a connection may send per turn."""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic

# Turn size while several connections are active.
SHARED_BYTES = 64 * 1024
# Turn size of a single active connection. Large turns need fewer calls; a new client waits for at most one of them.
ALONE_BYTES = 1024 * 1024
_ALONE_AFTER_SECONDS = 0.1


class Turns:
    """A turn grows while only one connection is active, and shrinks as soon as another becomes active.

    A client with at least ten requests a second therefore never waits for another client's large turn. Owner: the event
    loop.
    """

    __slots__ = ("_active", "_clock", "_since")

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        self._clock = clock
        self._active: object = None  # the most recently active connection
        self._since = 0.0  # start of its exclusive activity

    def note(self, connection: object) -> None:
        if connection is not self._active:
            self._active = connection
            self._since = self._clock()

    def is_alone(self, connection: object) -> bool:
        return connection is self._active and self._clock() - self._since >= _ALONE_AFTER_SECONDS
