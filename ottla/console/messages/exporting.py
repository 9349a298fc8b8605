"""Export messages as CSV, JSON lines or Parquet."""

from __future__ import annotations

import csv
import io
import json
import tempfile
from collections.abc import Iterable
from importlib.util import find_spec
from typing import Any

from ottla.console.messages.decoding import ShownMessage

FORMATS = {
    "csv": "text/csv; charset=utf-8",
    "json": "application/x-ndjson",
    "parquet": "application/vnd.apache.parquet",
}
_COLUMNS = ("topic", "partition", "offset", "timestamp", "timestamp_type", "key", "value", "headers")
# Spreadsheets treat a cell with such a start as a formula.
_FORMULAS = ("=", "+", "-", "@", "\t", "\r")


def available() -> list[str]:
    return [each for each in FORMATS if each != "parquet" or find_spec("pyarrow") is not None]


def csv_head() -> bytes:
    return _csv_line(_COLUMNS)


def csv_row(message: ShownMessage) -> bytes:
    row = message.document()
    headers = json.dumps(dict(row["headers"]), ensure_ascii=False) if row["headers"] else ""
    return _csv_line(
        [
            *(row[name] for name in _COLUMNS[:5]),
            *(_cell(each) for each in (message.key.line, message.value.line, headers)),
        ]
    )


def _cell(text: str) -> str:
    return f"'{text}" if text.startswith(_FORMULAS) and not _is_number(text) else text


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _csv_line(cells: Iterable[Any]) -> bytes:
    out = io.StringIO()
    csv.writer(out).writerow(cells)
    return out.getvalue().encode("utf-8", "replace")


def json_row(message: ShownMessage) -> bytes:
    return json.dumps(message.document(), ensure_ascii=False).encode("utf-8", "surrogatepass") + b"\n"


class ParquetFile:
    """Written to a temporary file in groups of rows, because the index comes last. Blocks."""

    _ROWS = 5000

    def __init__(self) -> None:
        import pyarrow as pa
        import pyarrow.parquet as pq

        text = pa.string()
        self._schema = pa.schema(
            [("topic", text), ("partition", pa.int32()), ("offset", pa.int64()),
             ("timestamp", pa.timestamp("ms", tz="UTC")), ("timestamp_type", text),
             ("key", text), ("value", text), ("headers", text)]
        )  # fmt: skip
        self.file = tempfile.TemporaryFile(prefix="ottla-export-")  # noqa: SIM115  who makes it closes it
        self._writer = pq.ParquetWriter(self.file, self._schema)
        self._rows: list[dict[str, Any]] = []

    def add(self, message: ShownMessage) -> None:
        row = message.document()
        headers = json.dumps(row["headers"], ensure_ascii=False) if row["headers"] else None
        texts = {"key": message.key, "value": message.value}
        self._rows.append(
            {name: row[name] for name in _COLUMNS[:5]}
            | {name: None if part.format == "null" else part.line for name, part in texts.items()}
            | {"headers": headers}
        )
        if len(self._rows) >= self._ROWS:
            self._flush()

    def _flush(self) -> None:
        import pyarrow as pa

        if self._rows:
            self._writer.write_table(pa.Table.from_pylist(self._rows, schema=self._schema))
            self._rows.clear()

    def finish(self) -> None:
        self._flush()
        self._writer.close()
        self.file.seek(0)
