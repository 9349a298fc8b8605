"""Promise: reading or writing in slices gives the same message, and Kafka's size limits apply."""

from __future__ import annotations

import random
import struct
from collections.abc import Generator
from typing import Any

import pytest

from ottla.protocol.codec import Data, MalformedMessage
from ottla.protocol.messages import API_NAMES, request_type, response_type
from ottla.protocol.messages.cluster import ApiVersionsRequest, FindCoordinatorRequest, MetadataRequest
from ottla.protocol.messages.offsets import OffsetFetchRequest, OffsetFetchRequestTopic
from tests.broker.network.hostile import random_struct

MILLION = 1_000_000


def run(generator: Generator[None, None, Any]) -> tuple[Any, int]:
    """Run a generator; return its result and its number of yields."""
    slices = 0
    while True:
        try:
            next(generator)
        except StopIteration as stop:
            return stop.value, slices
        slices += 1


def encoded_in_slices(message: Data, version: int) -> tuple[bytes, int]:
    parts: list[Any] = []
    _, slices = run(message.encode_in_slices(version, parts.append))
    return b"".join(bytes(part) for part in parts), slices


@pytest.mark.parametrize("key", API_NAMES, ids=API_NAMES.get)
def test_slices_make_the_same_message_in_every_version(key: int) -> None:
    rng = random.Random(key)
    for cls in (request_type(key), response_type(key)):
        for version in range(cls.versions[0], cls.versions[1] + 1):
            message = random_struct(rng, cls)
            assert isinstance(message, Data)
            plain = message.encode(version)
            assert encoded_in_slices(message, version)[0] == plain
            decoded, _ = run(cls.decode_in_slices(plain, version, 0, []))
            assert decoded == cls.decode(plain, version)


def test_a_long_array_takes_many_slices() -> None:
    names = [str(number) for number in range(10_000)]
    request = FindCoordinatorRequest(coordinator_keys=names)
    data = request.encode(4)
    started: list[Any] = []
    decoding = FindCoordinatorRequest.decode_in_slices(data, 4, 0, started)
    next(decoding)
    assert len(started) == 1
    assert 100 < len(started[0].coordinator_keys) < 1000  # a partial message is consistent
    decoded, slices = run(decoding)
    assert decoded.coordinator_keys == names
    assert slices > 30
    assert encoded_in_slices(request, 4)[1] > 30


@pytest.mark.parametrize("version", [5, 7])
def test_a_long_array_of_numbers_takes_several_slices(version: int) -> None:
    topic = OffsetFetchRequestTopic(name="t", partition_indexes=list(range(100_000)))
    request = OffsetFetchRequest(group_id="g", topics=[topic])
    data, slices = encoded_in_slices(request, version)
    assert data == request.encode(version)
    assert slices > 10
    decoded, slices = run(OffsetFetchRequest.decode_in_slices(data, version, 0, []))
    assert decoded == OffsetFetchRequest.decode(data, version)
    assert slices > 10


def metadata_of(count: int, version: int) -> bytes:
    """Return a Metadata request for unnamed topics, whose count may be false."""
    if version >= 9:
        number, length = count + 1, b""
        while number > 127:
            length += bytes([number & 127 | 128])
            number >>= 7
        return length + bytes([number]) + b"\x01\0" * count + b"\0\0\0\0"
    return struct.pack(">i", count) + b"\0\0" * count + b"\0"


@pytest.mark.parametrize("version", [4, 9])
def test_an_array_of_a_million_elements_is_read_and_one_more_is_refused(version: int) -> None:
    def decode(count: int) -> MetadataRequest:
        message, _ = run(MetadataRequest.decode_in_slices(metadata_of(count, version), version, 0, []))
        assert isinstance(message, MetadataRequest)
        return message

    assert len(decode(MILLION).topics or ()) == MILLION
    with pytest.raises(MalformedMessage, match="1000001"):
        decode(MILLION + 1)
    with pytest.raises(MalformedMessage, match="1000001"):
        MetadataRequest.decode(metadata_of(MILLION + 1, version), version)


@pytest.mark.parametrize(("count", "accepted"), [(10_000, True), (10_001, False)])
def test_ten_thousand_tagged_fields_are_read_and_one_more_is_refused(count: int, accepted: bool) -> None:
    data = b"\x02a\x02b" + bytes([count & 127 | 128, count >> 7]) + b"\x63\0" * count
    if accepted:
        assert ApiVersionsRequest.decode(data, 3).client_software_name == "a"
    else:
        with pytest.raises(MalformedMessage, match="10001 tagged fields"):
            ApiVersionsRequest.decode(data, 3)


@pytest.mark.parametrize(("size", "accepted"), [(32_767, True), (32_768, False)])
def test_a_string_has_at_most_32767_bytes_in_every_version(size: int, accepted: bool) -> None:
    number = size + 1
    length = bytes([number & 127 | 128, number >> 7 & 127 | 128, number >> 14])
    data = length + b"a" * size + b"\x02b\0"
    if accepted:
        assert len(ApiVersionsRequest.decode(data, 3).client_software_name) == size
    else:
        with pytest.raises(MalformedMessage, match="32768"):
            ApiVersionsRequest.decode(data, 3)
