from __future__ import annotations

import gzip

from ottla.connect.connectors.files.formats.base import FileBuilder, Format
from ottla.connect.connectors.values.plain import to_json
from ottla.connect.data.record import SinkRecord
from ottla.connect.data.schema import Schema


class JsonFormat(Format):
    @property
    def extension(self) -> str:
        return ".json.gz" if self.settings["s3.compression.type"] == "gzip" else ".json"

    def begin(self, schema: Schema | None) -> FileBuilder:
        return _Lines(self.settings["s3.compression.type"] == "gzip")


class _Lines:
    def __init__(self, compressed: bool) -> None:
        self._compressed = compressed
        self._lines: list[bytes] = []

    def add(self, record: SinkRecord) -> None:
        self._lines.append(to_json(record.value).encode() + b"\n")

    def content(self) -> bytes:
        whole = b"".join(self._lines)
        # Omit the time, so that the same records always give the same file.
        return gzip.compress(whole, mtime=0) if self._compressed else whole
