"""Batches and logs for the tests of this directory."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from ottla.log.batch import header_at
from ottla.log.config import LogConfig
from ottla.log.partition_log import AppendInfo, PartitionLog
from ottla.log.recovery import FoundLog
from ottla.protocol.batch_header import BatchHeader
from ottla.protocol.records import Record, build_batch, read_records

NOW = 1_700_000_000_000


def batch(*values: bytes, timestamp: int = NOW, key: bytes | None = b"k", **fields: Any) -> bytearray:
    """Return a producer's batch with one record per value."""
    records = [Record(at, timestamp, key, value) for at, value in enumerate(values or (b"v",))]
    return build_batch(records, **fields)


def timed(*timestamps: int, **fields: Any) -> bytearray:
    """Return a batch with one record per timestamp."""
    return build_batch([Record(at, ts, b"k", b"v%d" % at) for at, ts in enumerate(timestamps)], **fields)


def open_log(path: Path, *, clean: bool = False, **config: Any) -> PartitionLog:
    start, recovery = config.pop("log_start_offset", 0), config.pop("recovery_point", 0)
    return PartitionLog.open(
        path / "t-0",
        "t",
        0,
        LogConfig(**config),
        found=FoundLog(log_start_offset=start, recovery_point=recovery, clean_shutdown=clean),
    )


def put(log: PartitionLog, *values: bytes, epoch: int = 0, now: int = NOW, **fields: Any) -> AppendInfo:
    return log.append(batch(*values, **fields), leader_epoch=epoch, now_ms=now)


def headers(data: bytes) -> list[BatchHeader]:
    """Return the header of every complete batch in `data`."""
    found, at = [], 0
    while at + 61 <= len(data) and at + header_at(data, at).size <= len(data):
        found.append(header_at(data, at))
        at += found[-1].size
    return found


def records_of(log: PartitionLog, offset: int | None = None) -> list[tuple[int, bytes | None]]:
    """Return all records starting at `offset`, as a consumer reads them."""
    position = log.log_start_offset if offset is None else offset
    found: list[tuple[int, bytes | None]] = []
    while position < log.log_end_offset:
        region = log.read(position, 1 << 20, upto=log.log_end_offset, min_one=True)
        assert region.size
        for header, records in read_records(region.read()):
            found += [(r.offset, r.value) for r in records if r.offset >= position]
            position = header.next_offset
    return found


def as_sent(batches: Iterable[bytes]) -> bytes:
    return b"".join(batches)
