from __future__ import annotations

import hashlib
import io
from typing import Any

import fastavro

from ottla.connect.connectors.files.formats.base import FileBuilder, Format, struct_schema
from ottla.connect.connectors.values.avro import avro_schema, avro_value
from ottla.connect.data.record import SinkRecord
from ottla.connect.data.schema import Schema
from ottla.connect.errors import DataError

_SYNC_SIZE = 16


class AvroFormat(Format):
    has_schemas = True

    @property
    def extension(self) -> str:
        return ".avro"

    def begin(self, schema: Schema | None) -> FileBuilder:
        return _AvroFile(avro_schema(struct_schema("AvroFormat", schema)), self.settings["avro.codec"])


class _AvroFile:
    def __init__(self, schema: Any, codec: str) -> None:
        self._schema = fastavro.parse_schema(schema)
        self._codec = codec
        self._records: list[Any] = []

    def add(self, record: SinkRecord) -> None:
        self._records.append(avro_value(record.value))

    def content(self) -> bytes:
        file = io.BytesIO()
        # The sync marker is normally random. A hash makes the same records always give the same file.
        marker = hashlib.sha256(repr(self._schema).encode()).digest()[:_SYNC_SIZE]
        try:
            fastavro.writer(file, self._schema, self._records, codec=self._codec, sync_marker=marker)
        except (ValueError, TypeError, OverflowError) as error:
            raise DataError(f"A record does not fit its schema: {error}.") from None
        return file.getvalue()
