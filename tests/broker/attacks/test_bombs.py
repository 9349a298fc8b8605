"""Promise: the broker rejects a small batch that decompresses to gigabytes (CVE-2023-34455)."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path

import cramjam
import pytest
from crc32c import crc32c

from ottla.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.protocol.messages.topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from ottla.protocol.records import Record, build_batch
from tests.broker_process import BrokerProcess
from tests.wire_client import WireClient

pytestmark = pytest.mark.timeout(120)

MEGABYTE = 1 << 20
ZEROS = bytes(50 * MEGABYTE)
# Twice the decompression limit of 128 MB, and less than any of these bombs holds.
ALLOWED = 300 * MEGABYTE
_HEADER, _LENGTH_AT, _CRC_AT, _ATTRIBUTES_AT = 61, 8, 17, 21


def gzip_bomb() -> bytes:
    packer = zlib.compressobj(6, zlib.DEFLATED, 31)
    return (packer.compress(ZEROS) + packer.flush()) * 16  # members, one after another


def claimed_snappy_bomb() -> bytes:
    """Return a raw Snappy block whose header claims 2 GB."""
    return b"\xff\xff\xff\xff\x07" + bytes(cramjam.snappy.compress_raw(b"x" * 100))[1:]


def claimed_framed_snappy_bomb() -> bytes:
    """Return the same claim in Java's Snappy framing."""
    return b"\x82SNAPPY\0" + struct.pack(">iii", 1, 1, 0x7FFFFFFF) + claimed_snappy_bomb()


def lz4_bomb() -> bytes:
    return bytes(cramjam.lz4.compress(ZEROS)) * 4


def zstd_bomb() -> bytes:
    return bytes(cramjam.zstd.compress(ZEROS, level=1)) * 20


BOMBS: list[tuple[int, Callable[[], bytes]]] = [
    (1, gzip_bomb),
    (2, claimed_snappy_bomb),
    (2, claimed_framed_snappy_bomb),
    (3, lz4_bomb),
    (4, zstd_bomb),
]


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path_factory.mktemp("bombed"), []) as running:
        with WireClient(running.bootstrap_servers) as client:
            for name, config in TOPICS.items():
                made = CreatableTopic(
                    name=name,
                    num_partitions=1,
                    replication_factor=1,
                    configs=[CreatableTopicConfig(name=key, value=value) for key, value in config.items()],
                )
                client.call(CreateTopicsRequest(topics=[made], timeout_ms=30_000), 5)
        yield running


# Requests that make the broker decompress a batch
TOPICS = {
    "recompressed": {"compression.type": "uncompressed"},
    "compacted": {"cleanup.policy": "compact"},
}


def peak_bytes(broker: BrokerProcess) -> int:
    status = Path(f"/proc/{broker.pid}/status").read_text()
    [line] = [each for each in status.splitlines() if each.startswith("VmHWM:")]
    return int(line.split()[1]) * 1024


def batch_of(codec: int, body: bytes) -> bytes:
    batch = bytearray(bytes(build_batch([Record(0, 1, b"k", b"v")]))[:_HEADER] + body)
    batch[_ATTRIBUTES_AT : _ATTRIBUTES_AT + 2] = struct.pack(">h", codec)
    batch[_LENGTH_AT : _LENGTH_AT + 4] = struct.pack(">i", len(batch) - 12)
    batch[_CRC_AT : _CRC_AT + 4] = struct.pack(">I", crc32c(bytes(batch[_ATTRIBUTES_AT:])))
    return bytes(batch)


@pytest.mark.parametrize("topic", TOPICS)
@pytest.mark.parametrize(("codec", "bomb"), BOMBS, ids=[bomb.__name__ for _, bomb in BOMBS])
def test_a_bomb_is_refused_and_costs_little_memory(
    broker: BrokerProcess, topic: str, codec: int, bomb: Callable[[], bytes]
) -> None:
    batch = batch_of(codec, bomb())
    assert len(batch) < 1_000_000, "larger than a batch may be anyway"
    before = peak_bytes(broker)
    with WireClient(broker.bootstrap_servers) as client:
        data = PartitionProduceData(index=0, records=batch)
        topics = [TopicProduceData(name=topic, partition_data=[data])]
        answer = client.call(ProduceRequest(acks=1, timeout_ms=10_000, topic_data=topics), 9)
        assert answer.responses[0].partition_responses[0].error_code != 0
    assert peak_bytes(broker) < before + ALLOWED
    assert broker.is_running
