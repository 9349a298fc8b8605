"""Promise: the broker rejects a batch with a valid checksum and invalid records, at no cost to other clients."""

from __future__ import annotations

import random
import struct
import threading
import time
import uuid
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer
from crc32c import crc32c

from ottla.log.append_check import MOST_NAMED_RECORDS, InspectionNeeded, inspect_on_loop
from ottla.log.config import LogConfig
from ottla.protocol.compression import Codec, compress
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.cluster import ApiVersionsRequest
from ottla.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.protocol.record_format import write_records
from ottla.protocol.records import BATCH_OVERHEAD, Record, build_batch
from ottla.testing import Broker
from tests.broker.transactions.wire_producer import NONE, WireProducer
from tests.wire_client import WireClient

pytestmark = pytest.mark.timeout(120)

CODECS = list(Codec)
_LENGTH_AT, _CRC_AT, _ATTRIBUTES_AT, _DELTA_AT, _MAX_TIMESTAMP_AT, _COUNT_AT = 8, 17, 21, 23, 35, 57


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker(config={"num.partitions": "1"}) as running:
        yield running


@pytest.fixture
def client(broker: Broker) -> Iterator[WireClient]:
    with WireClient(broker.bootstrap_servers) as connected:
        yield connected


def new_topic(broker: Broker, **config: str) -> str:
    name = f"t-{uuid.uuid4()}"
    broker.create_topic(name, 1, {key.replace("_", "."): value for key, value in config.items()})
    return name


def poisoned(body: bytes, count: int, codec: int = 0, max_timestamp: int | None = None) -> bytes:
    """Return a batch with a valid header and checksum around arbitrary bytes."""
    batch = build_batch([Record(0, int(time.time() * 1000), b"k", b"v")])[:BATCH_OVERHEAD] + body
    struct.pack_into(">i", batch, _LENGTH_AT, len(batch) - 12)
    struct.pack_into(">h", batch, _ATTRIBUTES_AT, codec)
    struct.pack_into(">i", batch, _DELTA_AT, count - 1)
    struct.pack_into(">i", batch, _COUNT_AT, count)
    if max_timestamp is not None:
        struct.pack_into(">q", batch, _MAX_TIMESTAMP_AT, max_timestamp)
    struct.pack_into(">I", batch, _CRC_AT, crc32c(memoryview(batch)[_ATTRIBUTES_AT:]))
    return bytes(batch)


def request(topic: str, records: bytes, acks: int = -1) -> ProduceRequest:
    data = PartitionProduceData(index=0, records=records)
    return ProduceRequest(
        acks=acks, timeout_ms=30_000, topic_data=[TopicProduceData(name=topic, partition_data=[data])]
    )


def produce(client: WireClient, topic: str, records: bytes) -> Any:
    answer: Any = client.call(request(topic, records), 9)
    return answer.responses[0].partition_responses[0]


def body(*values: bytes, key: bytes | None = b"k") -> bytes:
    now = int(time.time() * 1000)
    return write_records([Record(0, now, key, value) for value in values], None, now)


def read_all(broker: Broker, topic: str, count: int) -> list[bytes | None]:
    consumer = Consumer(
        {"bootstrap.servers": broker.bootstrap_servers, "group.id": topic, "auto.offset.reset": "earliest"}
    )
    consumer.subscribe([topic])
    values: list[bytes | None] = []
    deadline = time.monotonic() + 60
    while len(values) < count:
        assert time.monotonic() < deadline, f"only {len(values)} of {count} records arrived"
        message = consumer.poll(1)
        if message is not None and message.error() is None:
            values.append(message.value())
    consumer.close()
    return values


POISON = {
    "garbage": (random.Random(7).randbytes(400), 5),
    "claims of 2 billion records": (body(b"v"), 2**31 - 1),
    "more records than there are": (body(b"a", b"b"), 4),
    "fewer records than there are": (body(b"a", b"b", b"c"), 2),
    "a record that ends early": (body(b"a")[:-1], 1),
    "bytes after the last record": (body(b"a") + b"xyz", 1),
    "a value longer than its record": (b"\x12\x00\x00\x00\x02k\x40v\x00", 1),
    "no records": (b"", 3),
}


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("kind", POISON)
def test_records_that_are_not_records_are_refused_and_later_ones_are_read(
    broker: Broker, client: WireClient, kind: str, codec: Codec
) -> None:
    topic = new_topic(broker)
    data, count = POISON[kind]
    assert produce(client, topic, build_batch([Record(0, 0, None, b"before")])).error_code == NONE
    answer = produce(client, topic, poisoned(compress(codec, data) if codec else data, count, codec))
    assert (answer.error_code, answer.base_offset) == (ErrorCode.INVALID_RECORD, -1)
    assert answer.error_message
    assert produce(client, topic, build_batch([Record(0, 0, None, b"after")])).base_offset == 1
    if codec in (Codec.NONE, Codec.ZSTD) and kind in ("garbage", "claims of 2 billion records"):
        assert read_all(broker, topic, 2) == [b"before", b"after"]


@pytest.mark.parametrize("codec", CODECS[1:])
@pytest.mark.parametrize("size", [100, 100_000])
def test_bytes_that_were_never_compressed_are_refused(
    broker: Broker, client: WireClient, codec: Codec, size: int
) -> None:
    garbage = b"\xff" * 12 + random.Random(11).randbytes(size)
    answer = produce(client, new_topic(broker), poisoned(garbage, 10, codec))
    assert answer.error_code == ErrorCode.INVALID_RECORD


def far_ahead(count: int) -> bytes:
    """Return nine-byte records whose timestamps are a century in the future."""
    record = b"\x10\x00\x00\x00\x02k\x02v\x00"
    return poisoned(
        compress(Codec.ZSTD, record * count), count, Codec.ZSTD, max_timestamp=int((time.time() + 3e9) * 1000)
    )


def test_a_million_faulty_records_are_refused_with_a_bounded_answer(
    broker: Broker, client: WireClient
) -> None:
    topic = new_topic(broker, message_timestamp_before_max_ms="1000")
    old = poisoned(
        compress(Codec.ZSTD, (b"\x12\x00" + b"\xff\xff\xff\xff\x0f" + b"\x00\x01\x01\x00") * 1_000_000),
        1_000_000,
        Codec.ZSTD,
    )
    for batch in (far_ahead(1_000_000), old):
        assert len(batch) < 5_000
        answer = produce(client, topic, batch)
        assert answer.error_code in (ErrorCode.INVALID_TIMESTAMP, ErrorCode.INVALID_RECORD)
        assert len(answer.record_errors) <= MOST_NAMED_RECORDS
    assert (
        produce(client, topic, build_batch([Record(0, int(time.time() * 1000), b"k", b"v")])).base_offset == 0
    )


def test_the_loop_reads_no_batch_with_many_records() -> None:
    config = LogConfig(cleanup_policy=frozenset({"compact"}))
    now = int(time.time() * 1000)
    for batch in (far_ahead(1_000_000), far_ahead(2_000)):
        with pytest.raises(InspectionNeeded):
            inspect_on_loop(memoryview(batch), config, now)
    bomb = poisoned(compress(Codec.ZSTD, bytes(50_000_000)), 1, Codec.ZSTD)
    with pytest.raises(InspectionNeeded):
        inspect_on_loop(memoryview(bomb), config, now)


def test_others_are_served_while_a_large_batch_is_inspected(broker: Broker, client: WireClient) -> None:
    topic = new_topic(broker, cleanup_policy="compact")
    hostile = far_ahead(2_000_000)
    answers: list[Any] = []

    def attack() -> None:
        with WireClient(broker.bootstrap_servers, timeout=100) as attacker:
            answers.append(produce(attacker, topic, hostile))

    thread = threading.Thread(target=attack)
    thread.start()
    served = 0
    while thread.is_alive():
        client.call(ApiVersionsRequest(), 2)
        served += 1
    thread.join()
    assert answers[0].error_code == ErrorCode.INVALID_TIMESTAMP
    assert served > 5


@pytest.mark.parametrize("acks", [0, 1, -1])
@pytest.mark.parametrize(
    "config", [{"cleanup_policy": "compact"}, {"compression_type": "lz4"}, {"compression_type": "gzip"}]
)
def test_good_batches_that_are_inspected_keep_their_order(
    broker: Broker, client: WireClient, acks: int, config: dict[str, str]
) -> None:
    topic = new_topic(broker, **config)
    now = int(time.time() * 1000)
    expected: list[bytes] = []
    for number in range(6):
        count = 3_000 if number % 2 else 3  # in a thread, on the loop
        values = [b"%d-%d" % (number, place) for place in range(count)]
        expected += values
        records = [Record(0, now, value, value) for value in values]
        client.send(request(topic, build_batch(records, codec=Codec.ZSTD), acks), 9)
        if acks:
            client.receive(request(topic, b""), 9)
    assert read_all(broker, topic, len(expected)) == expected


def test_a_large_batch_of_a_transaction_is_committed(broker: Broker, client: WireClient) -> None:
    topic = new_topic(broker, cleanup_policy="compact")
    producer = WireProducer(client, f"x-{uuid.uuid4()}", v2=True)
    assert producer.init() is NONE
    now = int(time.time() * 1000)
    records = [Record(0, now, b"%d" % place, b"%d" % place) for place in range(5_000)]
    batch = build_batch(
        records,
        codec=Codec.ZSTD,
        producer_id=producer.producer_id,
        producer_epoch=producer.epoch,
        base_sequence=0,
        transactional=True,
    )
    asked = request(topic, bytes(batch))
    asked.transactional_id = producer.transactional_id
    answer: Any = client.call(asked, 12)
    assert answer.responses[0].partition_responses[0].error_code == NONE
    assert producer.end(commit=True) is NONE
    assert read_all(broker, topic, 5_000) == [record.value for record in records]


def test_a_record_may_not_be_larger_than_the_topic_allows(broker: Broker, client: WireClient) -> None:
    topic = new_topic(broker, max_decompressed_message_bytes="1000")
    now = int(time.time() * 1000)
    small, large = Record(0, now, None, bytes(900)), Record(0, now, None, bytes(1100))
    assert produce(client, topic, build_batch([small, small], codec=Codec.ZSTD)).error_code == NONE
    answer = produce(client, topic, build_batch([small, large, small], codec=Codec.ZSTD))
    assert answer.error_code == ErrorCode.INVALID_RECORD
    assert [each.batch_index for each in answer.record_errors] == [1]
    assert produce(client, topic, build_batch([large])).error_code == NONE, "the broker decompresses nothing"
