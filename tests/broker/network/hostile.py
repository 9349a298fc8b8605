"""Frames that no honest client sends: malformed, truncated, oversized, or valid frames with one false value."""

from __future__ import annotations

import random
import struct
from collections.abc import Iterator

from ottla.protocol.codec import Data, Field, Struct
from ottla.protocol.messages import API_NAMES, request_type
from ottla.protocol.records import Record, build_batch


def random_value(rng: random.Random, field: Field, depth: int) -> object:
    kind = field.kind
    if field.nullable[1] >= field.nullable[0] and rng.random() < 0.2:
        return None
    if kind in ("int8", "int16", "int32", "int64", "uint16"):
        bits = int(kind.lstrip("uint"))
        low, high = (0, 2**bits - 1) if kind == "uint16" else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
        return rng.choice([0, 1, low, high, rng.randint(low, high), min(high, 100)])
    if kind == "boolean":
        return rng.random() < 0.5
    if kind == "float64":
        return rng.random()
    if kind == "uuid":
        return rng.randbytes(16)
    if kind == "string":
        return rng.choice(
            ["", "events", "__consumer_offsets", "a" * rng.randint(1, 300), "ü\0\n", "..", "group"]
        )
    if kind in ("binary", "records"):
        if rng.random() < 0.5:
            return bytes(build_batch([Record(0, 1, b"k", rng.randbytes(rng.randint(0, 200)))]))
        return rng.randbytes(rng.randint(0, 300))
    if kind == "struct":
        assert field.struct is not None
        return random_struct(rng, field.struct, depth + 1)
    count = rng.choice([0, 1, 1, 2, 5]) if depth < 3 else 0
    element = field.element or Field("struct", "0+", "none", None, None, struct=field.struct)
    return [random_value(rng, element, depth + 1) for _ in range(count)]


def random_struct(rng: random.Random, cls: type[Struct], depth: int = 0) -> Struct:
    return cls(**{name: random_value(rng, field, depth) for name, field in cls.fields.items()})


def request_frame(rng: random.Random, key: int) -> bytes:
    """Return a well-formed request with random contents, without its length prefix."""
    cls = request_type(key)
    version = rng.randint(*cls.versions)
    body = b""
    message = random_struct(rng, cls)
    assert isinstance(message, Data)
    for limit in ("max_wait_ms", "timeout_ms", "session_timeout_ms", "rebalance_timeout_ms"):
        if limit in cls.fields:
            setattr(message, limit, rng.choice([0, 1, -1]))
    body = message.encode(version)
    header = struct.pack(">hhih", key, version, rng.getrandbits(31), 4) + b"evil"
    if cls.is_flexible(version):
        header += b"\0"
    return header + body


def spoil(rng: random.Random, frame: bytes) -> bytes:
    """Corrupt a frame: truncate it, flip bytes, insert a huge length or insert random bytes."""
    data = bytearray(frame)
    way = rng.randrange(6)
    if way == 0:
        return bytes(data[: rng.randrange(len(data) + 1)])
    if way == 1:
        for _ in range(rng.randint(1, 8)):
            data[rng.randrange(len(data))] = rng.getrandbits(8)
    elif way == 2:
        at = rng.randrange(len(data))
        data[at : at + 4] = rng.choice(
            [b"\x7f\xff\xff\xff", b"\xff\xff\xff\xff", b"\x80\0\0\0", b"\xff\xff\xff\x7f"]
        )
    elif way == 3:
        at = rng.randrange(len(data))
        data[at:at] = rng.randbytes(rng.randint(1, 50))
    elif way == 4:
        data[2:4] = struct.pack(">h", rng.randint(-5, 40))
    else:
        data[0:2] = struct.pack(">h", rng.randint(-5, 120))
    return bytes(data)


def frames(seed: int, count: int) -> Iterator[bytes]:
    """Return `count` frames with length prefixes, some of which are false."""
    rng = random.Random(seed)
    keys = list(API_NAMES)
    for number in range(count):
        way = number % 10
        if way == 0:
            body = rng.randbytes(rng.randint(0, 400))
        elif way < 4:
            body = request_frame(rng, rng.choice(keys))
        else:
            body = spoil(rng, request_frame(rng, rng.choice(keys)))
        size = len(body)
        if way == 9 and rng.random() < 0.3:
            size = rng.choice([-1, -(2**31), 2**31 - 1, 104_857_601, size + rng.randint(1, 1000), 0])
        yield struct.pack(">i", size) + body
