"""Maps a record to columns and a primary key, by `pk.mode`, `pk.fields` and `fields.whitelist`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ottla.connect.data.record import SinkRecord
from ottla.connect.data.schema import INT32, INT64, STRING, Schema, SchemaType
from ottla.connect.data.struct import Struct
from ottla.connect.errors import ConnectError, DataError

KAFKA_FIELDS = ("__connect_topic", "__connect_partition", "__connect_offset")


@dataclass(frozen=True)
class RecordFields:
    """Invariant: `keys` come first in `columns`, and `read` returns a record's values in this order."""

    keys: tuple[str, ...]
    columns: tuple[tuple[str, Schema], ...]
    readers: tuple[Callable[[SinkRecord], Any], ...]

    @property
    def others(self) -> list[str]:
        return [name for name, _ in self.columns if name not in self.keys]

    @property
    def names(self) -> list[str]:
        return [name for name, _ in self.columns]

    def read(self, record: SinkRecord) -> list[Any]:
        return [read(record) for read in self.readers]


def fields_of(record: SinkRecord, settings: Mapping[str, Any]) -> RecordFields:
    """Return the fields of a record. All records with the same schemas share them."""
    mode, wanted = settings["pk.mode"], settings["pk.fields"]
    value = record.value_schema
    keys: dict[str, tuple[Schema, Callable[[SinkRecord], Any]]] = {}
    if mode == "kafka":
        keys = _of_kafka(wanted)
    elif mode == "record_key":
        keys = _of_key(record, wanted)
    elif mode == "record_value":
        keys = _of_value(record, value, wanted)
    allowed = set(settings["fields.whitelist"])
    columns = [(name, schema) for name, (schema, _) in keys.items()]
    readers = [read for _, read in keys.values()]
    for field in value.fields if value is not None else ():
        if field.name in keys or (allowed and field.name not in allowed):
            continue
        columns.append((field.name, field.schema))
        readers.append(_value_reader(field.name))
    if not columns:
        raise ConnectError(f"No fields found using key and value schemas for table of {place(record)}.")
    return RecordFields(tuple(keys), tuple(columns), tuple(readers))


def _of_kafka(wanted: Sequence[str]) -> dict[str, tuple[Schema, Callable[[SinkRecord], Any]]]:
    if wanted and len(wanted) != 3:
        raise ConnectError(
            f"PK mode is 'kafka' so pk.fields needs three names, for topic, partition and offset, but there are "
            f"{len(wanted)}: {', '.join(wanted)}"
        )
    topic, partition, offset = wanted or KAFKA_FIELDS
    return {
        topic: (STRING, lambda record: record.original_topic or record.topic),
        partition: (
            INT32,
            lambda record: record.original_partition if record.original_partition >= 0 else record.partition,
        ),
        offset: (INT64, lambda record: record.offset),
    }


def _of_key(
    record: SinkRecord, wanted: Sequence[str]
) -> dict[str, tuple[Schema, Callable[[SinkRecord], Any]]]:
    schema = record.key_schema
    if schema is None:
        raise ConnectError(
            f"PK mode for table is 'record_key', but record key schema is missing in {place(record)}. Use a "
            "key.converter that has schemas."
        )
    if schema.type is SchemaType.STRUCT:
        names = list(wanted) or [field.name for field in schema.fields]
        found = {}
        for name in names:
            field = schema.field(name)
            if field is None:
                there = [each.name for each in schema.fields]
                raise ConnectError(
                    f"PK mode for table is 'record_key' with configured PK fields {list(wanted)}, but record key "
                    f"schema does not contain field: {name}. It has {', '.join(there)}."
                )
            found[name] = (field.schema, _key_reader(name))
        return found
    if not schema.type.is_primitive:
        raise ConnectError(
            f"Key schema must be primitive type or Struct, but is of type: {schema.type.value}"
        )
    if len(wanted) != 1:
        raise ConnectError(
            f"Need exactly one PK column defined since the key schema for records is a primitive type, "
            f"defined columns are: {list(wanted)}"
        )
    return {wanted[0]: (schema, lambda each: each.key)}


def _of_value(
    record: SinkRecord, schema: Schema | None, wanted: Sequence[str]
) -> dict[str, tuple[Schema, Callable[[SinkRecord], Any]]]:
    if schema is None:
        raise ConnectError(
            f"PK mode for table is 'record_value', but record value schema is missing in {place(record)}."
        )
    found = {}
    for name in wanted or [field.name for field in schema.fields]:
        field = schema.field(name)
        if field is None:
            there = [each.name for each in schema.fields]
            raise ConnectError(
                f"PK mode for table is 'record_value' with configured PK fields {list(wanted)}, but record value "
                f"schema does not contain field: {name}. It has {', '.join(there)}."
            )
        found[name] = (field.schema, _value_reader(name))
    return found


def _key_reader(name: str) -> Callable[[SinkRecord], Any]:
    return lambda record: record.key.get(name) if record.key is not None else None


def _value_reader(name: str) -> Callable[[SinkRecord], Any]:
    return lambda record: record.value.get(name) if record.value is not None else None


def place(record: SinkRecord) -> str:
    topic = record.original_topic or record.topic
    return f"the record at topic {topic}, partition {record.partition}, offset {record.offset}"


def check_value(record: SinkRecord, *, delete_enabled: bool) -> None:
    """Raise DataError for records that cannot be stored. Records without schemas have no columns."""
    if record.value is None and delete_enabled:
        if record.key is None:
            raise DataError(
                f"{place(record).capitalize()} has neither key nor value: nothing can be deleted by it."
            )
        return
    if isinstance(record.value, Struct) and record.value_schema is not None:
        return
    if record.value is None:
        raise DataError(
            f"{place(record).capitalize()} has no value: set delete.enabled=true and pk.mode=record_key to delete "
            "its row, or drop such records by a transform."
        )
    raise DataError(
        f"The JDBC sink needs values with a schema of fields, but {place(record)} has "
        f"{'no schema' if record.value_schema is None else 'schema ' + record.value_schema.type.value}: use a "
        "value.converter that has schemas, as JsonConverter with schemas.enable=true or AvroConverter."
    )
