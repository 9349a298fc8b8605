"""Data files of Iceberg tables, written and read in tasks from the table's metadata, without its catalog."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import pyarrow as pa

from ottla.spark.tables.schemas.columns import lake_schema


@lru_cache(maxsize=8)
def _metadata(text: str) -> Any:
    from pyiceberg.table.metadata import TableMetadataUtil

    return TableMetadataUtil.parse_raw(text)


def _io(properties: dict[str, str], location: str) -> Any:
    from pyiceberg.io import load_file_io

    return load_file_io(properties, location)


@dataclass(frozen=True)
class IcebergWriter:
    metadata: str
    properties: dict[str, str]
    location: str

    def write(self, rows: pa.Table) -> list[Any]:
        from pyiceberg.io.pyarrow import _dataframe_to_data_files

        return list(
            _dataframe_to_data_files(_metadata(self.metadata), rows, _io(self.properties, self.location))
        )

    def remove(self, files: Sequence[Any]) -> None:
        io = _io(self.properties, self.location)
        for file in files:
            with suppress(OSError):
                io.delete(file.file_path)


@dataclass(frozen=True)
class IcebergFile:
    metadata: str
    properties: dict[str, str]
    location: str
    file: Any
    delete_files: tuple[Any, ...]

    @property
    def rows(self) -> int:
        return int(self.file.record_count)

    def read(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        from pyiceberg.expressions import AlwaysTrue
        from pyiceberg.io.pyarrow import ArrowScan
        from pyiceberg.table import FileScanTask

        metadata = _metadata(self.metadata)
        projected = metadata.schema().select(*columns)
        scan = ArrowScan(metadata, _io(self.properties, self.location), projected, AlwaysTrue())
        task = FileScanTask(self.file, set(self.delete_files))
        wanted = lake_schema(projected.as_arrow())
        for batch in scan.to_record_batches([task]):
            table = (
                pa.Table.from_batches([batch])
                .select(columns)
                .cast(pa.schema([wanted.field(name) for name in columns]))
            )
            yield from table.to_batches()
