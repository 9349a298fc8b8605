"""Topics: list, describe, create, delete, add partitions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ottla.cli.errors import JobError, TopicNotFound
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
    metadata = _metadata(client)
    listings = [
        TopicListing(
            name,
            len(topic.partitions),
            max((len(partition.replicas) for partition in topic.partitions.values()), default=0),
            name in INTERNAL_TOPICS,
        )
        for name, topic in sorted(metadata.topics.items())
    ]
    return [listing for listing in listings if include_internal or not listing.internal]


def topic_names(client: Client, include_internal: bool = False) -> list[str]:
    return [listing.name for listing in list_topics(client, include_internal)]


def _metadata(client: Client) -> Any:
    from confluent_kafka import KafkaException

    from ottla.cli.errors import from_kafka

    client.ensure_reachable()
    try:
        # Always all topics: asking for one by name would create it where brokers create topics by themselves.
        return client.admin.list_topics(timeout=client.timeout)
    except KafkaException as failure:
        raise from_kafka(failure.args[0], "The cluster") from None


def describe_topics(
    client: Client,
    names: Sequence[str],
    *,
    with_offsets: bool = False,
    with_sizes: bool = False,
    with_configs: bool = False,
    skip_missing: bool = False,
) -> list[TopicDescription]:
    """In the order asked for; TopicNotFound for the first that does not exist."""
    from confluent_kafka import TopicCollection

    if not names:
        return []
    names = list(dict.fromkeys(names))
    client.ensure_reachable()
    futures = client.admin.describe_topics(TopicCollection(names), request_timeout=client.timeout)
    described = []
    for name in names:
        try:
            described.append(client.result(futures[name], f"Topic '{name}'"))
        except JobError as error:
            if error.code == "UNKNOWN_TOPIC_OR_PART":
                if skip_missing:
                    continue
                raise TopicNotFound(name, _nearest(client, name)) from None
            raise
    names = [topic.name for topic in described]
    starts: dict[tuple[str, int], int] = {}
    ends: dict[tuple[str, int], int] = {}
    if with_offsets:
        starts, ends = available_offsets(
            client,
            [
                (topic.name, p.id)
                for topic in described
                for p in topic.partitions
                if _node_id(p.leader) is not None
            ],
        )
    sizes: dict[tuple[str, int], int] = {}
    if with_sizes:
        from ottla.cli.jobs.log_dirs import sizes_on_leaders

        leaders = {(topic.name, p.id): _node_id(p.leader) for topic in described for p in topic.partitions}
        sizes = sizes_on_leaders(client, names, leaders)
    configs = _overridden_configs(client, names) if with_configs else {}
    return [
        TopicDescription(
            topic.name,
            _url_safe(topic.topic_id),
            topic.is_internal,
            [
                PartitionDescription(
                    p.id,
                    _node_id(p.leader),
                    [node.id for node in p.replicas],
                    [node.id for node in p.isr],
                    starts.get((topic.name, p.id)),
                    ends.get((topic.name, p.id)),
                    sizes.get((topic.name, p.id)),
                )
                for p in sorted(topic.partitions, key=lambda partition: int(partition.id))
            ],
            configs.get(topic.name, {}),
        )
        for topic in described
    ]


def _url_safe(topic_id: object) -> str:
    """As Kafka writes ids; the client library uses the other base64 alphabet."""
    return str(topic_id).replace("+", "-").replace("/", "_")


def _node_id(node: Any) -> int | None:
    return None if node is None or node.id < 0 else int(node.id)


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
    validate_only: bool = False,
) -> None:
    """The broker's defaults apply to what is left out."""
    from ottla.cli.confluent_admin import NewTopic

    client.ensure_reachable()
    topic = NewTopic(
        name,
        num_partitions=-1 if partitions is None else partitions,
        replication_factor=-1 if replication_factor is None else replication_factor,
        config=dict(configs or {}),
    )
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


def add_partitions(client: Client, name: str, total: int) -> None:
    from ottla.cli.confluent_admin import NewPartitions

    client.ensure_reachable()
    futures = client.admin.create_partitions(
        [NewPartitions(name, total)], operation_timeout=client.timeout, request_timeout=client.timeout
    )
    client.result(futures[name], f"Topic '{name}'")


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
