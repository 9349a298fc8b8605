"""Offsets of partitions: where they start, where they end, where a moment lies."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from ottla.cli.errors import JobError

if TYPE_CHECKING:
    from ottla.cli.client import Client
    from ottla.cli.confluent_admin import OffsetSpec

Partition = tuple[str, int]


def earliest_offsets(client: Client, partitions: Iterable[Partition]) -> dict[Partition, int]:
    from ottla.cli.confluent_admin import OffsetSpec

    return _list_offsets(client, dict.fromkeys(partitions, OffsetSpec.earliest()))


def latest_offsets(client: Client, partitions: Iterable[Partition]) -> dict[Partition, int]:
    from ottla.cli.confluent_admin import OffsetSpec

    return _list_offsets(client, dict.fromkeys(partitions, OffsetSpec.latest()))


def offsets_at(client: Client, partitions: Iterable[Partition], timestamp_ms: int) -> dict[Partition, int]:
    """The first offset at or after a moment; the end of the partition where there is none."""
    from ottla.cli.confluent_admin import OffsetSpec

    wanted = list(partitions)
    # A timestamp in the future is asked for as it is: the answer is "none", hence the end.
    found = _list_offsets(client, dict.fromkeys(wanted, OffsetSpec.for_timestamp(max(timestamp_ms, 0))))
    missing = [partition for partition in wanted if found[partition] < 0]
    return {**found, **latest_offsets(client, missing)}


def available_offsets(
    client: Client, partitions: Iterable[Partition]
) -> tuple[dict[Partition, int], dict[Partition, int]]:
    """Start and end offsets of those partitions that have a leader to ask."""
    known = list(partitions)
    try:
        return earliest_offsets(client, known), latest_offsets(client, known)
    except JobError:
        starts: dict[Partition, int] = {}
        ends: dict[Partition, int] = {}
        for partition in known:
            try:
                starts |= earliest_offsets(client, [partition])
                ends |= latest_offsets(client, [partition])
            except JobError:
                continue
        return starts, ends


def _list_offsets(client: Client, specs: Mapping[Partition, OffsetSpec]) -> dict[Partition, int]:
    from confluent_kafka import IsolationLevel, TopicPartition

    if not specs:
        return {}
    futures = client.admin.list_offsets(
        {TopicPartition(topic, partition): spec for (topic, partition), spec in specs.items()},
        isolation_level=IsolationLevel.READ_UNCOMMITTED,
        request_timeout=client.timeout,
    )
    return {
        (key.topic, key.partition): client.result(
            future, f"Partition {key.partition} of topic '{key.topic}'"
        ).offset
        for key, future in futures.items()
    }


def offsets_by_time(client: Client, partitions: Iterable[Partition], moment: int) -> dict[Partition, int]:
    """The first offset at or after a timestamp, or Kafka's special moments (-1 latest, -2 earliest, -3 max
    timestamp, …), as the leaders answer: -1 where there is none."""
    from ottla.cli.errors import from_code
    from ottla.protocol.messages.fetch import (
        ListOffsetsPartition,
        ListOffsetsRequest,
        ListOffsetsResponse,
        ListOffsetsTopic,
    )

    wanted = list(partitions)
    leaders: dict[int, dict[str, list[int]]] = {}
    chosen = set(wanted)
    for topic in client.brokers.metadata(sorted({name for name, _ in wanted})).topics:
        for partition in topic.partitions:
            if (topic.name, partition.partition_index) in chosen:
                of_leader = leaders.setdefault(partition.leader_id, {})
                of_leader.setdefault(topic.name or "", []).append(partition.partition_index)
    found: dict[Partition, int] = {}
    for leader, topics in leaders.items():
        request = ListOffsetsRequest(
            replica_id=-1,
            topics=[
                ListOffsetsTopic(
                    name=name,
                    partitions=[
                        ListOffsetsPartition(partition_index=number, timestamp=moment) for number in numbers
                    ],
                )
                for name, numbers in topics.items()
            ],
        )
        for answered in client.brokers.node(leader).request(request, ListOffsetsResponse).topics:
            for result in answered.partitions:
                if result.error_code:
                    raise from_code(
                        result.error_code, None, f"Partition {answered.name}-{result.partition_index}"
                    )
                found[answered.name, result.partition_index] = result.offset
    return found
