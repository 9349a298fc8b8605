"""Kafka's authorization rules (`AclAuthorizer` of 3.9 and `StandardAuthorizer` of 4.x decide alike).

1. Super users may do everything.
2. The relevant ACLs are those for the resource's name, for `*`, and for prefixes of its name.
3. Among these, an ACL that denies the operation to the principal from this host wins over any that allows it.
4. Without any ACL for the resource, `allow.everyone.if.no.acl.found` decides. Otherwise access is denied.

Allowing READ, WRITE, DELETE or ALTER also allows DESCRIBE, and allowing ALTER_CONFIGS also allows DESCRIBE_CONFIGS.
Denying them denies nothing else.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from functools import cache
from typing import NamedTuple

from ottla.security.acls import (
    ANY_USER,
    WILDCARD,
    Acl,
    AclFilter,
    Entry,
    Operation,
    PatternType,
    Permission,
    ResourcePattern,
    ResourceType,
)
from ottla.security.principal import KafkaPrincipal

_IMPLYING = {
    Operation.DESCRIBE: frozenset(
        (
            Operation.DESCRIBE,
            Operation.READ,
            Operation.WRITE,
            Operation.DELETE,
            Operation.ALTER,
            Operation.ALL,
        )
    ),
    Operation.DESCRIBE_CONFIGS: frozenset(
        (Operation.DESCRIBE_CONFIGS, Operation.ALTER_CONFIGS, Operation.ALL)
    ),
}

# Operations in the bit fields of Metadata, DescribeGroups and DescribeCluster.
_OPERATIONS = {
    ResourceType.TOPIC: (
        Operation.READ, Operation.WRITE, Operation.CREATE, Operation.DELETE, Operation.ALTER, Operation.DESCRIBE,
        Operation.DESCRIBE_CONFIGS, Operation.ALTER_CONFIGS,
    ),
    ResourceType.GROUP: (
        Operation.READ, Operation.DELETE, Operation.DESCRIBE, Operation.DESCRIBE_CONFIGS, Operation.ALTER_CONFIGS,
    ),
    ResourceType.CLUSTER: (
        Operation.CREATE, Operation.ALTER, Operation.DESCRIBE, Operation.CLUSTER_ACTION, Operation.DESCRIBE_CONFIGS,
        Operation.ALTER_CONFIGS, Operation.IDEMPOTENT_WRITE,
    ),
}  # fmt: skip


class Decision(NamedTuple):
    allowed: bool
    # Reason of the decision, in the words of the audit log.
    rule: str


class Authorizer:
    """The ACLs of a cluster, and decisions based on them.

    Invariant: every stored pattern has an entry. `version` grows with every change, so that cached decisions can be
    recognised as outdated. Owner: the event loop.
    """

    def __init__(self, super_users: Collection[str] = (), *, allow_everyone: bool = False) -> None:
        self.super_users = frozenset(super_users)
        self.allow_everyone = allow_everyone
        self.version = 0
        self._entries: dict[ResourcePattern, set[Entry]] = {}
        self._literal: dict[tuple[ResourceType, str], set[Entry]] = {}
        self._prefixed: dict[tuple[ResourceType, str], set[Entry]] = {}
        # Number of prefixes by length, for each resource type.
        self._lengths: dict[ResourceType, dict[int, int]] = {}

    def __iter__(self) -> Iterator[Acl]:
        for pattern, entries in self._entries.items():
            for entry in entries:
                yield Acl(pattern, entry)

    # Changes

    def replace(self, pattern: ResourcePattern, entries: Iterable[Entry]) -> None:
        found = set(entries)
        key = (pattern.resource_type, pattern.name)
        index = self._prefixed if pattern.pattern_type is PatternType.PREFIXED else self._literal
        was_there = pattern in self._entries
        if found:
            self._entries[pattern] = index[key] = found
        elif was_there:
            del self._entries[pattern], index[key]
        if index is self._prefixed and was_there != bool(found):
            lengths = self._lengths.setdefault(pattern.resource_type, {})
            size = len(pattern.name)
            lengths[size] = lengths.get(size, 0) + (1 if found else -1)
            if not lengths[size]:
                del lengths[size]
        self.version += 1

    def entries(self, pattern: ResourcePattern) -> frozenset[Entry]:
        return frozenset(self._entries.get(pattern, ()))

    def find(self, wanted: AclFilter) -> list[Acl]:
        return [acl for acl in self if wanted.matches(acl)]

    # Decisions

    def authorize(
        self,
        principal: KafkaPrincipal,
        host: str,
        operation: Operation,
        resource_type: ResourceType,
        name: str,
    ) -> Decision:
        who = str(principal)
        if who in self.super_users:
            return Decision(True, "SuperUser")
        allowing = _IMPLYING.get(operation, (operation, Operation.ALL))
        is_any = False
        allow: Acl | None = None
        for pattern, entries in self._about(resource_type, name):
            is_any = True
            for entry in entries:
                if entry.principal not in (who, ANY_USER) or entry.host not in (host, WILDCARD):
                    continue
                if entry.permission is Permission.DENY:
                    if entry.operation in (operation, Operation.ALL):
                        return Decision(False, _matching(Acl(pattern, entry)))
                elif allow is None and entry.operation in allowing:
                    allow = Acl(pattern, entry)
        if allow is not None:
            return Decision(True, _matching(allow))
        if not is_any and self.allow_everyone:
            return Decision(True, "DefaultAllow")
        return Decision(False, "DefaultDeny")

    def authorize_any(
        self, principal: KafkaPrincipal, host: str, operation: Operation, resource_type: ResourceType
    ) -> bool:
        """Return True if the operation is allowed on any resource of this type, existing or not.

        Implied operations do not count.
        """
        who = str(principal)
        if who in self.super_users:
            return True
        allowed: list[ResourcePattern] = []
        denied: set[ResourcePattern] = set()
        for pattern, entries in self._entries.items():
            if pattern.resource_type is not resource_type:
                continue
            for entry in entries:
                if (
                    entry.principal in (who, ANY_USER)
                    and entry.host in (host, WILDCARD)
                    and entry.operation in (operation, Operation.ALL)
                ):
                    if entry.permission is Permission.DENY:
                        denied.add(pattern)
                    else:
                        allowed.append(pattern)
        everything = ResourcePattern(resource_type, WILDCARD)
        if everything in denied:
            return False
        if self.allow_everyone or everything in allowed:
            return True
        return any(not _is_denied(pattern, denied) for pattern in allowed)

    def authorized_operations(
        self, principal: KafkaPrincipal, host: str, resource_type: ResourceType, name: str
    ) -> int:
        bits = 0
        for operation in _OPERATIONS[resource_type]:
            if self.authorize(principal, host, operation, resource_type, name).allowed:
                bits |= 1 << operation
        return bits

    def _about(self, resource_type: ResourceType, name: str) -> Iterator[tuple[ResourcePattern, set[Entry]]]:
        names = (name,) if name == WILDCARD else (name, WILDCARD)
        for literal in names:
            entries = self._literal.get((resource_type, literal))
            if entries is not None:
                yield ResourcePattern(resource_type, literal), entries
        for length in self._lengths.get(resource_type, ()):
            if length <= len(name):
                prefix = name[:length]
                entries = self._prefixed.get((resource_type, prefix))
                if entries is not None:
                    yield ResourcePattern(resource_type, prefix, PatternType.PREFIXED), entries


@cache
def all_operations(resource_type: ResourceType) -> int:
    return sum(1 << operation for operation in _OPERATIONS[resource_type])


def _is_denied(pattern: ResourcePattern, denied: set[ResourcePattern]) -> bool:
    if pattern in denied:
        return True
    resource_type, name, _ = pattern
    return any(
        ResourcePattern(resource_type, name[:length], PatternType.PREFIXED) in denied
        for length in range(1, len(name) + 1)
    )


def _matching(acl: Acl) -> str:
    """Format like `StandardAuthorizer`."""
    pattern, entry = acl
    return (
        f"MatchingAcl(acl=StandardAcl(resourceType={pattern.resource_type.name}, resourceName={pattern.name}, "
        f"patternType={pattern.pattern_type.name}, principal={entry.principal}, host={entry.host}, "
        f"operation={entry.operation.name}, permissionType={entry.permission.name}))"
    )


def parse_super_users(text: str) -> frozenset[str]:
    """Parse `super.users`: `User:ann;User:CN=broker,O=Ottla`. Raises ValueError naming an invalid principal."""
    found = frozenset(each.strip() for each in text.split(";") if each.strip())
    for each in sorted(found):
        kind, colon, name = each.partition(":")
        if not (kind and colon and name):
            raise ValueError(f"'{each}' is not a principal such as User:ann")
    return found
