"""Decoding arbitrary bytes ends quickly, with a message or with MalformedMessage."""

from __future__ import annotations

import contextlib
import random
import time
import tracemalloc
from collections.abc import Iterator
from struct import pack

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.protocol.codec import Data, MalformedMessage, string
from ottla.protocol.codegen import unsigned_varint
from ottla.protocol.messages import API_NAMES, request_type, response_type
from ottla.protocol.messages.cluster import MetadataRequest, MetadataRequestTopic
from ottla.protocol.messages.consumer_groups import ConsumerProtocolAssignment, ConsumerProtocolSubscription
from ottla.protocol.messages.fetch import FetchRequest, FetchResponse
from ottla.protocol.messages.produce import ProduceRequest

MESSAGES: list[type[Data]] = [
    *(request_type(key) for key in API_NAMES),
    *(response_type(key) for key in API_NAMES),
    ConsumerProtocolSubscription,
    ConsumerProtocolAssignment,
]
HUGE = [
    b"\x7f\xff\xff\xff",
    b"\xff\xff\xff\xff",
    b"\x80\0\0\0",
    b"\xff\xff\xff\xff\x0f",
    b"\xff\xff\xff\xff\x7f",
    b"\x7f\xff",
]


def versions_of(message: type[Data]) -> range:
    return range(message.versions[0], message.versions[1] + 1)


def decode_anyhow(message: type[Data], wire: bytes, version: int) -> None:
    with contextlib.suppress(MalformedMessage):
        message.decode(memoryview(wire), version)


def samples(message: type[Data], random_message, count: int) -> Iterator[tuple[int, bytes]]:
    for version in versions_of(message):
        for seed in range(count):
            yield version, random_message(message, version, seed).encode(version)


@pytest.mark.parametrize("message", MESSAGES, ids=lambda message: message.__name__)
def test_a_message_cut_off_anywhere_is_malformed(message: type[Data], random_message) -> None:
    for version, wire in samples(message, random_message, 2):
        step = 1 + len(wire) // 400
        for end in range(0, len(wire), step):
            for kind in (bytes, memoryview):
                with pytest.raises(MalformedMessage):
                    message.decode(kind(wire[:end]), version)


@pytest.mark.parametrize("message", MESSAGES, ids=lambda message: message.__name__)
def test_damage_is_malformed_or_another_message(message: type[Data], random_message) -> None:
    choose = random.Random(message.__name__)
    for version, wire in samples(message, random_message, 2):
        for _ in range(40 if wire else 0):
            damaged = bytearray(wire)
            for _ in range(choose.randint(1, 3)):
                damaged[choose.randrange(len(wire))] = choose.choice(
                    [0, 1, 127, 128, 255, choose.randrange(256)]
                )
            decode_anyhow(message, bytes(damaged), version)
        decode_anyhow(message, choose.randbytes(200), version)


@pytest.mark.parametrize("message", MESSAGES, ids=lambda message: message.__name__)
def test_lengths_that_lie_take_neither_memory_nor_time(message: type[Data], random_message) -> None:
    for version in set(message.versions):
        wire = random_message(message, version, "huge").encode(version)
        began = time.process_time()
        tracemalloc.start()
        try:
            for position in range(0, len(wire), 1 + len(wire) // 50):
                for claim in HUGE:
                    decode_anyhow(message, wire[:position] + claim + wire[position + len(claim) :], version)
            assert tracemalloc.get_traced_memory()[1] < 2 << 20
        finally:
            tracemalloc.stop()
        assert time.process_time() - began < 10


@pytest.mark.parametrize("key", API_NAMES, ids=API_NAMES.values())
@given(wire=st.binary(max_size=100))
def test_random_bytes_as_a_request(key: int, wire: bytes) -> None:
    message = request_type(key)
    for version in set(message.versions):
        decode_anyhow(message, wire, version)


def test_text_that_is_not_utf8_is_malformed() -> None:
    with pytest.raises(MalformedMessage):
        MetadataRequest.decode(b"\0\0\0\x01\0\x02\xff\xfe", 1)


def test_a_null_where_none_is_allowed_is_malformed() -> None:
    with pytest.raises(MalformedMessage):
        MetadataRequest.decode(b"\0\0\0\x01\xff\xff", 1)
    with pytest.raises(MalformedMessage):
        MetadataRequest.decode(b"\xff\xff\xff\xff", 0)


def test_records_are_a_view_of_the_request() -> None:
    wire = bytearray(
        b"\xff\xff\0\x01\0\0\0\x05" + b"\0\0\0\x01\0\x01t" + b"\0\0\0\x01\0\0\0\0" + pack(">i", 4) + b"data"
    )
    request = ProduceRequest.decode(memoryview(wire), 3)
    records = request.topic_data[0].partition_data[0].records
    assert bytes(records) == b"data"
    wire[-1] = ord("!")
    assert bytes(records) == b"dat!"


# Tagged fields


def test_unknown_tagged_fields_are_skipped_wherever_they_are() -> None:
    plain = MetadataRequest(topics=[MetadataRequestTopic(name="a"), MetadataRequestTopic(name="b")])
    wire = plain.encode(12)
    tags = b"\x02" + b"\x63\x03abc" + b"\xe8\x07\x00"  # tags 99 and 1000
    topic = bytes(16) + b"\x02a" + b"\0"
    assert topic in wire
    stranger = wire.replace(topic, topic[:-1] + tags)[:-1] + tags
    assert MetadataRequest.decode(stranger, 12) == plain


def test_unknown_tagged_fields_stand_between_known_ones() -> None:
    request = FetchRequest(cluster_id="c")
    wire = request.encode(12)
    known = b"\x01\x00\x02\x02c"
    assert wire.endswith(known)
    stranger = wire[: -len(known)] + b"\x03" + b"\x00\x02\x02c" + b"\x05\x00" + b"\x7f\x01x"
    assert FetchRequest.decode(stranger, 12) == request


@pytest.mark.parametrize(
    "tags", [b"\x01\x63\x05abc", b"\x02\x63\x00", b"\x01\x63", b"\x01", b"\xff\xff\xff\xff\x0f"]
)
def test_tagged_fields_that_go_beyond_the_message_are_malformed(tags: bytes) -> None:
    wire = FetchRequest().encode(12)
    with pytest.raises(MalformedMessage):
        FetchRequest.decode(wire[:-1] + tags, 12)


@pytest.mark.parametrize("tag", [b"\x00\x03\x02c", b"\x00\x01\x02c", b"\x00\x00\x02c"])
def test_a_tagged_field_whose_size_is_not_its_values_is_malformed(tag: bytes) -> None:
    wire = FetchRequest().encode(12)
    with pytest.raises(MalformedMessage):
        FetchRequest.decode(wire[:-1] + b"\x01" + tag + b"\0\0", 12)


def test_tagged_fields_that_overlap_do_not_multiply_the_work() -> None:
    # Each claims five bytes, and those five claim a string of a megabyte.
    number = 400_000
    one = b"\x00\x05\xc2\x80\xc2\x80\x00"
    wire = FetchRequest().encode(12)[:-1] + unsigned_varint(number) + one * number
    began = time.process_time()
    with pytest.raises(MalformedMessage):
        FetchRequest.decode(wire, 12)
    assert time.process_time() - began < 2


def test_tagged_structs_that_are_absent_are_none() -> None:
    response = FetchResponse.decode(FetchResponse().encode(12), 12)
    assert response == FetchResponse()


# Promises of the notation


class Outer(Data, versions="0-2", flexible="2+"):
    name: str = string()


def test_a_version_that_a_message_does_not_have_is_a_mistake_of_ours() -> None:
    with pytest.raises(ValueError, match="has no version 3"):
        Outer().encode(3)
    with pytest.raises(ValueError, match="has no version -1"):
        Outer.decode(b"", -1)
