"""Send requests to the responsible broker: the controller, or the coordinator of a group or transactional id."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from ottla.client.cluster import Cluster, CoordinatorType, Node
from ottla.client.connection import Connection
from ottla.client.errors import ClientError
from ottla.protocol.codec import Request, Response
from ottla.protocol.errors import ErrorCode

T = TypeVar("T")
R = TypeVar("R", bound=Response)

# Errors during an election, a move or the loading of a controller or coordinator.
_NOT_YET = frozenset(
    {
        ErrorCode.NOT_CONTROLLER,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    }
)


def timeout_ms(cluster: Cluster) -> int:
    """Return the broker's time limit for a request, slightly shorter than the client's."""
    return round(cluster.settings.request_timeout * 900)


def when_ready(cluster: Cluster, ask: Callable[[], T], *, again_on: frozenset[ErrorCode] = frozenset()) -> T:
    """Return the result of `ask`. Retry while a role moves, or after errors in `again_on`."""
    deadline = time.monotonic() + cluster.settings.api_timeout
    while True:
        try:
            return ask()
        except ClientError as error:
            if error.code not in _NOT_YET | again_on or time.monotonic() > deadline:
                raise
        time.sleep(cluster.settings.retry_backoff)
        cluster.forget_nodes()


def ask_controller(cluster: Cluster, request: Request, answer: type[R], check: Callable[[R], T]) -> T:
    """Send a request to the controller and return the result of `check`, which raises refusals."""
    return when_ready(cluster, lambda: check(cluster.controller().request(request, answer)))


def ask_coordinator(
    cluster: Cluster,
    kind: CoordinatorType,
    key: str,
    ask: Callable[[Connection, Node], T],
    *,
    again_on: frozenset[ErrorCode] = frozenset(),
) -> T:
    """Like `when_ready`, with a new coordinator lookup for each attempt."""

    def ask_there() -> T:
        node = cluster.coordinators(kind, [key])[key]
        return ask(cluster.connection(node.address), node)

    return when_ready(cluster, ask_there, again_on=again_on)


def ask_group_coordinator(
    cluster: Cluster, group: str, request: Request, answer: type[R], check: Callable[[R], T]
) -> T:
    """Send a request to the group's coordinator and return the result of `check`."""
    return ask_coordinator(
        cluster,
        CoordinatorType.GROUP,
        group,
        lambda connection, _node: check(connection.request(request, answer)),
    )
