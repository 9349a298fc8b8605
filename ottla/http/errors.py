"""Exceptions that handlers raise to refuse a request."""

from __future__ import annotations

from collections.abc import Mapping


class HttpError(Exception):
    """Rendered as `{"error_code": …, "message": …}`, unless the router renders errors differently."""

    def __init__(
        self, status: int, error_code: int, message: str, headers: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(message)
        self.status = status
        self.error_code = error_code
        self.message = message
        self.headers = dict(headers or {})


class ClientDisconnected(Exception):
    """The client disconnected while its request was read."""
