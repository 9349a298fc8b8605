"""One broker with a directory as remote storage: copying, local retention, and reads across the boundary."""

from __future__ import annotations

import time
import uuid
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, Producer, ShareConsumer, TopicPartition
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource

from ottla.protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchTopic,
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from ottla.protocol.records import read_records
from ottla.protocol.remote_log_records import RemoteLogSegmentMetadataRecord, decode_record
from ottla.testing import Broker
from tests.wire_client import WireClient

from .conftest import TOPIC_CONFIG, eventually, log_of

NOW = int(time.time() * 1000)
COUNT = 400


def consume(
    broker: Broker, topic: str, count: int, offset: int = 0, **config: object
) -> list[tuple[int, bytes]]:
    consumer = Consumer(
        {
            "bootstrap.servers": broker.bootstrap_servers,
            "group.id": "g",
            "auto.offset.reset": "error",
            "enable.auto.commit": False,
            **config,
        }
    )
    try:
        consumer.assign([TopicPartition(topic, 0, offset)])
        found: list[tuple[int, bytes]] = []
        deadline = time.monotonic() + 30
        while len(found) < count and time.monotonic() < deadline:
            for message in consumer.consume(500, 0.2):
                assert message.error() is None, message.error()
                found.append((message.offset(), message.value()))
        return found
    finally:
        consumer.close()


def filled(broker: Broker, count: int = COUNT, **config: str) -> str:
    topic = f"t-{uuid.uuid4().hex[:8]}"
    broker.create_topic(topic, 1, {**TOPIC_CONFIG, **config})
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "batch.num.messages": 5})
    for number in range(count):
        producer.produce(topic, b"value %d" % number, key=b"k", partition=0, timestamp=NOW + number * 1000)
        if number % 100 == 99:
            producer.flush()
    producer.flush()
    return topic


def only_active_is_local(broker: Broker, topic: str) -> bool:
    log = log_of(broker, topic)
    return len(log.segments) == 1 and log.copied_upto == log.segments.base_offset > 0


@pytest.fixture(scope="module")
def topic(broker: Broker) -> str:
    name = filled(broker)
    eventually(lambda: only_active_is_local(broker, name))
    return name


@pytest.fixture
def client(broker: Broker):
    with WireClient(broker.bootstrap_servers) as connected:
        yield connected


def list_offset(client: WireClient, topic: str, timestamp: int) -> tuple[int, int, int]:
    asked = ListOffsetsPartition(partition_index=0, timestamp=timestamp)
    request = ListOffsetsRequest(topics=[ListOffsetsTopic(name=topic, partitions=[asked])])
    [answer] = client.call(request).topics[0].partitions
    assert not answer.error_code
    return answer.offset, answer.timestamp, answer.leader_epoch


def fetch(client: WireClient, topic: str, offset: int, version: int = 12, **fields: int):
    asked = FetchPartition(
        partition=0, fetch_offset=offset, partition_max_bytes=fields.pop("max_bytes", 1 << 20)
    )
    request = FetchRequest(
        max_wait_ms=0, min_bytes=1, topics=[FetchTopic(topic=topic, partitions=[asked])], **fields
    )
    [answer] = client.call(request, version).responses[0].partitions
    return answer


def test_a_consumer_reads_across_the_boundary(broker: Broker, topic: str) -> None:
    log = log_of(broker, topic)
    assert log.log_start_offset == 0
    assert 0 < log.local_start_offset < COUNT
    expected = [(number, b"value %d" % number) for number in range(COUNT)]
    assert consume(broker, topic, COUNT) == expected
    assert consume(broker, topic, COUNT - 123, offset=123) == expected[123:]


def test_every_offset_can_be_fetched(client: WireClient, topic: str) -> None:
    for offset in range(0, COUNT, 17):
        answer = fetch(client, topic, offset, max_bytes=1)
        assert not answer.error_code
        assert answer.log_start_offset == 0
        [(header, _)] = read_records(answer.records)
        assert header.base_offset <= offset <= header.last_offset


def test_the_objects_and_their_metadata(broker: Broker, topic: str, remote: Path) -> None:
    [directory] = remote.glob(f"{topic}-*/0")
    files = sorted(each.name for each in directory.iterdir())
    logs = [name for name in files if name.endswith(".log")]
    assert [int(name.split("-")[0]) for name in logs] == sorted({int(name.split("-")[0]) for name in files})
    assert len(files) == 3 * len(logs)
    records = [
        decode_record(value)
        for partition in (0, 1)
        for value in (record.value for record in broker.records("__remote_log_metadata", partition))
        if value is not None
    ]
    copied = [
        each
        for each in records
        if isinstance(each, RemoteLogSegmentMetadataRecord)
        and each.remote_log_segment_id.topic_id_partition.name == topic
    ]
    assert [each.start_offset for each in copied] == [int(name.split("-")[0]) for name in logs]
    ends = [each.end_offset + 1 for each in copied]
    assert ends == [each.start_offset for each in copied[1:]] + [log_of(broker, topic).local_start_offset]


def test_list_offsets_knows_the_special_timestamps(broker: Broker, client: WireClient, topic: str) -> None:
    local = log_of(broker, topic).local_start_offset
    assert list_offset(client, topic, -1)[0] == COUNT
    assert list_offset(client, topic, -2)[0] == 0
    assert list_offset(client, topic, -4)[0] == local
    assert list_offset(client, topic, -5)[0] == local - 1
    assert list_offset(client, topic, -6)[0] == local


def test_times_are_found_on_both_sides(client: WireClient, topic: str) -> None:
    for number in (0, 1, 57, 200, COUNT - 1):
        assert list_offset(client, topic, NOW + number * 1000 - 500)[:2] == (number, NOW + number * 1000)
    assert list_offset(client, topic, NOW + COUNT * 1000)[0] == -1


def test_offsets_outside_of_the_log_are_refused(client: WireClient, topic: str) -> None:
    assert fetch(client, topic, COUNT + 1).error_code == 1  # OFFSET_OUT_OF_RANGE


def test_a_topic_without_tiered_storage_knows_no_tiered_offsets(broker: Broker, client: WireClient) -> None:
    broker.create_topic("plain")
    broker.produce("plain", b"v")
    assert list_offset(client, "plain", -4)[0] == 0
    assert list_offset(client, "plain", -5) == (-1, -1, -1)
    assert list_offset(client, "plain", -6) == (-1, -1, -1)


def test_aborted_transactions_stay_hidden(broker: Broker) -> None:
    topic = f"x-{uuid.uuid4().hex[:8]}"
    broker.create_topic(topic, 1, TOPIC_CONFIG)
    expected = []
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "transactional.id": topic})
    producer.init_transactions(20)
    for number in range(40):
        producer.begin_transaction()
        for at in range(10):
            producer.produce(topic, b"%d %d" % (number, at), partition=0)
        if number % 3:
            producer.commit_transaction(20)
            expected += [b"%d %d" % (number, at) for at in range(10)]
        else:
            producer.flush()
            producer.abort_transaction(20)
    eventually(lambda: only_active_is_local(broker, topic))
    found = consume(broker, topic, len(expected))
    assert [value for _, value in found] == expected
    everything = consume(broker, topic, 400, **{"isolation.level": "read_uncommitted"})
    assert len(everything) == 400


def test_retention_deletes_remote_segments(broker: Broker, client: WireClient, remote: Path) -> None:
    topic = filled(broker, **{"retention.bytes": "8000"})
    eventually(lambda: only_active_is_local(broker, topic))
    log = log_of(broker, topic)
    eventually(lambda: log.log_start_offset > 0)
    [directory] = remote.glob(f"{topic}-*/0")

    def settled() -> bool:
        starts = sorted(int(each.name.split("-")[0]) for each in directory.glob("*.log"))
        return bool(starts) and starts[0] == log.log_start_offset

    eventually(settled)
    size = sum(each.stat().st_size for each in directory.glob("*.log"))
    assert size <= 8000
    start = log.log_start_offset
    assert list_offset(client, topic, -2)[0] == start
    assert fetch(client, topic, start - 1).error_code == 1
    found = consume(broker, topic, COUNT - start, offset=start)
    assert found == [(number, b"value %d" % number) for number in range(start, COUNT)]


def test_deleted_records_are_gone_on_both_sides(broker: Broker, client: WireClient, remote: Path) -> None:
    topic = filled(broker)
    eventually(lambda: only_active_is_local(broker, topic))
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    for future in admin.delete_records([TopicPartition(topic, 0, 150)]).values():
        assert future.result(20).low_watermark == 150
    assert list_offset(client, topic, -2)[0] == 150
    assert fetch(client, topic, 149).error_code == 1
    assert consume(broker, topic, COUNT - 150, offset=150)[0] == (150, b"value 150")
    [directory] = remote.glob(f"{topic}-*/0")
    eventually(lambda: len([1 for each in directory.glob("*.log") if int(each.name[:20]) < 150]) <= 1)


def test_a_deleted_topic_leaves_no_objects(broker: Broker, remote: Path) -> None:
    topic = filled(broker, 100)
    eventually(lambda: only_active_is_local(broker, topic))
    assert list(remote.glob(f"{topic}-*/0/*.log"))
    broker.delete_topic(topic)
    eventually(lambda: not list(remote.glob(f"{topic}-*")))
    broker.create_topic(topic, 1, TOPIC_CONFIG)  # with another topic id
    assert consume(broker, topic, 0) == []


def test_errors_are_kafkas(broker: Broker) -> None:
    from ottla.protocol.errors import KafkaError as Refused

    for config, message in [
        ({"cleanup.policy": "compact"}, "Remote log storage only supports topics with cleanup.policy=delete"),
        (
            {"retention.bytes": "5", "local.retention.bytes": "6"},
            "Value must not be more than retention.bytes",
        ),
        (
            {"retention.ms": "5", "local.retention.ms": "-1"},
            "Value must not be -1 as retention.ms value is set as 5",
        ),
    ]:
        with pytest.raises(Refused, match=message):
            broker.create_topic("refused", 1, {"remote.storage.enable": "true", **config})
    assert KafkaError


@pytest.mark.parametrize("isolation", ["read_uncommitted", "read_committed"])
def test_share_consumers_read_across_the_boundary(broker: Broker, topic: str, isolation: str) -> None:
    group = f"share-{isolation}"
    settings = {"share.auto.offset.reset": "earliest", "share.isolation.level": isolation}
    entries = [
        ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
        for name, value in settings.items()
    ]
    resource = ConfigResource(ConfigResource.Type.GROUP, group, incremental_configs=entries)
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    for future in admin.incremental_alter_configs([resource]).values():
        future.result(20)
    consumer = ShareConsumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": group})
    consumer.subscribe([topic])
    found: list[bytes] = []
    deadline = time.monotonic() + 40
    try:
        while len(set(found)) < COUNT and time.monotonic() < deadline:
            found += [message.value() for message in consumer.poll(1.0) if message.error() is None]
    finally:
        consumer.close()
    assert sorted(found) == sorted(b"value %d" % number for number in range(COUNT))
