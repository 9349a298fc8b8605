"""ACLs of requests: their conversion, and their creation and removal in the store.

Changes are safe against concurrent changes by other brokers.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from enum import IntEnum
from typing import TypeVar

from ottla.metadata.acl_nodes import acl_path, change_notification, decode_entries, encode_entries
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
    AclFilter,
    BadAcl,
    Entry,
    Operation,
    PatternType,
    Permission,
    ResourcePattern,
    ResourceType,
)

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
