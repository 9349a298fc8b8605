"""InsertField: adds topic, partition, offset, timestamp or a fixed text as fields."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from ottla.connect.config.config_def import ConfigDef, ConfigError, ConfigType, Importance, invalid
from ottla.connect.data import logical
from ottla.connect.data.columns import Columns, SinkColumns, only_schema
from ottla.connect.data.record import ConnectRecord
from ottla.connect.data.schema import INT32, INT64, STRING, Schema
from ottla.connect.data.struct import Struct
from ottla.connect.data.validation import validate_value
from ottla.connect.transforms.base import (
    C,
    KeyOrValueTransform,
    basics_of,
    numbered,
    replace_null_setting,
    require_map,
    require_sink_record,
    require_struct,
)

_PURPOSE = "field insertion"
_SUFFIX = " With ! at its end it is required, with ? optional, as it is without."


class _Insertion(NamedTuple):
    setting: str
    name: str
    schema: Schema


def _definition() -> ConfigDef:
    definition = ConfigDef()
    for setting, what in (
        ("topic.field", "The field for the topic."),
        ("partition.field", "The field for the partition."),
        ("offset.field", "The field for the offset; in sinks only."),
        ("timestamp.field", "The field for the record's timestamp."),
        ("static.field", "The field for static.value."),
    ):
        definition.define(setting, ConfigType.STRING, None, Importance.MEDIUM, what + _SUFFIX)
    definition.define(
        "static.value",
        ConfigType.STRING,
        None,
        Importance.MEDIUM,
        "The value of static.field in each record.",
    )
    return replace_null_setting(definition)


_SCHEMAS = {
    "topic.field": STRING,
    "partition.field": INT32,
    "offset.field": INT64,
    "timestamp.field": logical.TIMESTAMP_SCHEMA,
    "static.field": STRING,
}


class InsertField(KeyOrValueTransform):
    config_def = _definition()

    def configure(self, config: Mapping[str, str]) -> None:
        super().configure(config)
        self._insertions: list[_Insertion] = []
        for setting, schema in _SCHEMAS.items():
            name = self.settings[setting]
            if name is None:
                continue
            required = name.endswith("!")
            if name.endswith(("!", "?")):
                name = name[:-1]
            self._insertions.append(_Insertion(setting, name, schema.as_optional(not required)))
        if not self._insertions:
            raise ConfigError("No field insertion configured")
        self._static = self.settings["static.value"]
        last = self._insertions[-1]
        if last.setting == "static.field" and self._static is None:
            raise invalid("static.value", None, f"No value specified for static field: {last.name}")

    def apply(self, record: ConnectRecord) -> ConnectRecord:
        value = self.value_of(record)
        if value is None:
            return record
        inserted = (self._value(each.setting, record) for each in self._insertions)
        return self.changed(record, *self._with(self.schema_of(record), value, inserted))

    def apply_columns(self, columns: C) -> C:
        schema = columns.key_schema if self.of_key else columns.value_schema
        values = columns.keys if self.of_key else columns.values
        inserted = zip(*(self._column(each.setting, columns) for each in self._insertions), strict=True)
        schemas, changed = zip(
            *(
                (schema, None) if value is None else self._with(schema, value, more)
                for value, more in zip(values, inserted, strict=True)
            ),
            strict=True,
        )
        if self.of_key:
            return columns.replaced(key_schema=only_schema(schemas), keys=list(changed))
        return columns.replaced(value_schema=only_schema(schemas), values=list(changed))

    def _with(self, schema: Schema | None, value: Any, inserted: Iterable[Any]) -> tuple[Schema | None, Any]:
        if schema is None:
            updated_map = dict(require_map(value, _PURPOSE))
            for each, more in zip(self._insertions, inserted, strict=True):
                if more is not None:
                    updated_map[each.name] = more
            return None, updated_map
        struct = require_struct(value, _PURPOSE, schema)
        updated = self.schemas.get(schema)
        if updated is None:
            updated = self.schemas.put(schema, self._updated(struct.schema))
        result = Struct.of(updated, [None] * len(updated.fields))
        for field in struct.schema.fields:
            given = self.field_value(struct, field)
            if given is None:  # all other values were checked on creation of the record
                validate_value(field.schema, None, f'field: "{field.name}"')
            result.values[field.index] = given
        for each, more in zip(self._insertions, inserted, strict=True):
            if more is not None:
                result.put(
                    each.name, more if each.schema.name is None else logical.timestamp_from_millis(more)
                )
        return updated, result

    def _updated(self, schema: Schema) -> Schema:
        fields = [(each.name, each.schema) for each in schema.fields]
        return basics_of(schema, numbered(fields + [(each.name, each.schema) for each in self._insertions]))

    def _value(self, setting: str, record: ConnectRecord) -> Any:
        if setting == "topic.field":
            return record.topic
        if setting == "partition.field":
            return record.partition
        if setting == "offset.field":
            return require_sink_record(record, _PURPOSE).offset
        if setting == "timestamp.field":
            return record.timestamp
        return self._static

    def _column(self, setting: str, columns: Columns) -> list[Any]:
        if setting == "topic.field":
            return [columns.topic] * len(columns)
        if setting == "partition.field":
            return [columns.partition] * len(columns)
        if setting == "offset.field":
            assert isinstance(columns, SinkColumns)  # otherwise `apply` raises the error
            return columns.offsets
        if setting == "timestamp.field":
            return columns.timestamps
        return [self._static] * len(columns)


class InsertFieldKey(InsertField):
    of_key = True


class InsertFieldValue(InsertField): ...
