"""Rights required by request handlers: an operation on a resource type."""

from __future__ import annotations

from ottla.security.acls import Operation, ResourceType


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
