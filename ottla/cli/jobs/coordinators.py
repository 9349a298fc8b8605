"""Asking the coordinator of a group or of a transactional id, wherever it is."""

from __future__ import annotations

import time
from collections.abc import Callable
from enum import IntEnum
from typing import TYPE_CHECKING, TypeVar

from ottla.cli.errors import JobError, in_kafkas_words

if TYPE_CHECKING:
    from ottla.cli.brokers import Node
    from ottla.cli.client import Client
    from ottla.cli.wire import Connection

T = TypeVar("T")

# One that is being created, loaded or moved answers with these, and soon no longer.
_NOT_YET = frozenset({"NOT_COORDINATOR", "COORDINATOR_NOT_AVAILABLE", "COORDINATOR_LOAD_IN_PROGRESS"})
_BACKOFF = 0.1


class Kind(IntEnum):
    GROUP = 0
    TRANSACTION = 1


def when_ready(client: Client, ask: Callable[[], T], *, again_on: frozenset[str] = frozenset()) -> T:
    """What `ask` returns. It is asked again while a coordinator is not ready, or fails with one of `again_on`."""
    deadline = time.monotonic() + client.timeout
    while True:
        try:
            return ask()
        except JobError as error:
            if error.code not in _NOT_YET | again_on or time.monotonic() > deadline:
                raise
        time.sleep(_BACKOFF)
        client.brokers.forget()


def ask_coordinator(
    client: Client,
    kind: Kind,
    key: str,
    ask: Callable[[Connection, Node], T],
    *,
    again_on: frozenset[str] = frozenset(),
) -> T:
    """As `when_ready`, with the coordinator looked for each time."""

    def ask_there() -> T:
        node = _find(client, kind, key)
        return ask(client.brokers.node(node.id), node)

    return when_ready(client, ask_there, again_on=again_on)


def _find(client: Client, kind: Kind, key: str) -> Node:
    from ottla.cli.brokers import Node
    from ottla.protocol.messages.cluster import FindCoordinatorRequest, FindCoordinatorResponse

    answer = client.brokers.request(
        FindCoordinatorRequest(key=key, key_type=kind, coordinator_keys=[key]), FindCoordinatorResponse
    )
    found = answer.coordinators[0] if answer.coordinators else answer
    if found.error_code:
        raise in_kafkas_words(found.error_code, found.error_message)
    return Node(found.node_id, found.host, found.port, None)
