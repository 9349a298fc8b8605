"""Responses that cannot be given yet: a fetch that waits for data, a produce that waits for replicas, a coroutine."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ottla.broker.network.dispatch import RequestContext
    from ottla.protocol.codec import Response


class PendingResponse:
    """The response to one request, to be given later. `RequestContext.pending_response` makes it.

    While it is pending, a connection that it `blocks` handles no further request; any other goes on, and later
    responses wait for their turn. Invariant: it is completed once, with None where the client expects no response, or
    abandoned because the client disconnected first; whatever comes after that is ignored. Owner: the event loop.
    """

    __slots__ = ("_on_abandon", "blocks", "context", "is_complete", "response")

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
        self._on_abandon = on_abandon

    def complete(self, response: Response | None) -> None:
        """Give the response; it is sent together with all that are completed in this turn of the loop."""
        if not self.is_complete:
            self.is_complete = True
            self.response = response
            self.context.connection.settle_soon()

    def complete_now(self, response: Response | None) -> None:
        """Give the response and send it at once, for callers that have a turn of the loop of their own."""
        if not self.is_complete:
            self.is_complete = True
            self.response = response
            self.context.connection.settle()

    def abandon(self) -> None:
        """The client has disconnected."""
        self.is_complete = True
        if self._on_abandon is not None:
            self._on_abandon()
