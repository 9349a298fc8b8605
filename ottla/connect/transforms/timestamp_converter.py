"""TimestampConverter: converts times between numbers, texts and Connect's logical types."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from typing import Any

from ottla.connect.config.config_def import ConfigDef, ConfigError, ConfigType, Importance, one_of
from ottla.connect.data import logical
from ottla.connect.data.java_dates import BadDate, BadPattern, DateFormat
from ottla.connect.data.java_values import java_class
from ottla.connect.data.schema import INT64, STRING, Schema, SchemaType
from ottla.connect.data.struct import Struct
from ottla.connect.errors import ConnectError, DataError
from ottla.connect.transforms.base import (
    KeyOrValueTransform,
    basics_of,
    numbered,
    replace_null_setting,
    require_map,
    require_struct,
)

_PURPOSE = "converting timestamp formats"
_SCHEMAS = {
    "string": STRING,
    "unix": INT64,
    "Date": logical.DATE_SCHEMA,
    "Time": logical.TIME_SCHEMA,
    "Timestamp": logical.TIMESTAMP_SCHEMA,
}
_LOGICAL = {logical.TIMESTAMP: "Timestamp", logical.DATE: "Date", logical.TIME: "Time"}
#: Units per millisecond, or milliseconds per unit.
_FINER = {"nanoseconds": 1_000_000, "microseconds": 1000}


class TimestampConverter(KeyOrValueTransform):
    config_def = replace_null_setting(
        ConfigDef()
        .define(
            "field",
            ConfigType.STRING,
            "",
            Importance.HIGH,
            "Field to convert. [default: the whole key or value]",
        )
        .define(
            "target.type",
            ConfigType.STRING,
            importance=Importance.HIGH,
            documentation="Target type: string, unix (a number), Date, Time or Timestamp.",
            validator=one_of("string", "unix", "Date", "Time", "Timestamp"),
        )
        .define(
            "format",
            ConfigType.STRING,
            "",
            Importance.MEDIUM,
            "Format of texts, as in Java's SimpleDateFormat.",
        )
        .define(
            "unix.precision",
            ConfigType.STRING,
            "milliseconds",
            Importance.LOW,
            (
                "Unit of numbers: seconds, milliseconds, microseconds or nanoseconds. Fractions of a "
                "millisecond are lost."
            ),
            validator=one_of("nanoseconds", "microseconds", "milliseconds", "seconds"),
        )
    )

    def configure(self, config: Mapping[str, str]) -> None:
        super().configure(config)
        self._field: str = self.settings["field"]
        self._target: str = self.settings["target.type"]
        self._precision: str = self.settings["unix.precision"]
        pattern: str = self.settings["format"]
        if self._target == "string" and not pattern.strip():
            raise ConfigError(
                "TimestampConverter requires format option to be specified when using string timestamps"
            )
        self._format: DateFormat | None = None
        if pattern.strip():
            try:
                self._format = DateFormat(pattern)
            except BadPattern:
                raise ConfigError(
                    "TimestampConverter requires a SimpleDateFormat-compatible pattern for string timestamps: "
                    + pattern
                ) from None

    def change(self, schema: Schema | None, value: Any) -> tuple[Schema | None, Any]:
        if schema is None:
            return None, self._schemaless(value)
        if not self._field:
            updated = _SCHEMAS[self._target].as_optional(schema.optional)
            return updated, self._convert(value, _kind_of(schema))
        struct = None if value is None else require_struct(value, _PURPOSE, schema)
        found = self.schemas.get(schema)
        if found is None:
            found = self.schemas.put(schema, self._updated(schema))
        return found, self._converted(struct, found)

    def _schemaless(self, value: Any) -> Any:
        if value is None or not self._field:
            return self._convert(value, None)
        updated = dict(require_map(value, _PURPOSE))
        updated[self._field] = self._convert(updated.get(self._field), None)
        return updated

    def _updated(self, schema: Schema) -> Schema:
        if schema.type is not SchemaType.STRUCT:
            raise DataError("Cannot list fields on non-struct type")
        fields = []
        for each in schema.fields:
            if each.name == self._field:
                fields.append((each.name, _SCHEMAS[self._target].as_optional(each.schema.optional)))
            else:
                fields.append((each.name, each.schema))
        updated = basics_of(schema, numbered(fields)).as_optional(schema.optional)
        if schema.default is not None:
            from dataclasses import replace

            updated = replace(updated, default=self._converted(schema.default, updated))
        return updated

    def _converted(self, struct: Struct | None, schema: Schema) -> Struct | None:
        if struct is None:
            return None
        result = Struct(schema)
        for each in struct.schema.fields:
            value = self.field_value(struct, each)
            if each.name == self._field:
                value = self._convert(value, _kind_of(each.schema))
            result.put(each.name, value)
        return result

    def _convert(self, value: Any, kind: str | None) -> Any:
        if value is None:
            return None
        return self._written(self._millis(value, kind or _inferred(value)))

    def _millis(self, value: Any, kind: str) -> int:
        if kind == "string":
            if not isinstance(value, str):
                raise DataError(f"Expected string timestamp to be a String, but found {java_class(value)}")
            if self._format is None:
                raise DataError(
                    "TimestampConverter requires format option to be specified when using string timestamps"
                )
            try:
                return self._format.parse(value)
            except BadDate:
                raise DataError(
                    f"Could not parse timestamp: value ({value}) does not match pattern ({self._format.pattern})"
                ) from None
        if kind == "unix":
            if not isinstance(value, int) or isinstance(value, bool):
                raise DataError(f"Expected Unix timestamp to be a Long, but found {java_class(value)}")
            if self._precision == "seconds":
                return value * 1000
            return _divided(value, _FINER.get(self._precision, 1))
        if not isinstance(value, dt.date | dt.time):
            raise DataError(f"Expected {kind} to be a java.util.Date, but found {java_class(value)}")
        return logical.millis_of(value)

    def _written(self, millis: int) -> Any:
        if self._target == "string":
            assert self._format is not None
            return self._format.format(millis)
        if self._target == "unix":
            if self._precision == "seconds":
                return _divided(millis, 1000)
            return millis * _FINER.get(self._precision, 1)
        if self._target == "Date":
            return logical.date_from_days(millis // logical.DAY_MS)
        if self._target == "Time":
            return logical.time_from_millis(millis % logical.DAY_MS)
        return logical.timestamp_from_millis(millis)


def _divided(value: int, by: int) -> int:
    """Divide towards zero, as in Java."""
    return value // by if value >= 0 else -(-value // by)


def _kind_of(schema: Schema) -> str:
    if schema.name in _LOGICAL:
        return _LOGICAL[schema.name]
    if schema.type is SchemaType.STRING:
        return "string"
    if schema.type is SchemaType.INT64:
        return "unix"
    raise ConnectError(f"Schema {schema} does not correspond to a known timestamp type format")


def _inferred(value: Any) -> str:
    if isinstance(value, dt.date | dt.time):
        return "Timestamp"
    if isinstance(value, int) and not isinstance(value, bool):
        return "unix"
    if isinstance(value, str):
        return "string"
    raise DataError(f"TimestampConverter does not support {java_class(value)} objects as timestamps")


class TimestampConverterKey(TimestampConverter):
    of_key = True


class TimestampConverterValue(TimestampConverter): ...
