"""Converts Connect values to fastavro's types and back. Each schema gets one composed function."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ottla.connect.converters.registry.avro_schemas import UNION, AvroReader
from ottla.connect.data import logical
from ottla.connect.data.java_values import Float32, java_class
from ottla.connect.data.schema import Schema, SchemaType
from ottla.connect.data.struct import Struct
from ottla.connect.data.validation import validate_value
from ottla.connect.errors import DataError

Convert = Callable[[Any], Any]

_TO_LOGICAL: dict[str, Convert] = {
    logical.DATE: logical.date_to_days,
    logical.TIME: logical.time_to_millis,
    logical.TIMESTAMP: logical.timestamp_to_millis,
}


# To Avro


def to_avro(schema: Schema) -> Convert:
    """Return the conversion to Avro. Null becomes the field's default, if any, as in Confluent's converter."""
    convert = _to_avro(schema)
    optional, default = schema.optional, schema.default

    def or_null(value: Any) -> Any:
        if value is None:
            if default is not None:
                return convert(default)
            if not optional:
                raise DataError("Found null value for non-optional schema")
            return None
        return convert(value)

    return or_null


def _to_avro(schema: Schema) -> Convert:
    if schema.name == UNION:
        return _to_union(schema)
    if schema.type is SchemaType.STRUCT:
        return _to_record(schema)
    if schema.type is SchemaType.ARRAY:
        assert schema.value_schema is not None
        element = to_avro(schema.value_schema)
        return lambda value: [element(each) for each in _fitting(value, list | tuple, schema)]
    if schema.type is SchemaType.MAP:
        return _to_map(schema)
    if schema.name == logical.DECIMAL:
        return lambda value: logical.decimal_to_bytes(schema, _checked(schema, value))
    if schema.name in _TO_LOGICAL:
        convert = _TO_LOGICAL[schema.name]
        return lambda value: convert(_checked(schema, value))
    if schema.type is SchemaType.BYTES:
        return lambda value: bytes(_checked(schema, value))
    return lambda value: _checked(schema, value)


def _checked(schema: Schema, value: Any) -> Any:
    if value.__class__ is not schema.plain_type:
        validate_value(schema, value)
    return value


def _fitting(value: Any, kind: Any, schema: Schema) -> Any:
    if not isinstance(value, kind):
        raise DataError(f"Invalid type for {schema.type.name}: {java_class(value)}")
    return value


def _to_record(schema: Schema) -> Convert:
    fields = [(each.name, to_avro(each.schema)) for each in schema.fields]

    def convert(value: Any) -> Any:
        struct: Struct = _fitting(value, Struct, schema)
        if struct.schema is not schema and struct.schema != schema:
            raise DataError("Mismatching struct schema")
        return {name: of(each) for (name, of), each in zip(fields, struct.values, strict=True)}

    return convert


def _to_map(schema: Schema) -> Convert:
    assert schema.key_schema is not None
    assert schema.value_schema is not None
    of_key, of_value = to_avro(schema.key_schema), to_avro(schema.value_schema)
    if schema.key_schema.type is SchemaType.STRING and not schema.key_schema.optional:
        return lambda value: {key: of_value(each) for key, each in _fitting(value, dict, schema).items()}
    return lambda value: [
        {"key": of_key(key), "value": of_value(each)} for key, each in _fitting(value, dict, schema).items()
    ]


def _to_union(schema: Schema) -> Convert:
    branches = [(each, to_avro(each.schema)) for each in schema.fields]

    def convert(value: Any) -> Any:
        struct: Struct = _fitting(value, Struct, schema)
        for (field, of), each in zip(branches, struct.values, strict=True):
            if each is not None:
                name = field.schema.name if field.schema.type is SchemaType.STRUCT else None
                return (name, of(each)) if name else of(each)
        return None

    return convert


def default_json(schema: Schema, value: Any) -> Any:
    """Return a default in the form used in schemas: bytes become Latin-1 text."""
    return _json(_to_avro(schema)(value))


def _json(value: Any) -> Any:
    if isinstance(value, bytes):
        return value.decode("latin-1")
    if isinstance(value, dict):
        return {key: _json(each) for key, each in value.items()}
    return [_json(each) for each in value] if isinstance(value, list) else value


# From Avro


def from_avro(schema: Schema, avro: Any, reader: AvroReader, namespace: str = "") -> Convert:
    """`avro` is the source of `schema`."""
    if isinstance(avro, list):
        branches = [each for each in avro if each != "null"]
        if len(branches) == 1:
            return _nullable(from_avro(schema, branches[0], reader, namespace))
        return _nullable(_from_union(schema, branches, reader, namespace))
    avro, namespace = reader.resolved(avro, namespace)
    if schema.type is SchemaType.STRUCT:
        return _from_record(schema, avro, reader, namespace)
    if schema.type is SchemaType.ARRAY:
        assert schema.value_schema is not None
        element = from_avro(schema.value_schema, avro["items"], reader, namespace)
        return lambda value: [element(each) for each in value]
    if schema.type is SchemaType.MAP:
        return _from_map(schema, avro, reader, namespace)
    return _from_scalar(schema)


def _nullable(convert: Convert) -> Convert:
    return lambda value: None if value is None else convert(value)


def _from_scalar(schema: Schema) -> Convert:
    if schema.name == logical.DECIMAL:
        return lambda value: logical.decimal_from_bytes(schema, value)
    if schema.name == logical.DATE:
        return logical.date_from_days
    if schema.name == logical.TIME:
        return logical.time_from_millis
    if schema.name == logical.TIMESTAMP:
        return logical.timestamp_from_millis
    if schema.type is SchemaType.FLOAT32:
        return Float32
    return lambda value: value


def _from_record(schema: Schema, avro: dict[str, Any], reader: AvroReader, namespace: str) -> Convert:
    fields = [
        (each.name, from_avro(each.schema, field["type"], reader, namespace))
        for each, field in zip(schema.fields, avro["fields"], strict=True)
    ]
    return lambda value: Struct.of(schema, [of(value[name]) for name, of in fields])


def _from_map(schema: Schema, avro: dict[str, Any], reader: AvroReader, namespace: str) -> Convert:
    assert schema.key_schema is not None
    assert schema.value_schema is not None
    if avro["type"] == "map":
        of_value = from_avro(schema.value_schema, avro["values"], reader, namespace)
        return lambda value: {key: of_value(each) for key, each in value.items()}
    entry, inner = reader.resolved(avro["items"], namespace)
    of_key = from_avro(schema.key_schema, entry["fields"][0]["type"], reader, inner)
    of_each = from_avro(schema.value_schema, entry["fields"][1]["type"], reader, inner)
    return lambda value: {of_key(each["key"]): of_each(each["value"]) for each in value}


_PYTHON_TYPES: dict[str, tuple[type, ...]] = {
    "int": (int,),
    "long": (int,),
    "float": (float,),
    "double": (float,),
    "boolean": (bool,),
    "string": (str,),
    "bytes": (bytes,),
    "fixed": (bytes,),
    "enum": (str,),
    "array": (list,),
    "map": (dict,),
}


def _from_union(schema: Schema, branches: list[Any], reader: AvroReader, namespace: str) -> Convert:
    """Convert a union value. fastavro names the record type, and other types occur once per union."""
    known = []
    for field, branch in zip(schema.fields, branches, strict=True):
        found, _ = reader.resolved(branch, namespace)
        known.append((field, found, from_avro(field.schema.as_optional(False), branch, reader, namespace)))

    def convert(value: Any) -> Any:
        struct = Struct(schema)
        name, given = value if isinstance(value, tuple) else (None, value)
        for field, avro, of in known:
            if name is not None:
                fits = avro.get("full_name") == name
            else:
                kinds = _PYTHON_TYPES.get(avro["type"], ())
                fits = isinstance(given, kinds) and (not isinstance(given, bool) or bool in kinds)
            if fits:
                struct.values[field.index] = of(given)
                return struct
        raise DataError(f"No member of the union fits {java_class(given)}.")

    return convert


def from_default(schema: Schema, avro: dict[str, Any], value: Any) -> Any:
    """Parse a default from a schema. Defaults of structs, maps and non-empty arrays are dropped."""
    if schema.type in (SchemaType.STRUCT, SchemaType.MAP):
        return None
    if schema.type is SchemaType.ARRAY:
        return None if value else []
    if schema.type is SchemaType.BYTES and isinstance(value, str):
        value = value.encode("latin-1")
    if schema.type in (SchemaType.FLOAT32, SchemaType.FLOAT64) and isinstance(value, int):
        value = float(value)
    return _from_scalar(schema)(value)
