"""Ends of leader epochs, which reveal whether a log still contains the records that a client has read."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import groupby
from typing import NamedTuple

from ottla.client.cluster import Cluster, TopicPartition
from ottla.client.connection import Connection
from ottla.client.errors import check_accepted
from ottla.protocol.messages.fetch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)


class EpochEnd(NamedTuple):
    """The largest epoch at or below the requested one, and the offset after its last record; -1 if unknown."""

    epoch: int
    end_offset: int


def epoch_ends(
    cluster: Cluster, epochs: Mapping[TopicPartition, int], seconds: float | None = None
) -> dict[TopicPartition, EpochEnd]:
    """Ask each partition's leader about an epoch. Retriable failures are retried for `seconds`."""
    found: dict[TopicPartition, EpochEnd] = {}

    def ask_leaders() -> None:
        cluster.look_up({partition.topic for partition in epochs})
        by_leader: dict[Connection, list[TopicPartition]] = {}
        for partition in epochs:
            if partition not in found:
                by_leader.setdefault(cluster.leader(partition), []).append(partition)
        for leader, partitions in by_leader.items():
            found.update(_ask_leader(leader, {each: epochs[each] for each in partitions}))

    cluster.retrying(ask_leaders, {partition.topic for partition in epochs}, seconds)
    return found


def _ask_leader(leader: Connection, epochs: Mapping[TopicPartition, int]) -> dict[TopicPartition, EpochEnd]:
    request = OffsetForLeaderEpochRequest(
        replica_id=-1,
        topics=[
            OffsetForLeaderTopic(
                topic=topic,
                partitions=[
                    OffsetForLeaderPartition(
                        partition=each.partition, current_leader_epoch=-1, leader_epoch=epochs[each]
                    )
                    for each in members
                ],
            )
            for topic, members in groupby(sorted(epochs), key=lambda each: each.topic)
        ],
    )
    found = {}
    for topic in leader.request(request, OffsetForLeaderEpochResponse).topics:
        for answer in topic.partitions:
            partition = TopicPartition(topic.topic, answer.partition)
            check_accepted(f"Partition {partition}", answer)
            found[partition] = EpochEnd(answer.leader_epoch, answer.end_offset)
    return found
