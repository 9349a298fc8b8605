"""The messages a visitor selects, and their export."""

from __future__ import annotations

import csv
import io
import json
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from heapq import merge
from importlib.util import find_spec
from itertools import islice
from typing import Any

from ottla.client.admin.offsets import earliest_offsets, latest_offsets, offsets_at
from ottla.client.cluster import Cluster
from ottla.console.messages.decoding import ShownMessage
from ottla.console.messages.reading import Message, PageBounds, newest, read_range
from ottla.console.messages.scanning import PLACES, Query
from ottla.http import HttpError

# Selection of messages in a page's query: start, partitions and number.

_LIMITS = (10, 25, 50, 100, 200, 500)
STARTS = ("newest", "oldest", "offset", "time")


@dataclass(frozen=True)
class Selection:
    partition: int | None = None
    start: str = "newest"
    offset: int = 0
    time_ms: int = 0
    limit: int = 50
    committed_only: bool = False
    cursor: Mapping[int, int] | None = None
    query: Query = field(default_factory=Query)

    def partitions(self, known: Sequence[int]) -> list[int]:
        """Raises HttpError 404."""
        if self.partition is None:
            return list(known)
        if self.partition not in known:
            raise HttpError(404, 404, f"There is no partition {self.partition}.")
        return [self.partition]


def parse(query: Mapping[str, str], places: Sequence[str]) -> Selection:
    """Raises HttpError 400."""
    start = query.get("from", "newest")
    if start not in STARTS:
        raise HttpError(400, 400, f"from must be one of {', '.join(STARTS)}.")
    if start == "newest" and not query.get("at"):
        # A typed offset or time is wanted, even if nobody chose it under "From".
        start = "offset" if query.get("offset", "").strip() else "time" if query.get("time") else start
    limit = _number(query, "limit", 50)
    return Selection(
        _number(query, "partition", None) if query.get("partition") else None,
        start,
        _number(query, "offset", 0) or 0,
        moment(query["time"]) if query.get("time") and start == "time" else 0,
        min(_LIMITS, key=lambda each: abs(each - (limit or 50))),
        query.get("committed") == "1",
        _cursor(query.get("at")),
        Query(
            query.get("q", ""),
            query.get("mode", "text"),
            tuple(each for each in places if each in PLACES) or PLACES,
            query.get("case") != "1",
        ),
    )


def _number(query: Mapping[str, str], name: str, default: int | None) -> int | None:
    text = query.get(name, "").strip()
    if not text:
        return default
    if not text.isdecimal() or len(text) > 18:
        raise HttpError(400, 400, f"{name} must be a whole number.")
    return int(text)


def moment(text: str) -> int:
    """Parse milliseconds, or a time such as 2026-01-31T12:00 (UTC by default). Raises HttpError 400."""
    if text.isdecimal() and len(text) < 16:
        return int(text)
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise HttpError(400, 400, "time must be like 2026-01-31T12:00, in UTC.") from None
    return round((found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp() * 1000)


def _cursor(text: str | None) -> dict[int, int] | None:
    """Parse `0:17,1:4`, the end of the previous page."""
    if not text:
        return None
    try:
        pairs = [each.split(":") for each in text.split(",")]
        return {int(number): int(offset) for number, offset in pairs}
    except ValueError:
        raise HttpError(400, 400, "The link to the next page is broken.") from None


def cursor_text(cursor: Mapping[int, int]) -> str:
    return ",".join(f"{number}:{offset}" for number, offset in sorted(cursor.items()))


def ranges(
    cluster: Cluster, topic: str, partitions: Sequence[int], selection: Selection
) -> dict[int, tuple[int, int]]:
    keys = [(topic, number) for number in partitions]
    first = earliest_offsets(cluster, keys)
    ends = latest_offsets(cluster, keys)
    starts = first
    if selection.start == "offset":
        starts = {key: max(first[key], min(selection.offset, ends[key])) for key in keys}
    elif selection.start == "time":
        starts = offsets_at(cluster, keys, selection.time_ms)
    found = {key[1]: (starts[key], ends[key]) for key in keys}
    cursor = selection.cursor
    if cursor is None:
        return found
    if selection.start == "newest":
        return {each: (start, min(end, cursor.get(each, start))) for each, (start, end) in found.items()}
    return {each: (max(start, cursor.get(each, end)), end) for each, (start, end) in found.items()}


def read(
    cluster: Cluster, topic: str, partitions: Sequence[int], selection: Selection
) -> tuple[list[Message], dict[int, int]]:
    """Return the messages of one page, and the cursor of the next page, empty at the end."""
    committed_only, page = selection.committed_only, PageBounds()
    if selection.start == "newest":
        return newest(
            cluster,
            topic,
            partitions,
            selection.limit,
            before=selection.cursor,
            committed_only=committed_only,
            page=page,
        )
    found = ranges(cluster, topic, partitions, selection)
    streams = [
        list(
            islice(
                read_range(cluster, (topic, number), start, end, committed_only=committed_only, page=page),
                selection.limit,
            )
        )
        for number, (start, end) in found.items()
    ]
    shown = list(islice(merge(*streams, key=lambda each: each.timestamp), selection.limit))
    following = {number: start for number, (start, _) in found.items()}
    for message in shown:
        following[message.partition] = message.offset + 1
    exhausted = all(len(stream) < selection.limit for stream in streams) and len(shown) == sum(
        map(len, streams)
    )
    if exhausted:
        return shown, {}
    return shown, {number: at for number, at in following.items() if at < found[number][1]}


# Export messages as CSV, JSON lines or Parquet.

FORMATS = {
    "csv": "text/csv; charset=utf-8",
    "json": "application/json",
    "jsonl": "application/x-ndjson",
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
