"""Fetch, key 1: read records from the log.

Behaviour
- Records are sent as the bytes on disk. A response may end inside a batch, which clients expect.
- The first partition with data returns at least one whole batch, however small the limits are.
- With fewer than min_bytes available the request waits; an append to one of its partitions wakes it. There is no
  polling.
- A thread first reads data that is not in memory, so that no other client waits for the disk.
- A client over its quota gets an empty response with its throttle time.
- Sessions (KIP-227) return only changed partitions. Consumers see nothing above the high watermark.
- From version 11 on followers serve consumers too, and with `replica.selector.class` a leader names the replica in the
  consumer's rack (KIP-392). `broker.fetch.follower_fetch` handles fetches by followers.
- read_committed consumers see nothing above the last stable offset. The response lists aborted transactions, and
  consumers skip their records.

Version notes
- 5 log start offset; 7 sessions; 9 leader epochs; 10 zstd; 11 rack; 12 flexible, diverging epochs; 13 topic ids;
  15 replica state; 16 leader hints; 17 directory ids; 18 the follower's high watermark.
"""

from __future__ import annotations

from ottla.broker.broker import Broker
from ottla.broker.fetch.consumer_fetch import ConsumerFetch
from ottla.broker.network.request_context import PendingResponse, RequestContext
from ottla.broker.network.slow_lane import SLICE, Work
from ottla.protocol.codec import Response
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.messages.fetch import (
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    PartitionData,
)
from ottla.security.acls import CLUSTER_ACTION


def handle(
    broker: Broker, request: FetchRequest, context: RequestContext
) -> Response | PendingResponse | Work[Response | PendingResponse]:
    replica_id = request.replica_id if request.replica_state is None else request.replica_state.replica_id
    if replica_id >= 0:
        if not context.allows(CLUSTER_ACTION):
            return _refuse_follower(request)
        context.cost = None  # quotas apply only to clients
        context.served.follower_requests += 1
        if context.timing is not None:
            context.timing.is_of_follower = True
        return broker.follower_sessions.fetch(request, context, replica_id)
    if context.is_large:
        return _plan_and_read_in_slices(broker, request, context)
    try:
        plan = broker.fetch_sessions.plan(request, context.version, broker.now_ms())
    except KafkaError as error:
        return FetchResponse(error_code=error.code)
    fetch = ConsumerFetch(broker, request, plan, context)
    return fetch.start_in_slices() if fetch.has_many_targets else fetch.start()


def _plan_and_read_in_slices(
    broker: Broker, request: FetchRequest, context: RequestContext
) -> Work[Response | PendingResponse]:
    try:
        plan = yield from broker.fetch_sessions.plan_in_slices(request, context.version, broker.now_ms())
    except KafkaError as error:
        return FetchResponse(error_code=error.code)
    return (yield from ConsumerFetch(broker, request, plan, context).start_in_slices())


def _refuse_follower(request: FetchRequest) -> Work[FetchResponse]:
    """Reject a client posing as a broker, or a broker without the right, with Kafka's error code."""
    response = FetchResponse()
    entries = 0
    for topic in request.topics:
        answered = FetchableTopicResponse(topic=topic.topic, topic_id=topic.topic_id)
        response.responses.append(answered)
        for each in topic.partitions:
            answered.partitions.append(
                PartitionData(
                    partition_index=each.partition,
                    error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED,
                    high_watermark=-1,
                    records=b"",
                )
            )
            entries += 1
            if not entries % SLICE:
                yield None
    return response
