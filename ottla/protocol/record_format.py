"""Encoding of single records in the uncompressed body of a batch.

    length | attributes 1 | timestamp delta | offset delta | key length, key | value length, value
    | header count | (key length, key | value length, value)*

All fields but the attributes are zigzag varints. The loops below unroll the common one- and two-byte varints, because a
call per varint would dominate the cost. They do few checks on the way: a record that ends exactly at its declared
length, inside the data, cannot have read foreign bytes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ottla.protocol.batch_header import LOG_APPEND_TIME, BatchHeader, invalid
from ottla.protocol.compression import Buffer
from ottla.protocol.errors import KafkaError

Header = tuple[str, bytes | None]

#: Seven fields of one byte each.
LEAST_RECORD = 7

_INT64_MIN, _INT64_MAX = -(2**63), 2**63 - 1
_FAR = 2**62


@dataclass(slots=True)
class Record:
    """One record with its offset and timestamp in the log."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Sequence[Header] = ()


def encode_varint(value: int) -> bytes:
    value = value << 1 if value >= 0 else (-value << 1) - 1
    encoded = bytearray()
    while value > 127:
        encoded.append(value & 127 | 128)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


_TABLE_SIZE = 8192  # all varints of one and two bytes
_TABLE = [encode_varint(value) for value in range(_TABLE_SIZE)]
_NULL = encode_varint(-1)


def write_records(records: Sequence[Record], base_offset: int | None, base_timestamp: int) -> bytes:
    """Encode the body of a batch. Offsets are consecutive, or the records' own relative to `base_offset`."""
    table = _TABLE
    null = _NULL
    varint = encode_varint
    pieces: list[bytes] = []
    append = pieces.append
    delta = -1
    for record in records:
        delta = delta + 1 if base_offset is None else record.offset - base_offset
        since = record.timestamp - base_timestamp
        key = record.key
        value = record.value
        key_size = 0 if key is None else len(key)
        value_size = 0 if value is None else len(value)
        body = b"".join(
            (
                b"\0",
                table[since] if 0 <= since < 8192 else varint(since),
                table[delta] if 0 <= delta < 8192 else varint(delta),
                null if key is None else table[key_size] if key_size < 8192 else varint(key_size),
                key or b"",
                null if value is None else table[value_size] if value_size < 8192 else varint(value_size),
                value or b"",
                _write_headers(record.headers) if record.headers else b"\0",
            )
        )
        size = len(body)
        append(table[size] if size < 8192 else varint(size))
        append(body)
    return b"".join(pieces)


def _write_headers(headers: Sequence[Header]) -> bytes:
    pieces = [encode_varint(len(headers))]
    for name, value in headers:
        key = name.encode("utf-8", "surrogateescape")
        pieces += encode_varint(len(key)), key
        pieces += (_NULL,) if value is None else (encode_varint(len(value)), value)
    return b"".join(pieces)


def parse_records(data: bytes, header: BatchHeader) -> list[Record]:
    records: list[Record] = []
    append = records.append
    base_offset = header.base_offset
    base_timestamp = header.base_timestamp
    last_offset_delta = header.last_offset_delta
    size = len(data)
    headers: Sequence[Header]
    key: bytes | None
    value: bytes | None
    far = not -_FAR < base_timestamp < _FAR  # only then can a small delta overflow int64
    pos = 0
    try:
        for _ in range(header.record_count):
            n = data[pos]
            pos += 1
            if n > 127:
                m = data[pos]
                if m < 128:
                    n += (m << 7) - 128
                    pos += 1
                else:
                    n, pos = _long_varint(data, pos - 1)
            end = pos + (n >> 1)
            if n & 1 or end > size:
                raise invalid("the length of a record is not within the batch")
            pos += 1  # attributes; no bits are defined
            n = data[pos]
            pos += 1
            if n > 127:
                m = data[pos]
                if m < 128:
                    n += (m << 7) - 128
                    pos += 1
                else:
                    n, pos = _long_varint(data, pos - 1, 10)
                    far = True
            timestamp = base_timestamp + ((n >> 1) ^ -(n & 1))
            n = data[pos]
            pos += 1
            if n > 127:
                m = data[pos]
                if m < 128:
                    n += (m << 7) - 128
                    pos += 1
                else:
                    n, pos = _long_varint(data, pos - 1)
            delta = n >> 1
            if n & 1 or delta > last_offset_delta:
                raise invalid("the offset of a record is not within the batch")
            n = data[pos]
            pos += 1
            if n > 127:
                n, pos = _long_varint(data, pos - 1)
            if n & 1:
                if n != 1:
                    raise invalid("the length of a key is negative")
                key = None
            else:
                start = pos
                pos += n >> 1
                key = data[start:pos]
            n = data[pos]
            pos += 1
            if n > 127:
                m = data[pos]
                if m < 128:
                    n += (m << 7) - 128
                    pos += 1
                else:
                    n, pos = _long_varint(data, pos - 1)
            if n & 1:
                if n != 1:
                    raise invalid("the length of a value is negative")
                value = None
            else:
                start = pos
                pos += n >> 1
                value = data[start:pos]
            if data[pos]:
                headers, pos = _parse_headers(data, pos)
            else:
                headers = ()
                pos += 1
            if pos != end:
                raise invalid("the length of a record is not that of its fields")
            append(Record(base_offset + delta, timestamp, key, value, headers))
    except IndexError:
        raise invalid("a record goes beyond the batch") from None
    if pos != size:
        raise invalid(f"{size - pos} bytes follow the last record")
    if header.timestamp_type == LOG_APPEND_TIME:
        for record in records:
            record.timestamp = header.max_timestamp
    elif far and not all(_INT64_MIN <= record.timestamp <= _INT64_MAX for record in records):
        raise invalid("the timestamp of a record is not an int64")
    return records


def _parse_headers(data: bytes, pos: int) -> tuple[list[Header], int]:
    headers: list[Header] = []
    count, pos = _varint(data, pos)
    if count < 0:
        raise invalid("the number of headers is negative")
    for _ in range(count):
        length, pos = _varint(data, pos)
        if length < 0:
            raise invalid("the length of a header's key is negative")
        start = pos
        pos += length
        # Keys that are not UTF-8 survive a round trip.
        name = data[start:pos].decode("utf-8", "surrogateescape")
        length, pos = _varint(data, pos)
        if length < 0:
            if length != -1:
                raise invalid("the length of a header's value is negative")
            headers.append((name, None))
        else:
            start = pos
            pos += length
            headers.append((name, data[start:pos]))
    return headers, pos


def _varint(data: Buffer, pos: int) -> tuple[int, int]:
    n = data[pos]
    if n < 128:
        return (n >> 1) ^ -(n & 1), pos + 1
    n, pos = _long_varint(data, pos)
    return (n >> 1) ^ -(n & 1), pos


def _long_varint(data: Buffer, pos: int, most: int = 5) -> tuple[int, int]:
    """Read a varint without zigzag decoding. Return it with the next position."""
    second = data[pos + 1]
    if second < 128:
        return data[pos] - 128 + (second << 7), pos + 2
    result = 0
    for shift in range(0, 7 * most, 7):
        byte = data[pos]
        pos += 1
        result |= (byte & 127) << shift
        if byte < 128:
            if result >> (32 if most == 5 else 64):
                break
            return result, pos
    raise invalid("a varint is too long")


def all_keyed(data: bytes, count: int) -> bool:
    """Return True if every record has a key. Reads nothing after the keys."""
    pos = 0
    try:
        for _ in range(count):
            n = data[pos]
            pos += 1
            if n > 127:
                n, pos = _long_varint(data, pos - 1)
            end = pos + (n >> 1)
            if n & 1 or end > len(data):
                raise invalid("the length of a record is not within the batch")
            pos += 1
            while data[pos] > 127:  # timestamp delta
                pos += 1
            pos += 1
            while data[pos] > 127:  # offset delta
                pos += 1
            n = data[pos + 1]
            if n > 127:
                n, pos = _long_varint(data, pos + 1)
            if pos >= end:
                raise invalid("the length of a record is not that of its fields")
            if n & 1:
                return False
            pos = end
    except IndexError:
        raise invalid("a record goes beyond the batch") from None
    return True


def framing_fault(data: Buffer, pos: int, count: int, *, in_full: int, by_length: int) -> str | None:
    """Return why the bytes from `pos` on are not `count` records, checking only some of the first.

    The first `in_full` records are checked field by field, further records up to `by_length` only by their lengths. The
    rest are accepted if they can fit.
    """
    size = len(data)
    if count * LEAST_RECORD > size - pos:
        return f"{count} records in {size - pos} bytes"
    in_full = min(count, in_full)
    try:
        for _ in range(in_full):
            n = data[pos]
            pos += 1
            if n > 127:
                m = data[pos]
                if m < 128:
                    n += (m << 7) - 128
                    pos += 1
                else:
                    n, pos = _long_varint(data, pos - 1)
            end = pos + (n >> 1)
            if n & 1 or end > size:
                return "the length of a record is not within the batch"
            pos += 1  # attributes
            while data[pos] > 127:  # timestamp delta
                pos += 1
            n = data[pos + 1]
            pos += 2
            if n > 127:
                n, pos = _long_varint(data, pos - 1)
            if n & 1 or n >> 1 >= count:
                return "the offset of a record is not within the batch"
            for _ in range(2):  # key and value
                n = data[pos]
                pos += 1
                if n > 127:
                    m = data[pos]
                    if m < 128:
                        n += (m << 7) - 128
                        pos += 1
                    else:
                        n, pos = _long_varint(data, pos - 1)
                if not n & 1:
                    pos += n >> 1
                elif n != 1:
                    return "the length of a key or value is negative"
            if data[pos]:
                pos = _skip_headers(data, pos, end)
            else:
                pos += 1
            if pos != end:
                return "the length of a record is not that of its fields"
        for _ in range(min(count, by_length) - in_full):
            n = data[pos]
            if n < 128:
                pos += (n >> 1) + 1
            elif (m := data[pos + 1]) < 128:
                n += (m << 7) - 128
                pos += (n >> 1) + 2
            else:
                n, pos = _long_varint(data, pos)
                pos += n >> 1
            if n & 1 or pos > size:
                return "the length of a record is not within the batch"
    except IndexError:
        return "a record goes beyond the batch"
    except KafkaError as error:
        return error.message
    if count <= by_length and pos != size:
        return f"{size - pos} bytes follow the last record"
    return None


def _skip_headers(data: Buffer, pos: int, end: int) -> int:
    count, pos = _varint(data, pos)
    if not 0 <= 2 * count <= end - pos:
        raise invalid("the number of headers is not that of the record")
    for _ in range(count):
        length, pos = _varint(data, pos)
        if length < 0:
            raise invalid("the length of a header's key is negative")
        length, pos = _varint(data, pos + length)
        if length < -1:
            raise invalid("the length of a header's value is negative")
        pos += max(length, 0)
    return pos


def survey(data: bytes, header: BatchHeader) -> Iterator[tuple[int, bool, int]]:
    """Yield timestamp, key presence and size of each record, without copying."""
    base_timestamp = header.base_timestamp
    size = len(data)
    pos = 0
    try:
        for _ in range(header.record_count):
            n = data[pos]
            pos += 1
            if n > 127:
                n, pos = _long_varint(data, pos - 1)
            end = pos + (n >> 1)
            if n & 1 or end > size:
                raise invalid("the length of a record is not within the batch")
            length = n >> 1
            n = data[pos + 1]
            pos += 2
            if n > 127:
                n, pos = _long_varint(data, pos - 1, 10)
            timestamp = base_timestamp + ((n >> 1) ^ -(n & 1))
            while data[pos] > 127:  # offset delta
                pos += 1
            n = data[pos + 1]
            if n > 127:
                n, pos = _long_varint(data, pos + 1)
            if pos >= end:
                raise invalid("the length of a record is not that of its fields")
            yield timestamp, not n & 1, length
            pos = end
    except IndexError:
        raise invalid("a record goes beyond the batch") from None
    if pos != size:
        raise invalid(f"{size - pos} bytes follow the last record")


def timestamps(data: bytes, header: BatchHeader) -> Iterator[tuple[int, int]]:
    """Yield offset and timestamp of each record, skipping the other fields."""
    base_offset = header.base_offset
    base_timestamp = header.base_timestamp
    last_offset_delta = header.last_offset_delta
    log_append_time = header.max_timestamp if header.timestamp_type == LOG_APPEND_TIME else None
    size = len(data)
    pos = 0
    try:
        for _ in range(header.record_count):
            n = data[pos]
            pos += 1
            if n > 127:
                n, pos = _long_varint(data, pos - 1)
            end = pos + (n >> 1)
            if n & 1 or end > size:
                raise invalid("the length of a record is not within the batch")
            n = data[pos + 1]
            pos += 2
            if n > 127:
                n, pos = _long_varint(data, pos - 1, 10)
            timestamp = base_timestamp + ((n >> 1) ^ -(n & 1))
            n = data[pos]
            pos += 1
            if n > 127:
                n, pos = _long_varint(data, pos - 1)
            if n & 1 or n >> 1 > last_offset_delta:
                raise invalid("the offset of a record is not within the batch")
            if pos > end:
                raise invalid("the length of a record is not that of its fields")
            if log_append_time is not None:
                timestamp = log_append_time
            elif not _INT64_MIN <= timestamp <= _INT64_MAX:
                raise invalid("the timestamp of a record is not an int64")
            yield base_offset + (n >> 1), timestamp
            pos = end
    except IndexError:
        raise invalid("a record goes beyond the batch") from None
