"""WriteTxnMarkers, key 27: end a transaction in partitions led by this broker.

Behaviour
- Sent by other coordinators, and by administrators (`kafka-transactions abort`) to end a hanging transaction.
- The response waits until the markers are committed.
- A marker with an older epoch than the producer's is INVALID_PRODUCER_EPOCH; a marker from an older coordinator is
  TRANSACTION_COORDINATOR_FENCED.

Version notes
- 1 first version in Kafka 4, flexible; 2 the transaction version (KIP-1228): from 2 on a marker must have a higher
  epoch than the transaction, so that it cannot end a later one.
"""

from __future__ import annotations

from ottla.broker.broker import Broker
from ottla.broker.network.request_context import RequestContext
from ottla.broker.network.split import Split
from ottla.coordinator.transactions.coordinator import Marker
from ottla.protocol.messages.transactions import (
    WritableTxnMarker,
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from ottla.security.acls import ALTER_CLUSTER, CLUSTER_ACTION

SPLIT = Split("markers.topics.partition_indexes", "markers.topics.partitions")


async def handle(
    broker: Broker, request: WriteTxnMarkersRequest, context: RequestContext
) -> WriteTxnMarkersResponse:
    if not context.allows(ALTER_CLUSTER, quiet=True):
        context.require(CLUSTER_ACTION)
    return WriteTxnMarkersResponse(markers=[await _write(broker, asked) for asked in request.markers])


async def _write(broker: Broker, asked: WritableTxnMarker) -> WritableTxnMarkerResult:
    marker = Marker(
        asked.producer_id,
        asked.producer_epoch,
        asked.transaction_result,
        asked.coordinator_epoch,
        asked.transaction_version,
    )
    topics = []
    for topic in asked.topics:
        names = [(topic.name, index) for index in topic.partition_indexes]
        errors = broker.markers.write_here(marker, names)
        if not isinstance(errors, list):
            errors = await errors
        results = [
            WritableTxnMarkerPartitionResult(partition_index=index, error_code=error)
            for index, error in zip(topic.partition_indexes, errors, strict=True)
        ]
        topics.append(WritableTxnMarkerTopicResult(name=topic.name, partitions=results))
    return WritableTxnMarkerResult(producer_id=asked.producer_id, topics=topics)
