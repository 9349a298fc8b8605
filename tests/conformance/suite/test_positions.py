"""Positions and offsets."""

from __future__ import annotations

import time

import pytest

from ottla.protocol.errors import ErrorCode

from ..cases import case
from ..client import AgentClient, Client
from ..records import ClientError, Record
from ..topics import MakeTopic
from ..waiting import wait_for
from .test_produce_consume import numbered


@case("Consume from a given offset")
def test_from_offset(client: Client, topic: str) -> None:
    client.produce(topic, numbered(20))
    assert [record.offset for record in client.consume(topic, 5, start=13)] == [13, 14, 15, 16, 17]


@case("Consume from the latest offset", needs=["position"])
def test_from_latest(client: AgentClient, topic: str) -> None:
    client.produce(topic, numbered(20))
    consumer = client.open(topic, start="latest")
    # The first poll fixes the end offset; later records must arrive.
    assert consumer.poll(1, timeout=0.5) == []
    client.produce(topic, [Record(value=b"new", partition=0)])
    assert [(record.offset, record.value) for record in consumer.poll(1)] == [(20, b"new")]
    consumer.close()


@case("Consume the last few records", needs=["tail"])
def test_tail(client: Client, topic: str) -> None:
    client.produce(topic, numbered(20))
    assert [record.offset for record in client.consume(topic, 3, start=-3)] == [17, 18, 19]


@case("A consumer follows what is produced", needs=["position"])
def test_follow(client: AgentClient, observer: AgentClient, make_topic: MakeTopic) -> None:
    # The set of partitions changes between fetches, which exercises incremental fetch sessions.
    topic = make_topic(partitions=3)
    consumer = client.open(topic, partitions=range(3))
    for turn in range(9):
        observer.produce(topic, [Record(value=b"%d" % turn, partition=turn % 3)] * 2)
        read = consumer.poll(2)
        assert [(record.partition, record.offset) for record in read] == [
            (turn % 3, turn // 3 * 2),
            (turn % 3, turn // 3 * 2 + 1),
        ]
    consumer.close()


@case("An empty partition has nothing to read")
def test_empty_partition(client: Client, topic: str) -> None:
    assert client.consume(topic, 1, timeout=0.5) == []


@case("Offset out of range, auto.offset.reset=earliest", needs=["reset"])
@pytest.mark.parametrize("offset", [3, 500], ids=["below", "above"])
def test_out_of_range_earliest(client: Client, observer: AgentClient, topic: str, offset: int) -> None:
    observer.produce(topic, numbered(20))
    observer.call("delete_records", topic=topic, partition=0, before=10)
    read = client.consume(topic, 10, start=offset, reset="earliest")
    assert [record.offset for record in read] == list(range(10, 20))


@case("Offset out of range, auto.offset.reset=none", needs=["reset", "reset errors"])
@pytest.mark.parametrize("offset", [3, 500], ids=["below", "above"])
def test_out_of_range_none(client: Client, observer: AgentClient, topic: str, offset: int) -> None:
    observer.produce(topic, numbered(20))
    observer.call("delete_records", topic=topic, partition=0, before=10)
    with pytest.raises(ClientError) as error:
        client.consume(topic, 10, start=offset, reset="none", timeout=10)
    assert error.value.code in (ErrorCode.OFFSET_OUT_OF_RANGE, None, -140), error.value
    assert "out of range" in str(error.value).lower().replace("outofrange", "out of range")


@case("Seek back and read again", needs=["seek"])
def test_seek(client: AgentClient, topic: str) -> None:
    client.produce(topic, numbered(20))
    consumer = client.open(topic)
    assert [record.offset for record in consumer.poll(20)] == list(range(20))
    consumer.seek(5)
    assert [record.offset for record in consumer.poll(15)] == list(range(5, 20))
    consumer.close()


@case("Find offsets by time", needs=["offsets_for_time"])
def test_offsets_for_time(client: Client, observer: AgentClient, topic: str) -> None:
    base = int(time.time() * 1000) - 100_000
    records = [Record(value=b"v", partition=0, timestamp=base + 1000 * i) for i in range(50)]
    # Several batches, so that the result lies inside a batch and is not its first record.
    for start in range(0, 50, 10):
        observer.produce(topic, records[start : start + 10])

    def find(timestamp: int) -> int | None:
        offset: int | None = client.call("offsets_for_time", topic=topic, partition=0, timestamp=timestamp)
        return offset

    assert find(base - 1) == 0
    assert find(base + 17_000) == 17
    assert find(base + 17_001) == 18
    assert find(base + 49_000) == 49
    # No record is that late: clients return nothing, or the end offset.
    assert find(base + 49_001) in (None, 50)
    assert client.consume(topic, 1, start=18)[0].timestamp == base + 18_000


@case("Time lookup in compressed batches", needs=["offsets_for_time"])
def test_offsets_for_time_compressed(client: Client, observer: AgentClient, topic: str) -> None:
    base = int(time.time() * 1000) - 100_000
    records = [Record(value=b"v" * 100, partition=0, timestamp=base + 1000 * i) for i in range(50)]
    observer.produce(topic, records, codec="lz4")
    found = client.call("offsets_for_time", topic=topic, partition=0, timestamp=base + 30_500)
    assert found == 31


@case("Earliest and latest offset", needs=["watermarks"])
def test_watermarks(client: Client, observer: AgentClient, topic: str) -> None:
    assert client.call("watermarks", topic=topic, partition=0) == [0, 0]
    observer.produce(topic, numbered(20))
    assert client.call("watermarks", topic=topic, partition=0) == [0, 20]
    observer.call("delete_records", topic=topic, partition=0, before=7)
    assert client.call("watermarks", topic=topic, partition=0) == [7, 20]


@case("ListOffsets {spec}", needs=["list_offsets"], spec=["earliest", "latest", "max_timestamp"])
def test_list_offsets(client: Client, observer: AgentClient, topic: str, spec: str) -> None:
    now = int(time.time() * 1000)
    stamps = [now - 5000, now - 4000, now - 1000, now - 3000, now - 2000]
    observer.produce(topic, [Record(value=b"v", partition=0, timestamp=stamp) for stamp in stamps])
    expected = {"earliest": 0, "latest": 5, "max_timestamp": 2}
    assert client.call("list_offsets", topic=topic, partition=0, spec=spec) == expected[spec]


@case("Position and lag", needs=["position", "watermarks"])
def test_lag(client: AgentClient, topic: str) -> None:
    client.produce(topic, numbered(30))
    consumer = client.open(topic)
    consumer.poll(12)
    assert consumer.position() == 12
    _, end = client.call("watermarks", topic=topic, partition=0)
    assert end - consumer.position() == 18
    consumer.poll(18)
    assert end - consumer.position() == 0
    consumer.close()


@case("DeleteRecords, then consume", needs=["delete_records"])
def test_delete_records(client: Client, observer: AgentClient, topic: str) -> None:
    client.produce(topic, numbered(20))
    assert client.call("delete_records", topic=topic, partition=0, before=8) == 8
    assert [record.offset for record in client.consume(topic, 12)] == list(range(8, 20))
    # -1 means the high watermark: all records.
    assert client.call("delete_records", topic=topic, partition=0, before=-1) == 20
    assert client.consume(topic, 1, timeout=0.5) == []
    client.produce(topic, [Record(value=b"next", partition=0)])
    assert [record.offset for record in client.consume(topic, 1)] == [20]


@case("DeleteRecords past the end is refused", needs=["delete_records"])
def test_delete_records_out_of_range(client: Client, observer: AgentClient, topic: str) -> None:
    observer.produce(topic, numbered(5))
    with pytest.raises(ClientError) as error:
        client.call("delete_records", topic=topic, partition=0, before=6)
    assert error.value.code == ErrorCode.OFFSET_OUT_OF_RANGE


@case("Commit, and ask what is committed", needs=["commit"])
def test_commit(client: Client, observer: AgentClient, topic: str, unique: str) -> None:
    observer.produce(topic, numbered(10))
    assert client.call("committed", group=unique, topic=topic, partitions=[0]) == [None]
    client.call("commit", group=unique, topic=topic, offsets=[[0, 4]])
    assert client.call("committed", group=unique, topic=topic, partitions=[0]) == [4]
    client.call("commit", group=unique, topic=topic, offsets=[[0, 2]])
    assert client.call("committed", group=unique, topic=topic, partitions=[0]) == [2]
    # Another client sees the same.
    wait_for(lambda: observer.call("group_offsets", group=unique) == [[topic, 0, 2]], "the commit is visible")
