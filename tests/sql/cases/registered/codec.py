"""Keys and values in registry framing, encoded by the formats' own libraries rather than our kernels."""

from __future__ import annotations

import base64
import io
import json
from datetime import date, datetime, time
from decimal import Decimal
from typing import Any

from ottla.client.schema_registry import AVRO, JSON, RegistrySettings, Schema, SchemaRegistry

_EPOCH = date(1970, 1, 1)


class RegistryCodec:
    def __init__(self, url: str) -> None:
        self.registry = SchemaRegistry(RegistrySettings((url,)))

    def register(self, subject: str, text: str, kind: str) -> int:
        return self.registry.register(subject, Schema(text, kind))

    def encode(self, subject: str, value: Any, version: int | None = None) -> bytes:
        schema = self.registry.latest(subject) if version is None else self.registry.version(subject, version)
        frame = b"\0" + schema.id.to_bytes(4, "big")
        if schema.type == AVRO:
            import fastavro

            out = io.BytesIO()
            fastavro.schemaless_writer(out, fastavro.parse_schema(json.loads(schema.text)), value)
            return frame + out.getvalue()
        if schema.type == JSON:
            return frame + json.dumps(value).encode()
        from google.protobuf.json_format import ParseDict

        return frame + b"\0" + bytes(ParseDict(value, self._message(schema.id)).SerializeToString())

    def decode(self, data: bytes) -> Any:
        assert data[0] == 0, data
        schema = self.registry.by_id(int.from_bytes(data[1:5], "big"))
        if schema.type == AVRO:
            import fastavro

            return _plain(
                fastavro.schemaless_reader(
                    io.BytesIO(data[5:]), fastavro.parse_schema(json.loads(schema.text)), None
                )
            )
        if schema.type == JSON:
            return json.loads(data[5:])
        assert data[5] == 0, data
        message = self._message(schema.id)
        message.ParseFromString(data[6:])
        return _fields(message)

    def _message(self, number: int) -> Any:
        """Return an empty message of the file's first type."""
        from google.protobuf import descriptor_pool, message_factory
        from google.protobuf.descriptor_pb2 import FileDescriptorProto

        path = f"/schemas/ids/{number}"
        found = self.registry.request("GET", path, query={"format": "serialized"})["schema"]
        file = FileDescriptorProto.FromString(base64.b64decode(found))
        file.name = file.name or "s.proto"
        pool = descriptor_pool.DescriptorPool()
        _add_files(pool)
        pool.Add(file)
        first = pool.FindFileByName(file.name).message_types_by_name[file.message_type[0].name]
        return message_factory.GetMessageClass(first)()


def _add_files(pool: Any) -> None:
    from google.protobuf import descriptor_pb2, timestamp_pb2, wrappers_pb2
    from google.protobuf.descriptor_pb2 import FieldDescriptorProto as Field
    from google.protobuf.descriptor_pb2 import FileDescriptorProto

    for module in (descriptor_pb2, timestamp_pb2, wrappers_pb2):
        pool.AddSerializedFile(module.DESCRIPTOR.serialized_pb)
    known = {
        "google/type/date.proto": ("google.type", "Date", ("year", "month", "day"), {}),
        "google/type/timeofday.proto": (
            "google.type",
            "TimeOfDay",
            ("hours", "minutes", "seconds", "nanos"),
            {},
        ),
        "confluent/type/decimal.proto": (
            "confluent.type",
            "Decimal",
            ("value", "precision", "scale"),
            {"value": Field.TYPE_BYTES, "precision": Field.TYPE_UINT32},
        ),
    }
    for path, (package, name, fields, kinds) in known.items():
        file = FileDescriptorProto(name=path, package=package, syntax="proto3")
        message = file.message_type.add(name=name)
        for number, each in enumerate(fields, 1):
            kind = kinds.get(each, Field.TYPE_INT32)
            message.field.add(name=each, number=number, type=kind, label=Field.LABEL_OPTIONAL)
        pool.Add(file)
    # Only code that knows its extensions reads them.
    meta = FileDescriptorProto(name="confluent/meta.proto", package="confluent", syntax="proto3")
    meta.dependency.append("google/protobuf/descriptor.proto")
    pool.Add(meta)


def _plain(value: Any) -> Any:
    """Return times as numbers and bytes as Base64, like ksqlDB's JSON."""
    if isinstance(value, dict):
        return {name: _plain(each) for name, each in value.items()}
    if isinstance(value, list):
        if value and all(isinstance(each, dict) and list(each) == ["key", "value"] for each in value):
            return {each["key"]: _plain(each["value"]) for each in value}
        return [_plain(each) for each in value]
    if isinstance(value, datetime):
        return round(value.timestamp() * 1000)
    if isinstance(value, date):
        return (value - _EPOCH).days
    if isinstance(value, time):
        return ((value.hour * 60 + value.minute) * 60 + value.second) * 1000 + value.microsecond // 1000
    if isinstance(value, Decimal):
        return float(value)
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    return value


def _fields(message: Any) -> dict[str, Any]:
    """Return all fields; absent fields with presence are None."""
    found = {}
    for field in message.DESCRIPTOR.fields:
        value = getattr(message, field.name)
        if field.message_type is not None and field.message_type.GetOptions().map_entry:
            found[field.name] = {key: _field(value[key]) for key in value}
        elif field.is_repeated:
            found[field.name] = [_field(each) for each in value]
        elif field.has_presence and not message.HasField(field.name):
            found[field.name] = None
        else:
            found[field.name] = _field(value)
    return found


def _field(value: Any) -> Any:
    if not hasattr(value, "DESCRIPTOR"):
        return base64.b64encode(value).decode() if isinstance(value, bytes) else value
    name = value.DESCRIPTOR.full_name
    if name == "google.protobuf.Timestamp":
        return value.seconds * 1000 + value.nanos // 1_000_000
    if name == "google.type.Date":
        return (date(value.year, value.month, value.day) - _EPOCH).days
    if name == "google.type.TimeOfDay":
        return ((value.hours * 60 + value.minutes) * 60 + value.seconds) * 1000 + value.nanos // 1_000_000
    if name == "confluent.type.Decimal":
        return int.from_bytes(value.value, "big", signed=True) / 10**value.scale
    if name.startswith("google.protobuf.") and name.endswith("Value"):
        return _field(value.value)
    return _fields(value)
