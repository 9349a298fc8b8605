"""The records of `__consumer_offsets`, `__transaction_state` and `__share_group_state`, as JSON in Kafka's words."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from typing import Any, Protocol

from ottla.protocol.codec import Data, MalformedMessage, Struct
from ottla.protocol.internal_records import GROUPS, SHARE_STATES, TRANSACTIONS
from ottla.protocol.messages.consumer_groups import ConsumerProtocolAssignment, ConsumerProtocolSubscription


class Keyed(Protocol):
    """A message that was consumed."""

    key: bytes | None
    value: bytes | None


Nested = Callable[[str, bytes], Any]


def decode_offsets(key: bytes | None, value: bytes | None) -> tuple[str | None, str | None]:
    """Key and value as `kafka-dump-log --offsets-decoder` prints them."""
    return _decode(GROUPS, key, value)


def decode_transactions(key: bytes | None, value: bytes | None) -> tuple[str | None, str | None]:
    """Key and value as `kafka-dump-log --transaction-log-decoder` prints them."""
    return _decode(TRANSACTIONS, key, value)


def decode_share_states(key: bytes | None, value: bytes | None) -> tuple[str | None, str | None]:
    """Key and value as `kafka-dump-log --share-group-state-decoder` prints them."""
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


# What each formatter of `kafka-console-consumer` prints: a topic's records, and of which kinds.
_FORMATTERS: dict[str, tuple[dict[int, tuple[type[Data], type[Data]]], tuple[int, ...]]] = {
    "Offsets": (GROUPS, (0, 1)),
    "GroupMetadata": (GROUPS, (2,)),
    "TransactionLog": (TRANSACTIONS, (0,)),
    "ShareGroupState": (SHARE_STATES, tuple(SHARE_STATES)),
}


def line_of(formatter: str) -> Callable[[Keyed], bytes]:
    """One line of JSON for each message; nothing for records of other kinds."""
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
    """As Kafka's generated converters do: the fields of this version, tagged ones only if set or structures."""
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
    """What members of a consumer group send to each other, where it can be read."""
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
