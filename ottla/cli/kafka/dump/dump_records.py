"""The batches and records of a .log file, line by line as Kafka's DumpLogSegments prints them."""

from __future__ import annotations

import mmap
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from ottla.protocol.batch_header import (
    LENGTH_AT,
    LOG_APPEND_TIME,
    LOG_OVERHEAD,
    MAGIC,
    BatchHeader,
    check_crc,
    read_header,
)
from ottla.protocol.errors import KafkaError
from ottla.protocol.records import Record, read_batch

Decoder = Callable[[bytes | None, bytes | None], tuple[str | None, str | None]]

_DELETE_HORIZON_FLAG = 0x40
_MARKERS = {0: "ABORT", 1: "COMMIT"}


@dataclass(frozen=True, slots=True)
class Options:
    records: bool
    data: bool
    skip_metadata: bool
    max_bytes: int | None
    decode: Decoder


# Kafka's decoders by the last part of their names. DefaultDecoder leaves bytes alone, which print as text.
DECODERS: dict[str, Callable[[bytes], str]] = {
    "StringDecoder": lambda data: data.decode(errors="replace"),
    "DefaultDecoder": lambda data: data.decode(errors="replace"),
    "IntegerDecoder": lambda data: str(int.from_bytes(data, "big", signed=True)),
    "LongDecoder": lambda data: str(int.from_bytes(data, "big", signed=True)),
}


def decoder(key_class: str, value_class: str) -> Decoder:
    read_key, read_value = DECODERS[key_class], DECODERS[value_class]
    return lambda key, value: (
        None if key is None else read_key(key),
        None if value is None else read_value(value),
    )


def read_log(path: Path, max_bytes: int | None = None) -> bytes | mmap.mmap:
    with open(path, "rb") as file:
        if path.stat().st_size == 0:
            return b""
        if max_bytes is not None:
            return file.read(max_bytes)
        return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)


def batches(data: bytes | mmap.mmap, position: int = 0) -> Iterator[tuple[int, BatchHeader]]:
    end = len(data)
    while position + LOG_OVERHEAD <= end:
        length = int.from_bytes(data[position + LENGTH_AT : position + LOG_OVERHEAD], "big", signed=True)
        if length <= 0 or position + LOG_OVERHEAD + length > end:
            return
        try:
            header = read_header(data[position : position + LOG_OVERHEAD + length])
        except KafkaError:
            return
        yield position, header
        position += header.size


def records(data: bytes | mmap.mmap, position: int, header: BatchHeader) -> list[Record]:
    return read_batch(data[position : position + header.size])


def dump_log(path: Path, options: Options, found: dict[str, list[str]]) -> None:
    print(f"Log starting offset: {int(path.name.partition('.')[0])}")
    data = read_log(path, options.max_bytes)
    valid = 0
    last_offset = -1
    for position, header in batches(data):
        batch = data[position : position + header.size]
        print(_batch_line(header, position, check_crc(batch, 0, header)))
        if options.records:
            for record in read_batch(batch):
                if last_offset != -1 and record.offset != last_offset + 1:
                    heading = f"Non-consecutive offsets in {path.absolute()}"
                    found.setdefault(heading, []).append(f"{last_offset} is followed by {record.offset}")
                last_offset = record.offset
                print(_record_line(header, record, options))
        valid = position + header.size
    if valid < len(data) and options.max_bytes is None:
        print(f"Found {len(data) - valid} invalid bytes at the end of {path.name}")


def _batch_line(header: BatchHeader, position: int, valid: bool) -> str:
    stamp = "LogAppendTime" if header.timestamp_type == LOG_APPEND_TIME else "CreateTime"
    if header.magic == 0:
        stamp = "NoTimestampType"
    if header.magic >= MAGIC:
        horizon = (
            f"OptionalLong[{header.base_timestamp}]"
            if header.attributes & _DELETE_HORIZON_FLAG
            else "OptionalLong.empty"
        )
        first = (
            f"baseOffset: {header.base_offset} lastOffset: {header.last_offset} count: {header.record_count} "
            f"baseSequence: {header.base_sequence} lastSequence: {header.last_sequence} "
            f"producerId: {header.producer_id} producerEpoch: {header.producer_epoch} "
            f"partitionLeaderEpoch: {header.partition_leader_epoch} "
            f"isTransactional: {_word(header.is_transactional)} isControl: {_word(header.is_control)} "
            f"deleteHorizonMs: {horizon}"
        )
    else:
        first = f"offset: {header.last_offset}"
    return (
        f"{first} position: {position} {stamp}: {header.max_timestamp} size: {header.size} "
        f"magic: {header.magic} compresscodec: {header.codec.name.lower()} crc: {header.crc} "
        f"isvalid: {_word(valid)}"
    )


def _record_line(header: BatchHeader, record: Record, options: Options) -> str:
    parts = ["|"]
    if not options.skip_metadata:
        stamp = "LogAppendTime" if header.timestamp_type == LOG_APPEND_TIME else "CreateTime"
        parts.append(
            f"offset: {record.offset} {stamp}: {record.timestamp} "
            f"keySize: {_size(record.key)} valueSize: {_size(record.value)}"
        )
        if header.magic >= MAGIC:
            sequence = -1
            if header.base_sequence >= 0:
                sequence = (header.base_sequence + record.offset - header.base_offset) & 0x7FFFFFFF
            names = ",".join(name for name, _ in record.headers)
            parts.append(f"sequence: {sequence} headerKeys: [{names}]")
        if header.is_control:
            parts.append(_control(record))
    if options.data and not header.is_control:
        key, value = options.decode(record.key, record.value)
        if key is not None:
            parts.append(f"key: {key}")
        if value is not None:
            parts.append(f"payload: {value}")
    return " ".join(parts)


def _control(record: Record) -> str:
    kind = int.from_bytes((record.key or b"")[2:4], "big", signed=True)
    value = record.value or b""
    if kind in _MARKERS:
        epoch = int.from_bytes(value[2:6], "big", signed=True)
        return f"endTxnMarker: {_MARKERS[kind]} coordinatorEpoch: {epoch}"
    return f"controlType: {kind}"


def _size(data: bytes | None) -> int:
    return -1 if data is None else len(data)


def _word(value: bool) -> str:
    return "true" if value else "false"
