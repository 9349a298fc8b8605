"""ACL nodes: one node per resource pattern plus change notifications, as in Kafka with ZooKeeper.

Patterns with the same pattern type and resource type are siblings: `/kafka-acl/Topic/orders` for literal patterns,
`/kafka-acl-extended/prefixed/Topic/ord` for prefixes. Names are not escaped.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable
from typing import TypeVar

from ottla.metadata.stores.store import Create, NodeStore, children_if_any
from ottla.security.acls import (
    Entry,
    Operation,
    PatternType,
    Permission,
    ResourcePattern,
    ResourceType,
    in_words,
)

logger = logging.getLogger(__name__)

E = TypeVar("E", ResourceType, Operation, Permission)

LITERAL_CHANGES = "/kafka-acl-changes"
EXTENDED_CHANGES = "/kafka-acl-extended-changes"

_ROOTS = {PatternType.LITERAL: "/kafka-acl", PatternType.PREFIXED: "/kafka-acl-extended/prefixed"}
_CHANGE = "acl_changes_"

Acls = dict[ResourcePattern, frozenset[Entry]]


def _by_words(numbers: type[E]) -> dict[str, E]:
    return {in_words(each): each for each in numbers}


_RESOURCE_TYPES = _by_words(ResourceType)
_OPERATIONS = _by_words(Operation)
_PERMISSIONS = _by_words(Permission)
_KEPT_TYPES = [each for each in ResourceType if each > ResourceType.ANY]

# Nodes required before the first ACL: one per resource type, and two for notifications.
FOLDERS = (
    *(f"{root}/{in_words(kind)}" for root in _ROOTS.values() for kind in _KEPT_TYPES),
    LITERAL_CHANGES,
    EXTENDED_CHANGES,
)


def acl_path(pattern: ResourcePattern) -> str:
    return f"{_ROOTS[pattern.pattern_type]}/{in_words(pattern.resource_type)}/{pattern.name}"


def encode_entries(entries: Iterable[Entry]) -> bytes:
    acls = [
        {
            "principal": entry.principal,
            "permissionType": in_words(entry.permission),
            "operation": in_words(entry.operation),
            "host": entry.host,
        }
        for entry in sorted(entries)
    ]
    return json.dumps({"version": 1, "acls": acls}, separators=(",", ":"), ensure_ascii=False).encode()


def decode_entries(data: bytes) -> frozenset[Entry]:
    """Raises ValueError. Unknown entries cannot be skipped, because they may deny access."""
    if not data:
        return frozenset()
    try:
        return frozenset(
            Entry(
                str(acl["principal"]),
                str(acl["host"]),
                _OPERATIONS[acl["operation"]],
                _PERMISSIONS[acl["permissionType"]],
            )
            for acl in json.loads(data)["acls"]
        )
    except (KeyError, TypeError) as error:
        raise ValueError(f"it lacks {error} or is invalid") from None


def change_notification(pattern: ResourcePattern) -> Create:
    """Return the operation that notifies all brokers, to be added to the multi that makes the change."""
    kind = pattern.resource_type.name
    if pattern.pattern_type is PatternType.LITERAL:
        return Create(f"{LITERAL_CHANGES}/{_CHANGE}", f"{kind}:{pattern.name}".encode(), sequential=True)
    fields = {
        "version": 1,
        "resourceType": kind,
        "name": pattern.name,
        "patternType": pattern.pattern_type.name,
    }
    data = json.dumps(fields, separators=(",", ":"), ensure_ascii=False).encode()
    return Create(f"{EXTENDED_CHANGES}/{_CHANGE}", data, sequential=True)


def decode_notification(data: bytes) -> ResourcePattern:
    """Raises ValueError. Kafka 0.11 to 1.1 wrote `Topic:orders`, in words instead of capitals."""
    text = data.decode()
    if not text.startswith("{"):
        kind, colon, name = text.partition(":")
        if not colon:
            raise ValueError(f"'{text}' names no resource")
        return ResourcePattern(_resource_type(kind), name)
    try:
        fields = json.loads(text)
        return ResourcePattern(
            _resource_type(fields["resourceType"]), str(fields["name"]), PatternType[fields["patternType"]]
        )
    except (KeyError, TypeError) as error:
        raise ValueError(f"it lacks {error}") from None


def _resource_type(text: str) -> ResourceType:
    found = _RESOURCE_TYPES.get(text)
    return ResourceType[text] if found is None else found


async def load_acls(store: NodeStore) -> Acls:
    patterns: list[ResourcePattern] = []
    for pattern_type, root in _ROOTS.items():
        for kind in await children_if_any(store, root):
            resource_type = _RESOURCE_TYPES.get(kind)
            if resource_type is None:
                logger.warning("Ignoring the ACLs of %s/%s: there are no such resources", root, kind)
                continue
            names = await children_if_any(store, f"{root}/{kind}")
            patterns += [ResourcePattern(resource_type, name, pattern_type) for name in names]
    return await read_acls(store, patterns)


async def read_acls(store: NodeStore, patterns: list[ResourcePattern]) -> Acls:
    """Return the entries of these patterns. A pattern without a node has no entries."""
    found = await store.get_many([acl_path(pattern) for pattern in patterns])
    acls: Acls = {}
    for pattern, node in zip(patterns, found, strict=True):
        try:
            acls[pattern] = frozenset() if node is None else decode_entries(node.data)
        except ValueError as error:
            raise ValueError(f"{acl_path(pattern)} cannot be read: {error}") from None
    return acls
