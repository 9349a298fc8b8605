"""Keys and values of the internal topics: a two-byte type or version, followed by a message."""

from __future__ import annotations

from typing import TypeVar

from ottla.protocol.codec import Data, MalformedMessage
from ottla.protocol.internal_records import GroupKey, MemberKey

Decoded = TypeVar("Decoded", bound=Data)


def encode_key(kind: int, key: Data) -> bytes:
    return kind.to_bytes(2, "big") + key.encode(key.versions[1])


def group_key(kind: int, group_id: str) -> bytes:
    return encode_key(kind, GroupKey(group_id=group_id))


def member_key(kind: int, group_id: str, member_id: str) -> bytes:
    return encode_key(kind, MemberKey(group_id=group_id, member_id=member_id))


def encode_value(value: Data, version: int = 0) -> bytes:
    return version.to_bytes(2, "big") + value.encode(version)


def decode_key(key_type: type[Decoded], data: bytes) -> Decoded:
    """Raises ValueError if the bytes are not a key of this type."""
    try:
        return key_type.decode(data, key_type.versions[1], 2)
    except MalformedMessage as error:
        raise ValueError(f"its key cannot be read: {error}") from None


def decode_value(value_type: type[Decoded], data: bytes) -> Decoded:
    """Raises ValueError if the bytes are not a value of this type."""
    version = int.from_bytes(data[:2], "big", signed=True)
    oldest, newest = value_type.versions
    if not oldest <= version <= newest:
        raise ValueError(f"version {version} of its value is not known")
    try:
        return value_type.decode(data, version, 2)
    except MalformedMessage as error:
        raise ValueError(f"its value cannot be read: {error}") from None
