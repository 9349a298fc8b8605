"""The format interface: collects records and builds a file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from ottla.connect.data.record import SinkRecord
from ottla.connect.data.schema import Schema, SchemaType
from ottla.connect.errors import DataError


class FileBuilder(Protocol):
    def add(self, record: SinkRecord) -> None:
        """Raises DataError for a record that the format cannot store."""

    def content(self) -> bytes: ...


class Format:
    #: Whether all records of a file share one schema.
    has_schemas: bool = False

    def __init__(self, settings: Mapping[str, Any]) -> None:
        self.settings = settings

    @property
    def extension(self) -> str:
        raise NotImplementedError

    def begin(self, schema: Schema | None) -> FileBuilder:
        raise NotImplementedError


def struct_schema(format: str, schema: Schema | None) -> Schema:
    if schema is None or schema.type is not SchemaType.STRUCT:
        what = "no schema" if schema is None else f"the schema {schema.type.value}"
        raise DataError(
            f"{format} needs values that are structs with a schema; this one has {what}. Use a converter with schemas, "
            "or JsonFormat."
        )
    return schema
