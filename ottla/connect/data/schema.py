"""Schemas of keys, values and headers, with Kafka Connect's semantics.

A schemaless value is None, bool, int, float, str, bytes, list or dict. A value with a schema may also be a `Struct`, or
for the logical types in `logical.py` a Decimal, date, time or datetime (in UTC).
"""

from __future__ import annotations

import builtins
import enum
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from ottla.connect.errors import DataError


class SchemaType(enum.Enum):
    INT8 = "int8"
    INT16 = "int16"
    INT32 = "int32"
    INT64 = "int64"
    FLOAT32 = "float32"
    FLOAT64 = "float64"
    BOOLEAN = "boolean"
    STRING = "string"
    BYTES = "bytes"
    ARRAY = "array"
    MAP = "map"
    STRUCT = "struct"

    @property
    def is_primitive(self) -> bool:
        return self not in (SchemaType.ARRAY, SchemaType.MAP, SchemaType.STRUCT)


_PLAIN = {
    SchemaType.STRING: str,
    SchemaType.BOOLEAN: bool,
    SchemaType.FLOAT64: float,
    SchemaType.FLOAT32: float,
    SchemaType.BYTES: bytes,
}


@dataclass(frozen=True)
class Field:
    name: str
    index: int
    schema: Schema


@dataclass(frozen=True)
class Schema:
    """Immutable and compared by content, as in Connect."""

    type: SchemaType
    optional: bool = False
    default: Any = None
    name: str | None = None
    version: int | None = None
    doc: str | None = None
    parameters: Mapping[str, str] | None = None
    fields: tuple[Field, ...] = ()
    #: For maps.
    key_schema: Schema | None = None
    #: For maps and arrays.
    value_schema: Schema | None = None
    #: Values of exactly this type fit without further checks. None if checks are needed, as for logical types.
    plain_type: builtins.type | None = field(init=False, repr=False, compare=False, hash=False)
    _by_name: dict[str, Field] = field(init=False, repr=False, compare=False, hash=False)
    _hash: int | None = field(init=False, repr=False, compare=False, hash=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "plain_type", _PLAIN.get(self.type) if self.name is None else None)
        object.__setattr__(self, "_by_name", {each.name: each for each in self.fields})
        object.__setattr__(self, "_hash", None)

    def __hash__(self) -> int:
        found = self._hash
        if found is None:
            found = hash((self.type, self.optional, self.name, self.version, tuple(self._by_name)))
            object.__setattr__(self, "_hash", found)
        return found

    def __getstate__(self) -> dict[str, Any]:
        """Drop the cached hash, because string hashes differ between processes."""
        return {**self.__dict__, "_hash": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)

    def __str__(self) -> str:
        return f"Schema{{{self.name}:{self.type.name}}}" if self.name else f"Schema{{{self.type.name}}}"

    def field(self, name: str) -> Field | None:
        return self._by_name.get(name)

    def as_optional(self, optional: bool = True) -> Schema:
        return self if self.optional == optional else replace(self, optional=optional)


class SchemaBuilder:
    """Builds a struct schema field by field: `SchemaBuilder("Person").field("name", STRING).build()`."""

    def __init__(
        self, name: str | None = None, *, version: int | None = None, optional: bool = False
    ) -> None:
        self._about: dict[str, Any] = {"name": name, "version": version, "optional": optional}
        self._fields: list[Field] = []
        self._names: set[str] = set()

    def field(self, name: str, schema: Schema) -> SchemaBuilder:
        if name in self._names:
            raise DataError(f"Cannot create field because of field name duplication {name}")
        self._names.add(name)
        self._fields.append(Field(name, len(self._fields), schema))
        return self

    def build(self) -> Schema:
        return Schema(SchemaType.STRUCT, fields=tuple(self._fields), **self._about)


def array(of: Schema, *, optional: bool = False) -> Schema:
    return Schema(SchemaType.ARRAY, optional, value_schema=of)


def mapping(key: Schema, value: Schema, *, optional: bool = False) -> Schema:
    return Schema(SchemaType.MAP, optional, key_schema=key, value_schema=value)


INT8 = Schema(SchemaType.INT8)
INT16 = Schema(SchemaType.INT16)
INT32 = Schema(SchemaType.INT32)
INT64 = Schema(SchemaType.INT64)
FLOAT32 = Schema(SchemaType.FLOAT32)
FLOAT64 = Schema(SchemaType.FLOAT64)
BOOLEAN = Schema(SchemaType.BOOLEAN)
STRING = Schema(SchemaType.STRING)
BYTES = Schema(SchemaType.BYTES)
OPTIONAL_INT8 = INT8.as_optional()
OPTIONAL_INT16 = INT16.as_optional()
OPTIONAL_INT32 = INT32.as_optional()
OPTIONAL_INT64 = INT64.as_optional()
OPTIONAL_FLOAT32 = FLOAT32.as_optional()
OPTIONAL_FLOAT64 = FLOAT64.as_optional()
OPTIONAL_BOOLEAN = BOOLEAN.as_optional()
OPTIONAL_STRING = STRING.as_optional()
OPTIONAL_BYTES = BYTES.as_optional()
