"""Responses that cannot be given yet: a fetch that waits for data, a produce that waits for replicas, a coroutine."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ottla.broker.network.dispatch import RequestContext
    from ottla.broker.network.send_queue import Part
    from ottla.protocol.codec import Response


class PendingResponse:
    """The response to one request, to be given later. `RequestContext.pending_response` makes it.

    While it is pending, a connection that it `blocks` handles no further request; any other goes on, and later
    responses wait for their turn. Invariant: it is completed once, with None where the client expects no response, or
    abandoned because the client disconnected first; whatever comes after that is ignored. The response to a large
    request is complete once it is encoded, in slices. Owner: the event loop.
    """

    __slots__ = ("_is_given", "blocks", "context", "encoded", "is_complete", "on_abandon", "response")

    def __init__(
        self,
        context: RequestContext,
        *,
        blocks: bool = False,
        on_abandon: Callable[[], object] | None = None,
    ) -> None:
        self.context = context
        self.blocks = blocks
        self.is_complete = False
        self.response: Response | None = None
        self.encoded: tuple[list[Part], int] | None = None  # the response to a large request, as it is sent
        self._is_given = False
        self.on_abandon = on_abandon

    def complete(self, response: Response | None) -> None:
        """Give the response; it is sent together with all that are completed in this turn of the loop."""
        if self._give(response):
            self.context.connection.settle_soon()

    def complete_now(self, response: Response | None) -> None:
        """Give the response and send it at once, for callers that have a turn of the loop of their own."""
        if self._give(response):
            self.context.connection.settle()

    def _give(self, response: Response | None) -> bool:
        """Take the response, and return whether it can be sent."""
        if self.is_complete or self._is_given:
            if self.context.is_large:
                self.context.end_large(response)
            return False
        self._is_given = True
        self.response = response
        if self.context.is_large:
            if response is not None:
                self.context.connection.encode_slowly(self)
                return False
            self.context.end_large()
        self.is_complete = True
        return True

    def encoded_as(self, parts: list[Part], size: int) -> None:
        """A large response is encoded, and can be sent."""
        if not self.is_complete:
            self.encoded = (parts, size)
            self.is_complete = True
            self.context.connection.settle()

    def abandon(self) -> None:
        """The client has disconnected."""
        self.is_complete = True
        if self.on_abandon is not None:
            self.on_abandon()
