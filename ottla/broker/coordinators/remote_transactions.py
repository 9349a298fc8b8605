"""Questions to the coordinator of a transaction, when that is another broker."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.coordinator.runtime.state_log import partition_for
from ottla.metadata.topic_names import TRANSACTION_STATE_TOPIC
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.transactions import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ottla.broker.broker import Broker

_VERSION = 5

Name = tuple[str, int]


def remote_coordinator(broker: Broker, transactional_id: str) -> int | None:
    """The broker that coordinates the id, None if it is this one or nobody knows."""
    topic = broker.image.topics.get(TRANSACTION_STATE_TOPIC)
    if topic is None:
        return None
    partition = topic.partitions.get(partition_for(transactional_id, len(topic.partitions)))
    if partition is None or partition.leader in (broker.node_id, -1):
        return None
    return partition.leader


async def add_at_coordinator(
    broker: Broker,
    coordinator: int,
    transactional_id: str,
    producer_id: int,
    producer_epoch: int,
    partitions: Sequence[Name],
    *,
    verify_only: bool,
) -> dict[Name, ErrorCode]:
    """Make partitions part of a transaction, or ask whether they are; an error for each (NONE: they are)."""
    topics: dict[str, AddPartitionsToTxnTopic] = {}
    for name, index in partitions:
        topics.setdefault(name, AddPartitionsToTxnTopic(name=name)).partitions.append(index)
    transaction = AddPartitionsToTxnTransaction(
        transactional_id=transactional_id,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        verify_only=verify_only,
        topics=list(topics.values()),
    )
    found = dict.fromkeys(partitions, ErrorCode.COORDINATOR_NOT_AVAILABLE)
    try:
        response = await broker.peers.request(
            coordinator, AddPartitionsToTxnRequest(transactions=[transaction]), _VERSION
        )
    except OSError:
        return found
    if response.error_code:
        return dict.fromkeys(partitions, ErrorCode(response.error_code))
    for result in response.results_by_transaction:
        for topic in result.topic_results:
            for each in topic.results_by_partition:
                found[topic.name, each.partition_index] = ErrorCode(each.partition_error_code)
    return found
