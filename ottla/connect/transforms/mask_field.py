"""MaskField: replaces sensitive values with an empty value, or with another one of the same type."""

from __future__ import annotations

import datetime as dt
import decimal
import re
from collections.abc import Mapping
from typing import Any

from ottla.connect.config.config_def import ConfigDef, ConfigType, Importance, invalid
from ottla.connect.config.validators import filled_list
from ottla.connect.data import logical
from ottla.connect.data.java_values import Float32, as_float32, java_class, wrapped
from ottla.connect.data.schema import Schema, SchemaType
from ottla.connect.data.struct import Struct
from ottla.connect.errors import DataError
from ottla.connect.transforms.base import (
    KeyOrValueTransform,
    replace_null_setting,
    require_map,
    require_struct,
)

_PURPOSE = "mask fields"


def _not_empty(name: str, value: Any) -> None:
    if value is not None and not value:
        raise invalid(name, value, "String must be non-empty")


class MaskField(KeyOrValueTransform):
    config_def = replace_null_setting(
        ConfigDef()
        .define(
            "fields",
            ConfigType.LIST,
            importance=Importance.HIGH,
            documentation="The fields to mask.",
            validator=filled_list,
        )
        .define(
            "replacement",
            ConfigType.STRING,
            None,
            Importance.LOW,
            "Replacement for numbers and texts. [default: 0, false or empty]",
            validator=_not_empty,
        )
    )

    def configure(self, config: Mapping[str, str]) -> None:
        super().configure(config)
        self._fields = dict.fromkeys(self.settings["fields"])
        self._replacement: str | None = self.settings["replacement"]

    def change(self, schema: Schema | None, value: Any) -> tuple[Schema | None, Any]:
        if schema is None:
            updated_map = dict(require_map(value, _PURPOSE))
            for name in self._fields:
                updated_map[name] = self._masked(updated_map.get(name), None)
            return None, updated_map
        struct = require_struct(value, _PURPOSE, schema)
        updated = Struct(struct.schema)
        for field in struct.schema.fields:
            given = self.field_value(struct, field)
            updated.put(
                field.name, self._masked(given, field.schema) if field.name in self._fields else given
            )
        return schema, updated

    def _masked(self, value: Any, schema: Schema | None) -> Any:
        if value is None:
            return None
        return _emptied(value) if self._replacement is None else _replaced(value, self._replacement, schema)


def _emptied(value: Any) -> Any:
    for kind, empty in _EMPTY:
        if isinstance(value, kind):
            return empty() if callable(empty) else empty
    raise DataError(f"Cannot mask value of type: {java_class(value)}")


_EMPTY: tuple[tuple[type, Any], ...] = (
    (bool, False),
    (int, 0),
    (Float32, Float32(0)),
    (float, 0.0),
    (decimal.Decimal, decimal.Decimal(0)),
    (dt.datetime, logical.timestamp_from_millis(0)),
    (dt.date, dt.date(1970, 1, 1)),
    (dt.time, dt.time()),
    (str, ""),
    (list, list),
    (dict, dict),
)

_BITS = {SchemaType.INT8: 8, SchemaType.INT16: 16, SchemaType.INT32: 32, SchemaType.INT64: 64}


def _replaced(value: Any, text: str, schema: Schema | None) -> Any:
    if isinstance(value, str):
        return text
    if isinstance(value, decimal.Decimal):
        return _number(text, "to number")
    if isinstance(value, int | float) and not isinstance(value, bool):
        number = _number(text, "to a number")
        if isinstance(value, int):
            return wrapped(int(number), _BITS.get(schema.type, 64) if schema is not None else 64)
        single = isinstance(value, Float32) or (schema is not None and schema.type is SchemaType.FLOAT32)
        return as_float32(float(number)) if single else float(number)
    raise DataError(f"Cannot mask value of type {java_class(value)} with custom replacement.")


def _number(text: str, what: str) -> decimal.Decimal:
    if not _JAVA_NUMBER.fullmatch(text):
        raise DataError(f"Unable to convert {text} (class java.lang.String) {what}")
    return decimal.Decimal(text)


_JAVA_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")


class MaskFieldKey(MaskField):
    of_key = True


class MaskFieldValue(MaskField): ...
