"""What the client of a connection may do, and the audit log that says what was allowed and denied.

The log is Kafka's: logger `kafka.authorizer.logger`, denials at INFO, the rest at DEBUG, and at TRACE (here: below
DEBUG) what was only asked to decide what to show.
"""

from __future__ import annotations

import logging
from functools import cache
from typing import TYPE_CHECKING

from ottla.protocol.errors import ErrorCode
from ottla.security.acls import CLUSTER_NAME, PatternType, ResourcePattern, ResourceType
from ottla.security.authorizer import Authorizer, Decision
from ottla.security.rights import Right

if TYPE_CHECKING:
    from ottla.broker.network.connection import Connection

audit = logging.getLogger("kafka.authorizer.logger")

_TRACE = 5
# Names that a client makes up must not fill the memory.
_MOST_DECISIONS = 10_000

# What a client is told, in Kafka's words.
DENIED = {
    ResourceType.TOPIC: (ErrorCode.TOPIC_AUTHORIZATION_FAILED, "Topic authorization failed."),
    ResourceType.GROUP: (ErrorCode.GROUP_AUTHORIZATION_FAILED, "Group authorization failed."),
    ResourceType.CLUSTER: (ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "Cluster authorization failed."),
    ResourceType.TRANSACTIONAL_ID: (
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        "Transactional Id authorization failed.",
    ),
    ResourceType.DELEGATION_TOKEN: (
        ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED,
        "Delegation Token authorization failed.",
    ),
    ResourceType.USER: (
        ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED,
        "Delegation Token authorization failed.",
    ),
}


class ConnectionRights:
    """Invariant: no decision outlives the ACLs that it was made by. Owner: the event loop."""

    __slots__ = ("_allowed", "_authorizer", "_connection", "_known", "_version")

    def __init__(self, authorizer: Authorizer, connection: Connection) -> None:
        self._authorizer = authorizer
        self._connection = connection
        self._known: dict[tuple[Right, str], Decision] = {}
        self._allowed: set[tuple[Right, str | bytes]] = set()
        self._version = authorizer.version

    def allows(self, right: Right, name: str, api: str, *, quiet: bool = False, count: int = 1) -> bool:
        """Whether the client may. `quiet`: it is asked only to decide what to show, and a denial is no event."""
        if self._version != self._authorizer.version or len(self._known) > _MOST_DECISIONS:
            self._known.clear()
            self._allowed.clear()
            self._version = self._authorizer.version
        decision = self._known.get((right, name))
        if decision is None:
            decision = self._known[right, name] = self._authorizer.authorize(
                self._connection.principal,
                self._connection.client_host,
                right.operation,
                right.resource_type,
                name,
            )
        level = _TRACE if quiet else logging.DEBUG if decision.allowed else logging.INFO
        if audit.isEnabledFor(level):
            self._log(level, decision, right, name, api, count)
        return decision.allowed

    def was_allowed(self, right: Right, name: str | bytes) -> bool:
        """Whether `remember` was called for it, and no ACL has changed since: one look, for every record that comes."""
        return (right, name) in self._allowed and self._version == self._authorizer.version

    def remember(self, right: Right, name: str | bytes) -> None:
        """It was allowed just now. The name may be the id of a topic, which never stands for another name."""
        if not audit.isEnabledFor(logging.DEBUG):  # else each time is worth a line
            self._allowed.add((right, name))

    def allows_any(self, right: Right) -> bool:
        """Whether there is a resource, be it there or not, that the client may do this with."""
        return self._authorizer.authorize_any(
            self._connection.principal, self._connection.client_host, right.operation, right.resource_type
        )

    def operations(self, resource_type: ResourceType, name: str = CLUSTER_NAME) -> int:
        """The bit field that clients may ask for (KIP-430)."""
        return self._authorizer.authorized_operations(
            self._connection.principal, self._connection.client_host, resource_type, name
        )

    def _log(self, level: int, decision: Decision, right: Right, name: str, api: str, count: int) -> None:
        audit.log(
            level,
            "Principal = %s is %s operation = %s from host = %s on resource = %s for request = %s with "
            "resourceRefCount = %d based on rule %s",
            self._connection.principal,
            "Allowed" if decision.allowed else "Denied",
            right.operation.name,
            self._connection.client_host,
            ResourcePattern(right.resource_type, name, PatternType.LITERAL),
            _in_capitals(api),
            count,
            decision.rule,
        )


@cache
def _in_capitals(api: str) -> str:
    """`AddPartitionsToTxn` as Kafka's logs name it: `ADD_PARTITIONS_TO_TXN`."""
    return "".join(f"_{each}" if each.isupper() else each.upper() for each in api).lstrip("_")
