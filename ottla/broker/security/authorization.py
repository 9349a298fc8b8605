"""Rights of a connection, required by request handlers; the audit log; and changes of ACLs."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection
from enum import IntEnum
from functools import cache
from typing import Protocol, TypeVar

from ottla.metadata.acl_nodes import acl_path, change_notification, decode_entries, encode_entries
from ottla.metadata.configs.broker_config import BrokerConfig, ConfigError
from ottla.metadata.stores.store import (
    BadPath,
    BadVersion,
    Create,
    Delete,
    NodeExists,
    NodeStore,
    NoNode,
    Set,
    StoreError,
    check_path,
)
from ottla.metadata.stores.store import Operation as StoreOperation
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.messages.acls import DeleteAclsFilter, DescribeAclsRequest
from ottla.security.acls import (
    CLUSTER_NAME,
    AclFilter,
    BadAcl,
    Entry,
    Operation,
    PatternType,
    Permission,
    ResourcePattern,
    ResourceType,
    Right,
)
from ottla.security.authorizer import Authorizer, Decision, parse_super_users
from ottla.security.principal import KafkaPrincipal

# Rights of a connection's client, and the audit log of decisions.
#
# The log is Kafka's: logger `kafka.authorizer.logger`, denials at INFO, the rest at DEBUG. Decisions that only filter
# output are at TRACE (here: below DEBUG).

audit = logging.getLogger("kafka.authorizer.logger")

_TRACE = 5
# Bounds the memory used for names invented by clients.
_MOST_DECISIONS = 10_000

# Kafka's error codes and messages for denials.
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


class Client(Protocol):
    """The client of a connection; it may log in again."""

    principal: KafkaPrincipal
    client_host: str


class ConnectionRights:
    """Invariant: no cached decision outlives the ACLs behind it. Owner: the event loop."""

    __slots__ = ("_allowed", "_authorizer", "_connection", "_known", "_version")

    def __init__(self, authorizer: Authorizer, connection: Client) -> None:
        self._authorizer = authorizer
        self._connection = connection
        self._known: dict[tuple[Right, str], Decision] = {}
        self._allowed: set[tuple[Right, str | bytes]] = set()
        self._version = authorizer.version

    def allows(self, right: Right, name: str, api: str, *, quiet: bool = False, count: int = 1) -> bool:
        """Return True if the client has the right. A `quiet` decision only filters output; its denial is not logged."""
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
        """Return True if `remember` was called and no ACL has changed since: one lookup on the hot path."""
        return (right, name) in self._allowed and self._version == self._authorizer.version

    def remember(self, right: Right, name: str | bytes) -> None:
        """Cache a positive decision. `name` may be a topic id, which never refers to another topic."""
        if not audit.isEnabledFor(logging.DEBUG):  # otherwise every decision is logged
            self._allowed.add((right, name))

    def allows_any(self, right: Right) -> bool:
        """Return True if the client holds this right on any resource, existing or not."""
        return self._authorizer.authorize_any(
            self._connection.principal, self._connection.client_host, right.operation, right.resource_type
        )

    def operations(self, resource_type: ResourceType, name: str = CLUSTER_NAME) -> int:
        """Return the bit field of permitted operations (KIP-430)."""
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
    """Convert `AddPartitionsToTxn` to the name in Kafka's logs, `ADD_PARTITIONS_TO_TXN`."""
    return "".join(f"_{each}" if each.isupper() else each.upper() for each in api).lstrip("_")


_CLASS = "authorizer.class.name"
# Authorizers of Kafka 4.x, of 2.4 to 3.9, and of earlier versions. All decide alike.
_CLASSES = (
    "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "kafka.security.authorizer.AclAuthorizer",
    "kafka.security.auth.SimpleAclAuthorizer",
)


def authorizer_of(config: BrokerConfig) -> Authorizer | None:
    """Return the authorizer, or None without restrictions. Raises ConfigError."""
    name = config.get_str(_CLASS)
    if not name:
        return None
    if name not in _CLASSES:
        raise ConfigError(
            f"{_CLASS} is {name}, which is not known here: set it to {_CLASSES[0]}, or to nothing if everybody may do "
            "everything."
        )
    try:
        super_users = parse_super_users(config.get_optional_str("super.users") or "")
    except ValueError as error:
        raise ConfigError(f"super.users cannot be read: {error}.") from None
    return Authorizer(super_users, allow_everyone=config.get_bool("allow.everyone.if.no.acl.found"))


# ACLs of requests: their conversion, and their creation and removal in the store.
#
# Changes are safe against concurrent changes by other brokers.

_MAX_ATTEMPTS = 10


async def add_entries(store: NodeStore, pattern: ResourcePattern, entries: Collection[Entry]) -> None:
    """Raises BadAcl if the store cannot represent the name."""
    path = acl_path(pattern)
    try:
        check_path(path)
        if "/" in pattern.name:
            raise BadPath(path)
    except BadPath:
        raise BadAcl(f"ACL binding contains invalid resource name: {pattern.name}") from None
    await _change(store, pattern, lambda before: before | frozenset(entries))


async def remove_entries(
    store: NodeStore, pattern: ResourcePattern, is_unwanted: Callable[[Entry], bool]
) -> frozenset[Entry]:
    removed: frozenset[Entry] = frozenset()

    def without(before: frozenset[Entry]) -> frozenset[Entry]:
        nonlocal removed
        removed = frozenset(filter(is_unwanted, before))
        return before - removed

    await _change(store, pattern, without)
    return removed


async def _change(
    store: NodeStore, pattern: ResourcePattern, change: Callable[[frozenset[Entry]], frozenset[Entry]]
) -> None:
    """Update the entries of a pattern by compare-and-set, retrying after concurrent changes."""
    path = acl_path(pattern)
    for _ in range(_MAX_ATTEMPTS):
        [node] = await store.get_many([path])
        before = frozenset() if node is None else decode_entries(node.data)
        after = change(before)
        if after == before:
            return
        write: StoreOperation
        if node is None:
            write = Create(path, encode_entries(after))
        elif after:
            write = Set(path, encode_entries(after), node.version)
        else:
            write = Delete(path, node.version)
        try:
            await store.multi([write, change_notification(pattern)])
        except (BadVersion, NoNode, NodeExists) as error:
            if error.path != path:
                raise
            continue  # another broker was faster
        return
    raise StoreError(f"{path} changes faster than it can be read.")


N = TypeVar("N", bound=IntEnum)


def known(numbers: type[N], number: int) -> N:
    """Convert a number; unknown values of newer versions become UNKNOWN."""
    try:
        return numbers(number)
    except ValueError:
        return numbers(0)


def read_filter(asked: DescribeAclsRequest | DeleteAclsFilter) -> AclFilter:
    wanted = AclFilter(
        known(ResourceType, asked.resource_type_filter),
        asked.resource_name_filter,
        known(PatternType, asked.pattern_type_filter),
        asked.principal_filter,
        asked.host_filter,
        known(Operation, asked.operation),
        known(Permission, asked.permission_type),
    )
    if 0 in (wanted.resource_type, wanted.pattern_type, wanted.operation, wanted.permission):
        raise KafkaError(ErrorCode.INVALID_REQUEST, "The filter contains UNKNOWN elements.")
    return wanted
