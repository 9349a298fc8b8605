"""Converts records to table changes: append a row, replace the row of a key, or delete a key."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ottla.connect.api import TopicPartition
from ottla.connect.connectors.values.plain import field_value, natural
from ottla.connect.data.record import SinkRecord
from ottla.connect.data.schema import Field, Schema, SchemaType
from ottla.connect.data.struct import Struct
from ottla.connect.errors import DataError


@dataclass(slots=True)
class Change:
    at: TopicPartition
    offset: int
    #: Key column values, for upserts.
    key: tuple[Any, ...] | None
    #: None means delete.
    row: Mapping[str, Any] | None
    #: Schema of the row, or None for schemaless records.
    schema: Schema | None


@dataclass(frozen=True)
class ChangeRules:
    """`key_from` is none, record_key or record_value. `operation_field` holds i/u/d or Debezium's letters."""

    upsert: bool
    key_from: str
    key_fields: Sequence[str]
    deletes: bool
    debezium: bool
    operation_field: str = ""


class Changes:
    """Converts records to changes. `key_columns` are known after the first record."""

    def __init__(self, rules: ChangeRules) -> None:
        self._rules = rules
        self.key_columns: tuple[str, ...] = tuple(rules.key_fields)

    def of(self, record: SinkRecord) -> Change | None:
        """Return the change, or None if the record has no effect. Raises DataError."""
        at = TopicPartition(record.original_topic, record.original_partition)
        value, schema, deleted = record.value, record.value_schema, False
        if self._rules.debezium:
            if value is None:
                # The tombstone after a delete, meant for compaction.
                return None
            value, schema, deleted = _unwrapped(value, schema, where(record))
        elif self._rules.operation_field and value is not None:
            deleted = _operation(value, self._rules.operation_field, where(record)) == "d"
        elif value is None:
            if not self._rules.deletes:
                raise DataError(
                    f"{where(record)} has no value. With upserts by record_key and deletes enabled "
                    "it would delete its key."
                )
            deleted = True
        if not deleted and not isinstance(value, Struct | Mapping):
            raise DataError(
                f"{where(record)} is no row: its value is {type(value).__name__}. "
                "Use a converter that gives structs or maps."
            )
        row = {} if value is None else dict(natural(value))
        if not self._rules.upsert:
            return None if deleted else Change(at, record.offset, None, row, schema)
        key = self._key(record, row)
        if deleted:
            return Change(at, record.offset, tuple(key.values()), None, None)
        if schema is not None and record.key_schema is not None:
            schema = _with_key(schema, record.key_schema, key)
        return Change(at, record.offset, tuple(key.values()), {**key, **row}, schema)

    def _key(self, record: SinkRecord, row: Mapping[str, Any]) -> dict[str, Any]:
        if self._rules.key_from == "record_key":
            key = self._record_key(record)
        else:
            try:
                key = {name: field_value(row, name) for name in self._rules.key_fields}
            except KeyError as missing:
                raise DataError(
                    f"{where(record)} has no field {missing}, which is part of the key."
                ) from None
        for name, each in key.items():
            if each is None:
                raise DataError(f"{where(record)} has no value in {name!r}, which is part of the key.")
        if not self.key_columns:
            self.key_columns = tuple(key)
        return key

    def _record_key(self, record: SinkRecord) -> dict[str, Any]:
        key = natural(record.key)
        names = list(self._rules.key_fields)
        if key is None:
            raise DataError(f"{where(record)} has no key, by which its row would be found.")
        if not isinstance(key, Mapping):
            if len(names) != 1:
                raise DataError(
                    f"{where(record)} has a key without fields: name the one column of it in the settings."
                )
            return {names[0]: key}
        try:
            return {name: key[name] for name in names or key}
        except KeyError as missing:
            raise DataError(f"{where(record)} has no field {missing} in its key.") from None


def where(record: SinkRecord) -> str:
    return f"The record at {record.original_topic}-{record.original_partition}@{record.offset}"


def _unwrapped(value: Any, schema: Schema | None, place: str) -> tuple[Any, Schema | None, bool]:
    """Unwrap Debezium's envelope. Return the row after the change, or the row before a delete."""
    operation = _operation(value, "op", place)
    side = "before" if operation == "d" else "after"
    try:
        row = field_value(value, side)
    except KeyError:
        raise DataError(f"{place} is no change of Debezium: it has no {side!r}.") from None
    field = schema.field(side) if schema is not None and schema.type is SchemaType.STRUCT else None
    return row, None if field is None else field.schema.as_optional(False), operation == "d"


def _operation(value: Any, field: str, place: str) -> str:
    try:
        found = str(field_value(value, field)).lower()[:1]
    except KeyError:
        raise DataError(f"{place} has no field {field!r}, which names the operation.") from None
    if found not in ("i", "c", "r", "u", "d"):
        raise DataError(f"{place} has the operation {found!r}; known are insert or c, r, update and delete.")
    return found


def _with_key(schema: Schema, key_schema: Schema, key: Mapping[str, Any]) -> Schema:
    """Add missing key columns to the value schema, because the table needs them."""
    missing = [name for name in key if schema.field(name) is None]
    if not missing:
        return schema
    fields = list(schema.fields)
    for name in missing:
        found = key_schema.field(name) if key_schema.type is SchemaType.STRUCT else None
        fields.append(Field(name, len(fields), found.schema if found is not None else key_schema))
    return Schema(SchemaType.STRUCT, name=schema.name, version=schema.version, fields=tuple(fields))


def last_of_each_key(changes: Sequence[Change]) -> list[Change]:
    found: dict[tuple[Any, ...] | None, Change] = {}
    for change in changes:
        found.pop(change.key, None)
        found[change.key] = change
    return list(found.values())
