"""Topics: list, describe, create, delete, add partitions."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ottla.cli.errors import JobError, TopicNotFound, from_code
from ottla.cli.jobs.offsets import available_offsets

if TYPE_CHECKING:
    from ottla.cli.client import Client

INTERNAL_TOPICS = frozenset({"__consumer_offsets", "__transaction_state", "__share_group_state"})


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
    # Replicas that may lead without loss though they left the ISR; None where the broker does not tell.
    eligible_leader_replicas: list[int] | None = None
    last_known_elr: list[int] | None = None
    offline_replicas: list[int] = field(default_factory=list)  # their brokers are away, or their disks are

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


def list_topics(client: Client, include_internal: bool = False) -> list[TopicListing]:
    listings = [
        TopicListing(
            topic.name or "",
            len(topic.partitions),
            max((len(partition.replica_nodes) for partition in topic.partitions), default=0),
            topic.is_internal or topic.name in INTERNAL_TOPICS,
        )
        for topic in client.brokers.metadata(None).topics
    ]
    listings.sort(key=lambda listing: listing.name)
    return [listing for listing in listings if include_internal or not listing.internal]


def topic_names(client: Client, include_internal: bool = False) -> list[str]:
    return [listing.name for listing in list_topics(client, include_internal)]


def describe_topics(
    client: Client,
    names: Sequence[str],
    *,
    with_offsets: bool = False,
    with_sizes: bool = False,
    with_configs: bool = False,
    skip_missing: bool = False,
    at_once: int | None = None,
) -> list[TopicDescription]:
    """In the order asked for; TopicNotFound for the first that does not exist.

    `at_once` is how many partitions the broker may describe in one answer.
    """
    if not names:
        return []
    described = []
    for topic in _describe(client, list(dict.fromkeys(names)), at_once):
        if topic.error_code:
            error = from_code(topic.error_code, None, f"Topic '{topic.name}'")
            if error.code != "UNKNOWN_TOPIC_OR_PART":
                raise error
            if not skip_missing:
                raise TopicNotFound(topic.name, _nearest(client, topic.name))
        else:
            described.append(topic)
    names = [topic.name for topic in described]
    starts: dict[tuple[str, int], int] = {}
    ends: dict[tuple[str, int], int] = {}
    if with_offsets:
        starts, ends = available_offsets(
            client,
            [
                (topic.name, p.partition_index)
                for topic in described
                for p in topic.partitions
                if _leader(p) is not None
            ],
        )
    sizes: dict[tuple[str, int], int] = {}
    if with_sizes:
        from ottla.cli.jobs.log_dirs import sizes_on_leaders

        leaders = {
            (topic.name, p.partition_index): _leader(p) for topic in described for p in topic.partitions
        }
        sizes = sizes_on_leaders(client, names, leaders)
    configs = _overridden_configs(client, names) if with_configs else {}
    return [
        TopicDescription(
            topic.name,
            base64.urlsafe_b64encode(topic.topic_id).decode().rstrip("="),
            topic.is_internal,
            [
                PartitionDescription(
                    p.partition_index,
                    _leader(p),
                    list(p.replica_nodes),
                    list(p.isr_nodes),
                    starts.get((topic.name, p.partition_index)),
                    ends.get((topic.name, p.partition_index)),
                    sizes.get((topic.name, p.partition_index)),
                    getattr(p, "eligible_leader_replicas", None),
                    getattr(p, "last_known_elr", None),
                    list(p.offline_replicas),
                )
                for p in sorted(topic.partitions, key=lambda partition: int(partition.partition_index))
            ],
            configs.get(topic.name, {}),
        )
        for topic in described
    ]


def _describe(client: Client, names: list[str], at_once: int | None = None) -> list[Any]:
    """What the broker says about each name, errors included, in the order asked for."""
    from ottla.protocol.messages.cluster import (
        DescribeTopicPartitionsRequest,
        DescribeTopicPartitionsResponse,
        TopicRequest,
    )

    if DescribeTopicPartitionsRequest.api_key not in client.brokers.any().versions:
        by_name: dict[str, Any] = {topic.name or "": topic for topic in client.brokers.metadata(names).topics}
        return [by_name[name] for name in names]
    found: dict[str, Any] = {}
    limit = {} if at_once is None else {"response_partition_limit": at_once}
    asked = [TopicRequest(name=name) for name in sorted(names)]
    request = DescribeTopicPartitionsRequest(topics=asked, **limit)
    while True:
        answer = client.brokers.request(request, DescribeTopicPartitionsResponse)
        for topic in answer.topics:
            if topic.name in found:
                found[topic.name].partitions += topic.partitions
            else:
                found[topic.name or ""] = topic
        if answer.next_cursor is None:
            return [found[name] for name in names]
        later = [topic for topic in request.topics if topic.name >= answer.next_cursor.topic_name]
        request = DescribeTopicPartitionsRequest(topics=later, cursor=answer.next_cursor, **limit)


def _leader(partition: Any) -> int | None:
    return None if partition.leader_id < 0 else int(partition.leader_id)


def _nearest(client: Client, name: str) -> str:
    from difflib import get_close_matches

    close = get_close_matches(name, topic_names(client), n=1)
    return f" Did you mean '{close[0]}'?" if close else ""


def _overridden_configs(client: Client, names: Iterable[str]) -> dict[str, dict[str, str | None]]:
    from ottla.cli.jobs.configs import Resource, describe_configs

    overridden: dict[str, dict[str, str | None]] = {}
    for name in names:
        try:
            entries = describe_configs(client, Resource("topic", name))
        except JobError as error:
            if error.code != "UNKNOWN_TOPIC_OR_PART":  # deleted meanwhile
                raise
            continue
        overridden[name] = {
            entry.name: entry.value for entry in entries if entry.source == "DYNAMIC_TOPIC_CONFIG"
        }
    return overridden


def partitions_of(client: Client, topics: Sequence[str]) -> list[tuple[str, int]]:
    return [
        (topic.name, partition.partition)
        for topic in describe_topics(client, topics)
        for partition in topic.partitions
    ]


def create_topic(
    client: Client,
    name: str,
    *,
    partitions: int | None = None,
    replication_factor: int | None = None,
    configs: Mapping[str, str] | None = None,
    assignment: Sequence[Sequence[int]] | None = None,
    validate_only: bool = False,
) -> None:
    """The broker's defaults apply to what is left out."""
    from ottla.cli.confluent_admin import NewTopic

    client.ensure_reachable()
    if assignment is None:
        placement: dict[str, Any] = {
            "num_partitions": -1 if partitions is None else partitions,
            "replication_factor": -1 if replication_factor is None else replication_factor,
        }
    else:
        placement = {
            "num_partitions": len(assignment),
            "replica_assignment": [list(replicas) for replicas in assignment],
        }
    topic = NewTopic(name, config=dict(configs or {}), **placement)
    futures = client.admin.create_topics(
        [topic],
        operation_timeout=client.timeout,
        request_timeout=client.timeout,
        validate_only=validate_only,
    )
    client.result(futures[name], f"Topic '{name}'")


def delete_topics(client: Client, names: Sequence[str]) -> None:
    futures = client.admin.delete_topics(
        list(names), operation_timeout=client.timeout, request_timeout=client.timeout
    )
    for name, future in futures.items():
        client.result(future, f"Topic '{name}'")


def add_partitions(
    client: Client, name: str, total: int, assignment: Sequence[Sequence[int]] | None = None
) -> None:
    """`assignment` has the replicas of each partition that is added."""
    from ottla.protocol.messages.topics import (
        CreatePartitionsAssignment,
        CreatePartitionsRequest,
        CreatePartitionsResponse,
        CreatePartitionsTopic,
    )

    placed = None
    if assignment is not None:
        placed = [CreatePartitionsAssignment(broker_ids=list(replicas)) for replicas in assignment]
    request = CreatePartitionsRequest(
        topics=[CreatePartitionsTopic(name=name, count=total, assignments=placed)],
        timeout_ms=round(client.timeout * 1000),
    )
    [answer] = client.brokers.controller().request(request, CreatePartitionsResponse).results
    if answer.error_code:
        raise from_code(answer.error_code, answer.error_message, f"Topic '{name}'")


def delete_records(
    client: Client, before: Mapping[tuple[str, int], int | None]
) -> dict[tuple[str, int], int]:
    """Delete what lies before an offset of each partition (None: everything); the new start offsets."""
    from confluent_kafka import OFFSET_END, TopicPartition

    client.ensure_reachable()
    futures = client.admin.delete_records(
        [
            TopicPartition(topic, partition, OFFSET_END if offset is None else offset)
            for (topic, partition), offset in before.items()
        ],
        operation_timeout=client.timeout,
        request_timeout=client.timeout,
    )
    return {
        (key.topic, key.partition): client.result(
            future, f"Partition {key.partition} of topic '{key.topic}'"
        ).low_watermark
        for key, future in futures.items()
    }
