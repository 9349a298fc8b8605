"""Queries of the share group tests: the coordinators, and the state of a group."""

from __future__ import annotations

import base64
import time

from confluent_kafka import AcknowledgeType, Message, Producer, ShareConsumer

from ottla.protocol.codec import Request
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.cluster import FindCoordinatorRequest, FindCoordinatorResponse
from ottla.protocol.messages.share_groups import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
    DescribeShareGroupOffsetsResponse,
)
from ottla.testing import Cluster
from ottla.testing.cluster import R
from tests.cluster.live.share_workers import commit, poll

PARTITIONS = 6
SESSION_SECONDS = 6
GROUP, SHARE = 0, 2
STATE_TOPIC = "__share_group_state"
CONFIG = {
    "group.share.min.record.lock.duration.ms": "1000",
    "group.share.record.lock.duration.ms": "10000",
    "share.coordinator.state.topic.num.partitions": "6",
    "zookeeper.session.timeout.ms": str(1000 * SESSION_SECONDS),
}


def coordinator(cluster: Cluster, key: str, key_type: int) -> int:
    """Return the coordinator once one runs."""
    found: list[int] = []

    def known() -> bool:
        request = FindCoordinatorRequest(key_type=key_type, coordinator_keys=[key])
        answer = cluster.ask(request, FindCoordinatorResponse).coordinators[0]
        found[:] = [answer.node_id]
        return not answer.error_code and answer.node_id in cluster.running()

    cluster.wait_until(known, f"a coordinator of {key}")
    return found[0]


def topic_id(cluster: Cluster, topic: str) -> bytes:
    return cluster.metadata([topic]).topics[0].topic_id


def share_coordinator(cluster: Cluster, group: str, topic: str | bytes, partition: int) -> int:
    """Return the share coordinator for a topic, given by name or by the id it had."""
    known = topic_id(cluster, topic) if isinstance(topic, str) else topic
    text = base64.urlsafe_b64encode(known).decode().rstrip("=")
    return coordinator(cluster, f"{group}:{text}:{partition}", SHARE)


def produce(cluster: Cluster, topic: str, values: range) -> set[bytes]:
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "acks": "all"})
    for number in values:
        producer.produce(topic, str(number), partition=number % PARTITIONS)
    assert producer.flush(60) == 0
    return {str(number).encode() for number in values}


def read(consumer: ShareConsumer, wanted: set[bytes], fate: AcknowledgeType) -> dict[bytes, Message]:
    """Read until all wanted records have arrived and been acknowledged; return the records."""
    seen: dict[bytes, Message] = {}
    settled: set[bytes] = set()
    deadline = time.monotonic() + 60
    while not wanted <= settled:
        assert time.monotonic() < deadline, f"{sorted(wanted - settled)} did not come"
        messages = poll(consumer, 0.5)
        for message in messages:
            seen[message.value()] = message
            consumer.acknowledge(message, fate)
        confirmed = commit(consumer) if messages else set()
        settled |= {m.value() for m in messages if (m.topic(), m.partition()) in confirmed}
    return seen


def ask(cluster: Cluster, group: str, request: Request, answer: type[R]) -> R:
    """Send a request to the group's coordinator."""
    return cluster.ask(request, answer, broker=coordinator(cluster, group, GROUP))


def describe(cluster: Cluster, group: str) -> dict[int, tuple[int, int]]:
    """Return the start offset and the lag of each partition of the group's only topic."""
    request = DescribeShareGroupOffsetsRequest(
        groups=[DescribeShareGroupOffsetsRequestGroup(group_id=group, topics=None)]
    )
    answer = ask(cluster, group, request, DescribeShareGroupOffsetsResponse)
    assert not answer.groups[0].error_code
    found = {}
    for topic in answer.groups[0].topics:
        for partition in topic.partitions:
            assert not partition.error_code, ErrorCode(partition.error_code)
            found[partition.partition_index] = (partition.start_offset, partition.lag)
    return found


def lags(cluster: Cluster, group: str) -> list[int]:
    return [lag for _, (_, lag) in sorted(describe(cluster, group).items())]
