"""What can go wrong between a client and a cluster, as one sentence each."""

from __future__ import annotations

from ottla.protocol.errors import ErrorCode


class ClientError(Exception):
    """`code` is Kafka's error code, if the broker gave one or if there is one that says it."""

    def __init__(self, message: str, code: ErrorCode | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.code = code

    def __reduce__(self) -> tuple[type[ClientError], tuple[str, ErrorCode | None]]:
        return type(self), (self.message, self.code)

    @property
    def is_retriable(self) -> bool:
        return self.code is not None and self.code.retriable


class Unreachable(ClientError):
    """No connection, or a connection that was lost."""

    @property
    def is_retriable(self) -> bool:
        return True


def error_code(number: int) -> ErrorCode:
    """The code of a number on the wire; a newer broker may know one that we do not."""
    try:
        return ErrorCode(number)
    except ValueError:
        return ErrorCode.UNKNOWN_SERVER_ERROR
