"""Arrow types for the Spark types that JSON is decoded to."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from ottla.spark.options import OptionError

TIMESTAMP = pa.timestamp("us", tz="UTC")
TIMESTAMP_NTZ = pa.timestamp("us")

_SIMPLE = {
    "boolean": pa.bool_(),
    "byte": pa.int8(),
    "short": pa.int16(),
    "integer": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "timestamp": TIMESTAMP,
    "timestamp_ntz": TIMESTAMP_NTZ,
}

#: Types that Arrow's JSON reader lacks or reads differently than Spark. They are read as text first.
_READ_AS_TEXT = ("binary", "date", "timestamp", "timestamp_ntz")


def arrow_type(kind: Any) -> pa.DataType:
    name = kind.typeName()
    if name == "struct":
        return pa.struct([pa.field(field.name, arrow_type(field.dataType)) for field in kind.fields])
    if name == "array":
        return pa.list_(pa.field("element", arrow_type(kind.elementType)))
    if name == "map":
        return pa.map_(pa.string(), arrow_type(kind.valueType))
    if name == "decimal":
        return pa.decimal128(kind.precision, kind.scale)
    return _SIMPLE[name]


def block_type(kind: Any) -> pa.DataType | None:
    """Return the type for Arrow's JSON reader, or None if it cannot read the type in any form."""
    name = kind.typeName()
    if name == "struct":
        fields = [(field.name, block_type(field.dataType)) for field in kind.fields]
        return None if any(kind is None for _, kind in fields) else pa.struct(fields)
    if name == "array":
        element = block_type(kind.elementType)
        return None if element is None else pa.list_(pa.field("element", element))
    if name == "map":
        return None
    return pa.string() if name in _READ_AS_TEXT else arrow_type(kind)


def check_type(kind: Any, where: str) -> None:
    """Refuse types that JSON cannot hold, naming the field."""
    name = kind.typeName()
    if name == "struct":
        repeated = [field for field in kind.names if kind.names.count(field) > 1]
        if repeated:
            raise OptionError(f"{where} has the field '{repeated[0]}' twice.")
        for field in kind.fields:
            if not field.nullable:
                raise OptionError(
                    f"{where}.{field.name} is NOT NULL, but JSON may omit any field: omit NOT NULL."
                )
            check_type(field.dataType, f"{where}.{field.name}")
    elif name == "array":
        check_type(kind.elementType, f"{where}[]")
    elif name == "map":
        if kind.keyType.typeName() != "string":
            raise OptionError(f"{where} is a map whose keys are not strings, as they are in JSON.")
        check_type(kind.valueType, f"{where}{{}}")
    elif name != "decimal" and name not in _SIMPLE:
        raise OptionError(f"{where} cannot be read from JSON as {kind.simpleString()}.")
