"""What a handler raises to refuse a request."""

from __future__ import annotations

from collections.abc import Mapping


class HttpError(Exception):
    """Answered as `{"error_code": …, "message": …}`, unless the router renders errors in another way."""

    def __init__(
        self, status: int, error_code: int, message: str, headers: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(message)
        self.status = status
        self.error_code = error_code
        self.message = message
        self.headers = dict(headers or {})


class ClientDisconnected(Exception):
    """The client went away while its request was read: there is nobody to answer."""
