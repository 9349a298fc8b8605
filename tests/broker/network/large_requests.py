"""The largest requests of every API: fills each array of the newest version in turn."""

from __future__ import annotations

import struct
from collections.abc import Generator, Iterator
from typing import Any, TypeVar

from ottla.protocol.codec import Field, Request, Struct
from ottla.protocol.messages import request_type

T = TypeVar("T")

# Values that get past the handlers' first checks
SCALARS: dict[str, Any] = {
    "group_id": "group",
    "member_id": "member",
    "member_epoch": 1,
    "generation_id": 1,
    "generation_id_or_member_epoch": 1,
    "transactional_id": "transaction",
    "v3_and_below_transactional_id": "transaction",
    "timeout_ms": 1000,
    "session_timeout_ms": 10_000,
    "rebalance_timeout_ms": 10_000,
    "protocol_type": "consumer",
    "protocol_name": "range",
    "session_epoch": -1,
    "share_session_epoch": 1,
    "replica_id": -1,
    "client_software_name": "large",
    "client_software_version": "1",
    "response_partition_limit": 2000,
    "election_type": 0,
    "acks": -1,
    "allow_auto_topic_creation": False,
    "max_bytes": 1_000_000,
    "isolation_level": 0,
    "key_type": 0,
    "resource_type": 2,
    "resource_type_filter": 1,
    "pattern_type_filter": 1,
    "resource_pattern_type": 3,
    "principal": "User:ann",
    "host": "*",
    "operation": 3,
    "permission_type": 3,
}


def paths(cls: type[Struct], version: int) -> Iterator[tuple[str, ...]]:
    """Return the arrays of a message as field paths."""
    for name, field in cls.fields.items():
        if not field.versions[0] <= version <= field.versions[1]:
            continue
        if field.kind == "array":
            yield (name,)
        if field.struct is not None:
            for inner in paths(field.struct, version):
                yield (name, *inner)


def large_requests(key: int) -> Iterator[tuple[str, int, type[Request], tuple[str, ...] | None]]:
    """Return the arrays to fill, each with the newest version that has the array."""
    cls = request_type(key)
    found: dict[tuple[str, ...], int] = {}
    for version in range(cls.versions[0], cls.versions[1] + 1):
        found |= dict.fromkeys(paths(cls, version), version)
    for path, version in found.items():
        yield ".".join(path), version, cls, path
    if not found:
        yield "strings", cls.versions[1], cls, None


def build(cls: type[Struct], path: tuple[str, ...] | None, count: int, number: int = 0) -> Any:
    """Return a message with `count` entries in the array at the end of the path and one in each array before it."""
    values: dict[str, Any] = {}
    for name, field in cls.fields.items():
        if path and name == path[0]:
            if field.kind == "struct":
                assert field.struct is not None
                values[name] = build(field.struct, path[1:], count)
            else:
                rest = path[1:] or None
                many = 1 if rest else count
                values[name] = [_entry(field, rest, count, at) for at in range(many)]
        elif name in SCALARS:
            values[name] = SCALARS[name]
        elif field.kind == "string":
            values[name] = "x" * 30_000 if path is None and not number else f"n{number}"
        elif field.kind == "uuid":
            values[name] = number.to_bytes(16, "big")
        elif field.kind == "binary" and path is None:
            values[name] = bytes(1_000_000)
        elif field.kind in ("int32", "int64") and number:
            values[name] = number
    return cls(**values)


def _entry(field: Field, rest: tuple[str, ...] | None, count: int, at: int) -> Any:
    if field.struct is not None:
        return build(field.struct, rest or (), count, at + 1)
    assert field.element is not None
    kind = field.element.kind
    if kind == "string":
        return f"n{at}"
    if kind == "uuid":
        return at.to_bytes(16, "big")
    return at % {"int8": 1 << 7, "int16": 1 << 15}.get(kind, 1 << 31)


def to_the_end(work: Generator[Any, Any, T]) -> T:
    """Run a handler that yields between slices, and return its result."""
    while True:
        try:
            assert next(work) is None
        except StopIteration as stop:
            return stop.value  # type: ignore[no-any-return]


def frame(request: Request, version: int) -> bytes:
    header = struct.pack(">hhih", request.api_key, version, 7, 5) + b"large"
    if request.is_flexible(version):
        header += b"\0"
    body = header + request.encode(version)
    return struct.pack(">i", len(body)) + body
