from __future__ import annotations

import gzip

from ottla.connect.connectors.files.formats.base import FileBuilder, Format
from ottla.connect.data.record import SinkRecord
from ottla.connect.data.schema import Schema
from ottla.connect.errors import DataError


class ByteArrayFormat(Format):
    @property
    def extension(self) -> str:
        extension: str = self.settings["format.bytearray.extension"]
        return f"{extension}.gz" if self.settings["s3.compression.type"] == "gzip" else extension

    def begin(self, schema: Schema | None) -> FileBuilder:
        separator = self.settings["format.bytearray.separator"]
        return _Bytes(
            b"\n" if separator is None else separator.encode(), self.settings["s3.compression.type"] == "gzip"
        )


class _Bytes:
    def __init__(self, separator: bytes, compressed: bool) -> None:
        self._separator, self._compressed = separator, compressed
        self._parts: list[bytes] = []

    def add(self, record: SinkRecord) -> None:
        if not isinstance(record.value, bytes | bytearray | memoryview):
            raise DataError(
                "ByteArrayFormat needs values that are bytes: set value.converter to ByteArrayConverter."
            )
        self._parts += [bytes(record.value), self._separator]

    def content(self) -> bytes:
        whole = b"".join(self._parts)
        return gzip.compress(whole, mtime=0) if self._compressed else whole
