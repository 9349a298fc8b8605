"""ACLs, and the rights required by request handlers."""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple

# ACLs: principals, operations, resources and hosts. Numbers and names are Kafka's.

WILDCARD = "*"
CLUSTER_NAME = "kafka-cluster"
ANY_USER = "User:*"


class ResourceType(IntEnum):
    UNKNOWN = 0
    ANY = 1
    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


class PatternType(IntEnum):
    UNKNOWN = 0
    ANY = 1
    MATCH = 2
    LITERAL = 3
    PREFIXED = 4


class Operation(IntEnum):
    UNKNOWN = 0
    ANY = 1
    ALL = 2
    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12
    CREATE_TOKENS = 13
    DESCRIBE_TOKENS = 14
    TWO_PHASE_COMMIT = 15


class Permission(IntEnum):
    UNKNOWN = 0
    ANY = 1
    DENY = 2
    ALLOW = 3


class ResourcePattern(NamedTuple):
    """One resource, or with PREFIXED all resources whose names start with `name`. The literal name `*` means every
    name.
    """

    resource_type: ResourceType
    name: str
    pattern_type: PatternType = PatternType.LITERAL

    def __str__(self) -> str:
        """Format as in the audit log: `Topic:LITERAL:orders`."""
        return f"{in_words(self.resource_type)}:{self.pattern_type.name}:{self.name}"


class Entry(NamedTuple):
    """An ACL without its resource."""

    principal: str
    host: str
    operation: Operation
    permission: Permission


class Acl(NamedTuple):
    pattern: ResourcePattern
    entry: Entry


class AclFilter(NamedTuple):
    """Filter for ACLs. None and ANY match everything. MATCH selects all ACLs that apply
    to a resource with this name.
    """

    resource_type: ResourceType = ResourceType.ANY
    name: str | None = None
    pattern_type: PatternType = PatternType.ANY
    principal: str | None = None
    host: str | None = None
    operation: Operation = Operation.ANY
    permission: Permission = Permission.ANY

    def matches(self, acl: Acl) -> bool:
        entry = acl.entry
        return (
            self._takes(acl.pattern)
            and self.principal in (None, entry.principal)
            and self.host in (None, entry.host)
            and self.operation in (Operation.ANY, entry.operation)
            and self.permission in (Permission.ANY, entry.permission)
        )

    def _takes(self, pattern: ResourcePattern) -> bool:
        if self.resource_type not in (ResourceType.ANY, pattern.resource_type):
            return False
        if self.pattern_type not in (PatternType.ANY, PatternType.MATCH, pattern.pattern_type):
            return False
        if self.name is None:
            return True
        if self.pattern_type is PatternType.MATCH:
            return applies(pattern, self.name)
        return self.name == pattern.name


def applies(pattern: ResourcePattern, name: str) -> bool:
    if pattern.pattern_type is PatternType.PREFIXED:
        return name.startswith(pattern.name)
    return pattern.name in (name, WILDCARD)


def in_words(number: IntEnum) -> str:
    """Format `TRANSACTIONAL_ID` as in ZooKeeper's nodes and the audit log: `TransactionalId`."""
    return "".join(part.capitalize() for part in number.name.split("_"))


class BadAcl(Exception):
    """An invalid ACL. Kafka answers INVALID_REQUEST."""


def check_creation(acl: Acl) -> None:
    pattern, entry = acl
    for number in (pattern.resource_type, pattern.pattern_type, entry.operation, entry.permission):
        if number.name in ("UNKNOWN", "ANY", "MATCH"):
            kind = type(number).__name__
            raise BadAcl(f"Invalid {kind} {number.name}: an ACL has to name one.")
    if not pattern.name:
        raise BadAcl("Resource name should not be empty")
    if pattern.resource_type is ResourceType.CLUSTER and pattern.name != CLUSTER_NAME:
        raise BadAcl(f"The only valid name for the CLUSTER resource is {CLUSTER_NAME}")
    kind, colon, _ = entry.principal.partition(":")
    if not (kind and colon):
        raise BadAcl(
            f"Could not parse principal from `{entry.principal}` (no colon is present separating the principal type "
            "from the principal name)"
        )


# Rights required by request handlers: an operation on a resource type.


class Right:
    """A right. Each exists once in this module, so that lookups can use its identity."""

    __slots__ = ("operation", "resource_type")

    def __init__(self, operation: Operation, resource_type: ResourceType) -> None:
        self.operation = operation
        self.resource_type = resource_type

    def __repr__(self) -> str:
        return f"{self.operation.name} {self.resource_type.name}"


READ_TOPIC = Right(Operation.READ, ResourceType.TOPIC)
WRITE_TOPIC = Right(Operation.WRITE, ResourceType.TOPIC)
CREATE_TOPIC = Right(Operation.CREATE, ResourceType.TOPIC)
DELETE_TOPIC = Right(Operation.DELETE, ResourceType.TOPIC)
ALTER_TOPIC = Right(Operation.ALTER, ResourceType.TOPIC)
DESCRIBE_TOPIC = Right(Operation.DESCRIBE, ResourceType.TOPIC)
DESCRIBE_CONFIGS_TOPIC = Right(Operation.DESCRIBE_CONFIGS, ResourceType.TOPIC)
ALTER_CONFIGS_TOPIC = Right(Operation.ALTER_CONFIGS, ResourceType.TOPIC)

READ_GROUP = Right(Operation.READ, ResourceType.GROUP)
DELETE_GROUP = Right(Operation.DELETE, ResourceType.GROUP)
DESCRIBE_GROUP = Right(Operation.DESCRIBE, ResourceType.GROUP)
DESCRIBE_CONFIGS_GROUP = Right(Operation.DESCRIBE_CONFIGS, ResourceType.GROUP)
ALTER_CONFIGS_GROUP = Right(Operation.ALTER_CONFIGS, ResourceType.GROUP)

CREATE_CLUSTER = Right(Operation.CREATE, ResourceType.CLUSTER)
DELETE_CLUSTER = Right(Operation.DELETE, ResourceType.CLUSTER)
ALTER_CLUSTER = Right(Operation.ALTER, ResourceType.CLUSTER)
DESCRIBE_CLUSTER = Right(Operation.DESCRIBE, ResourceType.CLUSTER)
CLUSTER_ACTION = Right(Operation.CLUSTER_ACTION, ResourceType.CLUSTER)
DESCRIBE_CONFIGS_CLUSTER = Right(Operation.DESCRIBE_CONFIGS, ResourceType.CLUSTER)
ALTER_CONFIGS_CLUSTER = Right(Operation.ALTER_CONFIGS, ResourceType.CLUSTER)
IDEMPOTENT_WRITE = Right(Operation.IDEMPOTENT_WRITE, ResourceType.CLUSTER)

WRITE_TRANSACTIONAL_ID = Right(Operation.WRITE, ResourceType.TRANSACTIONAL_ID)
DESCRIBE_TRANSACTIONAL_ID = Right(Operation.DESCRIBE, ResourceType.TRANSACTIONAL_ID)
TWO_PHASE_COMMIT = Right(Operation.TWO_PHASE_COMMIT, ResourceType.TRANSACTIONAL_ID)

DESCRIBE_DELEGATION_TOKEN = Right(Operation.DESCRIBE, ResourceType.DELEGATION_TOKEN)
# The resource name is a principal: the owner of the tokens.
CREATE_TOKENS_USER = Right(Operation.CREATE_TOKENS, ResourceType.USER)
DESCRIBE_TOKENS_USER = Right(Operation.DESCRIBE_TOKENS, ResourceType.USER)
