"""Reasons for rejecting a request, in the words of Kafka's worker."""

from __future__ import annotations


class RequestError(Exception):
    """An error response with this status and message."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.message = message


def bad_request(message: str) -> RequestError:
    return RequestError(400, message)


def connector_not_found(name: str) -> RequestError:
    return RequestError(404, f"Connector {name} not found")


def unknown_connector(name: str) -> RequestError:
    return RequestError(404, f"Unknown connector {name}")


def rebalance_expected() -> RequestError:
    return RequestError(
        409,
        "Cannot complete request momentarily due to stale configuration (typically caused by a concurrent config "
        "change)",
    )


def conflicting_operation() -> RequestError:
    return RequestError(
        409, "Cannot complete request because of a conflicting operation (e.g. worker rebalance)"
    )


class PassOn(Exception):
    """Another worker must handle the request: the leader, or the owner of the connector."""

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self.url = url
