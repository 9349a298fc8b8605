"""Acknowledgement of records, common to ShareFetch and ShareAcknowledge."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

from ottla.broker.share.live_share_partition import LiveSharePartition
from ottla.broker.share.share_sessions import SharedPartition
from ottla.coordinator.share.share_partition import Acknowledgement, check_acknowledgements
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.security.rights import READ_TOPIC

if TYPE_CHECKING:
    from ottla.broker.broker import Broker
    from ottla.broker.network.request_context import RequestContext

Outcomes = dict[SharedPartition, KafkaError | None]


class _Batch(Protocol):
    first_offset: int
    last_offset: int
    acknowledge_types: list[int]


def named(group_id: str | None, member_id: str | None) -> tuple[str, str]:
    if not group_id or not member_id:
        raise KafkaError(ErrorCode.INVALID_REQUEST)
    return group_id, member_id


def may_read(broker: Broker, context: RequestContext, topic_id: bytes) -> None:
    """Raise KafkaError if the client may not read the topic. Unknown ids are rejected elsewhere."""
    topic = broker.image.topics_by_id.get(topic_id)
    if topic is not None:
        context.require(READ_TOPIC, topic.name)


def acknowledge(
    broker: Broker,
    context: RequestContext,
    group_id: str,
    member_id: str,
    said: Mapping[SharedPartition, Sequence[_Batch]],
    *,
    may_renew: bool,
) -> Outcomes | Awaitable[Outcomes]:
    """Apply a member's acknowledgements and return the errors by partition.

    All partitions start together. Returns an awaitable if anything has yet to be written.
    """
    outcomes: Outcomes = {}
    pending: dict[SharedPartition, asyncio.Future[None]] = {}
    for partition, batches in said.items():
        try:
            may_read(broker, context, partition[0])
            future = _begin(broker, group_id, member_id, partition, batches, may_renew)
        except KafkaError as error:
            outcomes[partition] = error
        else:
            outcomes[partition] = None
            if future is not None:
                pending[partition] = future
    return _wait(outcomes, pending) if pending else outcomes


def _begin(
    broker: Broker,
    group_id: str,
    member_id: str,
    partition: SharedPartition,
    batches: Sequence[_Batch],
    may_renew: bool,
) -> asyncio.Future[None] | None:
    said = [Acknowledgement(b.first_offset, b.last_offset, b.acknowledge_types) for b in batches]
    check_acknowledgements(said, may_renew=may_renew)
    live = broker.sharing.partitions.get(group_id, *partition)
    if not isinstance(live, LiveSharePartition):
        # The state is still loading, so no member has acquired records from this leader.
        raise KafkaError(
            ErrorCode.INVALID_RECORD_STATE, "The record cannot be acknowledged. It is not acquired."
        )
    return live.acknowledge(member_id, said)


async def _wait(outcomes: Outcomes, pending: dict[SharedPartition, asyncio.Future[None]]) -> Outcomes:
    for partition, future in pending.items():
        try:
            await future
        except KafkaError as error:
            outcomes[partition] = error
    return outcomes
