"""Why a batch of a producer is not appended, and the rare cases where it is appended changed.

Nothing here runs for an ordinary batch: PartitionLog compares the header's fields itself and asks here only
when one of them is unusual, or when the topic's configuration needs the records.
"""

from __future__ import annotations

from collections.abc import Callable

from crc32c import crc32c

from ottla.log.batch import CRC_START, fault_of, header_at, is_dense
from ottla.log.config import CREATE_TIME, LONG_MAX, LogConfig
from ottla.log.errors import RefusedRecordsError
from ottla.protocol.batch_header import (
    BATCH_OVERHEAD,
    CODEC_MASK,
    CONTROL_FLAG,
    MAGIC,
    TIMESTAMP_TYPE_FLAG,
    TRANSACTIONAL_FLAG,
    BatchHeader,
)
from ottla.protocol.compression import Codec
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.records import Record, keys_present, read_batch, recompress

HIGHEST_CODEC = 4
NO_TIMESTAMP = -1


def _invalid(reason: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_RECORD, reason)


def _corrupt(reason: str) -> KafkaError:
    return KafkaError(ErrorCode.CORRUPT_MESSAGE, reason)


def refuse_short(size: int) -> KafkaError:
    if size == 0:
        return _invalid("a partition of the request has no record batch")
    return _corrupt(f"{size} bytes are too few for a record batch")


def read_only(topic: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REQUEST, f"Cannot append records to read-only mirror topic '{topic}'")


def check_unusual(view: memoryview, crc: int, config: LogConfig, *, now_ms: int, from_client: bool) -> None:
    """Find what is wrong with a batch and raise it; return if the unusual is allowed after all."""
    header = header_at(view)
    size = len(view)
    if header.magic in (0, 1):
        raise _invalid(f"message format {header.magic} is not accepted, send format 2")
    if header.magic != MAGIC:
        raise _corrupt(f"unknown magic {header.magic}")
    if header.size < BATCH_OVERHEAD or header.size > size:
        raise _corrupt(f"batch length {header.batch_length} in {size} bytes")
    if header.size < size:
        raise _invalid("a produce request has exactly one record batch per partition")
    if size > config.max_message_bytes:
        raise KafkaError(
            ErrorCode.MESSAGE_TOO_LARGE,
            f"the batch has {size} bytes, max.message.bytes is {config.max_message_bytes}",
        )
    if size > config.segment_bytes:
        raise KafkaError(
            ErrorCode.RECORD_LIST_TOO_LARGE,
            f"the batch has {size} bytes, segment.bytes is {config.segment_bytes}",
        )
    if crc != header.crc:
        raise _corrupt("the checksum of the batch does not match")
    _check_contents(header, from_client)
    _check_timestamp(view, header, config, now_ms)


def _check_contents(header: BatchHeader, from_client: bool) -> None:
    if header.record_count <= 0:
        raise _invalid(f"the batch says it has {header.record_count} records")
    if not is_dense(header):
        raise _invalid(
            f"the batch has {header.record_count} records but offsets up to {header.last_offset_delta}"
        )
    if header.attributes & CODEC_MASK > HIGHEST_CODEC:
        raise _invalid(f"unknown compression codec {header.attributes & CODEC_MASK}")
    if not from_client:
        return
    if header.attributes & CONTROL_FLAG:
        raise _invalid("clients may not write control records")
    if header.base_offset != 0:
        raise _invalid(f"the batch has base offset {header.base_offset} instead of 0")
    if header.producer_id >= 0:
        if header.base_sequence < 0 or header.producer_epoch < 0:
            raise _invalid(
                f"producer {header.producer_id} has epoch {header.producer_epoch}"
                f" and sequence {header.base_sequence}"
            )
    elif header.attributes & TRANSACTIONAL_FLAG:
        raise _invalid("a transactional batch needs a producer id")


def _check_timestamp(view: memoryview, header: BatchHeader, config: LogConfig, now_ms: int) -> None:
    if config.message_timestamp_type != CREATE_TIME:
        return
    if header.attributes & TIMESTAMP_TYPE_FLAG:
        raise KafkaError(ErrorCode.INVALID_TIMESTAMP, "only the broker sets the timestamp type LogAppendTime")
    if header.max_timestamp - now_ms > config.message_timestamp_after_max_ms:
        latest = now_ms + config.message_timestamp_after_max_ms
        raise _refusal(
            ErrorCode.INVALID_TIMESTAMP,
            f"timestamp {header.max_timestamp} is too far ahead of the broker's clock, {now_ms}",
            view,
            lambda record: record.timestamp > latest,
        )


def _refusal(
    code: ErrorCode, message: str, view: memoryview, faulty: Callable[[Record], bool]
) -> RefusedRecordsError:
    """The refusal of a batch that names its faulty records; it names none if they cannot be read."""
    try:
        records = read_batch(view)
    except Exception:  # the records are a client's bytes: anything can be wrong with them
        records = []
    return RefusedRecordsError(
        code, message, [place for place, record in enumerate(records) if faulty(record)]
    )


def needs_records(config: LogConfig) -> bool:
    """Whether batches of this topic cannot be appended unread."""
    return (
        config.compacted
        or config.compression_type != "producer"
        or (
            config.message_timestamp_before_max_ms < LONG_MAX and config.message_timestamp_type == CREATE_TIME
        )
    )


def check_records(view: memoryview, header: BatchHeader, config: LogConfig, now_ms: int) -> memoryview:
    """What needs the records: keys of compacted topics, old timestamps, the topic's own compression.

    Returns the batch to append: this one, or its like under another codec.
    """
    wanted = config.compression_type.upper().replace("UNCOMPRESSED", "NONE")
    try:
        if config.compacted and not keys_present(view):
            raise _refusal(
                ErrorCode.INVALID_RECORD,
                "a compacted topic takes no records without a key",
                view,
                lambda record: record.key is None,
            )
        if config.message_timestamp_type == CREATE_TIME and config.message_timestamp_before_max_ms < LONG_MAX:
            _check_oldest(view, now_ms - config.message_timestamp_before_max_ms)
        if wanted == "PRODUCER" or Codec[wanted] == header.attributes & CODEC_MASK:
            return view
        return memoryview(recompress(view, Codec[wanted], _level(config, wanted)))
    except KafkaError:
        raise
    except Exception as error:  # the records are a client's bytes: whatever is wrong with them is an answer
        raise _invalid(f"the records of the batch cannot be read: {error}") from None


def _check_oldest(view: memoryview, oldest: int) -> None:
    for record in read_batch(view):
        if NO_TIMESTAMP < record.timestamp < oldest:
            raise _refusal(
                ErrorCode.INVALID_TIMESTAMP,
                f"timestamp {record.timestamp} is too old",
                view,
                lambda record: NO_TIMESTAMP < record.timestamp < oldest,
            )


def _level(config: LogConfig, codec: str) -> int | None:
    return {
        "GZIP": config.compression_gzip_level,
        "LZ4": config.compression_lz4_level,
        "ZSTD": config.compression_zstd_level,
    }.get(codec)


def check_replicated(view: memoryview, next_offset: int) -> list[tuple[int, BatchHeader]]:
    """The whole batches of what a leader sent, with their places; all of them good, or none is taken."""
    batches: list[tuple[int, BatchHeader]] = []
    at = 0
    while at + BATCH_OVERHEAD <= len(view):
        header = header_at(view, at)
        fault = fault_of(header)
        if fault is None:
            if at + header.size > len(view):
                break
            if crc32c(view[at + CRC_START : at + header.size]) != header.crc:
                fault = "the checksum does not match"
            elif header.base_offset < next_offset:
                fault = f"offset {header.base_offset} comes where {next_offset} or more is expected"
        if fault is not None:
            raise _corrupt(f"what the leader sent is not a log: {fault}")
        batches.append((at, header))
        next_offset = header.last_offset + 1
        at += header.size
    return batches
