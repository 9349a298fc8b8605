"""Data files of Delta tables, written and read in tasks. The driver commits them."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from ottla.spark.tables.schemas.columns import OFFSET, PARTITION, TIME

_WITH_STATISTICS = (PARTITION, OFFSET, TIME)


@dataclass(frozen=True)
class AddedFile:
    path: str
    size: int
    partition_values: dict[str, str | None]
    modified_ms: int
    statistics: str


def _files(uri: str, storage: Mapping[str, str]) -> Any:
    from deltalake.fs import DeltaStorageHandler
    from pyarrow.fs import PyFileSystem

    return PyFileSystem(DeltaStorageHandler(uri, dict(storage)))


@dataclass(frozen=True)
class DeltaWriter:
    uri: str
    storage: dict[str, str]
    partition_by: tuple[str, ...] = ()

    def write(self, rows: pa.Table) -> list[AddedFile]:
        return [self._write(part, values) for values, part in self._parts(rows)]

    def _parts(self, rows: pa.Table) -> Iterator[tuple[dict[str, Any], pa.Table]]:
        if not self.partition_by:
            yield {}, rows
            return
        distinct = rows.select(self.partition_by).group_by(list(self.partition_by)).aggregate([])
        for values in distinct.to_pylist():
            mask = None
            for name, value in values.items():
                column = rows[name]
                same = (
                    pc.is_null(column) if value is None else pc.equal(column, pa.scalar(value, column.type))
                )
                mask = same if mask is None else pc.and_(mask, same)
            yield values, rows.filter(mask)

    def _write(self, rows: pa.Table, values: dict[str, Any]) -> AddedFile:
        texts = {name: None if value is None else _text(value) for name, value in values.items()}
        # The log has the partition values. Paths without them need no escapes.
        path = f"{uuid.uuid4()}.parquet"
        files = _files(self.uri, self.storage)
        with files.open_output_stream(path) as output:
            pq.write_table(rows.drop_columns(list(values)), output, compression="zstd")
        size = files.get_file_info(path).size
        return AddedFile(path, size, texts, time.time_ns() // 1_000_000, _statistics(rows))

    def remove(self, added: Sequence[AddedFile]) -> None:
        files = _files(self.uri, self.storage)
        for each in added:
            with suppress(OSError):
                files.delete_file(each.path)


@dataclass(frozen=True)
class DeltaFile:
    uri: str
    storage: dict[str, str]
    path: str
    count: int
    columns: pa.Schema
    partition_values: dict[str, Any] = field(default_factory=dict)

    @property
    def rows(self) -> int:
        return self.count

    def read(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        with _files(self.uri, self.storage).open_input_file(self.path) as opened:
            file = pq.ParquetFile(opened)
            stored = [name for name in columns if name in file.schema_arrow.names]
            for batch in file.iter_batches(columns=stored):
                arrays = []
                for name in columns:
                    kind = self.columns.field(name).type
                    if name in self.partition_values:
                        arrays.append(pa.repeat(pa.scalar(self.partition_values[name], kind), len(batch)))
                    elif name in stored:
                        arrays.append(batch.column(name).cast(kind))
                    else:
                        arrays.append(pa.nulls(len(batch), kind))
                schema = pa.schema([self.columns.field(name) for name in columns])
                yield pa.RecordBatch.from_arrays(arrays, schema=schema)


def _text(value: Any) -> str:
    """Return a partition value as Delta writes it."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, bytes):
        return value.decode("latin-1")
    if hasattr(value, "strftime") and hasattr(value, "hour"):
        return str(value.strftime("%Y-%m-%d %H:%M:%S.%f"))
    return str(value)


def _statistics(rows: pa.Table) -> str:
    least: dict[str, Any] = {}
    most: dict[str, Any] = {}
    for name in _WITH_STATISTICS:
        if name in rows.column_names and rows[name].null_count < len(rows):
            bounds = pc.min_max(rows[name]).as_py()
            least[name], most[name] = _shown(bounds["min"]), _shown(bounds["max"])
    nulls = {name: rows[name].null_count for name in least}
    return json.dumps({"numRecords": len(rows), "minValues": least, "maxValues": most, "nullCount": nulls})


def _shown(value: Any) -> Any:
    # Delta's statistics have milliseconds, and readers allow for the rest.
    return (
        value.strftime("%Y-%m-%dT%H:%M:%S.") + f"{value.microsecond // 1000:03}Z"
        if hasattr(value, "strftime")
        else value
    )
