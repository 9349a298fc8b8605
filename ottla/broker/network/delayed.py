"""Answers that are given later, while their connection goes on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ottla.broker.network.connection import Connection
    from ottla.protocol.codec import Response


class Delayed:
    """The answer to a request that is carried out and waits for something, while its connection goes on.

    `complete` it once. `abandon` is called if the client goes away first.
    """

    __slots__ = ("_connection", "api", "context", "is_complete", "response")

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self.is_complete = False
        self.response: Response | None = None
        self.api: Any = None
        self.context: Any = None

    def complete(self, response: Response) -> None:
        """Together with all that are completed in this turn."""
        if not self.is_complete:
            self.is_complete = True
            self.response = response
            self._connection.settle_soon()

    def complete_now(self, response: Response) -> None:
        """For whoever has a turn of the loop of his own."""
        if not self.is_complete:
            self.is_complete = True
            self.response = response
            self._connection.settle()

    def abandon(self) -> None:
        self.is_complete = True
