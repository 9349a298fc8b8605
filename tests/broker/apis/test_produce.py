"""Produce on the wire."""

from __future__ import annotations

import time
from itertools import count

import pytest
from confluent_kafka import Producer

from ottla.protocol.compression import Codec
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    TopicProduceData,
)
from ottla.protocol.records import Record, build_batch
from ottla.testing import Broker
from tests.wire_client import WireClient

_names = count()


@pytest.fixture
def topic(broker: Broker) -> str:
    name = f"produce-{next(_names)}"
    broker.create_topic(name)
    return name


def now() -> int:
    return int(time.time() * 1000)


def batch(*values: bytes, **options: object) -> bytearray:
    return build_batch([Record(0, now(), None, value) for value in values], **options)  # type: ignore[arg-type]


def request(topic: str, records: bytes | None, *, acks: int = -1, partition: int = 0) -> ProduceRequest:
    data = PartitionProduceData(index=partition, records=records)
    return ProduceRequest(
        acks=acks, timeout_ms=1000, topic_data=[TopicProduceData(name=topic, partition_data=[data])]
    )


def produce(
    client: WireClient, topic: str, records: bytes | None, version: int = 9, **options: int
) -> PartitionProduceResponse:
    answer = client.call(request(topic, records, **options), version)
    [topic_answer] = answer.responses  # type: ignore[attr-defined]
    [partition] = topic_answer.partition_responses
    return partition


@pytest.mark.parametrize("version", range(3, 13))
def test_every_version_appends_and_tells_the_offset(client: WireClient, topic: str, version: int) -> None:
    assert produce(client, topic, batch(b"a", b"b"), version).base_offset == 0
    assert produce(client, topic, batch(b"c"), version).base_offset == 2


def test_version_13_names_the_topic_by_its_id(broker: Broker, client: WireClient, topic: str) -> None:
    topic_id = broker.topic_id(topic)
    asked = request(topic, batch(b"a"))
    asked.topic_data[0].topic_id = topic_id
    [answer] = client.call(asked, 13).responses  # type: ignore[attr-defined]
    assert answer.topic_id == topic_id
    assert answer.partition_responses[0].error_code == ErrorCode.NONE
    asked.topic_data[0].topic_id = b"?" * 16
    [answer] = client.call(asked, 13).responses  # type: ignore[attr-defined]
    assert answer.partition_responses[0].error_code == ErrorCode.UNKNOWN_TOPIC_ID


def test_an_unknown_topic_or_partition_is_refused(client: WireClient, topic: str) -> None:
    assert produce(client, "nowhere", batch(b"a")).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    answer = produce(client, topic, batch(b"a"), partition=7)
    assert answer.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_a_wrong_checksum_is_a_corrupt_message(broker: Broker, client: WireClient, topic: str) -> None:
    spoiled = batch(b"hello")
    spoiled[-1] ^= 1
    assert produce(client, topic, spoiled).error_code == ErrorCode.CORRUPT_MESSAGE
    assert broker.records(topic) == []


def test_a_batch_over_max_message_bytes_is_too_large(broker: Broker, client: WireClient) -> None:
    broker.create_topic("small", config={"max.message.bytes": "200"})
    assert produce(client, "small", batch(b"x" * 300)).error_code == ErrorCode.MESSAGE_TOO_LARGE
    assert produce(client, "small", batch(b"x" * 50)).error_code == ErrorCode.NONE


def test_no_records_are_an_invalid_record(client: WireClient, topic: str) -> None:
    assert produce(client, topic, None).error_code == ErrorCode.INVALID_RECORD
    assert produce(client, topic, b"").error_code == ErrorCode.INVALID_RECORD


def test_unknown_acks_are_refused(client: WireClient, topic: str) -> None:
    assert produce(client, topic, batch(b"a"), acks=2).error_code == ErrorCode.INVALID_REQUIRED_ACKS


def test_acks_0_is_not_answered_and_still_written(broker: Broker, client: WireClient, topic: str) -> None:
    client.send(request(topic, batch(b"quiet"), acks=0), 9)
    # The connection's next response belongs to the next request.
    assert produce(client, topic, batch(b"loud")).base_offset == 1
    assert [record.value for record in broker.records(topic)] == [b"quiet", b"loud"]


def test_acks_0_that_fails_closes_the_connection(broker: Broker, topic: str) -> None:
    with WireClient(broker.bootstrap_servers) as client:
        client.send(request("nowhere", batch(b"a"), acks=0), 9)
        assert client.is_closed()


def test_zstd_needs_version_7(client: WireClient, topic: str) -> None:
    compressed = batch(b"z" * 100, codec=Codec.ZSTD)
    answer = produce(client, topic, compressed, version=6)
    assert answer.error_code == ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
    assert produce(client, topic, batch(b"z" * 100, codec=Codec.ZSTD), version=7).error_code == ErrorCode.NONE


def test_an_internal_topic_takes_nothing_from_clients(broker: Broker, client: WireClient) -> None:
    broker.ensure_internal_topic("__consumer_offsets")
    answer = produce(client, "__consumer_offsets", batch(b"a"))
    assert answer.error_code == ErrorCode.INVALID_TOPIC_EXCEPTION


class TestIdempotence:
    def send(self, client: WireClient, topic: str, sequence: int, epoch: int = 0) -> PartitionProduceResponse:
        records = batch(b"v", producer_id=77, producer_epoch=epoch, base_sequence=sequence)
        return produce(client, topic, records)

    def test_a_repeated_batch_gets_its_first_offset_and_is_not_written_twice(
        self, broker: Broker, client: WireClient, topic: str
    ) -> None:
        assert self.send(client, topic, 0).base_offset == 0
        assert self.send(client, topic, 1).base_offset == 1
        repeated = self.send(client, topic, 0)
        assert (repeated.error_code, repeated.base_offset) == (ErrorCode.NONE, 0)
        assert len(broker.records(topic)) == 2

    def test_a_gap_is_out_of_order(self, client: WireClient, topic: str) -> None:
        self.send(client, topic, 0)
        assert self.send(client, topic, 2).error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER

    def test_an_old_epoch_is_fenced(self, client: WireClient, topic: str) -> None:
        self.send(client, topic, 0, epoch=5)
        assert self.send(client, topic, 1, epoch=4).error_code == ErrorCode.INVALID_PRODUCER_EPOCH

    def test_the_state_survives_a_restart(self, fresh_ottla_broker: Broker) -> None:
        fresh_ottla_broker.create_topic("t")
        with WireClient(fresh_ottla_broker.bootstrap_servers) as client:
            self.send(client, "t", 0)
            self.send(client, "t", 1)
        fresh_ottla_broker.restart()
        with WireClient(fresh_ottla_broker.bootstrap_servers) as client:
            assert self.send(client, "t", 1).base_offset == 1
            assert self.send(client, "t", 3).error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
            assert self.send(client, "t", 2).base_offset == 2


def test_log_append_time_is_told_and_stored(broker: Broker, client: WireClient) -> None:
    broker.create_topic("stamped", config={"message.timestamp.type": "LogAppendTime"})
    before = now()
    old = build_batch([Record(0, 1000, None, b"a")])
    answer = produce(client, "stamped", old)
    assert before <= answer.log_append_time_ms <= now()
    [record] = broker.records("stamped")
    assert record.timestamp == answer.log_append_time_ms


def test_pipelined_requests_are_answered_in_order(client: WireClient, topic: str) -> None:
    asked = [request(topic, batch(b"x")) for _ in range(200)]
    ids = [client.send(each, 9) for each in asked]
    offsets = []
    for each, correlation_id in zip(asked, ids, strict=True):
        answer = client.receive(each, 9, correlation_id)
        offsets.append(answer.responses[0].partition_responses[0].base_offset)  # type: ignore[attr-defined]
    assert offsets == list(range(200))


def test_a_request_that_arrives_byte_by_byte_is_understood(client: WireClient, topic: str) -> None:
    asked = request(topic, batch(b"slow"))
    real, sent = client.socket, bytearray()

    class Collect:
        def sendall(self, data: bytes) -> None:
            sent.extend(data)

    client.socket = Collect()  # type: ignore[assignment]
    client.send(asked, 9)
    client.socket = real
    for byte in sent:
        real.sendall(bytes([byte]))
    answer = client.receive(asked, 9)
    assert answer.responses[0].partition_responses[0].base_offset == 0  # type: ignore[attr-defined]


@pytest.mark.parametrize("version", [8, 12])
def test_records_without_a_key_for_a_compacted_topic_are_named(
    broker: Broker, client: WireClient, version: int
) -> None:
    name = f"compacted-{next(_names)}"
    broker.create_topic(name, config={"cleanup.policy": "compact"})
    keys = [b"k", None, b"k", b"k", None]
    records = build_batch([Record(0, now(), key, b"v") for key in keys], codec=Codec.GZIP)
    answer = produce(client, name, records, version)
    assert answer.error_code == ErrorCode.INVALID_RECORD
    assert [each.batch_index for each in answer.record_errors] == [1, 4]
    assert all("without a key" in each.batch_index_error_message for each in answer.record_errors)
    assert broker.records(name) == []
    assert produce(client, name, build_batch([Record(0, now(), b"k", b"v")]), version).record_errors == []


@pytest.mark.parametrize(
    ("config", "hours"), [("message.timestamp.after.max.ms", 1), ("message.timestamp.before.max.ms", -1)]
)
def test_records_with_a_timestamp_out_of_range_are_named(
    broker: Broker, client: WireClient, config: str, hours: int
) -> None:
    name = f"timely-{next(_names)}"
    broker.create_topic(name, config={config: "60000"})
    times = [now(), now() + hours * 3_600_000, now()]
    answer = produce(client, name, build_batch([Record(0, time, None, b"v") for time in times]))
    assert answer.error_code == ErrorCode.INVALID_TIMESTAMP
    assert [each.batch_index for each in answer.record_errors] == [1]


def test_a_producer_learns_which_of_its_records_were_refused(broker: Broker) -> None:
    """For the other records librdkafka reports only that another record in their batch was invalid."""
    name = f"compacted-{next(_names)}"
    broker.create_topic(name, config={"cleanup.policy": "compact"})
    said: list[tuple[bytes | None, str]] = []
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "linger.ms": 500})
    for key in (b"a", None, b"b", None):
        producer.produce(
            name, b"v", key, 0, on_delivery=lambda error, message: said.append((message.key(), error.name()))
        )
    assert producer.flush(30) == 0
    assert said == [
        (b"a", "_INVALID_DIFFERENT_RECORD"),
        (None, "INVALID_RECORD"),
        (b"b", "_INVALID_DIFFERENT_RECORD"),
        (None, "INVALID_RECORD"),
    ]
