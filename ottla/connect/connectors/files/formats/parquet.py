from __future__ import annotations

import io
from typing import Any

import pyarrow.parquet as pq

from ottla.connect.connectors.files.formats.base import FileBuilder, Format, struct_schema
from ottla.connect.connectors.values.arrow import arrow_schema, arrow_table
from ottla.connect.data.record import SinkRecord
from ottla.connect.data.schema import Schema

_EXTENSIONS = {"none": "", "gzip": ".gz"}


class ParquetFormat(Format):
    has_schemas = True

    @property
    def extension(self) -> str:
        codec = self.settings["parquet.codec"]
        return f"{_EXTENSIONS.get(codec, f'.{codec}')}.parquet"

    def begin(self, schema: Schema | None) -> FileBuilder:
        return _ParquetFile(
            arrow_schema(struct_schema("ParquetFormat", schema)), self.settings["parquet.codec"]
        )


class _ParquetFile:
    def __init__(self, schema: Any, codec: str) -> None:
        self._schema, self._codec = schema, codec
        self._rows: list[Any] = []

    def add(self, record: SinkRecord) -> None:
        self._rows.append(record.value)

    def content(self) -> bytes:
        file = io.BytesIO()
        pq.write_table(arrow_table(self._rows, self._schema), file, compression=self._codec)
        return file.getvalue()
