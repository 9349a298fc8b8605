"""Responses not available yet: a fetch waiting for data, a produce waiting for replicas, a coroutine."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ottla.broker.network.request_context import RequestContext
    from ottla.broker.network.send_queue import Part
    from ottla.protocol.codec import Response


class PendingResponse:
    """A response to complete later, created by `RequestContext.pending_response`.

    While pending, it stops its connection from handling further requests if it `blocks`. Otherwise the connection
    continues, and later responses wait in line.

    Invariant: it is completed once (with None if the client expects no response) or abandoned after a disconnect; later
    calls have no effect. The response to a large request is complete once encoded, in slices. Owner: the event loop.
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
        self.encoded: tuple[list[Part], int] | None = None  # the encoded response to a large request
        self._is_given = False
        self.on_abandon = on_abandon

    def complete(self, response: Response | None) -> None:
        """Complete the response; it is sent together with all others completed in this turn of the loop."""
        if self._give(response):
            self.context.connection.complete_soon()

    def complete_now(self, response: Response | None) -> None:
        """Complete the response and send it immediately, for callers with their own turn of the loop."""
        if self._give(response):
            self.context.connection.complete()

    def _give(self, response: Response | None) -> bool:
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
        if not self.is_complete:
            self.encoded = (parts, size)
            self.is_complete = True
            self.context.connection.complete()

    def abandon(self) -> None:
        self.is_complete = True
        if self.on_abandon is not None:
            self.on_abandon()
