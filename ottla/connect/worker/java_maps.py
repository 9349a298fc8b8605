"""Java-serialized maps of byte arrays, the format of the standalone worker's offsets file in Kafka. Pure."""

from __future__ import annotations

import struct
from collections.abc import Mapping

_MAGIC = b"\xac\xed\x00\x05"
_NULL, _REFERENCE, _CLASS, _OBJECT, _ARRAY, _BLOCK, _END = 0x70, 0x71, 0x72, 0x73, 0x75, 0x77, 0x78
# Class descriptions of java.util.HashMap, with its two fields, and of byte[].
_HASH_MAP = (
    struct.pack(">BBH", _OBJECT, _CLASS, 17)
    + b"java.util.HashMap"
    + bytes.fromhex("0507dac1c31660d1")
    + b"\x03\x00\x02F\x00\x0aloadFactorI\x00\x09threshold"
    + bytes((_END, _NULL))
)
_BYTES = struct.pack(">BH", _CLASS, 2) + b"[B" + bytes.fromhex("acf317f8060854e0") + b"\x02\x00\x00\x78\x70"
_BYTES_AGAIN = b"\x71\x00\x7e\x00\x02"
_LOAD_FACTOR = 0.75


class NotAJavaMap(ValueError):
    """The data is not such a map."""


def encode_map(entries: Mapping[bytes, bytes | None]) -> bytes:
    capacity = 16
    while capacity * _LOAD_FACTOR < len(entries):
        capacity *= 2
    parts = [
        _MAGIC,
        _HASH_MAP,
        struct.pack(">fi", _LOAD_FACTOR, int(capacity * _LOAD_FACTOR)),
        struct.pack(">BBii", _BLOCK, 8, capacity, len(entries)),
    ]
    is_first = True
    for entry in entries.items():
        for data in entry:
            if data is None:
                parts.append(bytes((_NULL,)))
                continue
            parts.append(bytes((_ARRAY,)) + (_BYTES if is_first else _BYTES_AGAIN))
            parts.append(struct.pack(">i", len(data)) + data)
            is_first = False
    parts.append(bytes((_END,)))
    return b"".join(parts)


def decode_map(data: bytes) -> dict[bytes, bytes | None]:
    """Raises NotAJavaMap."""
    try:
        return _decode(data)
    except (struct.error, IndexError):
        raise NotAJavaMap("it ends too early") from None


def _decode(data: bytes) -> dict[bytes, bytes | None]:
    head = _MAGIC + _HASH_MAP
    if not data.startswith(head):
        raise NotAJavaMap("it does not begin as a java.util.HashMap does")
    at = len(head) + 8
    marker, length, _capacity, size = struct.unpack_from(">BBii", data, at)
    if (marker, length) != (_BLOCK, 8) or size < 0:
        raise NotAJavaMap("the size of the map is missing")
    at += 10
    found: dict[bytes, bytes | None] = {}
    for _ in range(size):
        key, at = _array(data, at)
        value, at = _array(data, at)
        if key is not None:
            found[key] = value
    return found


def _array(data: bytes, at: int) -> tuple[bytes | None, int]:
    if data[at] == _NULL:
        return None, at + 1
    if data[at] != _ARRAY:
        raise NotAJavaMap("it holds something that is not an array of bytes")
    at += 1
    if data[at] == _REFERENCE:
        at += len(_BYTES_AGAIN)
    elif data.startswith(_BYTES, at):
        at += len(_BYTES)
    else:
        raise NotAJavaMap("it holds an array that is not one of bytes")
    [length] = struct.unpack_from(">i", data, at)
    at += 4
    if length < 0 or at + length > len(data):
        raise NotAJavaMap("it ends too early")
    return data[at : at + length], at + length
