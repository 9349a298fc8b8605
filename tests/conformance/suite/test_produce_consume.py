"""Produce and consume."""

from __future__ import annotations

import random
import time

import pytest

from ..capabilities import CODECS
from ..cases import case
from ..client import Client
from ..records import Record
from ..topics import MakeTopic

# Below message.max.bytes (1048588) by the overhead of a single-record batch, and a little more.
LARGEST_VALUE = 1_048_588 - 61 - 30


def fields(records: list[Record]) -> list[tuple[bytes | None, bytes | None]]:
    return [(record.key, record.value) for record in records]


def numbered(n: int, partition: int | None = 0) -> list[Record]:
    return [Record(key=b"k%d" % i, value=b"value %d" % i, partition=partition) for i in range(n)]


def produced(client: Client, topic: str, records: list[Record], **options: object) -> list[int | None]:
    """Produce records, assert that none failed, and return the offsets."""
    deliveries = client.produce(topic, records, **options)  # type: ignore[arg-type]
    assert [delivery for delivery in deliveries if delivery.error is not None] == []
    assert len(deliveries) == len(records)
    return [delivery.offset for delivery in deliveries]


@case("Round trip with codec {codec}", needs=["codec:{codec}"], codec=CODECS)
def test_round_trip(client: Client, topic: str, codec: str) -> None:
    records = numbered(200)
    offsets = produced(client, topic, records, codec=codec)
    if "offsets" in client.capabilities:
        assert offsets == list(range(200))
    read = client.consume(topic, 200)
    assert fields(read) == fields(records)
    assert [record.offset for record in read] == list(range(200))


@case("Keys, also none and empty", needs=["keys"])
def test_keys(client: Client, topic: str) -> None:
    records = [
        Record(key=None, value=b"without", partition=0),
        Record(key=b"", value=b"empty", partition=0),
        Record(key=b"\x00\xff\xfe", value=b"bytes", partition=0),
    ]
    produced(client, topic, records)
    assert fields(client.consume(topic, 3)) == fields(records)


@case("Records of one key go to one partition", needs=["keys", "partitioner"])
def test_key_decides_partition(client: Client, make_topic: MakeTopic) -> None:
    topic = make_topic(partitions=4)
    produced(client, topic, [Record(key=b"k%d" % (i % 10), value=b"%d" % i) for i in range(100)])
    read = client.consume(topic, 100, partitions=range(4))
    homes: dict[bytes | None, set[int | None]] = {}
    for record in read:
        homes.setdefault(record.key, set()).add(record.partition)
    assert len(homes) == 10
    assert all(len(partitions) == 1 for partitions in homes.values())
    assert len({partition for partitions in homes.values() for partition in partitions}) > 1


@case("Headers, repeated and empty ones too", needs=["headers"])
def test_headers(client: Client, topic: str) -> None:
    headers = (("trace", b"abc"), ("trace", b"def"), ("empty", b""), ("ünïcode", "wärt".encode()))
    produced(client, topic, [Record(value=b"v", headers=headers, partition=0)])
    [read] = client.consume(topic, 1)
    assert read.headers == headers


@case("Headers without a value", needs=["headers", "null headers"])
def test_null_headers(client: Client, topic: str) -> None:
    headers = (("nothing", None), ("something", b"x"))
    produced(client, topic, [Record(value=b"v", headers=headers, partition=0)])
    [read] = client.consume(topic, 1)
    assert read.headers == headers


@case("Null values", needs=["null values"])
def test_null_values(client: Client, topic: str) -> None:
    records = [Record(key=b"gone", value=None, partition=0), Record(key=b"here", value=b"x", partition=0)]
    produced(client, topic, records)
    assert fields(client.consume(topic, 2)) == fields(records)


@case("Empty values", needs=["keys"])
def test_empty_values(client: Client, topic: str) -> None:
    records = [Record(key=b"a", value=b"", partition=0), Record(key=b"b", value=b"x", partition=0)]
    produced(client, topic, records)
    assert fields(client.consume(topic, 2)) == fields(records)


@case("Unicode in keys and values", needs=["keys"])
def test_unicode(client: Client, topic: str) -> None:
    text = ["Žofie", "カフカ", "🐞 Ungeziefer", "مرحبا"]
    records = [Record(key=word.encode(), value=(word * 3).encode(), partition=0) for word in text]
    produced(client, topic, records)
    assert fields(client.consume(topic, len(text))) == fields(records)


@case("Timestamps are kept", needs=["timestamps"])
def test_timestamps(client: Client, topic: str) -> None:
    # Deliberately out of order: CreateTime belongs to the producer.
    now = int(time.time() * 1000)
    stamps = [now - 50_000, now - 90_000, now - 10, now - 70_000]
    produced(client, topic, [Record(value=b"v", partition=0, timestamp=stamp) for stamp in stamps])
    assert [record.timestamp for record in client.consume(topic, 4)] == stamps


@case("LogAppendTime is the broker's time")
def test_log_append_time(client: Client, make_topic: MakeTopic) -> None:
    topic = make_topic(message_timestamp_type="LogAppendTime")
    stamp = 1_000_000_000_000 if "timestamps" in client.capabilities else None
    before = int(time.time() * 1000)
    produced(client, topic, [Record(value=b"v", partition=0, timestamp=stamp)] * 3)
    after = int(time.time() * 1000)
    for record in client.consume(topic, 3):
        assert record.timestamp is not None
        assert before - 1000 <= record.timestamp <= after + 1000


@case("A record of 1 MB, just below the limit")
def test_one_megabyte(client: Client, topic: str) -> None:
    value = random.Random(1).randbytes(LARGEST_VALUE // 2).hex().encode()
    produced(client, topic, [Record(value=value, partition=0)])
    [read] = client.consume(topic, 1)
    assert read.value == value


@case("Several MB in full batches")
@pytest.mark.timeout(300)
def test_several_megabytes(client: Client, topic: str) -> None:
    source = random.Random(2)
    records = [Record(value=source.randbytes(5_000).hex().encode(), partition=0) for _ in range(400)]
    produced(client, topic, records, codec="gzip")
    assert fields(client.consume(topic, 400)) == fields(records)


@case("Order within each partition")
def test_order(client: Client, make_topic: MakeTopic) -> None:
    topic = make_topic(partitions=6)
    produced(client, topic, [Record(value=b"%d" % i, partition=i % 6) for i in range(600)])
    read = client.consume(topic, 600, partitions=range(6))
    for partition in range(6):
        mine = [record for record in read if record.partition == partition]
        assert [record.offset for record in mine] == list(range(100))
        assert [record.value for record in mine] == [b"%d" % i for i in range(partition, 600, 6)]


@case("acks={acks}", needs=["acks"], acks=["0", "1", "all"])
def test_acks(client: Client, topic: str, acks: str) -> None:
    records = numbered(20)
    offsets = produced(client, topic, records, acks=acks)
    if acks != "0" and "offsets" in client.capabilities:
        assert offsets == list(range(20))
    assert fields(client.consume(topic, 20)) == fields(records)


@case("Idempotent producer", needs=["idempotence"])
def test_idempotent(client: Client, make_topic: MakeTopic) -> None:
    topic = make_topic(partitions=3)
    # Enough for many batches in flight, twice: two producers with two producer ids.
    values = [b"%d" % i * 300 for i in range(600)]
    for _ in range(2):
        records = [Record(value=value, partition=i % 3) for i, value in enumerate(values)]
        produced(client, topic, records, idempotent=True)
    read = client.consume(topic, 1200, partitions=range(3))
    for partition in range(3):
        mine = [record.value for record in read if record.partition == partition]
        assert mine == values[partition::3] * 2


@case("read_committed sees plain records")
def test_read_committed(client: Client, topic: str) -> None:
    records = numbered(10)
    produced(client, topic, records)
    assert fields(client.consume(topic, 10, isolation="read_committed")) == fields(records)
