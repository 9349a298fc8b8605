"""Streams group records in `__consumer_offsets`, byte for byte as in Kafka.

A change is written as the difference between two states, in the record order of Kafka 4.3. Loading applies the records
to a state one by one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from ottla.coordinator.groups.streams.streams_state import (
    Endpoint,
    MemberState,
    StreamsMember,
    StreamsState,
    TaskEpochs,
    TaskIds,
    Tasks,
    TasksWithEpochs,
)
from ottla.coordinator.groups.streams.topology import CopartitionGroup, InternalTopic, Subtopology, Topology
from ottla.coordinator.runtime import (
    KeyValue,
    decode_key,
    decode_value,
    encode_value,
    group_key,
    member_key,
)
from ottla.protocol import internal_records as values
from ottla.protocol.internal_records import MemberKey
from ottla.protocol.messages import streams_groups as messages

GROUP_METADATA = 17
PARTITION_METADATA = 18  # until Kafka 4.0; a hash in the group metadata replaced it
MEMBER_METADATA = 19
TARGET_METADATA = 20
TARGET_MEMBER = 21
CURRENT_MEMBER = 22
TOPOLOGY = 23

STREAMS_KINDS = frozenset(range(GROUP_METADATA, TOPOLOGY + 1))


# Writing


def difference(group_id: str, old: StreamsState, new: StreamsState) -> list[KeyValue]:
    return list(_difference(group_id, old, new))


def _difference(group_id: str, old: StreamsState, new: StreamsState) -> Iterator[KeyValue]:
    for member_id in old.members:
        if member_id not in new.members:
            for kind in (CURRENT_MEMBER, TARGET_MEMBER, MEMBER_METADATA):
                yield member_key(kind, group_id, member_id), None
    changed = [
        (old.members.get(member_id), member)
        for member_id, member in new.members.items()
        if old.members.get(member_id) is not member
    ]
    for before, member in changed:
        if before is None or before.metadata() != member.metadata():
            yield member_key(MEMBER_METADATA, group_id, member.member_id), _metadata(member)
    if new.topology is not None and old.topology != new.topology:
        yield group_key(TOPOLOGY, group_id), _topology(new.topology)
    if _group_metadata(old) != _group_metadata(new):
        yield group_key(GROUP_METADATA, group_id), encode_value(_group_metadata_value(new))
    for member_id, target in new.targets.items():
        if member_id in new.members and old.targets.get(member_id) != target:
            yield member_key(TARGET_MEMBER, group_id, member_id), _target(target)
    if (old.target_epoch, old.target_timestamp_ms) != (new.target_epoch, new.target_timestamp_ms):
        stamp = values.TargetMetadataValue(
            assignment_epoch=new.target_epoch, assignment_timestamp=new.target_timestamp_ms
        )
        yield group_key(TARGET_METADATA, group_id), encode_value(stamp)
    for before, member in changed:
        if before is None or before.current() != member.current():
            yield member_key(CURRENT_MEMBER, group_id, member.member_id), _current(member)


def tombstones(group_id: str, state: StreamsState) -> list[KeyValue]:
    keys = [member_key(CURRENT_MEMBER, group_id, member_id) for member_id in state.members]
    keys += [member_key(TARGET_MEMBER, group_id, member_id) for member_id in state.targets]
    keys.append(group_key(TARGET_METADATA, group_id))
    keys += [member_key(MEMBER_METADATA, group_id, member_id) for member_id in state.members]
    keys.append(group_key(GROUP_METADATA, group_id))
    keys.append(group_key(TOPOLOGY, group_id))
    return [(key, None) for key in keys]


def _group_metadata(state: StreamsState) -> tuple[object, ...]:
    return (state.epoch, state.metadata_hash, state.validated_topology_epoch, state.assignment_configs)


def _group_metadata_value(state: StreamsState) -> values.StreamsGroupMetadataValue:
    return values.StreamsGroupMetadataValue(
        epoch=state.epoch,
        metadata_hash=state.metadata_hash,
        validated_topology_epoch=state.validated_topology_epoch,
        last_assignment_configs=_pairs(state.assignment_configs),
    )


def _pairs(pairs: tuple[tuple[str, str], ...]) -> list[values.StreamsKeyValue]:
    return [values.StreamsKeyValue(key=key, value=value) for key, value in pairs]


def _metadata(member: StreamsMember) -> bytes:
    value = values.StreamsMemberMetadataValue(
        rack_id=member.rack_id,
        client_id=member.client_id,
        client_host=member.client_host,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        topology_epoch=member.topology_epoch,
        process_id=member.process_id,
        client_tags=_pairs(member.client_tags),
    )
    if member.user_endpoint is not None:
        host, port = member.user_endpoint
        value.user_endpoint = values.StreamsEndpoint(host=host, port=port)
    return encode_value(value)


def _target(target: Tasks) -> bytes:
    return encode_value(
        values.StreamsTargetMemberValue(
            active_tasks=_target_tasks(target.active),
            standby_tasks=_target_tasks(target.standby),
            warmup_tasks=_target_tasks(target.warmup),
        )
    )


def _target_tasks(tasks: TaskIds) -> list[values.TargetTasks]:
    return [
        values.TargetTasks(subtopology_id=subtopology, partitions=sorted(partitions))
        for subtopology, partitions in sorted(tasks.items())
    ]


def _current(member: StreamsMember) -> bytes:
    assigned, revoking = member.assigned, member.revoking
    return encode_value(
        values.StreamsCurrentMemberValue(
            member_epoch=member.epoch,
            previous_member_epoch=member.previous_epoch,
            state=member.state,
            active_tasks=_held(assigned.active, epochs=True),
            standby_tasks=_held(assigned.standby),
            warmup_tasks=_held(assigned.warmup),
            active_tasks_pending_revocation=_held(revoking.active, epochs=True),
            standby_tasks_pending_revocation=_held(revoking.standby),
            warmup_tasks_pending_revocation=_held(revoking.warmup),
        )
    )


def _held(held: TaskEpochs, *, epochs: bool = False) -> list[values.TaskEpochs]:
    parts = []
    for subtopology, since in sorted(held.items()):
        partitions = sorted(since)
        part = values.TaskEpochs(subtopology_id=subtopology, partitions=partitions)
        if epochs:
            part.assignment_epochs = [since[partition] for partition in partitions]
        parts.append(part)
    return parts


def _topology(topology: Topology) -> bytes:
    return encode_value(
        values.StreamsTopologyValue(
            epoch=topology.epoch,
            subtopologies=[
                values.StreamsSubtopology(
                    subtopology_id=sub.subtopology_id,
                    source_topics=list(sub.source_topics),
                    source_topic_regex=list(sub.source_topic_regex),
                    state_changelog_topics=_topics(sub.changelog_topics),
                    repartition_sink_topics=list(sub.repartition_sink_topics),
                    repartition_source_topics=_topics(sub.repartition_source_topics),
                    copartition_groups=[
                        values.StreamsCopartitionGroup(
                            source_topics=list(group.source_topics),
                            source_topic_regex=list(group.source_topic_regex),
                            repartition_source_topics=list(group.repartition_source_topics),
                        )
                        for group in sub.copartition_groups
                    ],
                )
                for sub in topology.subtopologies
            ],
        )
    )


def _topics(topics: tuple[InternalTopic, ...]) -> list[values.StreamsTopicInfo]:
    return [
        values.StreamsTopicInfo(
            name=topic.name,
            partitions=topic.partitions,
            replication_factor=topic.replication_factor,
            topic_configs=_pairs(topic.configs),
        )
        for topic in topics
    ]


# Reading


def apply(state: StreamsState, kind: int, key: bytes, value: bytes | None) -> None:
    """Apply a record to the state. Raises ValueError for a malformed record."""
    if kind == PARTITION_METADATA or _apply_to_group(state, kind, value):
        return
    member_id = decode_key(MemberKey, key).member_id
    if kind == TARGET_MEMBER:
        if value is None:
            state.targets.pop(member_id, None)
        else:
            target = decode_value(values.StreamsTargetMemberValue, value)
            parts = (target.active_tasks, target.standby_tasks, target.warmup_tasks)
            state.targets[member_id] = Tasks(*map(_read_target, parts))
    elif kind == MEMBER_METADATA:
        if value is None:
            state.members.pop(member_id, None)
        else:
            _put_metadata(state, member_id, decode_value(values.StreamsMemberMetadataValue, value))
    elif value is not None:
        _put_current(state, member_id, decode_value(values.StreamsCurrentMemberValue, value))
    elif member_id in state.members:
        _put_current(state, member_id, values.StreamsCurrentMemberValue())


def _apply_to_group(state: StreamsState, kind: int, value: bytes | None) -> bool:
    if kind == GROUP_METADATA:
        if value is not None:
            metadata = decode_value(values.StreamsGroupMetadataValue, value)
            state.epoch, state.metadata_hash = metadata.epoch, metadata.metadata_hash
            state.validated_topology_epoch = metadata.validated_topology_epoch
            state.assignment_configs = read_pairs(metadata.last_assignment_configs or [])
        return True
    if kind == TARGET_METADATA:
        if value is None:
            state.target_epoch, state.target_timestamp_ms = StreamsState().target_epoch, 0
        else:
            stamp = decode_value(values.TargetMetadataValue, value)
            state.target_epoch, state.target_timestamp_ms = stamp.assignment_epoch, stamp.assignment_timestamp
        return True
    if kind == TOPOLOGY:
        state.topology = (
            None if value is None else read_topology(decode_value(values.StreamsTopologyValue, value))
        )
        return True
    return False


def read_pairs(pairs: Sequence[values.StreamsKeyValue | messages.KeyValue]) -> tuple[tuple[str, str], ...]:
    return tuple((pair.key, pair.value) for pair in pairs)


def _read_target(parts: list[values.TargetTasks]) -> TaskIds:
    return {part.subtopology_id: frozenset(part.partitions) for part in parts}


def _put_metadata(state: StreamsState, member_id: str, value: values.StreamsMemberMetadataValue) -> None:
    endpoint = value.user_endpoint
    state.members[member_id] = replace(
        state.members.get(member_id) or StreamsMember(member_id),
        rack_id=value.rack_id,
        client_id=value.client_id,
        client_host=value.client_host,
        rebalance_timeout_ms=value.rebalance_timeout_ms,
        topology_epoch=value.topology_epoch,
        process_id=value.process_id,
        user_endpoint=None if endpoint is None else Endpoint(endpoint.host, endpoint.port),
        client_tags=read_pairs(value.client_tags),
    )


def _put_current(state: StreamsState, member_id: str, value: values.StreamsCurrentMemberValue) -> None:
    known = {code.value for code in MemberState}
    epoch = value.member_epoch
    state.members[member_id] = replace(
        state.members.get(member_id) or StreamsMember(member_id),
        epoch=epoch,
        previous_epoch=value.previous_member_epoch,
        state=MemberState(value.state if value.state in known else MemberState.UNKNOWN),
        assigned=TasksWithEpochs(
            _read_held(value.active_tasks, epoch),
            _read_held(value.standby_tasks),
            _read_held(value.warmup_tasks),
        ),
        revoking=TasksWithEpochs(
            _read_held(value.active_tasks_pending_revocation, epoch),
            _read_held(value.standby_tasks_pending_revocation),
            _read_held(value.warmup_tasks_pending_revocation),
        ),
    )


def _read_held(parts: list[values.TaskEpochs], epoch: int = 0) -> TaskEpochs:
    # Active tasks without epochs count from the member epoch.
    return {
        part.subtopology_id: dict(
            zip(part.partitions, part.assignment_epochs or [epoch] * len(part.partitions), strict=False)
        )
        for part in parts
    }


def read_topology(value: values.StreamsTopologyValue | messages.Topology) -> Topology:
    """Convert a topology from a record or from a heartbeat; both have the same fields."""
    return Topology(
        value.epoch,
        tuple(
            Subtopology(
                sub.subtopology_id,
                tuple(sub.source_topics),
                tuple(sub.source_topic_regex),
                _read_topics(sub.state_changelog_topics),
                tuple(sub.repartition_sink_topics),
                _read_topics(sub.repartition_source_topics),
                tuple(
                    CopartitionGroup(
                        tuple(group.source_topics),
                        tuple(group.source_topic_regex),
                        tuple(group.repartition_source_topics),
                    )
                    for group in sub.copartition_groups
                ),
            )
            for sub in value.subtopologies
        ),
    )


def _read_topics(topics: Sequence[values.StreamsTopicInfo | messages.TopicInfo]) -> tuple[InternalTopic, ...]:
    return tuple(
        InternalTopic(topic.name, topic.partitions, topic.replication_factor, read_pairs(topic.topic_configs))
        for topic in topics
    )
