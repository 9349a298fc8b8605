"""A raw client of Kafka's protocol: a socket, frames built by hand, and nothing that costs time.

The frames are written here rather than with Ottla's codec so that the bench measures the same bytes
against every broker and keeps working whatever the codec does.
"""

from __future__ import annotations

import socket
import struct
import subprocess
import time
from collections.abc import Collection

import crc32c

PRODUCE, FETCH, LIST_OFFSETS, API_VERSIONS = 0, 1, 2, 18
PRODUCE_VERSION, FETCH_VERSION, LIST_OFFSETS_VERSION = 9, 12, 7  # flexible, and still with topic names


def uvarint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def varint(value: int) -> bytes:
    """Zigzag, as record fields have it."""
    return uvarint(value << 1 if value >= 0 else (-value << 1) - 1)


def compact(data: bytes) -> bytes:
    return uvarint(len(data) + 1) + data


def record(value: bytes, offset_delta: int) -> bytes:
    body = b"\0" + varint(0) + varint(offset_delta) + varint(-1) + varint(len(value)) + value + varint(0)
    return varint(len(body)) + body


def record_batch(values: list[bytes], *, timestamp: int | None = None) -> bytes:
    """A record batch v2, uncompressed, of records without key and headers, with a valid checksum."""
    if timestamp is None:
        timestamp = int(time.time() * 1000)
    checked = struct.pack(">hiqqqhii", 0, len(values) - 1, timestamp, timestamp, -1, -1, -1, len(values))
    checked += b"".join(record(value, delta) for delta, value in enumerate(values))
    unchecked = struct.pack(">ibI", -1, 2, crc32c.crc32c(checked))
    return struct.pack(">qi", 0, len(unchecked) + len(checked)) + unchecked + checked


def frame(api_key: int, version: int, correlation_id: int, body: bytes, *, flexible: bool) -> bytes:
    """A size-prefixed request; the client id is null and a flexible header carries no tagged fields."""
    header = struct.pack(">hhih", api_key, version, correlation_id, -1) + (b"\0" if flexible else b"")
    return struct.pack(">i", len(header) + len(body)) + header + body


def produce_frame(
    topic: str, partition: int, batch: bytes, *, correlation_id: int = 0, acks: int = -1
) -> bytes:
    partitions = b"\x02" + struct.pack(">i", partition) + compact(batch) + b"\0"
    topics = b"\x02" + compact(topic.encode()) + partitions + b"\0"
    body = b"\0" + struct.pack(">hi", acks, 30_000) + topics + b"\0"
    return frame(PRODUCE, PRODUCE_VERSION, correlation_id, body, flexible=True)


def fetch_frame(topic: str, partition: int, offset: int, max_bytes: int, *, correlation_id: int = 0) -> bytes:
    """A sessionless fetch of one partition that does not wait for more than one byte."""
    wanted = struct.pack(">iiqiqi", partition, -1, offset, -1, -1, max_bytes) + b"\0"
    topics = b"\x02" + compact(topic.encode()) + b"\x02" + wanted + b"\0"
    body = struct.pack(">iiiibii", -1, 500, 1, max_bytes, 0, 0, -1) + topics + b"\x01" + b"\x01" + b"\0"
    return frame(FETCH, FETCH_VERSION, correlation_id, body, flexible=True)


def list_offsets_frame(topic: str, partitions: Collection[int]) -> bytes:
    """Ask for the latest offset of these partitions."""
    wanted = b"".join(struct.pack(">iiqb", index, -1, -1, 0) for index in partitions)
    topics = b"\x02" + compact(topic.encode()) + uvarint(len(partitions) + 1) + wanted + b"\0"
    return frame(
        LIST_OFFSETS, LIST_OFFSETS_VERSION, 0, struct.pack(">ib", -1, 0) + topics + b"\0", flexible=True
    )


def list_offsets_errors(response: bytes, topic: str, partitions: int) -> list[int]:
    """The error code of each partition in a ListOffsets response (without its size) for one topic."""
    # correlation id, header tags, throttle time, array of one topic, its name, array of partitions
    position = 4 + 1 + 4 + 1 + len(compact(topic.encode())) + len(uvarint(partitions + 1))
    entry = struct.Struct(">ihqqib")
    if len(response) < position + entry.size * partitions:
        raise ValueError(f"a ListOffsets response of {len(response)} bytes for {partitions} partitions")
    return [entry.unpack_from(response, position + entry.size * index)[1] for index in range(partitions)]


API_VERSIONS_FRAME = frame(API_VERSIONS, 0, 1, b"", flexible=False)


def produce_result(response: bytes, topic: str) -> tuple[int, int]:
    """Error code and base offset of a Produce response (without its size) that answers one partition."""
    # correlation id, header tags, array of one topic, its name, array of one partition, its index
    position = 4 + 1 + 1 + len(compact(topic.encode())) + 1 + 4
    error, base_offset = struct.unpack_from(">hq", response, position)
    return error, base_offset


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def connect(host: str, port: int, *, timeout: float | None = 30) -> socket.socket:
    connection = socket.create_connection((host, port), timeout=timeout)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connection


def read_exactly(connection: socket.socket, size: int) -> bytes:
    chunks = bytearray()
    while len(chunks) < size:
        chunk = connection.recv(size - len(chunks))
        if not chunk:
            raise ConnectionError("the broker closed the connection")
        chunks += chunk
    return bytes(chunks)


def read_response(connection: socket.socket) -> bytes:
    """One response without its size: correlation id, header tags if any, body."""
    (size,) = struct.unpack(">i", read_exactly(connection, 4))
    return read_exactly(connection, size)


def produce(connection: socket.socket, topic: str, request: bytes) -> int:
    """Send one Produce request, wait for its answer and return the base offset."""
    connection.sendall(request)
    error, base_offset = produce_result(read_response(connection), topic)
    if error:
        raise RuntimeError(f"Produce to {topic} was answered with error {error}")
    return base_offset


def ask_api_versions(connection: socket.socket) -> None:
    connection.sendall(API_VERSIONS_FRAME)
    response = read_response(connection)
    correlation_id, error = struct.unpack_from(">ih", response)
    if correlation_id != 1 or error != 0:
        raise ConnectionError(f"ApiVersions was answered with error {error}")


def wait_until_ready(
    host: str, port: int, process: subprocess.Popen[bytes] | None = None, *, timeout: float = 60
) -> None:
    """Return as soon as ApiVersions is answered; fail early when the process has ended."""
    deadline = time.monotonic() + timeout
    while True:
        try:
            with connect(host, port, timeout=max(0.1, deadline - time.monotonic())) as connection:
                return ask_api_versions(connection)
        except OSError:
            if process is not None and process.poll() is not None:
                raise RuntimeError(f"the process ended with {process.returncode}") from None
            if time.monotonic() > deadline:
                raise TimeoutError(f"no ApiVersions answer from {host}:{port} in {timeout:.0f} s") from None
        time.sleep(0.005)
