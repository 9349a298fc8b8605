"""Converts Connect schemas to .proto files, and messages to Connect schemas, like Confluent's ProtobufData."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

from ottla.connect.data import logical
from ottla.connect.data.schema import Field, Schema, SchemaType
from ottla.connect.errors import DataError

TAG = "io.confluent.connect.protobuf.Tag"
ENUM = "io.confluent.connect.protobuf.Enum"
UNION = "io.confluent.connect.protobuf.Union"
DEFAULT_NAME = "ConnectDefault"
PRECISION = "connect.decimal.precision"

DECIMAL, DATE, TIME, TIMESTAMP = (
    "confluent.type.Decimal",
    "google.type.Date",
    "google.type.TimeOfDay",
    "google.protobuf.Timestamp",
)
_LOGICAL = {
    logical.DECIMAL: (DECIMAL, "confluent/type/decimal.proto"),
    logical.DATE: (DATE, "google/type/date.proto"),
    logical.TIME: (TIME, "google/type/timeofday.proto"),
    logical.TIMESTAMP: (TIMESTAMP, "google/protobuf/timestamp.proto"),
}
_SCALARS = {
    SchemaType.INT8: "int32",
    SchemaType.INT16: "int32",
    SchemaType.INT32: "int32",
    SchemaType.INT64: "int64",
    SchemaType.FLOAT32: "float",
    SchemaType.FLOAT64: "double",
    SchemaType.BOOLEAN: "bool",
    SchemaType.STRING: "string",
    SchemaType.BYTES: "bytes",
}
_MAP_KEYS = ("int32", "int64", "bool", "string")
_VALID_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


# To Protobuf


class ProtoWriter:
    """Writes the file of one schema. Messages of inner structs are nested in the outermost message."""

    def __init__(self, *, optional_for_nullables: bool) -> None:
        self._optional = optional_for_nullables
        self._imports: set[str] = set()
        self._messages: dict[str, tuple[Schema, str]] = {}
        self._unnamed = 1

    def written(self, schema: Schema) -> str:
        if schema.type is not SchemaType.STRUCT:
            raise DataError(
                f"Unsupported root schema of type {schema.type.name}: a Protobuf message is a struct."
                " HoistField makes one of any value."
            )
        package, _, name = (schema.name or f"{DEFAULT_NAME}1").rpartition(".")
        fields = self._fields(schema)
        inner = "".join(f"\n{text}" for _, text in self._messages.values())
        lines = ['syntax = "proto3";']
        if package:
            lines.append(f"package {package};")
        lines += [f'import "{each}";' for each in sorted(self._imports)]
        _check_name(name)
        return "\n".join(lines) + f"\n\nmessage {name} {{\n{fields}{inner}}}\n"

    def _fields(self, schema: Schema) -> str:
        return "".join(
            self._field(field, int((field.schema.parameters or {}).get(TAG, number)))
            for number, field in enumerate(schema.fields, 1)
        )

    def _field(self, field: Field, number: int) -> str:
        _check_name(field.name)
        schema = field.schema
        if schema.type is SchemaType.STRUCT and (schema.name or "").startswith(f"{UNION}."):
            return self._one_of(schema)
        label = ""
        if schema.type is SchemaType.ARRAY:
            assert schema.value_schema is not None
            schema, label = schema.value_schema, "repeated "
            if schema.type in (SchemaType.ARRAY, SchemaType.MAP):
                raise DataError(f"Array cannot be nested: field {field.name}")
        elif self._optional and schema.optional and schema.type.is_primitive and schema.name not in _LOGICAL:
            label = "optional "
        kind = self._type(schema, field.name)
        if kind.startswith("map<"):
            label = ""
        return f"  {label}{kind} {field.name} = {number}{self._meta(schema)};\n"

    def _one_of(self, schema: Schema) -> str:
        name = str(schema.name).rpartition(".")[2]
        members = []
        for each in schema.fields:
            number = (each.schema.parameters or {}).get(TAG)
            if number is None:
                raise DataError(f"The member {each.name} of the union {name} has no number ({TAG}).")
            members.append(
                f"    {self._type(each.schema, each.name)} {each.name} = {number}{self._meta(each.schema)};\n"
            )
        return f"  oneof {name} {{\n{''.join(members)}  }}\n"

    def _type(self, schema: Schema, field: str) -> str:
        if schema.name in _LOGICAL:
            kind, file = _LOGICAL[schema.name]
            self._imports.add(file)
            return kind
        if schema.type is SchemaType.STRUCT:
            return self._message(schema, field)
        if schema.type is SchemaType.MAP:
            return self._map(schema, field)
        if schema.type is SchemaType.ARRAY:
            raise DataError(f"Array cannot be nested: field {field}")
        parameters = schema.parameters or {}
        if ENUM in parameters:
            return self._enum(schema, parameters)
        return _SCALARS[schema.type]

    def _message(self, schema: Schema, field: str) -> str:
        name = (schema.name or "").rpartition(".")[2]
        if not name:
            self._unnamed += 1
            name = f"{DEFAULT_NAME}{self._unnamed}"
        if name == field:
            name += "Message"
        known = self._messages.get(name)
        if known is not None:
            if known[0].fields != schema.fields:
                raise DataError(f"Two structs with different fields have the name {name}.")
            return name
        _check_name(name)
        self._messages[name] = (schema, "")  # reserve the place before the inner messages
        text = f"message {name} {{\n{self._fields(schema)}}}\n"
        self._messages[name] = (schema, _indented(text))
        return name

    def _map(self, schema: Schema, field: str) -> str:
        assert schema.key_schema is not None
        assert schema.value_schema is not None
        key = self._type(schema.key_schema, "key")
        if key not in _MAP_KEYS:
            raise DataError(
                f"The keys of the map {field} cannot be {schema.key_schema.type.name} in Protobuf."
            )
        if schema.value_schema.type in (SchemaType.ARRAY, SchemaType.MAP):
            raise DataError(
                f"The values of the map {field} cannot be {schema.value_schema.type.name} in Protobuf."
            )
        return f"map<{key}, {self._type(schema.value_schema, 'value')}>"

    def _enum(self, schema: Schema, parameters: Any) -> str:
        name = str(parameters[ENUM])
        symbols = {
            key.removeprefix(f"{ENUM}."): number
            for key, number in parameters.items()
            if key.startswith(f"{ENUM}.")
        }
        values = "".join(f"  {symbol} = {number};\n" for symbol, number in symbols.items())
        self._messages.setdefault(name, (schema, _indented(f"enum {name} {{\n{values}}}\n")))
        return name

    def _meta(self, schema: Schema) -> str:
        params = {}
        if schema.type in (SchemaType.INT8, SchemaType.INT16):
            params["connect.type"] = schema.type.value
        if schema.name == logical.DECIMAL:
            given = schema.parameters or {}
            if PRECISION in given:
                params["precision"] = given[PRECISION]
            params["scale"] = str(logical.scale_of(schema))
        if not params:
            return ""
        self._imports.add("confluent/meta.proto")
        entries = ", ".join(f'{{ key: "{key}", value: "{value}" }}' for key, value in params.items())
        return f" [(confluent.field_meta) = {{ params: [{entries}] }}]"


def _indented(text: str) -> str:
    return "".join(f"  {line}\n" for line in text.splitlines())


def _check_name(name: str) -> None:
    if not _VALID_NAME.fullmatch(name):
        raise DataError(
            f"{name} cannot be a name in Protobuf, which has letters, digits and _ only;"
            " rename it with ReplaceField or SetSchemaMetadata."
        )


# From Protobuf


def to_connect_schema(descriptor: Any, version: int | None, open_: tuple[str, ...] = ()) -> Schema:
    """Convert a message descriptor. All fields are optional, as in Confluent's converter without wrappers."""
    if descriptor.full_name in open_:
        raise DataError(f"The message {descriptor.full_name} contains itself, which is not supported.")
    inside = (*open_, descriptor.full_name)
    named: list[tuple[str, Schema]] = []
    for one_of in real_one_ofs(descriptor):
        members = tuple(
            Field(each.name, index, _field_schema(each, inside)) for index, each in enumerate(one_of.fields)
        )
        union = Schema(SchemaType.STRUCT, True, name=f"{UNION}.{one_of.name}", fields=members)
        named.append((union_field(one_of), union))
    for field in descriptor.fields:
        if field.containing_oneof is None or field.containing_oneof not in real_one_ofs(descriptor):
            named.append((field.name, _field_schema(field, inside)))
    fields = tuple(Field(name, index, schema) for index, (name, schema) in enumerate(named))
    return Schema(SchemaType.STRUCT, name=descriptor.name, version=version, fields=fields)


def real_one_ofs(descriptor: Any) -> list[Any]:
    """Return the oneofs, except the synthetic ones for `optional`."""
    return [
        each
        for each in descriptor.oneofs
        if not (len(each.fields) == 1 and each.name == f"_{each.fields[0].name}")
    ]


def union_field(one_of: Any) -> str:
    return f"{one_of.name}_{one_of.index}"


def is_map(field: Any) -> bool:
    return field.message_type is not None and bool(field.message_type.GetOptions().map_entry)


_TYPES = {
    1: SchemaType.FLOAT64,
    2: SchemaType.FLOAT32,
    3: SchemaType.INT64,
    4: SchemaType.INT64,
    5: SchemaType.INT32,
    6: SchemaType.INT64,
    7: SchemaType.INT64,
    8: SchemaType.BOOLEAN,
    9: SchemaType.STRING,
    12: SchemaType.BYTES,
    13: SchemaType.INT64,
    15: SchemaType.INT32,
    16: SchemaType.INT64,
    17: SchemaType.INT32,
    18: SchemaType.INT64,
}


def _field_schema(field: Any, open_: tuple[str, ...]) -> Schema:
    if is_map(field):
        key, value = field.message_type.fields
        schema = Schema(
            SchemaType.MAP,
            key_schema=_field_schema(key, open_),
            value_schema=_field_schema(value, open_),
            name=field.message_type.name.removesuffix("Entry"),
        )
    else:
        schema = _single(field, open_)
        if field.is_repeated if hasattr(field, "is_repeated") else field.label == field.LABEL_REPEATED:
            schema = Schema(SchemaType.ARRAY, value_schema=schema.as_optional())
    return replace(schema, optional=True, parameters={**(schema.parameters or {}), TAG: str(field.number)})


def _single(field: Any, open_: tuple[str, ...]) -> Schema:
    if field.message_type is not None:
        return _of_message(field, open_)
    if field.enum_type is not None:
        symbols = {f"{ENUM}.{each.name}": str(each.number) for each in field.enum_type.values}
        return Schema(
            SchemaType.STRING, name=field.enum_type.name, parameters={ENUM: field.enum_type.name, **symbols}
        )
    small = field_params(field).get("connect.type")
    if small in ("int8", "int16"):
        return Schema(SchemaType(small))
    return Schema(_TYPES[field.type])


def _of_message(field: Any, open_: tuple[str, ...]) -> Schema:
    name = field.message_type.full_name
    if name == DATE:
        return logical.DATE_SCHEMA
    if name == TIME:
        return logical.TIME_SCHEMA
    if name == TIMESTAMP:
        return logical.TIMESTAMP_SCHEMA
    if name == DECIMAL:
        params = field_params(field)
        schema = logical.decimal_schema(int(params.get("scale", "0")))
        if "precision" in params:
            schema = replace(schema, parameters={**(schema.parameters or {}), PRECISION: params["precision"]})
        return schema
    return to_connect_schema(field.message_type, None, open_)


def field_params(field: Any) -> dict[str, str]:
    """Return the parameters in `(confluent.field_meta)`. Only the file's own pool knows this option."""
    from google.protobuf import message_factory

    data = field.GetOptions().SerializeToString()
    if not data:
        return {}
    try:
        known = field.file.pool.FindMessageTypeByName("google.protobuf.FieldOptions")
    except KeyError:
        return {}
    for option, value in message_factory.GetMessageClass(known).FromString(data).ListFields():
        if option.full_name == "confluent.field_meta":
            return dict(value.params)
    return {}
