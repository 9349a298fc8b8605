"""StreamsGroupHeartbeat, key 88: join, stay in or leave a streams group (KIP-1071).

Behaviour
- A member joins with epoch 0 and the topology of the application, stays with its epoch and leaves with -1. As in Kafka
  4.3, static members (instance ids, -2), regular expressions for source topics and new versions of a topology are
  rejected. Task offsets are rejected in version 0 and not used in version 1, since there are no warm-up tasks.
- The broker creates the internal topics and assigns the tasks. `status` reports obstacles: missing source topics,
  mismatched partitions, internal topics not created yet, a delayed assignment.
- A member first revokes tasks outside its target, confirms this in its next heartbeat, and gets new tasks once no other
  member has them. The response includes the tasks only if they have changed or the member sent all fields.
- An empty classic group becomes a streams group when the first member joins with this API; its offsets survive.
- The response includes the endpoints for interactive queries if they changed since the endpoint epoch of the request.

- If the broker keeps topology descriptions, it asks one member after another for one (KIP-1331), with growing pauses.

Version notes
- 0 first version; 1 task offsets, `topology_description_required`, and `acceptable_recovery_lag` as 64 bits.
"""

from __future__ import annotations

from collections.abc import Awaitable, Mapping, Sized

from ottla.broker.apis.k93_streams_group_topology_description_update import keeps_descriptions
from ottla.broker.broker import Broker
from ottla.broker.network.request_context import RequestContext
from ottla.broker.network.slow_lane import SLICE, Work
from ottla.coordinator.groups.modern.consumer_state import JOIN_EPOCH, STATIC_LEAVE_EPOCH
from ottla.coordinator.groups.streams.streams_records import read_pairs, read_topology
from ottla.coordinator.groups.streams.streams_state import (
    Endpoint,
    Role,
    StreamsHeartbeatRequest,
    StreamsHeartbeatResult,
    TaskIds,
    Tasks,
)
from ottla.coordinator.groups.streams.topology import (
    InternalTopic,
    Status,
    StatusCode,
)
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.messages import streams_groups as messages
from ottla.protocol.messages.streams_groups import (
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatResponse,
)
from ottla.security.acls import CREATE_CLUSTER, CREATE_TOPIC, DESCRIBE_TOPIC, READ_GROUP

_MOST_ENTRIES = 5000
_DESCRIPTIONS_SINCE = _TASK_OFFSETS_SINCE = 1
# Kafka's defaults. The broker assigns no warm-up tasks, so it has no use for the offsets.
_TASK_OFFSET_INTERVAL_MS = 60_000
_ACCEPTABLE_RECOVERY_LAG = 10_000


def handle(
    broker: Broker, request: StreamsGroupHeartbeatRequest, context: RequestContext
) -> Work[StreamsGroupHeartbeatResponse | Awaitable[StreamsGroupHeartbeatResponse]]:
    context.require(READ_GROUP, request.group_id)
    _check_size(request)
    topology = None if request.topology is None else read_topology(request.topology)
    for count, name in enumerate(sorted(topology.topics() if topology is not None else ()), 1):
        context.require(DESCRIBE_TOPIC, name)
        if not count % SLICE:
            yield None
    _check(request, context.version)
    endpoint = request.user_endpoint
    result = broker.groups.streams.heartbeat(
        request.group_id,
        StreamsHeartbeatRequest(
            request.member_id,
            request.member_epoch,
            request.endpoint_information_epoch,
            request.rack_id,
            request.rebalance_timeout_ms,
            topology,
            _read_owned(request),
            request.process_id,
            None if endpoint is None else Endpoint(endpoint.host, endpoint.port),
            None if request.client_tags is None else read_pairs(request.client_tags),
            request.shutdown_application,
            context.client_id,
            context.client_host,
        ),
    )
    if isinstance(result, StreamsHeartbeatResult):
        return _response(broker, request, context, result)
    return _when_stored(broker, request, context, result)


async def _when_stored(
    broker: Broker,
    request: StreamsGroupHeartbeatRequest,
    context: RequestContext,
    result: Awaitable[StreamsHeartbeatResult],
) -> StreamsGroupHeartbeatResponse:
    return _response(broker, request, context, await result)


def _response(
    broker: Broker,
    request: StreamsGroupHeartbeatRequest,
    context: RequestContext,
    result: StreamsHeartbeatResult,
) -> StreamsGroupHeartbeatResponse:
    response = StreamsGroupHeartbeatResponse(
        member_id=result.member_id,
        member_epoch=result.member_epoch,
        heartbeat_interval_ms=result.heartbeat_interval_ms,
        status=[_status(broker, status, result.to_create) for status in result.statuses],
        endpoint_information_epoch=result.endpoint_epoch,
    )
    if result.tasks is not None:
        response.active_tasks = _tasks(result.tasks.active)
        response.standby_tasks = _tasks(result.tasks.standby)
        response.warmup_tasks = _tasks(result.tasks.warmup)
    if result.endpoints is not None:
        response.partitions_by_user_endpoint = [
            messages.EndpointToPartitions(
                user_endpoint=messages.Endpoint(host=one.endpoint.host, port=one.endpoint.port),
                active_partitions=_partitions(one.active),
                standby_partitions=_partitions(one.standby),
            )
            for one in result.endpoints
        ]
    if context.version >= _DESCRIPTIONS_SINCE:
        response.task_offset_interval_ms = _TASK_OFFSET_INTERVAL_MS
        response.acceptable_recovery_lag = _ACCEPTABLE_RECOVERY_LAG
        is_stale = any(status.code is StatusCode.STALE_TOPOLOGY for status in result.statuses)
        if request.member_epoch >= 0 and not is_stale and keeps_descriptions(broker):
            response.topology_description_required = broker.groups.streams.asks_for_description(
                request.group_id, result.topology_epoch
            )
    denied = []
    if result.to_create and not context.allows(CREATE_CLUSTER, quiet=True):
        denied = [topic.name for topic in result.to_create if not context.allows(CREATE_TOPIC, topic.name)]
    broker.streams_topics.create(topic for topic in result.to_create if topic.name not in denied)
    if denied:
        for status in response.status or ():
            if status.status_code == StatusCode.MISSING_INTERNAL_TOPICS:
                status.status_detail += f"; Unauthorized to CREATE on topics {', '.join(denied)}."
    return response


def _status(broker: Broker, status: Status, to_create: tuple[InternalTopic, ...]) -> messages.Status:
    code, detail = status
    if code is StatusCode.MISSING_INTERNAL_TOPICS:
        failures = broker.streams_topics.failures(to_create)
        detail = f"{detail}; {failures}" if failures else detail
    return messages.Status(status_code=code, status_detail=detail)


def _tasks(tasks: TaskIds) -> list[messages.TaskIds]:
    return [
        messages.TaskIds(subtopology_id=subtopology, partitions=sorted(partitions))
        for subtopology, partitions in sorted(tasks.items())
    ]


def _partitions(by_topic: Mapping[str, list[int]]) -> list[messages.TopicPartition]:
    return [messages.TopicPartition(topic=topic, partitions=found) for topic, found in by_topic.items()]


def _read_owned(request: StreamsGroupHeartbeatRequest) -> Tasks | None:
    active, standby, warmup = request.active_tasks, request.standby_tasks, request.warmup_tasks
    if active is None or standby is None or warmup is None:
        return None
    return Tasks(
        *(
            {part.subtopology_id: frozenset(part.partitions) for part in parts}
            for parts in (active, standby, warmup)
        )
    )


def _check_size(request: StreamsGroupHeartbeatRequest) -> None:
    """Raise KafkaError for requests larger than any application needs, since reading them would delay other clients."""
    entries: list[Sized | None] = [
        request.client_tags,
        request.active_tasks,
        request.standby_tasks,
        request.warmup_tasks,
        request.task_offsets,
        request.task_end_offsets,
    ]
    if request.topology is not None:
        subtopologies = request.topology.subtopologies
        entries.append(subtopologies)
        for sub in subtopologies[:_MOST_ENTRIES]:
            entries += (
                getattr(sub, name) for name, field in type(sub).fields.items() if field.kind == "array"
            )
    if sum(len(each or ()) for each in entries) > _MOST_ENTRIES:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST,
            f"The topology, the tasks and the tags cannot have more than {_MOST_ENTRIES} entries together.",
        )


def _check(request: StreamsGroupHeartbeatRequest, version: int) -> None:
    problem = None
    is_joining = request.member_epoch == JOIN_EPOCH
    if not request.member_id:
        problem = "MemberId can't be empty."
    elif not request.group_id:
        problem = "GroupId can't be empty."
    elif request.instance_id is not None:
        problem = "Static membership is not yet supported."
    elif request.rack_id == "":
        problem = "RackId can't be empty."
    elif request.task_offsets is not None and version < _TASK_OFFSETS_SINCE:
        problem = "TaskOffsets are not supported yet."
    elif request.task_end_offsets is not None and version < _TASK_OFFSETS_SINCE:
        problem = "TaskEndOffsets are not supported yet."
    elif is_joining:
        problem = _problem_of_join(request)
    elif request.member_epoch == STATIC_LEAVE_EPOCH:
        problem = "InstanceId can't be null."
    elif request.member_epoch < STATIC_LEAVE_EPOCH:
        problem = f"MemberEpoch is {request.member_epoch}, but must be greater than or equal to -2."
    elif request.topology is not None:
        problem = "Topology can only be provided when (re-)joining."
    if problem is not None:
        raise KafkaError(ErrorCode.INVALID_REQUEST, problem)


def _problem_of_join(request: StreamsGroupHeartbeatRequest) -> str | None:
    if request.rebalance_timeout_ms == -1:
        return "RebalanceTimeoutMs must be provided in first request."
    for role in Role:
        tasks = getattr(request, f"{role.value}_tasks")
        if tasks is None or tasks:
            return f"{role.value.capitalize()}Tasks must be empty when (re-)joining."
    if request.topology is None:
        return "Topology must be non-null when (re-)joining."
    return None
