"""Records of `__consumer_offsets`, `__transaction_state` and `__share_group_state`, as JSON with Kafka's names."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from typing import Any, Protocol

from ottla.protocol.codec import Data, MalformedMessage, Struct
from ottla.protocol.internal_records import GROUPS, SHARE_STATES, TRANSACTIONS
from ottla.protocol.messages.consumer_groups import ConsumerProtocolAssignment, ConsumerProtocolSubscription


class Keyed(Protocol):
    """A consumed message."""

    key: bytes | None
    value: bytes | None


Nested = Callable[[str, bytes], Any]


def decode_offsets(key: bytes | None, value: bytes | None) -> tuple[str | None, str | None]:
    """Return key and value as printed by `kafka-dump-log --offsets-decoder`."""
    return _decode(GROUPS, key, value)


def decode_transactions(key: bytes | None, value: bytes | None) -> tuple[str | None, str | None]:
    """Return key and value as printed by `kafka-dump-log --transaction-log-decoder`."""
    return _decode(TRANSACTIONS, key, value)


def decode_share_states(key: bytes | None, value: bytes | None) -> tuple[str | None, str | None]:
    """Return key and value as printed by `kafka-dump-log --share-group-state-decoder`."""
    return _decode(SHARE_STATES, key, value)


def _decode(
    kinds: dict[int, tuple[type[Data], type[Data]]], key: bytes | None, value: bytes | None
) -> tuple[str | None, str | None]:
    if key is None:
        return None, None
    kind = int.from_bytes(key[:2], "big", signed=True)
    if kind not in kinds:
        return _dumps({"type": str(kind), "data": "unknown"}), None
    key_type, value_type = kinds[kind]
    key_version = min(kind, key_type.versions[1])
    data = to_json(key_type.decode(key, key_version, 2), key_version, _protocol)
    shown = _dumps({"type": str(kind), "data": data})
    if value is None:
        return shown, "<DELETE>"
    version = int.from_bytes(value[:2], "big", signed=True)
    return shown, _dumps(
        {"version": str(version), "data": to_json(value_type.decode(value, version, 2), version, _protocol)}
    )


# Formatters of `kafka-console-consumer`: a topic's record types, and the kinds to print.
_FORMATTERS: dict[str, tuple[dict[int, tuple[type[Data], type[Data]]], tuple[int, ...]]] = {
    "Offsets": (GROUPS, (0, 1)),
    "GroupMetadata": (GROUPS, (2,)),
    "TransactionLog": (TRANSACTIONS, (0,)),
    "ShareGroupState": (SHARE_STATES, tuple(SHARE_STATES)),
}


def line_of(formatter: str) -> Callable[[Keyed], bytes]:
    """Return a function that formats a message as one line of JSON, empty for other kinds."""
    topic, kinds = _FORMATTERS[formatter]
    return lambda message: _as_json(message.key, message.value, topic, kinds)


def _as_json(
    key: bytes | None,
    value: bytes | None,
    topic: dict[int, tuple[type[Data], type[Data]]],
    kinds: tuple[int, ...],
) -> bytes:
    kind = -1 if key is None else int.from_bytes(key[:2], "big", signed=True)
    if key is None or kind not in kinds:
        return b""
    key_type, value_type = topic[kind]
    key_version = min(kind, key_type.versions[1])
    document: dict[str, Any] = {
        "key": {"type": kind, "data": to_json(key_type.decode(key, key_version, 2), key_version, _base64)},
        "value": None,
    }
    if value is not None:
        version = int.from_bytes(value[:2], "big", signed=True)
        document["value"] = {
            "version": version,
            "data": to_json(value_type.decode(value, version, 2), version, _base64),
        }
    return _dumps(document).encode() + b"\n"


def to_json(struct: Struct, version: int, nested: Nested) -> dict[str, Any]:
    """Convert like Kafka's generated converters: the version's fields; tagged fields only if set or structures."""
    document: dict[str, Any] = {}
    for name, field in type(struct).fields.items():
        if not field.versions[0] <= version <= field.versions[1]:
            continue
        value = getattr(struct, name)
        if field.tag is not None and value == field.default and field.struct is None:
            continue
        document[_camel(name)] = _plain(name, value, version, nested)
    return document


def _plain(name: str, value: Any, version: int, nested: Nested) -> Any:
    if isinstance(value, list):
        return [_plain(name, item, version, nested) for item in value]
    if isinstance(value, Struct):
        return to_json(value, version, nested)
    if isinstance(value, (bytes, bytearray, memoryview)):
        data = bytes(value)
        if name == "topic_id":
            return base64.urlsafe_b64encode(data).decode().rstrip("=")
        return nested(name, data)
    return value


def _base64(_name: str, data: bytes) -> str:
    return base64.b64encode(data).decode()


def _protocol(name: str, data: bytes) -> Any:
    """Decode messages between members of a consumer group where possible."""
    types: dict[str, type[Data]] = {
        "subscription": ConsumerProtocolSubscription,
        "assignment": ConsumerProtocolAssignment,
    }
    if name not in types or not data:
        return _base64(name, data)
    version = min(int.from_bytes(data[:2], "big", signed=True), types[name].versions[1])
    try:
        return to_json(types[name].decode(data, version, 2), version, _base64)
    except MalformedMessage:
        return _base64(name, data)


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(map(str.capitalize, rest))


def _dumps(document: object) -> str:
    return json.dumps(document, separators=(",", ":"), ensure_ascii=False)
