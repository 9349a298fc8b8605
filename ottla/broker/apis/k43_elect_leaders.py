"""ElectLeaders, key 43: elect preferred or unclean leaders.

Behaviour
- A partition with the right leader needs no election. On a single broker every partition with a leader is in that
  state, and a partition without one has no candidates.
- Any broker runs the election, by a conditional write, and responds once it is written.
- Null partitions mean all partitions; the response then lists only partitions with a result to report.
- An unclean election starts partitions with empty logs whose only log has disappeared from this broker's disk.
- With a timeout of 0 or less nothing is done, and every partition is answered with REQUEST_TIMED_OUT.

Version notes
- 0 the preferred replica; 1 unclean election too, and a top-level error code; 2 flexible.
"""

from __future__ import annotations

import logging

from ottla.broker.broker import Broker
from ottla.broker.network.request_context import RequestContext
from ottla.cluster import elections
from ottla.metadata.cluster_image import PartitionImage
from ottla.metadata.stores.store import StoreError
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.messages.replicas import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
)
from ottla.security.acls import ALTER_CLUSTER

logger = logging.getLogger(__name__)

_PREFERRED, _UNCLEAN = 0, 1


async def handle(
    broker: Broker, request: ElectLeadersRequest, context: RequestContext
) -> ElectLeadersResponse:
    context.require(ALTER_CLUSTER)
    if request.timeout_ms <= 0:
        raise KafkaError(ErrorCode.REQUEST_TIMED_OUT)
    if request.topic_partitions is None:
        asked = [(topic.name, list(topic.partitions)) for topic in broker.image.topics.values()]
    else:
        asked = [
            (topic.topic, list(topic.partitions)) async for topic in context.paced(request.topic_partitions)
        ]
    elected: set[tuple[str, int]] = set()
    failure: KafkaError | None = None
    try:
        known = [
            (topic, index)
            async for topic, index in context.paced((topic, index) for topic, all_ in asked for index in all_)
            if (topic, index) in broker.image.partitions
        ]
        elected = await _elect(broker, request.election_type, known)
    except StoreError as down:
        logger.error("The metadata store failed: %s", down)
        failure = KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, str(down))
    results = []
    async for topic, indexes in context.paced(asked):
        partitions = []
        async for index in context.paced(indexes):
            result = PartitionResult(partition_id=index)
            if (topic, index) not in elected:
                error = failure or _why_not(broker, request.election_type, topic, index)
                result.error_code, result.error_message = error.code, error.message
            partitions.append(result)
        if request.topic_partitions is None:
            partitions = [each for each in partitions if each.error_code != ErrorCode.ELECTION_NOT_NEEDED]
        results.append(ReplicaElectionResult(topic=topic, partition_result=partitions))
    response = ElectLeadersResponse(replica_election_results=results)
    if request.election_type not in (_PREFERRED, _UNCLEAN):
        response.error_code = ErrorCode.INVALID_REQUEST
    return response


async def _elect(broker: Broker, election_type: int, keys: list[tuple[str, int]]) -> set[tuple[str, int]]:
    election = {_PREFERRED: elections.prefer, _UNCLEAN: elections.elect_unclean}.get(election_type)
    if election is None:
        return set()
    started: set[tuple[str, int]] = set()
    if election_type == _UNCLEAN:
        started = await broker.member.start_empty(keys)
    image = broker.image
    states = broker.member.states
    elected = set(await states.change(keys, lambda each: election(each, image.able(each, image.brokers))))
    # The controller may be faster and elect a replica as soon as its log is there.
    return elected | {key for key in started if key in image.partitions and image.partitions[key].leader >= 0}


def _why_not(broker: Broker, election_type: int, topic: str, index: int) -> KafkaError:
    if election_type not in (_PREFERRED, _UNCLEAN):
        return KafkaError(ErrorCode.INVALID_REQUEST, f"Unknown election type {election_type}")
    known = broker.image.topics.get(topic)
    if known is None:
        return KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"No such topic as {topic}")
    partition: PartitionImage | None = known.partitions.get(index)
    if partition is None:
        return KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"No such partition as {topic}-{index}")
    wanted = partition.replicas[0] if election_type == _PREFERRED else partition.leader
    if partition.leader >= 0 and partition.leader == wanted:
        return KafkaError(ErrorCode.ELECTION_NOT_NEEDED, "Leader election not needed for topic partition.")
    if election_type == _PREFERRED:
        return KafkaError(ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE, "The preferred leader was not available.")
    return KafkaError(
        ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE,
        "Eligible topic partition leaders are not available.",
    )
