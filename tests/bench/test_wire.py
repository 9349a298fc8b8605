"""Independent libraries parse the benchmark's hand-written frames."""

import io
import struct
from datetime import timedelta

import pytest
from aiokafka.record.memory_records import MemoryRecords
from kio.schema.errors import ErrorCode
from kio.schema.fetch.v12.request import FetchRequest
from kio.schema.list_offsets.v7.request import ListOffsetsRequest
from kio.schema.list_offsets.v7.response import (
    ListOffsetsPartitionResponse,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from kio.schema.produce.v9.request import ProduceRequest
from kio.schema.produce.v9.response import PartitionProduceResponse, ProduceResponse, TopicProduceResponse
from kio.serial import entity_reader, entity_writer

from bench.measuring import limit, wire

HEADER = 4 + 11  # the size, then key, version, correlation id, null client id, no tagged fields


def test_a_batch_is_read_by_another_client_with_a_valid_checksum():
    values = [b"", b"a", b"x" * 1_000]
    batch = MemoryRecords(wire.record_batch(values, timestamp=1_700_000_000_000)).next_batch()
    assert batch.validate_crc()
    records = list(batch)
    assert [record.value for record in records] == values
    assert [record.offset for record in records] == [0, 1, 2]
    assert {record.timestamp for record in records} == {1_700_000_000_000}
    assert {record.key for record in records} == {None}


def test_a_produce_frame_carries_one_batch_for_one_partition():
    batch = wire.record_batch([b"hello"])
    data = wire.produce_frame("orders", 7, batch, correlation_id=42)
    assert struct.unpack_from(">ihhih", data) == (len(data) - 4, 0, 9, 42, -1)
    request, read = entity_reader(ProduceRequest)(data, HEADER)
    assert HEADER + read == len(data)
    (topic,) = request.topic_data
    (partition,) = topic.partition_data
    assert (request.acks, topic.name, partition.index, bytes(partition.records)) == (-1, "orders", 7, batch)


def test_a_fetch_frame_asks_for_one_partition_without_a_session():
    data = wire.fetch_frame("orders", 7, 123_456_789_012, 1 << 20)
    assert struct.unpack_from(">ihh", data) == (len(data) - 4, 1, 12)
    request, read = entity_reader(FetchRequest)(data, HEADER)
    assert HEADER + read == len(data)
    (topic,) = request.topics
    (partition,) = topic.partitions
    assert (topic.topic, partition.partition, partition.fetch_offset) == ("orders", 7, 123_456_789_012)
    assert (request.session_epoch, partition.partition_max_bytes) == (-1, 1 << 20)


def test_list_offsets_is_asked_and_its_errors_are_read():
    data = wire.list_offsets_frame("orders", range(200))
    request, read = entity_reader(ListOffsetsRequest)(data, HEADER)
    assert HEADER + read == len(data)
    assert [partition.partition_index for partition in request.topics[0].partitions] == list(range(200))
    partitions = tuple(
        ListOffsetsPartitionResponse(
            partition_index=index,
            error_code=ErrorCode.not_leader_or_follower if index == 150 else ErrorCode.none,
            timestamp=-1,
            offset=index,
            leader_epoch=0,
        )
        for index in range(200)
    )
    topic = ListOffsetsTopicResponse(name="orders", partitions=partitions)
    body = io.BytesIO()
    entity_writer(ListOffsetsResponse)(body, ListOffsetsResponse(topics=(topic,), throttle_time=timedelta()))
    errors = wire.list_offsets_errors(struct.pack(">ib", 1, 0) + body.getvalue(), "orders", 200)
    assert [index for index, error in enumerate(errors) if error] == [150]


def test_error_and_offset_are_found_in_a_produce_response():
    partition = PartitionProduceResponse(
        index=0,
        error_code=ErrorCode.not_leader_or_follower,
        base_offset=99,
        log_append_time=None,
        log_start_offset=0,
        record_errors=(),
    )
    topic = TopicProduceResponse(name="orders", partition_responses=(partition,))
    body = io.BytesIO()
    entity_writer(ProduceResponse)(body, ProduceResponse(responses=(topic,)))
    assert wire.produce_result(struct.pack(">ib", 1, 0) + body.getvalue(), "orders") == (6, 99)


def test_the_bare_server_answers_as_a_broker_would():
    size, correlation_id, tags = struct.unpack_from(">iib", limit.ANSWER)
    assert (size, correlation_id, tags) == (len(limit.ANSWER) - 4, 1, 0)
    response, read = entity_reader(ProduceResponse)(limit.ANSWER, 9)
    assert 9 + read == len(limit.ANSWER)
    assert response.responses[0].name == limit.TOPIC
    assert wire.produce_result(limit.ANSWER[4:], limit.TOPIC) == (0, -1)


@pytest.mark.parametrize("value", [0, 1, 63, 64, 127, 128, 300, 1 << 20])
def test_varints_are_zigzag_of_unsigned_ones(value):
    assert wire.varint(value) == wire.uvarint(2 * value)
    assert wire.varint(-value - 1) == wire.uvarint(2 * value + 1)
