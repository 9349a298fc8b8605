"""Versions and frames."""

from __future__ import annotations

import struct

import pytest

from ottla.protocol.errors import ErrorCode

from ..cases import case
from ..wire import Wire

PRODUCE, FETCH, METADATA, API_VERSIONS, CREATE_TOPICS = 0, 1, 3, 18, 19


def api_versions_v0(answer: bytes | None) -> tuple[int, int, dict[int, tuple[int, int]]]:
    """Return the correlation id, the error code and each API's range from an ApiVersions response v0."""
    assert answer is not None
    correlation, error, count = struct.unpack_from(">ihi", answer)
    ranges = {key: (low, high) for key, low, high in struct.iter_unpack(">hhh", answer[10 : 10 + 6 * count])}
    assert len(answer) == 10 + 6 * count
    return correlation, error, ranges


@case("ApiVersions v0 lists what is served")
def test_api_versions_v0(bootstrap: str) -> None:
    with Wire(bootstrap) as wire:
        wire.send(API_VERSIONS, 0)
        correlation, error, ranges = api_versions_v0(wire.receive())
    assert (correlation, error) == (7, ErrorCode.NONE)
    assert all(low <= high for low, high in ranges.values())
    # Old librdkafka stops compressing if Produce does not start at 0, and stops reading if Fetch is above 4.
    assert ranges[PRODUCE][0] == 0
    assert ranges[FETCH][0] <= 4


@case("ApiVersions of an unknown version: error 35 in a v0 body, with the list")
def test_api_versions_unknown_version(bootstrap: str) -> None:
    with Wire(bootstrap) as wire:
        wire.send(API_VERSIONS, 99, b"\x00\x05test\x05test\x00", correlation=41)
        correlation, error, ranges = api_versions_v0(wire.receive())
        assert (correlation, error) == (41, ErrorCode.UNSUPPORTED_VERSION)
        # The connection stays open, so that the client can retry with a version from the list.
        assert API_VERSIONS in ranges
        wire.send(API_VERSIONS, ranges[API_VERSIONS][0], correlation=42)
        correlation, error, _ = api_versions_v0(wire.receive())
        assert (correlation, error) == (42, ErrorCode.NONE)


@case("A request of an unknown version closes the connection")
@pytest.mark.parametrize(
    ("key", "version"),
    [(METADATA, 99), (PRODUCE, 99), (PRODUCE, 2), (FETCH, 3), (CREATE_TOPICS, 1)],
    ids=["metadata-99", "produce-99", "produce-2", "fetch-3", "create-topics-1"],
)
def test_unknown_version(bootstrap: str, key: int, version: int) -> None:
    with Wire(bootstrap) as wire:
        wire.send(key, version, bytes(16))
        assert wire.receive() is None


@case("A request with an unknown key closes the connection")
@pytest.mark.parametrize("key", [999, -1])
def test_unknown_key(bootstrap: str, key: int) -> None:
    with Wire(bootstrap) as wire:
        wire.send(key, 0, bytes(16))
        assert wire.receive() is None


@case("A frame larger than socket.request.max.bytes closes the connection")
@pytest.mark.parametrize("size", [2**31 - 1, -1])
def test_frame_size(bootstrap: str, size: int) -> None:
    with Wire(bootstrap) as wire:
        wire.send_raw(struct.pack(">i", size))
        assert wire.receive() is None


@case("Requests on one connection are answered in order")
def test_pipelining(bootstrap: str) -> None:
    with Wire(bootstrap) as wire:
        for correlation in range(50):
            wire.send(API_VERSIONS, 0, correlation=correlation)
        for correlation in range(50):
            assert api_versions_v0(wire.receive())[0] == correlation


def fetch_v4(topic: str, offset: int, max_wait_ms: int) -> bytes:
    """Return the body of a Fetch request v4 for partition 0."""
    name = topic.encode()
    return (
        struct.pack(">iiiib", -1, max_wait_ms, 1, 1 << 20, 0)
        + struct.pack(f">ih{len(name)}s", 1, len(name), name)
        + struct.pack(">iiqi", 1, 0, offset, 1 << 20)
    )


@case("What is behind a waiting fetch waits, too")
def test_pipelining_behind_a_fetch(bootstrap: str, topic: str) -> None:
    with Wire(bootstrap) as wire:
        # Clients match responses to requests by order alone. On close, the Java client sends requests behind a fetch
        # that has nothing to return yet.
        for turn in range(3):
            wire.send(FETCH, 4, fetch_v4(topic, 0, 300), correlation=10 * turn)
            wire.send(API_VERSIONS, 0, correlation=10 * turn + 1)
            wire.send(FETCH, 4, fetch_v4(topic, 0, 100), correlation=10 * turn + 2)
        answers = [wire.receive() for _ in range(9)]
    order = [struct.unpack_from(">i", answer)[0] for answer in answers if answer is not None]
    assert order == [0, 1, 2, 10, 11, 12, 20, 21, 22]


@case("A connection closed behind a waiting fetch disturbs nobody")
def test_hanging_up_on_a_fetch(bootstrap: str, topic: str) -> None:
    with Wire(bootstrap) as other:
        for _ in range(5):
            with Wire(bootstrap) as wire:
                wire.send(FETCH, 4, fetch_v4(topic, 0, 100))
                wire.send(API_VERSIONS, 0)
        other.send(FETCH, 4, fetch_v4(topic, 0, 300), correlation=1)
        other.send(API_VERSIONS, 0, correlation=2)
        answers = [other.receive(), other.receive()]
    assert [struct.unpack_from(">i", answer)[0] for answer in answers if answer is not None] == [1, 2]


@case("Unknown tagged fields are skipped")
def test_unknown_tagged_fields(bootstrap: str) -> None:
    with Wire(bootstrap) as wire:
        # Header v2 and body of ApiVersions v3, each with tagged field 9000, which no version defines.
        tagged = b"\x01\xa8\x46\x03abc"
        wire.send(API_VERSIONS, 3, tagged + b"\x05test\x051.00" + tagged)
        answer = wire.receive()
    assert answer is not None
    assert struct.unpack_from(">ih", answer) == (7, ErrorCode.NONE)
