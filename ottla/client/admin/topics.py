"""Topics: list, describe, create, delete, add partitions."""

from __future__ import annotations

import base64
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from ottla.client.admin.configs import SOURCES, ConfigEntry, Resource, describe_configs
from ottla.client.admin.log_dirs import sizes_on_leaders
from ottla.client.admin.offsets import Partition, available_offsets
from ottla.client.admin.routing import ask_controller, timeout_ms
from ottla.client.cluster import Cluster
from ottla.client.errors import ClientError, TopicNotFound, check_accepted
from ottla.protocol.errors import ErrorCode
from ottla.protocol.internal_topics import is_internal
from ottla.protocol.messages.cluster import (
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
    MetadataResponsePartition,
    MetadataResponseTopic,
    TopicRequest,
)
from ottla.protocol.messages.topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreateTopicsRequest,
    CreateTopicsResponse,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)

_AnyTopic = DescribeTopicPartitionsResponseTopic | MetadataResponseTopic
_AnyPartition = DescribeTopicPartitionsResponsePartition | MetadataResponsePartition


@dataclass(frozen=True, slots=True)
class TopicListing:
    name: str
    partitions: int
    replication_factor: int
    internal: bool


@dataclass(frozen=True, slots=True)
class PartitionDescription:
    partition: int
    leader: int | None
    replicas: list[int]
    isr: list[int]
    start_offset: int | None = None
    end_offset: int | None = None
    size: int | None = None
    # Replicas that left the ISR but may lead without loss; None if the broker does not report it.
    eligible_leader_replicas: list[int] | None = None
    last_known_elr: list[int] | None = None
    offline_replicas: list[int] = field(default_factory=list)  # on failed brokers or disks

    @property
    def messages(self) -> int | None:
        if self.start_offset is None or self.end_offset is None:
            return None
        return self.end_offset - self.start_offset


@dataclass(frozen=True, slots=True)
class TopicDescription:
    name: str
    topic_id: str
    internal: bool
    partitions: list[PartitionDescription]
    configs: dict[str, str | None] = field(default_factory=dict)

    @property
    def replication_factor(self) -> int:
        return max((len(partition.replicas) for partition in self.partitions), default=0)


def list_topics(cluster: Cluster, include_internal: bool = False) -> list[TopicListing]:
    listings = [
        TopicListing(
            topic.name or "",
            len(topic.partitions),
            max((len(partition.replica_nodes) for partition in topic.partitions), default=0),
            topic.is_internal or is_internal(topic.name or ""),
        )
        for topic in cluster.metadata(None).topics
    ]
    listings.sort(key=lambda listing: listing.name)
    return [listing for listing in listings if include_internal or not listing.internal]


def topic_names(cluster: Cluster, include_internal: bool = False) -> list[str]:
    return [listing.name for listing in list_topics(cluster, include_internal)]


def describe_topics(
    cluster: Cluster,
    names: Sequence[str],
    *,
    with_offsets: bool = False,
    with_sizes: bool = False,
    with_configs: bool = False,
    skip_missing: bool = False,
    at_once: int | None = None,
) -> list[TopicDescription]:
    """Describe topics in the given order. Raises TopicNotFound for the first missing one.

    `at_once` limits the partitions per response.
    """
    if not names:
        return []
    described = []
    for topic in _describe(cluster, list(dict.fromkeys(names)), at_once):
        name = topic.name or ""
        if topic.error_code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            check_accepted(f"Topic '{name}'", topic)
            described.append(topic)
        elif not skip_missing:
            raise TopicNotFound(name, _nearest(cluster, name))
    leaders: dict[Partition, int] = {
        (topic.name or "", partition.partition_index): partition.leader_id
        for topic in described
        for partition in topic.partitions
        if partition.leader_id >= 0
    }
    names = [topic.name or "" for topic in described]
    starts, ends = available_offsets(cluster, leaders) if with_offsets else ({}, {})
    sizes = sizes_on_leaders(cluster, names, leaders) if with_sizes else {}
    configs = _overridden_configs(cluster, names) if with_configs else {}

    def partition_of(name: str, partition: _AnyPartition) -> PartitionDescription:
        key = (name, partition.partition_index)
        return PartitionDescription(
            partition.partition_index,
            leaders.get(key),
            list(partition.replica_nodes),
            list(partition.isr_nodes),
            starts.get(key),
            ends.get(key),
            sizes.get(key),
            getattr(partition, "eligible_leader_replicas", None),
            getattr(partition, "last_known_elr", None),
            list(partition.offline_replicas),
        )

    return [
        TopicDescription(
            name,
            base64.urlsafe_b64encode(topic.topic_id).decode().rstrip("="),
            topic.is_internal or is_internal(name),
            sorted((partition_of(name, each) for each in topic.partitions), key=lambda each: each.partition),
            configs.get(name, {}),
        )
        for name, topic in zip(names, described, strict=True)
    ]


def _describe(cluster: Cluster, names: list[str], at_once: int | None) -> list[_AnyTopic]:
    """Return the broker's answer for each name, including errors, in the given order."""
    found: dict[str, _AnyTopic] = {}
    connection = cluster.any_connection()
    if DescribeTopicPartitionsRequest.api_key not in connection.versions:
        found = {topic.name or "": topic for topic in cluster.metadata(names).topics}
        return [found[name] for name in names]
    limit = {} if at_once is None else {"response_partition_limit": at_once}
    asked = [TopicRequest(name=name) for name in sorted(names)]
    request = DescribeTopicPartitionsRequest(topics=asked, **limit)
    while True:
        answer = connection.request(request, DescribeTopicPartitionsResponse)
        for topic in answer.topics:
            known = found.setdefault(topic.name or "", topic)
            if known is not topic:
                known.partitions += topic.partitions  # type: ignore[operator]
        if answer.next_cursor is None:
            return [found[name] for name in names]
        later = [topic for topic in request.topics if topic.name >= answer.next_cursor.topic_name]
        request = DescribeTopicPartitionsRequest(topics=later, cursor=answer.next_cursor, **limit)


def _nearest(cluster: Cluster, name: str) -> str:
    from difflib import get_close_matches

    close = get_close_matches(name, topic_names(cluster), n=1)
    return f" Did you mean '{close[0]}'?" if close else ""


def _overridden_configs(cluster: Cluster, names: Iterable[str]) -> dict[str, dict[str, str | None]]:
    overridden: dict[str, dict[str, str | None]] = {}
    for name in names:
        try:
            entries = describe_configs(cluster, Resource("topic", name))
        except ClientError as error:
            if error.code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:  # deleted in the meantime
                raise
            continue
        overridden[name] = {
            entry.name: entry.value for entry in entries if entry.source == "DYNAMIC_TOPIC_CONFIG"
        }
    return overridden


def partitions_of(cluster: Cluster, topics: Sequence[str]) -> list[Partition]:
    return [
        (topic.name, partition.partition)
        for topic in describe_topics(cluster, topics)
        for partition in topic.partitions
    ]


def create_topic(
    cluster: Cluster,
    name: str,
    *,
    partitions: int | None = None,
    replication_factor: int | None = None,
    configs: Mapping[str, str] | None = None,
    assignment: Sequence[Sequence[int]] | None = None,
    validate_only: bool = False,
) -> None:
    """Create a topic. Omitted values get the broker's defaults. `assignment` has the replicas of each partition."""
    placed = [
        CreatableReplicaAssignment(partition_index=number, broker_ids=list(replicas))
        for number, replicas in enumerate(assignment or ())
    ]
    topic = CreatableTopic(
        name=name,
        num_partitions=-1 if placed or partitions is None else partitions,
        replication_factor=-1 if placed or replication_factor is None else replication_factor,
        assignments=placed,
        configs=[CreatableTopicConfig(name=key, value=value) for key, value in (configs or {}).items()],
    )
    request = CreateTopicsRequest(topics=[topic], timeout_ms=timeout_ms(cluster), validate_only=validate_only)
    ask_controller(
        cluster,
        request,
        CreateTopicsResponse,
        lambda answer: check_accepted(f"Topic '{name}'", *answer.topics),
    )


def default_configs(cluster: Cluster) -> list[ConfigEntry]:
    """Return the settings that a new topic would have."""
    topic = CreatableTopic(name=f"new-{uuid.uuid4()}", num_partitions=-1, replication_factor=-1)
    request = CreateTopicsRequest(topics=[topic], timeout_ms=timeout_ms(cluster), validate_only=True)

    def described(answer: CreateTopicsResponse) -> list[ConfigEntry]:
        [found] = answer.topics
        check_accepted("A new topic", found)
        return [
            ConfigEntry(
                each.name,
                each.value,
                SOURCES.get(each.config_source, "UNKNOWN"),
                each.value,
                each.read_only,
                each.is_sensitive,
            )
            for each in sorted(found.configs or (), key=lambda each: each.name)
        ]

    return ask_controller(cluster, request, CreateTopicsResponse, described)


def delete_topics(cluster: Cluster, names: Sequence[str]) -> None:
    """Delete topics. A refusal does not affect the others."""
    request = DeleteTopicsRequest(
        topics=[DeleteTopicState(name=name) for name in names],
        topic_names=list(names),
        timeout_ms=timeout_ms(cluster),
    )

    def check(answer: DeleteTopicsResponse) -> None:
        for result in answer.responses:
            cluster.forget(result.name or "")
            check_accepted(f"Topic '{result.name}'", result)

    ask_controller(cluster, request, DeleteTopicsResponse, check)


def add_partitions(
    cluster: Cluster, name: str, total: int, assignment: Sequence[Sequence[int]] | None = None
) -> None:
    """`assignment` has the replicas of each added partition."""
    placed = None
    if assignment is not None:
        placed = [CreatePartitionsAssignment(broker_ids=list(replicas)) for replicas in assignment]
    request = CreatePartitionsRequest(
        topics=[CreatePartitionsTopic(name=name, count=total, assignments=placed)],
        timeout_ms=timeout_ms(cluster),
    )
    ask_controller(
        cluster,
        request,
        CreatePartitionsResponse,
        lambda answer: check_accepted(f"Topic '{name}'", *answer.results),
    )
    cluster.forget(name)
