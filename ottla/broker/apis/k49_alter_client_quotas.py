"""AlterClientQuotas, key 49: set and remove client quotas.

Behaviour
- Each entry succeeds or fails as a whole and on its own. A quota takes effect before the response.
- Each broker counts controller_mutation_rate separately, because each executes its own requests.
- An IP entity must be an address; host names, which Kafka resolves, are rejected.

Version notes
- 0 first version (KIP-546); 1 flexible.
"""

from __future__ import annotations

import logging
from collections import Counter

from ottla.broker.broker import Broker
from ottla.broker.network.request_context import RequestContext
from ottla.cluster.topics.quota_changes import alter_client_quotas, check_changes, check_entity
from ottla.metadata.client_quotas import Entity, QuotaChange
from ottla.metadata.stores.store import StoreError
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.messages.configs import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    AlterEntryData,
    EntryDataInResponse,
)
from ottla.security.acls import ALTER_CONFIGS_CLUSTER

logger = logging.getLogger(__name__)


_MOST_PARTS = 1000  # per entry, more than exist


async def handle(
    broker: Broker, request: AlterClientQuotasRequest, context: RequestContext
) -> AlterClientQuotasResponse:
    context.require(ALTER_CONFIGS_CLUSTER)
    checked = [_check(entry) async for entry in context.paced(request.entries)]
    times: Counter[Entity] = Counter()
    async for entity, _ in context.paced(checked):
        if not isinstance(entity, KafkaError):
            times[entity] += 1
    results = []
    async for entry, (entity, changes) in context.paced(zip(request.entries, checked, strict=True)):
        error: KafkaError | None = None
        if isinstance(entity, KafkaError):
            error = entity
        elif times[entity] > 1 or len({change.key for change in changes}) < len(changes):
            error = KafkaError(ErrorCode.INVALID_REQUEST, f"Ignoring duplicate entity {_shown(entity)}")
        elif not request.validate_only:
            error = await _apply(broker, entity, changes)
        results.append(
            EntryDataInResponse(
                error_code=error.code if error else 0,
                error_message=error.message if error else None,
                entity=entry.entity,
            )
        )
    return AlterClientQuotasResponse(entries=results)


def _check(entry: AlterEntryData) -> tuple[Entity | KafkaError, list[QuotaChange]]:
    if len(entry.entity) + len(entry.ops) > _MOST_PARTS:
        return KafkaError(ErrorCode.INVALID_REQUEST, "The entry names too many entities or quotas."), []
    changes = [QuotaChange(op.key, None if op.remove else op.value) for op in entry.ops]
    try:
        entity = check_entity((part.entity_type, part.entity_name) for part in entry.entity)
        check_changes(entity, changes)
    except KafkaError as error:
        return error, changes
    return entity, changes


async def _apply(broker: Broker, entity: Entity, changes: list[QuotaChange]) -> KafkaError | None:
    try:
        await alter_client_quotas(broker.store, entity, changes)
        await broker.member.feed.sync()
    except StoreError as error:
        logger.error("The metadata store failed: %s", error)
        return KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, str(error))
    return None


def _shown(entity: Entity) -> str:
    names = ", ".join(f"{kind}={'<default>' if name is None else name}" for kind, name in entity)
    return f"ClientQuotaEntity(entries={{{names}}})"
