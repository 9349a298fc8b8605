"""Checks of a producer's batch before an append.

PartitionLog compares the header fields itself and calls `check_unusual` only if one of them is unusual. For ordinary
batches, `body_fault` checks the first records. Topics whose settings depend on every record (another compression,
compaction, old timestamps) require an inspection: small batches on the event loop, large ones in a thread.
"""

from __future__ import annotations

from crc32c import crc32c

from ottla.log.batch import CRC_START, fault_of, header_at, is_dense
from ottla.log.config import CREATE_TIME, LONG_MAX, NO_RECORD_LIMIT, LogConfig, RefusedRecordsError
from ottla.protocol.batch_header import (
    BATCH_OVERHEAD,
    CODEC_MASK,
    CONTROL_FLAG,
    MAGIC,
    TIMESTAMP_TYPE_FLAG,
    TRANSACTIONAL_FLAG,
    BatchHeader,
)
from ottla.protocol.compression import (
    MAX_DECOMPRESSED_SIZE,
    Codec,
    TooLargeError,
    decompress,
    frame_fault,
    max_decompressed_size,
)
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.record_format import LEAST_RECORD, all_keyed, framing_fault, survey
from ottla.protocol.records import batch_body, recompress

HIGHEST_CODEC = 4
NO_TIMESTAMP = -1
# Maximum number of records named in a refusal (KIP-467): a small request must not cause a huge response.
MOST_NAMED_RECORDS = 1000
# Limit for inspections on the event loop: larger ones would keep other clients waiting.
LOOP_BYTES = 256 * 1024
LOOP_RECORDS = 1000
# Checked part of an ordinary batch: the first records, and for compressed batches only if they are small.
_READ_IN_FULL = 4
_READ_BY_LENGTH = 16
_SAMPLED_BYTES = 16 * 1024


class InspectionNeeded(Exception):
    """The batch requires an inspection, and is too large for the event loop."""

    def __init__(self, config: LogConfig) -> None:
        self.config = config


def invalid_record(reason: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_RECORD, reason)


def _corrupt(reason: str) -> KafkaError:
    return KafkaError(ErrorCode.CORRUPT_MESSAGE, reason)


def refuse_short(size: int) -> KafkaError:
    if size == 0:
        return invalid_record("a partition of the request has no record batch")
    return _corrupt(f"{size} bytes are too few for a record batch")


def read_only(topic: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REQUEST, f"Cannot append records to read-only mirror topic '{topic}'")


def check_unusual(view: memoryview, crc: int, config: LogConfig, *, from_client: bool) -> None:
    """Raise the fault of a batch with an unusual header, or return if it has none."""
    header = header_at(view)
    size = len(view)
    if header.magic in (0, 1):
        raise invalid_record(f"message format {header.magic} is not accepted, send format 2")
    if header.magic != MAGIC:
        raise _corrupt(f"unknown magic {header.magic}")
    if header.size < BATCH_OVERHEAD or header.size > size:
        raise _corrupt(f"batch length {header.batch_length} in {size} bytes")
    if header.size < size:
        raise invalid_record("a produce request has exactly one record batch per partition")
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
    if config.message_timestamp_type == CREATE_TIME and header.attributes & TIMESTAMP_TYPE_FLAG:
        raise KafkaError(ErrorCode.INVALID_TIMESTAMP, "only the broker sets the timestamp type LogAppendTime")


def _check_contents(header: BatchHeader, from_client: bool) -> None:
    if header.record_count <= 0:
        raise invalid_record(f"the batch says it has {header.record_count} records")
    if not is_dense(header):
        raise invalid_record(
            f"the batch has {header.record_count} records but offsets up to {header.last_offset_delta}"
        )
    if header.attributes & CODEC_MASK > HIGHEST_CODEC:
        raise invalid_record(f"unknown compression codec {header.attributes & CODEC_MASK}")
    if not from_client:
        return
    if header.attributes & CONTROL_FLAG:
        raise invalid_record("clients may not write control records")
    if header.base_offset != 0:
        raise invalid_record(f"the batch has base offset {header.base_offset} instead of 0")
    if header.producer_id >= 0:
        if header.base_sequence < 0 or header.producer_epoch < 0:
            raise invalid_record(
                f"producer {header.producer_id} has epoch {header.producer_epoch}"
                f" and sequence {header.base_sequence}"
            )
    elif header.attributes & TRANSACTIONAL_FLAG:
        raise invalid_record("a transactional batch needs a producer id")


def body_fault(view: memoryview, codec: int, count: int) -> str | None:
    """Return why the body does not contain the batch's records, after checking a bounded part.

    A consumer that meets such a batch cannot read beyond it, and some consumers do not even report it.
    """
    if not codec:
        return framing_fault(view, BATCH_OVERHEAD, count, in_full=_READ_IN_FULL, by_length=_READ_BY_LENGTH)
    body = view[BATCH_OVERHEAD:]
    fault = frame_fault(codec, body)
    if fault is None and count * LEAST_RECORD > max_decompressed_size(codec, len(body)):
        fault = f"{len(body)} bytes cannot hold {count}"
    if fault is not None:
        return f"the records cannot be decompressed: {fault}"
    if len(body) > _SAMPLED_BYTES:
        return None
    try:
        data = decompress(codec, body, LOOP_BYTES)
    except TooLargeError:
        return None
    except KafkaError as error:
        return error.message
    return framing_fault(data, 0, count, in_full=_READ_IN_FULL, by_length=_READ_BY_LENGTH)


def needs_records(config: LogConfig) -> bool:
    """Return True if batches of this topic cannot be appended without an inspection."""
    return (
        config.compacted
        or config.compression_type != "producer"
        or config.max_decompressed_message_bytes < NO_RECORD_LIMIT
        or (
            config.message_timestamp_before_max_ms < LONG_MAX and config.message_timestamp_type == CREATE_TIME
        )
    )


def inspect_on_loop(view: memoryview, config: LogConfig, now_ms: int) -> memoryview:
    """Inspect a small batch. Raises InspectionNeeded for larger ones."""
    header = header_at(view)
    if header.record_count > LOOP_RECORDS or len(view) > LOOP_BYTES:
        raise InspectionNeeded(config)
    try:
        return inspect(view, config, now_ms, LOOP_BYTES)
    except TooLargeError:
        raise InspectionNeeded(config) from None


def inspect(
    view: memoryview, config: LogConfig, now_ms: int, max_size: int = MAX_DECOMPRESSED_SIZE
) -> memoryview:
    """Check every record against the topic's settings. Thread-safe, because it owns no state.

    Returns the batch to append: the original, or a copy recompressed with the topic's codec. Raises KafkaError.
    """
    header = header_at(view)
    codec = header.attributes & CODEC_MASK
    wanted = config.compression_type.upper().replace("UNCOMPRESSED", "NONE")
    try:
        body = batch_body(view, 0, header, max_size)
        _check_each(body, header, config, now_ms)
        if wanted == "PRODUCER" or Codec[wanted] == codec:
            return view
        return memoryview(recompress(view, Codec[wanted], _level(config, wanted), body))
    except TooLargeError:
        if max_size < MAX_DECOMPRESSED_SIZE:
            raise
        raise invalid_record(f"the batch has more than {max_size} bytes when it is decompressed") from None
    except RefusedRecordsError:
        raise
    except Exception as error:  # client bytes: any fault becomes an error response
        reason = error.message if isinstance(error, KafkaError) else error
        raise invalid_record(f"the records of the batch cannot be read: {reason}") from None


def _check_each(body: bytes, header: BatchHeader, config: LogConfig, now_ms: int) -> None:
    by_time = config.message_timestamp_type == CREATE_TIME
    latest = now_ms + config.message_timestamp_after_max_ms if by_time else LONG_MAX
    oldest = now_ms - config.message_timestamp_before_max_ms if by_time else -LONG_MAX
    largest = config.max_decompressed_message_bytes if header.attributes & CODEC_MASK else NO_RECORD_LIMIT
    is_late = header.max_timestamp > latest
    reads_keys_only = not is_late and oldest <= 0 and largest == NO_RECORD_LIMIT
    if reads_keys_only and (not config.compacted or all_keyed(body, header.record_count)):
        return
    late: list[int] = []
    keyless: list[int] = []
    old: list[int] = []
    large: list[int] = []
    for place, (timestamp, has_key, size) in enumerate(survey(body, header)):
        if timestamp > latest:
            late.append(place)
        if config.compacted and not has_key:
            keyless.append(place)
        if NO_TIMESTAMP < timestamp < oldest:
            old.append(place)
        if size > largest:
            large.append(place)
        if max(map(len, (late, keyless, old, large))) >= MOST_NAMED_RECORDS:
            break
    if is_late:
        reason = f"timestamp {header.max_timestamp} is too far ahead of the broker's clock, {now_ms}"
        raise RefusedRecordsError(ErrorCode.INVALID_TIMESTAMP, reason, late)
    if keyless:
        reason = "a compacted topic takes no records without a key"
        raise RefusedRecordsError(ErrorCode.INVALID_RECORD, reason, keyless)
    if old:
        reason = f"a timestamp is older than message.timestamp.before.max.ms allows at {now_ms}"
        raise RefusedRecordsError(ErrorCode.INVALID_TIMESTAMP, reason, old)
    if large:
        reason = f"a record has more than {largest} bytes (max.decompressed.message.bytes)"
        raise RefusedRecordsError(ErrorCode.INVALID_RECORD, reason, large)


def _level(config: LogConfig, codec: str) -> int | None:
    return {
        "GZIP": config.compression_gzip_level,
        "LZ4": config.compression_lz4_level,
        "ZSTD": config.compression_zstd_level,
    }.get(codec)


def check_replicated(view: memoryview, next_offset: int) -> list[tuple[int, BatchHeader]]:
    """Return the complete batches sent by a leader, with their positions. One bad batch rejects all."""
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
