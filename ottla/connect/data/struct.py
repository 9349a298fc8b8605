"""A value of a struct schema."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ottla.connect.data.java_values import java_text
from ottla.connect.data.schema import Schema, SchemaType
from ottla.connect.data.validation import TYPES, validate_value
from ottla.connect.errors import DataError


class Struct:
    """Field values in schema order. Unset fields are None, and `get` returns their default.

    Values must fit the schema of their field, as in Connect.
    """

    __slots__ = ("schema", "values")

    def __init__(self, schema: Schema, values: Mapping[str, Any] | None = None) -> None:
        if schema.type is not SchemaType.STRUCT:
            raise DataError(f"Not a struct schema: {schema}")
        self.schema = schema
        self.values: list[Any] = [None] * len(schema.fields)
        if values:
            for name, value in values.items():
                self.put(name, value)

    @classmethod
    def of(cls, schema: Schema, values: list[Any]) -> Struct:
        """Build a struct from valid values in field order, without checks."""
        struct = cls.__new__(cls)
        struct.schema = schema
        struct.values = values
        return struct

    @classmethod
    def all_of(cls, schema: Schema, rows: Iterable[list[Any]]) -> list[Struct]:
        """Build many structs without checks, like `of`."""
        new = cls.__new__
        structs = []
        for values in rows:
            struct = new(cls)
            struct.schema = schema
            struct.values = values
            structs.append(struct)
        return structs

    def put(self, name: str, value: Any) -> Struct:
        field = self.schema.field(name)
        if field is None:
            raise DataError(f"{name} is not a valid field name")
        schema = field.schema
        if type(value) is not schema.plain_type:
            validate_value(schema, value, f'field: "{name}"')
        self.values[field.index] = value
        return self

    def get(self, name: str) -> Any:
        index = self._index(name)
        value = self.values[index]
        return self.schema.fields[index].schema.default if value is None else value

    def get_without_default(self, name: str) -> Any:
        return self.values[self._index(name)]

    def validate(self) -> None:
        """Raises DataError for the first missing or invalid field."""
        for field, value in zip(self.schema.fields, self.values, strict=True):
            if value is None and (field.schema.optional or field.schema.default is not None):
                continue
            validate_value(field.schema, value, f'field: "{field.name}"')

    def _index(self, name: str) -> int:
        found = self.schema.field(name)
        if found is None:
            raise DataError(f"{name} is not a valid field name")
        return found.index

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Struct) and self.schema == other.schema and self.values == other.values

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        named = zip(self.schema.fields, self.values, strict=True)
        shown = (
            f"{each.name}={java_text(value, single=each.schema.type is SchemaType.FLOAT32)}"
            for each, value in named
            if value is not None
        )
        return f"Struct{{{','.join(shown)}}}"


TYPES[SchemaType.STRUCT] = lambda value: isinstance(value, Struct)
