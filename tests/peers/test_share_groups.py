"""Promise: share groups match Apache Kafka 4.3 step by step: the partitions in each heartbeat, and the records in each
fetch.

Every case runs against both, request by request.
"""

from __future__ import annotations

import base64
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Self

import pytest
from confluent_kafka import KafkaException, TopicCollection
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, NewTopic

from bench.measuring.wire import record_batch
from bench.peers.apache_kafka import ApacheKafka, Unavailable
from ottla.client.connection import Connection
from ottla.client.settings import Settings
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.cluster import FindCoordinatorRequest, FindCoordinatorResponse
from ottla.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from ottla.protocol.messages.share_fetch import (
    AcknowledgementBatch,
    AcknowledgePartition,
    AcknowledgeTopic,
    FetchPartition,
    FetchTopic,
    ShareAcknowledgeRequest,
    ShareAcknowledgeResponse,
    ShareFetchRequest,
    ShareFetchResponse,
)
from ottla.protocol.messages.share_groups import ShareGroupHeartbeatRequest, ShareGroupHeartbeatResponse
from ottla.testing import Broker

pytestmark = [pytest.mark.peers, pytest.mark.timeout(300)]

RELEASE = 2
BATCH_OPTIMIZED, RECORD_LIMIT = 0, 1
NOT_YET = (
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
)


@pytest.fixture(scope="module", params=["ottla", "kafka"])
def cluster(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Steps]:
    data: Path = tmp_path_factory.mktemp("broker")
    if request.param == "ottla":
        config = {"group.share.assignment.interval.ms": "1000"}  # Kafka's value; tests use a shorter one
        with Broker(data=data, config=config) as broker, Steps(broker.bootstrap_servers) as steps:
            yield steps
        return
    try:
        with ApacheKafka() as kafka, Steps(kafka.bootstrap_servers) as steps:
            yield steps
    except Unavailable as reason:
        pytest.skip(str(reason))


class Steps:
    """The requests of share consumers, one by one."""

    def __init__(self, bootstrap_servers: str) -> None:
        self.bootstrap_servers = bootstrap_servers
        self.admin = AdminClient({"bootstrap.servers": bootstrap_servers})
        host, _, port = bootstrap_servers.rpartition(":")
        self.connection = Connection(Settings(), host, int(port))
        # The first group creates the offsets topic.
        request = FindCoordinatorRequest(key_type=0, coordinator_keys=["g"])
        wait_for(
            lambda: not self.connection.request(request, FindCoordinatorResponse).coordinators[0].error_code
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.connection.close()

    def topic(self, batches: list[int], partitions: int = 1) -> tuple[str, bytes]:
        """Create a topic, with batches of these sizes in the first partition."""
        name = f"t-{uuid.uuid4().hex[:8]}"
        self.admin.create_topics([NewTopic(name, partitions, 1)])[name].result()
        found: list[bytes] = []

        def described() -> bool:
            try:
                topic = self.admin.describe_topics(TopicCollection([name]))[name].result()
            except KafkaException:  # some brokers do not know the topic yet
                return False
            found.append(base64.urlsafe_b64decode(f"{topic.topic_id}=="))
            return True

        wait_for(described)
        for size in batches:
            data = PartitionProduceData(index=0, records=record_batch([b"v"] * size))
            topic = TopicProduceData(name=name, topic_id=found[0], partition_data=[data])
            request = ProduceRequest(acks=-1, timeout_ms=30_000, topic_data=[topic])
            wait_for(
                lambda request=request: (
                    self.connection.request(request, ProduceResponse)
                    .responses[0]
                    .partition_responses[0]
                    .error_code
                    == 0
                )
            )
        return name, found[0]

    def configure(self, group: str, **values: str) -> None:
        entries = [
            ConfigEntry(f"share.{name.replace('_', '.')}", value, incremental_operation=AlterConfigOpType.SET)
            for name, value in {"auto_offset_reset": "earliest", **values}.items()
        ]
        resource = ConfigResource(ConfigResource.Type.GROUP, group, incremental_configs=entries)
        for future in self.admin.incremental_alter_configs([resource]).values():
            future.result()

    def heartbeat(
        self, group: str, member: str, epoch: int, topics: list[str] | None = None
    ) -> ShareGroupHeartbeatResponse:
        request = ShareGroupHeartbeatRequest(
            group_id=group, member_id=member, member_epoch=epoch, subscribed_topic_names=topics
        )
        found: list[ShareGroupHeartbeatResponse] = []

        def asked() -> bool:
            found.append(self.connection.request(request, ShareGroupHeartbeatResponse))
            return found[-1].error_code not in NOT_YET

        wait_for(asked)
        return found[-1]

    def join(self, group: str, topic: str) -> str:
        """Join and wait for an assignment."""
        member = new_member()
        answer = self.heartbeat(group, member, 0, [topic])
        epoch = answer.member_epoch

        def assigned() -> bool:
            nonlocal epoch
            answer = self.heartbeat(group, member, epoch)
            epoch = answer.member_epoch
            return bool(held(answer))

        assert held(answer) or wait_for(assigned)
        return member

    def fetch(
        self, group: str, member: str, epoch: int, topic_id: bytes, *, wait_ms: int = 500,
        most: int = 500, batch_size: int = 500, mode: int = BATCH_OPTIMIZED, said: tuple[int, int, int] | None = None,
    ) -> list[tuple[int, int, int]]:  # fmt: skip
        """Return first offset, last offset and delivery count of each acquired range."""
        batches = []
        if said is not None:
            first, last, kind = said
            batches = [AcknowledgementBatch(first_offset=first, last_offset=last, acknowledge_types=[kind])]
        partition = FetchPartition(partition_index=0, acknowledgement_batches=batches)
        request = ShareFetchRequest(
            group_id=group, member_id=member, share_session_epoch=epoch, max_wait_ms=wait_ms, min_bytes=1,
            max_bytes=50 << 20, max_records=most, batch_size=batch_size, share_acquire_mode=mode,
            topics=[FetchTopic(topic_id=topic_id, partitions=[partition])],
        )  # fmt: skip
        answer = self.connection.request(request, ShareFetchResponse)
        assert answer.error_code == 0
        found = [partition for topic in answer.responses for partition in topic.partitions]
        assert all(each.error_code == each.acknowledge_error_code == 0 for each in found)
        return [
            (b.first_offset, b.last_offset, b.delivery_count) for each in found for b in each.acquired_records
        ]

    def acknowledge(
        self, group: str, member: str, epoch: int, topic_id: bytes, said: tuple[int, int, int]
    ) -> None:
        first, last, kind = said
        batch = AcknowledgementBatch(first_offset=first, last_offset=last, acknowledge_types=[kind])
        partition = AcknowledgePartition(partition_index=0, acknowledgement_batches=[batch])
        topics = [AcknowledgeTopic(topic_id=topic_id, partitions=[partition])]
        request = ShareAcknowledgeRequest(
            group_id=group, member_id=member, share_session_epoch=epoch, topics=topics
        )
        answer = self.connection.request(request, ShareAcknowledgeResponse)
        assert [each.error_code for topic in answer.responses for each in topic.partitions] == [0]


def new_member() -> str:
    return base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")


def held(answer: ShareGroupHeartbeatResponse) -> set[int]:
    assert answer.error_code == 0, answer.error_message
    if answer.assignment is None:
        return set()
    return {partition for topic in answer.assignment.topic_partitions for partition in topic.partitions}


def wait_for(condition: Any, seconds: float = 60) -> bool:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.1)
    return True


def test_members_join_with_nothing_and_then_get_a_share_each(cluster: Steps) -> None:
    name, _ = cluster.topic([], partitions=4)
    members = {new_member(): set[int]() for _ in range(2)}
    epochs = {}
    for member in members:
        answer = cluster.heartbeat("joining", member, 0, [name])
        assert answer.assignment is not None
        assert held(answer) == set()
        epochs[member] = answer.member_epoch
    shares: list[list[set[int]]] = []

    def shared() -> bool:
        for member in members:
            answer = cluster.heartbeat("joining", member, epochs[member])
            epochs[member] = answer.member_epoch
            if answer.assignment is not None:
                members[member] = held(answer)
        shares.append(list(members.values()))
        return all(members.values())

    wait_for(shared)
    assert all(len(one) in (0, 2) for each in shares for one in each), "somebody had everything for a while"
    first, second = members.values()
    assert first | second == {0, 1, 2, 3}
    # A full request gets a full response; otherwise only changes.
    member = next(iter(members))
    assert cluster.heartbeat("joining", member, epochs[member]).assignment is None
    assert held(cluster.heartbeat("joining", member, epochs[member], [name])) == first


@pytest.mark.parametrize("topics", [None, []])
def test_who_joins_has_to_subscribe(cluster: Steps, topics: list[str] | None) -> None:
    answer = cluster.heartbeat("joining", new_member(), 0, topics)
    assert answer.error_code == ErrorCode.INVALID_REQUEST
    assert answer.error_message == "SubscribedTopicNames must be set in first request."


@pytest.mark.parametrize(
    ("mode", "most", "batch_size", "first", "second"),
    [
        (BATCH_OPTIMIZED, 500, 500, [(0, 19)], []),
        (BATCH_OPTIMIZED, 500, 6, [(0, 9), (10, 19)], []),
        (BATCH_OPTIMIZED, 7, 500, [(0, 9)], [(10, 19)]),
        (BATCH_OPTIMIZED, 7, 3, [(0, 4), (5, 9)], [(10, 14), (15, 19)]),
        (BATCH_OPTIMIZED, 1, 1, [(0, 4)], [(5, 9)]),
        (RECORD_LIMIT, 500, 6, [(0, 19)], []),
        (RECORD_LIMIT, 10, 3, [(0, 9)], [(10, 19)]),
        (RECORD_LIMIT, 1, 1, [(0, 0)], [(1, 1)]),
    ],
)
def test_batches_are_acquired_whole_unless_the_limit_is_strict(
    cluster: Steps,
    fives: tuple[str, bytes],
    mode: int,
    most: int,
    batch_size: int,
    first: list[tuple[int, int]],
    second: list[tuple[int, int]],
) -> None:
    group = f"batches-{mode}-{most}-{batch_size}"
    cluster.configure(group)
    name, topic_id = fives
    member = cluster.join(group, name)
    for epoch, expected in enumerate((first, second)):
        found = cluster.fetch(
            group,
            member,
            epoch,
            topic_id,
            most=most,
            batch_size=batch_size,
            mode=mode,
            wait_ms=5000 * bool(expected),
        )
        assert found == [(begin, end, 1) for begin, end in expected]


@pytest.fixture(scope="module")
def fives(cluster: Steps) -> tuple[str, bytes]:
    return cluster.topic([5] * 4)


def test_what_was_acquired_together_is_acquired_together_again(
    cluster: Steps, fives: tuple[str, bytes]
) -> None:
    cluster.configure("released")
    name, topic_id = fives
    member = cluster.join("released", name)
    assert cluster.fetch("released", member, 0, topic_id, wait_ms=5000) == [(0, 19, 1)]
    again = cluster.fetch("released", member, 1, topic_id, most=3, said=(0, 19, RELEASE), wait_ms=5000)
    assert again == [(0, 19, 2)]


def test_records_that_nobody_processes_go_out_with_ever_fewer_others(cluster: Steps) -> None:
    cluster.configure("poison")
    name, topic_id = cluster.topic([7])
    member = cluster.join("poison", name)
    rounds = []
    epoch = 0
    for _ in range(5):
        held = []
        while not held or held[-1][1] < 6:
            held += cluster.fetch("poison", member, epoch, topic_id, wait_ms=5000)
            epoch += 1
        rounds.append(held)
        cluster.acknowledge("poison", member, epoch, topic_id, (0, 6, RELEASE))
        epoch += 1
    assert rounds == [
        [(0, 6, 1)],
        [(0, 6, 2)],
        [(0, 6, 3)],
        [(0, 2, 4), (3, 5, 4), (6, 6, 4)],
        [(offset, offset, 5) for offset in range(7)],
    ]
