"""Cast: converts fields, or the whole key or value, to another type."""

from __future__ import annotations

import base64
import datetime as dt
import decimal
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from ottla.connect.config.config_def import ConfigDef, ConfigError, ConfigType, Importance, invalid
from ottla.connect.data import logical
from ottla.connect.data.java_values import Float32, as_float32, java_class, java_text, wrapped
from ottla.connect.data.schema import Schema, SchemaType
from ottla.connect.data.struct import Struct
from ottla.connect.data.values import moment_to_string
from ottla.connect.errors import DataError
from ottla.connect.transforms.base import (
    KeyOrValueTransform,
    basics_of,
    numbered,
    replace_null_setting,
    require_map,
    require_struct,
)

_PURPOSE = "cast types"
_INPUTS = (
    SchemaType.INT8, SchemaType.INT16, SchemaType.INT32, SchemaType.INT64, SchemaType.FLOAT32, SchemaType.FLOAT64,
    SchemaType.BOOLEAN, SchemaType.STRING, SchemaType.BYTES,
)  # fmt: skip
_OUTPUTS = _INPUTS[:-1]


def _names(types: tuple[SchemaType, ...]) -> str:
    return f"[{', '.join(each.name for each in types)}]"


def parse_spec(entries: list[str]) -> dict[str | None, SchemaType]:
    """Return casts by field. The key None means the whole value."""
    casts: dict[str | None, SchemaType] = {}
    for entry in entries:
        parts = entry.split(":")
        while len(parts) > 1 and not parts[-1]:
            parts.pop()
        if len(parts) > 2:
            raise invalid("renames", f"[{', '.join(entries)}]", f"Invalid rename mapping: {entry}")
        name = parts[-1].strip()
        kind = SchemaType.__members__.get(name.upper())
        if kind is None:
            raise ConfigError(f"Invalid type found in casting spec: {name}")
        if kind not in _OUTPUTS:
            raise ConfigError(
                f"Cast transformation does not support casting to {kind.name}; "
                f"supported types are {_names(_OUTPUTS)}"
            )
        casts[parts[0].strip() if len(parts) == 2 else None] = kind
    if None in casts and len(entries) > 1:
        raise ConfigError(
            "Cast transformations that specify a type to cast the entire value to may only specify a single cast"
            " in their spec"
        )
    return casts


def _valid_spec(name: str, value: Any) -> None:
    if not value:
        raise ConfigError("Must specify at least one field to cast.")
    parse_spec(value)


class Cast(KeyOrValueTransform):
    config_def = replace_null_setting(
        ConfigDef().define(
            "spec",
            ConfigType.LIST,
            importance=Importance.HIGH,
            documentation="Fields and their types, as field:type,field:type, or one type for the whole key or value."
            " Types are int8, int16, int32, int64, float32, float64, boolean and string; bytes become a string only.",
            validator=_valid_spec,
        )
    )

    def configure(self, config: Mapping[str, str]) -> None:
        super().configure(config)
        self._casts = parse_spec(self.settings["spec"])
        self._whole = self._casts.get(None)

    def change(self, schema: Schema | None, value: Any) -> tuple[Schema | None, Any]:
        if value is None:
            return schema, None
        if schema is None:
            return None, self._cast_schemaless(value)
        updated = self.schemas.get(schema) or self.schemas.put(schema, self._updated(schema))
        if self._whole is not None:
            return updated, cast(schema, value, self._whole)
        struct = require_struct(value, _PURPOSE, schema)
        result = Struct(updated)
        for field in struct.schema.fields:
            given = self.field_value(struct, field)
            target = self._casts.get(field.name)
            result.put(field.name, given if target is None else cast(field.schema, given, target))
        return updated, result

    def _cast_schemaless(self, value: Any) -> Any:
        if self._whole is not None:
            return cast(None, value, self._whole)
        updated = dict(require_map(value, _PURPOSE))
        for name, target in self._casts.items():
            updated[name] = cast(None, updated.get(name), target)
        return updated

    def _updated(self, schema: Schema) -> Schema:
        if self._whole is not None:
            return replace(
                self._of_type(schema, self._whole),
                name=schema.name,
                version=schema.version,
                doc=schema.doc,
                parameters=schema.parameters,
            )
        if schema.type is not SchemaType.STRUCT:
            raise DataError("Cannot list fields on non-struct type")
        fields = []
        for field in schema.fields:
            target = self._casts.get(field.name)
            fields.append(
                (field.name, field.schema if target is None else self._of_type(field.schema, target))
            )
        return basics_of(schema, numbered(fields)).as_optional(schema.optional)

    def _of_type(self, schema: Schema, target: SchemaType) -> Schema:
        default = None if schema.default is None else cast(schema, schema.default, target)
        return Schema(target, schema.optional, default)


def cast(schema: Schema | None, value: Any, target: SchemaType) -> Any:
    if value is None:
        return None
    kind = schema.type if schema is not None else type_of(value)
    if kind not in _INPUTS:
        if kind is None:
            raise DataError(
                f"Cast transformation was passed a value of type {java_class(value)} which is not supported by"
                " Connect's data API"
            )
        raise DataError(
            f"Cast transformation does not support casting from {kind.name}; supported types are {_names(_INPUTS)}"
        )
    if kind is SchemaType.FLOAT32:
        value = as_float32(value)
    if target is SchemaType.STRING:
        return _to_string(schema, value)
    if schema is not None and schema.name is not None:
        value = _encoded(schema, value)
    if isinstance(value, bytes | bytearray | memoryview):
        raise DataError(f"Unexpected type in Cast transformation: {java_class(value)}")
    try:
        return _CASTS[target](value)
    except ValueError:
        raise DataError(f"Value ({java_text(value)}) was out of range for requested data type") from None


def type_of(value: Any) -> SchemaType | None:
    if isinstance(value, bool):
        return SchemaType.BOOLEAN
    if isinstance(value, int):
        return SchemaType.INT64
    if isinstance(value, Float32):
        return SchemaType.FLOAT32
    if isinstance(value, float):
        return SchemaType.FLOAT64
    if isinstance(value, str):
        return SchemaType.STRING
    if isinstance(value, bytes | bytearray | memoryview):
        return SchemaType.BYTES
    if isinstance(value, list | tuple):
        return SchemaType.ARRAY
    if isinstance(value, Mapping):
        return SchemaType.MAP
    return SchemaType.STRUCT if isinstance(value, Struct) else None


def _encoded(schema: Schema, value: Any) -> Any:
    if schema.name == logical.DATE:
        return logical.date_to_days(value)
    if schema.name == logical.TIME:
        return logical.time_to_millis(value)
    if schema.name == logical.TIMESTAMP:
        return logical.timestamp_to_millis(value)
    return value


def _to_string(schema: Schema | None, value: Any) -> str:
    if isinstance(value, dt.date | dt.time):
        return moment_to_string(logical.millis_of(value))
    if isinstance(value, bytes | bytearray | memoryview):
        return base64.b64encode(bytes(value)).decode()
    return java_text(value, single=schema is not None and schema.type is SchemaType.FLOAT32)


_JAVA_INTEGER = re.compile(r"[+-]?[0-9]+")
_JAVA_FLOAT = re.compile(
    r"[+-]?(NaN|Infinity|((\d+\.?\d*|\.\d+)([eE][+-]?\d+)?)[fFdD]?|0[xX]([0-9a-fA-F]+\.?[0-9a-fA-F]*|\.[0-9a-fA-F]+)[pP][+-]?\d+[fFdD]?)"
)


def cast_whole(bits: int) -> Callable[[Any], int]:
    def convert(value: Any) -> int:
        if isinstance(value, str):
            if not _JAVA_INTEGER.fullmatch(value):
                raise ValueError(value)
            number = int(value)
            if not -(1 << (bits - 1)) <= number < 1 << (bits - 1):
                raise ValueError(value)
            return number
        if isinstance(value, int):  # including booleans
            return wrapped(int(value), bits)
        if isinstance(value, float):
            return wrapped(_saturated(value, 64 if bits == 64 else 32), bits)
        return wrapped(int(value), bits)  # a decimal

    return convert


def _saturated(value: float, bits: int) -> int:
    if math.isnan(value):
        return 0
    most = (1 << (bits - 1)) - 1
    if math.isinf(value):
        return most if value > 0 else -most - 1
    return max(-most - 1, min(most, int(value)))


def parse_java_float(text: str) -> float:
    text = text.strip()
    if not _JAVA_FLOAT.fullmatch(text):
        raise ValueError(text)
    if text.lstrip("+-")[:2].lower() == "0x":
        return float.fromhex(text.rstrip("fFdD") if "p" in text.lower() else text)
    return float(text.rstrip("fFdD") if "N" not in text and "I" not in text else text)


def _double(value: Any) -> float:
    if isinstance(value, str):
        return parse_java_float(value)
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def _boolean(value: Any) -> bool:
    if isinstance(value, str):
        return value.lower() == "true"
    if isinstance(value, float):
        return _saturated(value, 64) != 0
    return int(value) != 0 if isinstance(value, decimal.Decimal) else bool(value)


_CASTS: dict[SchemaType, Callable[[Any], Any]] = {
    SchemaType.INT8: cast_whole(8),
    SchemaType.INT16: cast_whole(16),
    SchemaType.INT32: cast_whole(32),
    SchemaType.INT64: cast_whole(64),
    SchemaType.FLOAT32: lambda value: as_float32(_double(value)),
    SchemaType.FLOAT64: _double,
    SchemaType.BOOLEAN: _boolean,
}


class CastKey(Cast):
    of_key = True


class CastValue(Cast): ...
