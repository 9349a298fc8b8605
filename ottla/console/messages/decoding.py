"""Keys and values as text: formats, schemas and masks."""

from __future__ import annotations

import base64
import json
import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import Any

from ottla.client.errors import ClientError
from ottla.client.internal_records import decode_offsets, decode_share_states, decode_transactions
from ottla.client.schema_codecs import (
    MOST_JSON_LEVELS,
    BadData,
    SchemaCodecs,
    decode,
    is_nested_too_deep,
    unframed,
)
from ottla.console.access.roles import User
from ottla.console.messages.reading import Message
from ottla.console.settings import Mask
from ottla.protocol.codec import MalformedMessage

# Decode bytes for people: JSON, registry schemas, internal records, MessagePack, text; otherwise hex.

try:
    import msgspec
except ModuleNotFoundError:  # part of ottla[console]
    msgspec = None  # type: ignore[assignment]
else:
    _DECODER = msgspec.json.Decoder()

_INTERNAL: Mapping[str, Callable[[bytes | None, bytes | None], tuple[str | None, str | None]]] = {
    "__consumer_offsets": decode_offsets,
    "__transaction_state": decode_transactions,
    "__share_group_state": decode_share_states,
}
_MOST_HEX = 4096
#: Larger JSON is shown without line breaks, because Python's indentation is slow.
_MOST_INDENTED = 1 << 16
#: Limit per page: a value with more items is shown undecoded.
MOST_ITEMS = 100_000
_PAGE_SECONDS = 5.0
_TOO_DEEP = f"Its JSON nests more than {MOST_JSON_LEVELS} levels deep, so it is shown as text."
_JSON_STARTS = frozenset(b'{["tfn-0123456789 \t\r\n')
# First bytes of a MessagePack map or array.
_MSGPACK_STARTS = frozenset([*range(0x80, 0xA0), 0xDC, 0xDD, 0xDE, 0xDF])
_CONTROLS = frozenset(range(32)) - {9, 10, 13}


@dataclass(frozen=True, slots=True)
class Shown:
    """A decoded part. `value` is for JSON, `text` for people."""

    format: str  # null, json, text, schema, messagepack, internal, binary, masked, unread
    value: Any
    size: int
    schema_id: int | None = None
    note: str = ""  # reason why it is not shown otherwise

    @property
    def text(self) -> str:
        if self.format == "null":
            return ""
        if isinstance(self.value, str):
            return self.value
        return json.dumps(self.value, ensure_ascii=False, indent=2 if self.size <= _MOST_INDENTED else None)

    @property
    def line(self) -> str:
        if isinstance(self.value, str) or self.format == "null":
            return self.text
        return json.dumps(self.value, ensure_ascii=False, separators=(", ", ": "))

    @property
    def is_structured(self) -> bool:
        return isinstance(self.value, (dict, list))


@dataclass(frozen=True, slots=True)
class ShownMessage:
    topic: str
    partition: int
    offset: int
    timestamp: int
    timestamp_type: str
    key: Shown
    value: Shown
    headers: tuple[tuple[str, Shown], ...]

    def document(self) -> dict[str, Any]:
        """Return the message for JSON, without the parts' display texts."""
        return {
            "topic": self.topic,
            "partition": self.partition,
            "offset": self.offset,
            "timestamp": self.timestamp,
            "timestamp_type": self.timestamp_type,
            "key": self.key.value,
            "key_format": self.key.format,
            "value": self.value.value,
            "value_format": self.value.format,
            "headers": [[name, each.value] for name, each in self.headers],
        }


NULL = Shown("null", None, 0)


class Decoder:
    """Thread-safe. It never fails: undecodable bytes are shown unchanged, with a note."""

    def __init__(self, codecs: SchemaCodecs | None, most_items: int | None = None) -> None:
        self._codecs = codecs
        self._most_items = most_items
        self._unknown: set[int] = set()  # schemas that the registry did not return

    def message(self, message: Message) -> ShownMessage:
        if message.problem:
            return _unread(message, message.problem)
        if message.whole_size:
            return _beginning(message)
        key, value = self._key_and_value(message)
        return ShownMessage(
            message.topic,
            message.partition,
            message.offset,
            message.timestamp,
            message.timestamp_type,
            key,
            value,
            tuple((name, self.part(data)) for name, data in message.headers),
        )

    def _key_and_value(self, message: Message) -> tuple[Shown, Shown]:
        internal = _INTERNAL.get(message.topic)
        if internal is not None and message.key is not None:
            try:
                key, value = internal(message.key, message.value)
            except (MalformedMessage, ValueError, KeyError, IndexError):
                pass
            else:
                shown = NULL
                if value is not None and message.value is not None:
                    shown = Shown("internal", json.loads(value), len(message.value))
                return Shown("internal", json.loads(key or "null"), len(message.key)), shown
        return self.part(message.key), self.part(message.value)

    def part(self, data: bytes | None) -> Shown:
        if data is None:
            return NULL
        note = ""
        if self._codecs is not None and len(data) > 4 and data[0] == 0:
            found, note = self._by_schema(self._codecs, data)
            if found is not None:
                return found
        found = _plain(bytes(data))
        return replace(found, note=note) if note else found

    def value_of(self, data: bytes | None) -> Any:
        """Decode `part` alone, as most searches need it."""
        if data and data[0] in _JSON_STARTS:
            found = _json(data)
            if found is not None and not isinstance(found, str):
                return found
        return self.part(data).value

    def _by_schema(self, codecs: SchemaCodecs, data: bytes) -> tuple[Shown | None, str]:
        schema_id, payload = unframed(data)
        if schema_id in self._unknown:
            return None, f"Schema {schema_id} is not in the registry."
        try:
            value = decode(codecs.by_id(schema_id), payload, self._most_items)
        except BadData as error:
            return None, str(error)
        except ClientError as error:
            self._unknown.add(schema_id)
            return None, error.message
        return Shown("schema", value, len(data), schema_id), ""


def decode_page(
    messages: Iterable[Message], decode_one: Callable[[Message], ShownMessage], hides: bool
) -> list[ShownMessage]:
    """Decode for a few seconds; later messages appear without content, with a note."""
    deadline = time.monotonic() + _PAGE_SECONDS
    note = "It was not decoded, because decoding this page took too long: ask for fewer messages."
    return [
        decode_one(each) if time.monotonic() < deadline else _unread(each, note, hides=hides)
        for each in messages
    ]


def _unread(message: Message, note: str, *, hides: bool = False) -> ShownMessage:
    size = len(message.value or b"")
    key = NULL if message.key is None else Shown("masked", "•••", 0) if hides else _binary(message.key)
    return _shown_as(message, key, Shown("unread", "", size, note=note))


def _beginning(message: Message) -> ShownMessage:
    note = (
        f"Only its beginning is shown: the message has {message.whole_size:,} bytes. An export has all of it, "
        "with its headers."
    )

    def part(data: bytes | None) -> Shown:
        if data is None:
            return NULL
        found = _binary(data) if not _CONTROLS.isdisjoint(data[:512]) else _text(data)
        return replace(found, size=message.whole_size, note=note)

    return _shown_as(message, part(message.key), part(message.value))


def _text(data: bytes) -> Shown:
    return Shown("text", data.decode("utf-8", "replace"), len(data))


def _shown_as(message: Message, key: Shown, value: Shown) -> ShownMessage:
    where = (message.topic, message.partition, message.offset, message.timestamp, message.timestamp_type)
    return ShownMessage(*where, key, value, ())


def _plain(data: bytes) -> Shown:
    if not data:
        return Shown("text", "", 0)
    is_json = data[0] in _JSON_STARTS
    if is_json and (quick := _json(data)) is not None and not isinstance(quick, str):
        return Shown("json", quick, len(data))
    if not _CONTROLS.isdisjoint(data[:512]):
        return _msgpack(data) or _binary(data)
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return _msgpack(data) or _binary(data)
    if is_json:
        try:
            value = json.loads(text, parse_constant=_refuse, parse_float=_finite)
        except (ValueError, RecursionError):
            pass
        else:
            if _is_too_deep(data, value):
                return Shown("text", text, len(data), note=_TOO_DEEP)
            if not isinstance(value, str):
                return Shown("json", value, len(data))
    return Shown("text", text, len(data))


def _is_too_deep(data: bytes, value: Any) -> bool:
    """Return True for JSON that nests too deep. The cheap bracket count excludes most values."""
    return data.count(b"[") + data.count(b"{") > MOST_JSON_LEVELS and is_nested_too_deep(value)


def _json(data: bytes) -> Any:
    """Parse with msgspec, three times as fast as `json`. Return None for values left to `json`."""
    if msgspec is None:
        return None
    try:
        found = _DECODER.decode(data)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return None
    return None if _is_too_deep(data, found) else found


def _refuse(name: str) -> Any:
    raise ValueError(name)  # NaN is not JSON


def _finite(text: str) -> float:
    if math.isinf(value := float(text)):
        raise ValueError(text)  # could not be written as JSON again
    return value


def _msgpack(data: bytes) -> Shown | None:
    if data[0] not in _MSGPACK_STARTS or msgspec is None:
        return None
    try:
        decoded = msgspec.msgpack.decode(data)
        if is_nested_too_deep(decoded):
            return None
        value = json.loads(msgspec.json.encode(decoded))
    except (msgspec.MsgspecError, ValueError, TypeError, RecursionError):
        return None
    return Shown("messagepack", value, len(data))


def _binary(data: bytes) -> Shown:
    text = data[:_MOST_HEX].hex(" ")
    more = f" … ({len(data) - _MOST_HEX:,} more bytes)" if len(data) > _MOST_HEX else ""
    return Shown("binary", text + more, len(data))


def to_bytes(text: str, kind: str) -> bytes:
    """Encode a text entered as text, JSON or base64. Raises ValueError with a sentence."""
    if kind == "base64":
        try:
            return base64.b64decode(text, validate=True)
        except ValueError:
            raise ValueError("That is not base64.") from None
    if kind == "json":
        try:
            json.loads(text)
        except (ValueError, RecursionError) as error:
            raise ValueError(f"That is not JSON: {error}.") from None
    return text.encode("utf-8", "surrogatepass")


# Masked fields, hidden everywhere: on pages, in searches, in exports.

_EVERYTHING = "*"


def masker_of(masks: Sequence[Mask], topic: str, user: User) -> Masker | None:
    """Return None if nothing is hidden from this user."""
    roles = {role.name for role in user.roles}
    found = [
        mask
        for mask in masks
        if any(fnmatchcase(topic, pattern) for pattern in mask.topics) and not roles & mask.except_roles
    ]
    return Masker(found) if found else None


class Masker:
    """Hides fields. A value without fields is hidden as a whole, because its content is unknown.

    A key without fields stays, unless everything is hidden or the key could not be decoded.
    """

    def __init__(self, masks: Sequence[Mask]) -> None:
        self.masks = masks

    def __call__(self, message: ShownMessage) -> ShownMessage:
        for mask in self.masks:
            hide_all = _EVERYTHING in mask.fields
            message = replace(
                message,
                key=self._part(message.key, mask, whole=hide_all),
                value=self._part(message.value, mask, whole=hide_all or not message.value.is_structured),
                headers=tuple(
                    (name, self._part(each, mask, whole=hide_all or f"headers.{name}" in mask.fields))
                    for name, each in message.headers
                ),
            )
        return message

    def _part(self, part: Shown, mask: Mask, *, whole: bool) -> Shown:
        if part.format == "null":
            return part
        if whole:
            return Shown("masked", mask.replace, 0)
        if not part.is_structured:
            return Shown("masked", mask.replace, 0) if _may_have_fields(part) else part
        value = part.value
        for field in mask.fields:
            value = _hidden(value, field.split("."), mask.replace)
        return replace(part, value=value)


def _may_have_fields(part: Shown) -> bool:
    return bool(part.note) or (part.format == "text" and str(part.value).lstrip()[:1] in ("{", "["))


def _hidden(value: Any, path: list[str], mask: str) -> Any:
    """Hide a field, descending into each list element and through the type names of Avro unions."""
    if isinstance(value, list):
        return [_hidden(each, path, mask) for each in value]
    if not isinstance(value, dict):
        return value
    found = {}
    for name, each in value.items():
        if name == path[0]:
            found[name] = mask if len(path) == 1 else _hidden(_unwrapped(each), path[1:], mask)
        else:
            found[name] = each
    return found


def _unwrapped(value: Any) -> Any:
    if isinstance(value, dict) and len(value) == 1:
        [(name, inner)] = value.items()
        if isinstance(inner, dict) and ("." in name or name == "map"):
            return inner
    return value
