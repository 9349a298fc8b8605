"""Effects of time on a broker: old and future timestamps, retention, segment rolls, expiry."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from ottla.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.protocol.messages.transactions import DescribeProducersRequest, TopicRequest
from ottla.protocol.records import Record, build_batch
from ottla.testing import Broker
from tests.wire_client import WireClient

OFTEN = {
    "log.retention.check.interval.ms": "50",
    "log.segment.delete.delay.ms": "0",
    "producer.id.expiration.check.interval.ms": "50",
    "producer.id.expiration.ms": "300",
    "offsets.retention.check.interval.ms": "50",
}
HOUR_MS = 3_600_000


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker(config=OFTEN) as running:
        yield running


@pytest.fixture
def client(broker: Broker) -> Iterator[WireClient]:
    with WireClient(broker.bootstrap_servers) as connected:
        yield connected


def now_ms() -> int:
    return int(time.time() * 1000)


def soon(condition: Callable[[], bool], seconds: float = 10) -> bool:
    ends = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > ends:
            return False
        time.sleep(0.02)
    return True


def produce(client: WireClient, topic: str, timestamp: int, **producer: int) -> int:
    """Return the error code for a record with that timestamp."""
    batch = memoryview(build_batch([Record(0, timestamp, b"k", b"v")], **producer))
    data = TopicProduceData(name=topic, partition_data=[PartitionProduceData(index=0, records=batch)])
    answer = client.call(ProduceRequest(acks=-1, topic_data=[data]), 9)
    return answer.responses[0].partition_responses[0].error_code


def test_timestamps_outside_a_topics_bounds_are_refused(broker, client):
    bounds = {"message.timestamp.before.max.ms": "60000", "message.timestamp.after.max.ms": "30000"}
    broker.create_topic("bounded", config=bounds)
    assert produce(client, "bounded", now_ms() - 50_000) == ErrorCode.NONE
    assert produce(client, "bounded", now_ms() + 20_000) == ErrorCode.NONE
    assert produce(client, "bounded", now_ms() - 70_000) == ErrorCode.INVALID_TIMESTAMP
    assert produce(client, "bounded", now_ms() + 40_000) == ErrorCode.INVALID_TIMESTAMP
    assert len(broker.records("bounded")) == 2


def test_by_default_a_record_may_be_old_but_not_from_tomorrow(broker, client):
    broker.create_topic("unbounded")
    assert produce(client, "unbounded", 1) == ErrorCode.NONE
    assert produce(client, "unbounded", now_ms() + 2 * HOUR_MS) == ErrorCode.INVALID_TIMESTAMP


def test_the_brokers_own_time_knows_no_bounds(broker, client):
    broker.create_topic("stamped", config={"message.timestamp.type": "LogAppendTime"})
    assert produce(client, "stamped", 1) == ErrorCode.NONE
    assert abs(broker.records("stamped")[0].timestamp - now_ms()) < HOUR_MS


def test_a_producer_that_is_silent_for_long_is_forgotten(broker, client):
    broker.create_topic("producers")

    def known() -> list[int]:
        request = DescribeProducersRequest(topics=[TopicRequest(name="producers", partition_indexes=[0])])
        answer = client.call(request)
        return [state.producer_id for state in answer.topics[0].partitions[0].active_producers]

    assert produce(client, "producers", now_ms(), producer_id=7, producer_epoch=0, base_sequence=0) == 0
    assert known() == [7]
    assert soon(lambda: known() == [])
    # The broker now sees a new producer, which may start at any sequence number.
    assert produce(client, "producers", now_ms(), producer_id=7, producer_epoch=0, base_sequence=9) == 0


def test_committed_offsets_are_forgotten_when_their_time_is_over(broker, client):
    broker.create_topic("committed")

    def commit(group: str, retention_time_ms: int) -> None:
        partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=5)
        topics = [OffsetCommitRequestTopic(name="committed", partitions=[partition])]
        request = OffsetCommitRequest(group_id=group, retention_time_ms=retention_time_ms, topics=topics)
        assert soon(lambda: client.call(request, 2).topics[0].partitions[0].error_code == 0)

    def committed(group: str) -> int:
        topics = [OffsetFetchRequestTopics(name="committed", partition_indexes=[0])]
        answer = client.call(
            OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=group, topics=topics)]), 8
        )
        return answer.groups[0].topics[0].partitions[0].committed_offset

    broker.ensure_internal_topic("__consumer_offsets")
    commit("short", 300)
    commit("long", HOUR_MS)
    assert (committed("short"), committed("long")) == (5, 5)
    assert soon(lambda: committed("short") == -1)
    assert committed("long") == 5


@pytest.mark.slow
def test_the_brokers_offsets_retention_holds_for_a_group_without_members(tmp_path):
    config = {"offsets.retention.minutes": "1", "offsets.retention.check.interval.ms": "500"}
    with Broker(config=config, data=tmp_path) as broker, WireClient(broker.bootstrap_servers) as client:
        broker.create_topic("t")
        broker.ensure_internal_topic("__consumer_offsets")
        partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=5)
        topics = [OffsetCommitRequestTopic(name="t", partitions=[partition])]
        client.call(OffsetCommitRequest(group_id="g", topics=topics), 8)
        wanted = [OffsetFetchRequestTopics(name="t", partition_indexes=[0])]
        request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id="g", topics=wanted)])

        def committed() -> int:
            return client.call(request, 8).groups[0].topics[0].partitions[0].committed_offset

        time.sleep(50)
        assert committed() == 5
        assert soon(lambda: committed() == -1, 30)


def segments(broker: Broker, topic: str) -> list[Path]:
    return sorted((broker.data / f"{topic}-0").glob("*.log*"))


def test_old_segments_go_and_their_files_with_them(broker):
    config = {"retention.ms": "600", "segment.bytes": "1048576", "file.delete.delay.ms": "0"}
    broker.create_topic("aging", config=config)
    broker.produce("aging", b"x" * 600_000)
    broker.produce("aging", b"x" * 600_000)
    assert len(segments(broker, "aging")) == 2
    assert soon(lambda: broker.records("aging") == [])
    assert broker.produce("aging", b"new") == 2
    assert soon(lambda: [path.name for path in segments(broker, "aging")] == ["00000000000000000002.log"])


def test_a_topic_beyond_its_size_loses_its_oldest_segments(broker):
    config = {"retention.bytes": "2000000", "segment.bytes": "1048576", "file.delete.delay.ms": "0"}
    broker.create_topic("growing", config=config)
    for _ in range(6):
        broker.produce("growing", b"x" * 1_000_000)
    assert soon(lambda: len(segments(broker, "growing")) <= 2)
    assert [record.offset for record in broker.records("growing")] == [4, 5]


def test_the_brokers_settings_are_the_default_of_topics():
    config = {**OFTEN, "log.retention.ms": "300", "log.retention.hours": "1"}
    with Broker(config=config) as broker:
        broker.create_topic("t")
        broker.create_topic("kept", config={"retention.ms": "-1"})
        broker.produce("t", b"x")
        broker.produce("kept", b"x")
        assert soon(lambda: broker.records("t") == [])
        assert len(broker.records("kept")) == 1


def test_a_segment_is_rolled_when_it_is_old_enough(broker):
    broker.create_topic("rolling", config={"segment.ms": "100"})
    broker.produce("rolling", b"first")
    time.sleep(0.15)
    broker.produce("rolling", b"second")
    names = [path.name for path in segments(broker, "rolling")]
    assert names == ["00000000000000000000.log", "00000000000000000001.log"]
