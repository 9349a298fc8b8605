"""A value of a struct schema."""

from __future__ import annotations

from typing import Any

from ottla.spark.connect.data.schema import Schema, SchemaType
from ottla.spark.connect.errors import DataError


class Struct:
    """Values by field, in the order of the schema. A field that was not set is None; `get` gives its default then."""

    __slots__ = ("schema", "values")

    def __init__(self, schema: Schema, values: dict[str, Any] | None = None) -> None:
        if schema.type is not SchemaType.STRUCT:
            raise DataError(f"Not a struct schema: {schema.type.value}")
        self.schema = schema
        self.values: list[Any] = [None] * len(schema.fields)
        for name, value in (values or {}).items():
            self.put(name, value)

    def put(self, name: str, value: Any) -> Struct:
        self.values[self._index(name)] = value
        return self

    def get(self, name: str) -> Any:
        index = self._index(name)
        value = self.values[index]
        return self.schema.fields[index].schema.default if value is None else value

    def get_without_default(self, name: str) -> Any:
        return self.values[self._index(name)]

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
        return (
            "Struct{" + ",".join(f"{each.name}={value}" for each, value in named if value is not None) + "}"
        )
