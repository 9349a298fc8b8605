"""Decoder from records with schema ids to a column of the planned type."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from ottla.client.schema_registry import RegistryError, Schema, SchemaRegistry
from ottla.spark.formats.json_decoder import Decoded
from ottla.spark.formats.registered.framing import SchemaName, unframe
from ottla.spark.formats.registered.schema_source import TYPES, SchemaSource, shared_registry
from ottla.spark.formats.value_format import numba_needed


class Unreadable(Exception):
    """No record of this writer schema can be decoded to the columns. The message says why."""


class FormatDecoder(Protocol):
    """Decoder of one format for one tree of columns and any number of writers."""

    @property
    def type(self) -> pa.DataType: ...

    def add(self, schema: Schema, referenced: dict[str, Schema], rest: bytes) -> int:
        """Return the number of a writer, which is not negative. Raises Unreadable if its records cannot be decoded."""
        ...

    def decode(self, values: pa.BinaryArray, writers: Any, skipped: Any) -> Decoded:
        """Decode rows. `writers` holds each row's writer (negative for null), `skipped` the length of the prefix."""
        ...


class RegisteredDecoder:
    """Owner: one task at a time. The decoder and its known writers are kept across micro-batches."""

    def __init__(self, decoder: FormatDecoder, kind: str, source: SchemaSource, reader: Schema) -> None:
        self._decoder = decoder
        self._type = TYPES[kind]
        self._registry: SchemaRegistry | None = None
        self._only = -1
        if source.registry is None:
            self._only = decoder.add(reader, {}, b"")
        else:
            self._registry = shared_registry(source.registry)
        self._writers: dict[SchemaName, int | str] = {}

    def decode(self, values: pa.BinaryArray, headers: pa.ListArray | None, part: str) -> Decoded:
        if self._registry is None:
            valid = values.is_valid().to_numpy(zero_copy_only=False)
            writers = np.where(valid, self._only, -1)
            return self._decoder.decode(values, writers, np.zeros(len(values), np.int64))
        framed = unframe(values, headers, part)
        # The extra last entry, -1, is for rows without a schema.
        numbers = np.full(len(framed.names) + 1, -1, np.int64)
        reasons = dict(framed.reasons)
        for index, name in enumerate(framed.names):
            writer = self._writer(self._registry, name)
            if isinstance(writer, int):
                numbers[index] = writer
            else:
                reasons |= dict.fromkeys(np.nonzero(framed.which == index)[0].tolist(), writer)
        decoded = self._decoder.decode(values, numbers[framed.which], framed.skipped)
        return Decoded(decoded.column, reasons | decoded.reasons)

    def _writer(self, registry: SchemaRegistry, name: SchemaName) -> int | str:
        """Return the number of a writer, or its error. An unreachable registry ends the task."""
        found = self._writers.get(name)
        if found is not None:
            return found
        try:
            schema = registry.by_guid(name.guid) if name.guid else registry.by_id(name.id)
            if schema.type != self._type:
                raise Unreadable(f"it is {schema.type}, not {self._type}")
            found = self._decoder.add(schema, registry.referenced(schema), name.rest)
        except RegistryError as error:
            if not error.is_not_found:
                raise
            # Not cached, because the schema may be registered later.
            return f"schema {name} is not in the registry"
        except Unreadable as error:
            found = f"it was written with schema {name}: {error}"
        self._writers[name] = found
        return found


@lru_cache(maxsize=16)
def registered_decoder(
    kind: str, source: SchemaSource, reader: Schema, columns: str | None, part: str
) -> RegisteredDecoder:
    """Return the decoder of this process. `columns` is the given type as Spark JSON."""
    return RegisteredDecoder(format_decoder(kind, source, reader, columns, part), kind, source, reader)


def format_decoder(
    kind: str, source: SchemaSource, reader: Schema, columns: str | None, part: str
) -> FormatDecoder:
    if kind == "protobuf":
        with numba_needed(kind):
            from ottla.spark.formats.protobuf.decoder import ProtobufFormat

        return ProtobufFormat(source, reader, columns, part)
    if kind == "jsonschema":
        from ottla.spark.formats.json_schema.decoder import JsonSchemaFormat

        return JsonSchemaFormat(source, reader, columns, part)
    with numba_needed(kind):
        from ottla.spark.formats.avro.registered import AvroFormat

    return AvroFormat(source, reader, columns, part)
