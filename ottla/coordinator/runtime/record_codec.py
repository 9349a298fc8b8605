"""Keys and values of the internal topics' newer records: two bytes that say which, then a message."""

from __future__ import annotations

from typing import TypeVar

from ottla.protocol.codec import Data, MalformedMessage
from ottla.protocol.group_records import GroupKey, MemberKey

T = TypeVar("T", bound=Data)


def encode_key(kind: int, key: Data) -> bytes:
    return kind.to_bytes(2, "big") + _encode(key)


def group_key(kind: int, group_id: str) -> bytes:
    return encode_key(kind, GroupKey(group_id=group_id))


def member_key(kind: int, group_id: str, member_id: str) -> bytes:
    return encode_key(kind, MemberKey(group_id=group_id, member_id=member_id))


def encode_value(value: Data) -> bytes:
    return b"\x00\x00" + _encode(value)


def decode_key(key_type: type[T], data: bytes) -> T:
    return _decode(key_type, data)


def decode_value(value_type: type[T], data: bytes) -> T:
    """Raises ValueError for what is not a value of that type."""
    version = int.from_bytes(data[:2], "big", signed=True)
    if version != 0:
        raise ValueError(f"version {version} of {value_type.__name__} is not known")
    return _decode(value_type, data)


def _encode(message: Data) -> bytes:
    return bytes(message.encode(0))


def _decode(kind: type[T], data: bytes) -> T:
    try:
        return kind.decode(data, 0, 2)
    except MalformedMessage as error:
        raise ValueError(str(error)) from error
