"""Converts Connect values to Protobuf messages and back."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from typing import Any

from ottla.connect.converters.registry.protobuf_schemas import (
    ENUM,
    UNION,
    is_map,
    real_one_ofs,
    union_field,
)
from ottla.connect.data import logical
from ottla.connect.data.java_values import Float32, java_class, wrapped
from ottla.connect.data.schema import Schema, SchemaType
from ottla.connect.data.struct import Struct
from ottla.connect.data.validation import validate_value
from ottla.connect.errors import DataError

Convert = Callable[[Any], Any]


def fill(message: Any, struct: Struct) -> Any:
    """Fill a message, omitting nulls."""
    for field in struct.schema.fields:
        value = struct.get(field.name)
        if value is None:
            continue
        schema = field.schema
        if schema.type is SchemaType.STRUCT and (schema.name or "").startswith(f"{UNION}."):
            _fill_union(message, value)
            continue
        descriptor = message.DESCRIPTOR.fields_by_name.get(field.name)
        if descriptor is None:
            raise DataError(f"Cannot find field with name {field.name}")
        _set(message, field.name, schema, value)
    return message


def _fill_union(message: Any, union: Struct) -> None:
    for field, value in zip(union.schema.fields, union.values, strict=True):
        if value is not None:
            _set(message, field.name, field.schema, value)
            return


def _set(message: Any, name: str, schema: Schema, value: Any) -> None:
    validate_value(schema, value, f'field: "{name}"')
    if schema.type is SchemaType.ARRAY:
        assert schema.value_schema is not None
        target = getattr(message, name)
        for each in value:
            if _is_message(schema.value_schema):
                _fill_message(target.add(), schema.value_schema, each)
            else:
                target.append(_scalar(schema.value_schema, each))
    elif schema.type is SchemaType.MAP:
        assert schema.value_schema is not None
        target = getattr(message, name)
        for key, each in value.items():
            if _is_message(schema.value_schema):
                _fill_message(target[key], schema.value_schema, each)
            else:
                target[key] = _scalar(schema.value_schema, each)
    elif _is_message(schema):
        getattr(message, name).SetInParent()
        _fill_message(getattr(message, name), schema, value)
    else:
        setattr(message, name, _scalar(schema, value))


def _is_message(schema: Schema) -> bool:
    return schema.type is SchemaType.STRUCT or schema.name in logical.NAMES


def _scalar(schema: Schema, value: Any) -> Any:
    if schema.type is SchemaType.STRING and ENUM in (schema.parameters or {}):
        number = (schema.parameters or {}).get(f"{ENUM}.{value}")
        if number is None:
            raise DataError(f"The enum {schema.name} has no symbol {value}.")
        return int(number)
    return bytes(value) if schema.type is SchemaType.BYTES else value


def _fill_message(message: Any, schema: Schema, value: Any) -> None:
    if schema.type is SchemaType.STRUCT:
        fill(message, value)
    elif schema.name == logical.DECIMAL:
        message.value = logical.decimal_to_bytes(schema, value)
        message.precision = len(value.as_tuple().digits)
        message.scale = logical.scale_of(schema)
    elif schema.name == logical.DATE:
        day = logical.date_from_days(logical.date_to_days(value))
        message.year, message.month, message.day = day.year, day.month, day.day
    elif schema.name == logical.TIME:
        clock = logical.time_from_millis(logical.time_to_millis(value))
        message.hours, message.minutes, message.seconds = clock.hour, clock.minute, clock.second
        message.nanos = clock.microsecond * 1000
    else:
        seconds, millis = divmod(logical.timestamp_to_millis(value), 1000)
        message.seconds, message.nanos = seconds, millis * 1_000_000


# From Protobuf


def reader(schema: Schema, descriptor: Any) -> Convert:
    """Return a reader for messages with this descriptor, which is the source of the schema."""
    steps: list[tuple[int, Callable[[Any], Any]]] = []
    unions = real_one_ofs(descriptor)
    for one_of in unions:
        field = schema.field(union_field(one_of))
        assert field is not None
        steps.append((field.index, _union_reader(one_of, field.schema)))
    for each in descriptor.fields:
        if each.containing_oneof is not None and each.containing_oneof in unions:
            continue
        field = schema.field(each.name)
        assert field is not None
        steps.append((field.index, _field_reader(each, field.schema)))

    def read(message: Any) -> Struct:
        values: list[Any] = [None] * len(schema.fields)
        for index, step in steps:
            values[index] = step(message)
        return Struct.of(schema, values)

    return read


def _union_reader(one_of: Any, schema: Schema) -> Convert:
    members = {each.name: _member_reader(each, schema) for each in one_of.fields}

    def read(message: Any) -> Struct | None:
        name = message.WhichOneof(one_of.name)
        if name is None:
            return None
        struct = Struct(schema)
        field = schema.field(name)
        assert field is not None
        struct.values[field.index] = members[name](getattr(message, name))
        return struct

    return read


def _member_reader(descriptor: Any, schema: Schema) -> Convert:
    field = schema.field(descriptor.name)
    assert field is not None
    return _value_reader(descriptor, field.schema)


def _field_reader(descriptor: Any, schema: Schema) -> Convert:
    name = descriptor.name
    if is_map(descriptor):
        assert schema.key_schema is not None
        assert schema.value_schema is not None
        of_value = _value_reader(descriptor.message_type.fields_by_name["value"], schema.value_schema)
        return lambda message: {key: of_value(each) for key, each in getattr(message, name).items()}
    if schema.type is SchemaType.ARRAY:
        assert schema.value_schema is not None
        element = _value_reader(descriptor, schema.value_schema)
        return lambda message: [element(each) for each in getattr(message, name)]
    convert = _value_reader(descriptor, schema)
    if descriptor.has_presence:
        return lambda message: convert(getattr(message, name)) if message.HasField(name) else None
    return lambda message: convert(getattr(message, name))


def _value_reader(descriptor: Any, schema: Schema) -> Convert:
    if schema.name == logical.DECIMAL:
        return lambda value: logical.decimal_of(int.from_bytes(value.value, "big", signed=True), value.scale)
    if schema.name == logical.DATE:
        return lambda value: _moment(dt.date, value.year, value.month, value.day)
    if schema.name == logical.TIME:
        return lambda value: _moment(
            dt.time, value.hours, value.minutes, value.seconds, value.nanos // 1_000_000 * 1000
        )
    if schema.name == logical.TIMESTAMP:
        return lambda value: logical.timestamp_from_millis(value.seconds * 1000 + value.nanos // 1_000_000)
    if schema.type is SchemaType.STRUCT:
        return reader(schema, descriptor.message_type)
    if descriptor.enum_type is not None:
        names = {each.number: each.name for each in descriptor.enum_type.values}
        return lambda value: names.get(value, str(value))
    if schema.type is SchemaType.FLOAT32:
        return Float32
    if schema.type is SchemaType.INT64:
        return lambda value: wrapped(value, 64)
    return lambda value: value


def _moment(kind: Any, *parts: int) -> Any:
    try:
        return kind(*parts)
    except ValueError:
        raise DataError(
            f"{'-'.join(map(str, parts))} is not a {kind.__name__}: {java_class(parts[0])}"
        ) from None
