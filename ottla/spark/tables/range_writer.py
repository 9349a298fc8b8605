"""One task of the table job: a range of offsets becomes data files, or rows for an upsert."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from ottla.spark.formats.registered.framing import SchemaName
from ottla.spark.source.range_reader import read_range
from ottla.spark.source.ranges import OffsetRange
from ottla.spark.source.source_options import SourceOptions
from ottla.spark.tables.lakes.lake import FileWriter
from ottla.spark.tables.row_decoder import DecodePlan, NewSchemas, RowDecoder, Rows, last_of_each_key
from ottla.spark.tables.schemas.columns import DELETED, OFFSET

#: Rows in memory are about this many times the size of their file.
_COMPRESSION = 4
_MOST_BYTES = 256 << 20


@dataclass(frozen=True)
class WriteTask:
    """`writer` is None for a look at the records before the table exists."""

    options: SourceOptions
    plan: DecodePlan
    writer: FileWriter | None
    target_file_bytes: int
    upsert: bool = False
    #: By partition, the first offset that the table of dead letters lacks.
    dead_from: Mapping[int, int] = field(default_factory=dict)


@dataclass
class WrittenRange:
    rows: int = 0
    files: list[Any] = field(default_factory=list)
    #: Rows of an upsert with the column DELETED, and dead letters, as Arrow streams.
    upserts: bytes | None = None
    dead: bytes | None = None
    dead_rows: int = 0
    new_schemas: frozenset[SchemaName] = frozenset()
    inferred: pa.DataType | None = None

    @property
    def needs_evolution(self) -> bool:
        return bool(self.new_schemas) or self.inferred is not None


def write_range(task: WriteTask, wanted: OffsetRange) -> WrittenRange:
    writer = _RangeWriter(task, wanted.partition.partition)
    decoder = RowDecoder(task.plan)
    try:
        for batch in read_range(task.options, wanted):
            if len(batch):
                writer.add(decoder.decode(batch))
    except NewSchemas as found:
        writer.discard()
        return WrittenRange(new_schemas=found.names, inferred=found.inferred)
    except BaseException:
        writer.discard()
        raise
    return writer.finish()


class _RangeWriter:
    def __init__(self, task: WriteTask, partition: int) -> None:
        self._task = task
        self._dead_from = task.dead_from.get(partition, 0)
        self._result = WrittenRange()
        self._waiting: list[pa.RecordBatch] = []
        self._dead: list[pa.RecordBatch] = []
        self._bytes = 0
        self._limit = min(task.target_file_bytes * _COMPRESSION, _MOST_BYTES)

    def add(self, rows: Rows) -> None:
        self._result.rows += len(rows.good)
        if len(rows.dead):
            dead = rows.dead.filter(pc.greater_equal(rows.dead.column(OFFSET), self._dead_from))
            self._dead.append(dead)
            self._result.dead_rows += len(dead)
        good = rows.good
        if not len(good):
            return
        if self._task.upsert:
            good = good.append_column(DELETED, rows.tombstones)
        self._waiting.append(good)
        self._bytes += good.nbytes
        if self._bytes >= self._limit:
            self._flush()

    def _flush(self) -> None:
        if not self._waiting:
            return
        table = pa.Table.from_batches(self._waiting)
        self._waiting, self._bytes = [], 0
        if self._task.upsert:
            # Only the last row of a key counts, so the rows in memory stay few.
            table = last_of_each_key(table)
            self._waiting = table.combine_chunks().to_batches()
        elif self._task.writer is not None:
            self._result.files += self._task.writer.write(table)

    def discard(self) -> None:
        if self._task.writer is not None and self._result.files:
            self._task.writer.remove(self._result.files)

    def finish(self) -> WrittenRange:
        self._flush()
        if self._waiting:
            self._result.upserts = to_bytes(self._waiting, self._waiting[0].schema)
        if self._result.dead_rows:
            self._result.dead = to_bytes(self._dead, self._dead[0].schema)
        return self._result


def to_bytes(batches: list[pa.RecordBatch], schema: pa.Schema) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, schema) as stream:
        for batch in batches:
            stream.write_batch(batch)
    return bytes(sink.getvalue())


def from_bytes(parts: list[bytes]) -> pa.Table | None:
    """Return the rows of all parts, or None without parts."""
    tables = [pa.ipc.open_stream(part).read_all() for part in parts]
    return pa.concat_tables(tables) if tables else None
