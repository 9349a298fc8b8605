"""Convert keys and values with a schema: JSON as in Confluent's tools ↔ bytes in the registry's framing.

Avro uses its own JSON encoding (a union member is an object with its type), Protobuf its own, too.
"""

from __future__ import annotations

import base64
import io
import json
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from ottla.client.avro_decoding import MOST_LEVELS, AvroDecoder
from ottla.client.common_messages import add_common_messages
from ottla.client.data_contracts import Rules
from ottla.client.errors import ClientError, Unreachable
from ottla.client.schema_registry import AVRO, PROTOBUF, Schema, SchemaRegistry

MAGIC = 0
_ID_BYTES = 4
_MOST_KEPT = 1000
#: One Avro level takes two of JSON, because a union names its type.
MOST_JSON_LEVELS = 2 * MOST_LEVELS
_LONGEST_VARINT = 10
_FIELDS_AT_LEAST = 10_000
_FIELDS_PER_BYTE = 16


class BadData(ValueError):
    """Data does not fit its schema. The message is one sentence."""


class Codec(NamedTuple):
    """Converts between JSON and the bytes after the id. Both directions may raise anything on unsuitable data.

    `to_json` also takes the maximum number of items to decode; None derives it from the data's size.
    """

    to_bytes: Callable[[Any], bytes]
    to_json: Callable[[bytes, int | None], Any]


def framed(schema_id: int, payload: bytes) -> bytes:
    return bytes([MAGIC]) + schema_id.to_bytes(_ID_BYTES, "big") + payload


def unframed(data: bytes) -> tuple[int, bytes]:
    if len(data) < 1 + _ID_BYTES or data[0] != MAGIC:
        raise BadData("It does not begin with the id of a schema.")
    return int.from_bytes(data[1 : 1 + _ID_BYTES], "big"), data[1 + _ID_BYTES :]


def encode(codec: Codec, value: Any, schema_id: int) -> bytes:
    if is_nested_too_deep(value):
        raise BadData(f"JSON nests more than {MOST_JSON_LEVELS} levels deep.")
    return framed(schema_id, _converted(codec.to_bytes, value, failure="JSON does not fit the schema"))


def decode(codec: Codec, payload: bytes, most_items: int | None = None) -> Any:
    return _converted(codec.to_json, payload, most_items, failure="The bytes do not fit their schema")


def is_nested_too_deep(value: Any, most_levels: int = MOST_JSON_LEVELS) -> bool:
    level = [value]
    for _ in range(most_levels):
        level = [
            inner
            for each in level
            if isinstance(each, (dict, list))
            for inner in (each.values() if isinstance(each, dict) else each)
            if isinstance(inner, (dict, list))
        ]
        if not level:
            return False
    return True


def _converted(convert: Callable[..., Any], *data: Any, failure: str) -> Any:
    try:
        return convert(*data)
    except Exception as error:  # the libraries raise arbitrary exceptions
        reason = " ".join(str(error).split())[:200] or type(error).__name__
        raise BadData(f"{failure}: {reason.rstrip('.')}.") from None


class SchemaCodecs:
    """Cache of codecs by schema id, since schemas never change. Thread-safe."""

    def __init__(self, registry: SchemaRegistry) -> None:
        self.registry = registry
        self._codecs: dict[int, Codec] = {}

    def kept(self, schema_id: int) -> Codec | None:
        return self._codecs.get(schema_id)

    def by_id(self, schema_id: int) -> Codec:
        """Return a codec, fetching its schema if needed. Raises ClientError."""
        found = self._codecs.get(schema_id)
        if found is None:
            if len(self._codecs) >= _MOST_KEPT:
                self._codecs.clear()
            found = self._codecs[schema_id] = self._made(schema_id)
        return found

    def _made(self, schema_id: int) -> Codec:
        registry = self.registry
        schema = registry.by_id(schema_id)
        referenced = registry.referenced(schema)

        def serialized(wanted: Schema) -> str:
            path = f"/schemas/ids/{wanted.id}"
            return str(registry.request("GET", path, query={"format": "serialized"})["schema"])

        try:
            return codec_of(schema, referenced, serialized)
        except ClientError:
            raise
        except Exception as error:  # the libraries raise arbitrary exceptions on an invalid schema
            raise ClientError(f"The schema {schema_id} cannot be used: {error}.") from None


class FramedTexts:
    """Decodes keys and values that start with a schema id to JSON text, for one thread of a tool.

    Bytes may start with a zero by chance, so values with an unknown schema, or that do not fit it, yield no text.
    """

    def __init__(self, registry: SchemaRegistry | None) -> None:
        self._codecs = None if registry is None else SchemaCodecs(registry)
        self._unknown: set[int] = set()

    def text(self, data: bytes | None) -> str | None:
        if self._codecs is None or data is None or len(data) <= _ID_BYTES or data[0] != MAGIC:
            return None
        schema_id, payload = unframed(data)
        if schema_id in self._unknown:
            return None
        try:
            value = decode(self._codecs.by_id(schema_id), payload)
        except Unreachable:
            self._codecs = None  # do not retry for every record
            return None
        except (BadData, ClientError) as error:
            if isinstance(error, ClientError):
                self._unknown.add(schema_id)
            return None
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def codec_of(schema: Schema, referenced: Mapping[str, Schema], serialized: Callable[[Schema], str]) -> Codec:
    """`referenced` contains the referenced schemas, deepest first; `serialized` returns a Protobuf descriptor.

    Records that violate the schema's rules are refused, on writing and on reading.
    """
    rules = _Contract(Rules(schema.rule_set, "WRITE"), Rules(schema.rule_set, "READ"))
    if schema.type == AVRO:
        return _avro(schema, referenced, rules)
    if schema.type == PROTOBUF:
        return _protobuf(schema, referenced, serialized, rules)
    return _json_schema(schema, referenced, rules)


class _Contract(NamedTuple):
    write: Rules
    read: Rules


def _avro(schema: Schema, referenced: Mapping[str, Schema], rules: _Contract) -> Codec:
    import fastavro

    named: dict[str, Any] = {}
    for each in referenced.values():
        fastavro.parse_schema(json.loads(each.text), named_schemas=named)
    parsed = fastavro.parse_schema(json.loads(schema.text), named_schemas=named)
    decoder = AvroDecoder(parsed, named)

    def to_bytes(value: Any) -> bytes:
        [record] = fastavro.json_reader(io.StringIO(json.dumps(value)), parsed)
        rules.write.check(record)
        out = io.BytesIO()
        fastavro.schemaless_writer(out, parsed, record, strict=True)
        return out.getvalue()

    def to_json(data: bytes, most_items: int | None) -> Any:
        found = decoder.decode(data, most_items)
        if rules.read:  # rules need fastavro's dates and decimals; the data is already within bounds
            rules.read.check(fastavro.schemaless_reader(io.BytesIO(data), parsed, None))
        return found

    return Codec(to_bytes, to_json)


def _json_schema(schema: Schema, referenced: Mapping[str, Schema], rules: _Contract) -> Codec:
    import jsonschema_rs

    documents = {name: json.loads(each.text) for name, each in referenced.items()}
    registry = jsonschema_rs.Registry(list(documents.items())) if documents else None
    document = json.loads(schema.text)
    try:
        validator = jsonschema_rs.validator_for(document, registry=registry)
    except jsonschema_rs.ValidationError:
        if not isinstance(document, dict) or "$schema" not in document:
            raise
        # The registry takes a schema with a meta-schema of its own as one of draft 7.
        plain = {name: value for name, value in document.items() if name != "$schema"}
        validator = jsonschema_rs.Draft7Validator(plain, registry=registry)

    def to_bytes(value: Any) -> bytes:
        validator.validate(value)
        rules.write.check(value)
        return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()

    def to_json(data: bytes, _: int | None) -> Any:
        value = json.loads(data)
        if is_nested_too_deep(value):
            raise ValueError(f"it nests more than {MOST_JSON_LEVELS} levels deep")
        rules.read.check(value)
        return value

    return Codec(to_bytes, to_json)


def _protobuf(
    schema: Schema,
    referenced: Mapping[str, Schema],
    serialized: Callable[[Schema], str],
    rules: _Contract,
) -> Codec:
    from google.protobuf import descriptor_pb2, descriptor_pool, json_format, message_factory

    pool = descriptor_pool.DescriptorPool()
    _add_well_known(pool)
    for name, each in [*referenced.items(), ("", schema)]:
        file = descriptor_pb2.FileDescriptorProto.FromString(base64.b64decode(serialized(each)))
        file.name = name or file.name or "schema.proto"
        pool.Add(file)
        top = pool.FindFileByName(file.name)

    def message_class(path: tuple[int, ...]) -> Any:
        messages = [top.message_types_by_name[each.name] for each in file.message_type]
        found = messages[path[0]]
        for index in path[1:]:
            found = found.nested_types[index]
        return message_factory.GetMessageClass(found)

    def to_bytes(value: Any) -> bytes:
        message = json_format.ParseDict(value, message_class((0,))())
        if rules.write:
            rules.write.check(_fields(message))
        return b"\0" + bytes(message.SerializeToString())  # the first message of the file

    def to_json(data: bytes, most_items: int | None) -> Any:
        path, position = message_indexes(data)
        message = message_class(path).FromString(data[position:])
        check_fields(message, len(data), most_items)
        if rules.read:
            rules.read.check(_fields(message))
        return json_format.MessageToDict(
            message, preserving_proto_field_name=True, always_print_fields_with_no_presence=True
        )

    return Codec(to_bytes, to_json)


def _fields(value: Any) -> Any:
    """Convert a message for rules: numbers are numbers, and missing fields are null."""
    if hasattr(value, "DESCRIPTOR") and hasattr(value, "ListFields"):
        return {
            each.name: None
            if each.has_presence and not each.is_repeated and not value.HasField(each.name)
            else _fields(getattr(value, each.name))
            for each in value.DESCRIPTOR.fields
        }
    if hasattr(value, "items"):
        return {key: _fields(value[key]) for key in value}
    if hasattr(value, "append"):
        return [_fields(each) for each in value]
    return value


def check_fields(message: Any, size: int, most: int | None = None) -> None:
    """Raises ValueError if a message of this size has too many fields, including unset ones.

    An empty nested message takes two bytes, but JSON shows all its fields.
    """
    left = _FIELDS_AT_LEAST + _FIELDS_PER_BYTE * size
    left = left if most is None else min(left, most)
    waiting = [message]
    counts: dict[str, int] = {}
    while waiting:
        each = waiting.pop()
        kind = each.DESCRIPTOR
        if kind.full_name not in counts:
            counts[kind.full_name] = len(kind.fields)
        left -= counts[kind.full_name]
        for field, value in each.ListFields():
            kind = field.message_type
            is_map = kind is not None and kind.GetOptions().map_entry
            values = list(value.values()) if is_map else value if field.is_repeated else [value]
            left -= len(values)
            if kind is not None and (not is_map or kind.fields_by_name["value"].message_type is not None):
                waiting += values
        if left < 0:
            raise ValueError("it has more fields than its size allows for")


def _add_well_known(pool: Any) -> None:
    from google.protobuf import (
        any_pb2,
        duration_pb2,
        empty_pb2,
        field_mask_pb2,
        struct_pb2,
        timestamp_pb2,
        wrappers_pb2,
    )

    for module in (
        any_pb2,
        duration_pb2,
        empty_pb2,
        field_mask_pb2,
        struct_pb2,
        timestamp_pb2,
        wrappers_pb2,
    ):
        pool.AddSerializedFile(module.DESCRIPTOR.serialized_pb)
    add_common_messages(pool)


def message_indexes(data: bytes) -> tuple[tuple[int, ...], int]:
    """Read zigzag varints: a count, then each index. A single 0 means the first message."""
    count, position = _varint(data, 0)
    if count == 0:
        return (0,), position
    if not 0 < count <= MOST_LEVELS:
        raise BadData(f"{count} is not a valid number of message indexes.")
    path = []
    for _ in range(count):
        index, position = _varint(data, position)
        if index < 0:
            raise BadData(f"There is no message {index}.")
        path.append(index)
    return tuple(path), position


def _varint(data: bytes, start: int) -> tuple[int, int]:
    value = 0
    for number, byte in enumerate(data[start : start + _LONGEST_VARINT]):
        value |= (byte & 0x7F) << 7 * number
        if not byte & 0x80:
            return (value >> 1) ^ -(value & 1), start + number + 1
    raise BadData("A number has too many bytes, or too few.")
