"""How much a connection may send before the event loop turns to the others."""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic

# The most that others wait for while several connections are active.
SHARED_BYTES = 64 * 1024
# Large turns cost fewer calls for the same bytes. A client that appears while a connection is alone waits for one turn.
ALONE_BYTES = 1024 * 1024
_ALONE_AFTER_SECONDS = 0.1


class Turns:
    """A turn grows while one connection is the only active one, and shrinks as soon as another one is.

    A client that sends at least ten requests a second therefore never waits for a large turn of somebody else.
    Owner: the event loop.
    """

    __slots__ = ("_active", "_clock", "_since")

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        self._clock = clock
        self._active: object = None  # the connection that did something last
        self._since = 0.0  # when it began to be the only one

    def note(self, connection: object) -> None:
        """This connection can receive or send something."""
        if connection is not self._active:
            self._active = connection
            self._since = self._clock()

    def is_alone(self, connection: object) -> bool:
        """Whether no other connection did anything for a while."""
        return connection is self._active and self._clock() - self._since >= _ALONE_AFTER_SECONDS
