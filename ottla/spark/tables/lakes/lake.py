"""Interface of tables in any format, for the table job and for readers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import pyarrow as pa

from ottla.client.errors import ClientError
from ottla.spark.tables.lakes.boundary import Boundary
from ottla.spark.tables.schemas.evolution import Evolution


class TableError(ClientError):
    """A catalog or a table cannot be used. The message is one sentence."""


class Conflict(TableError):
    """Another writer committed to the table first. Nothing was written."""


@dataclass(frozen=True)
class Upsert:
    """The newest rows by key, and keys without a row. All rows of these keys are replaced."""

    rows: pa.Table
    keys: pa.Array


@dataclass(frozen=True)
class Snapshot:
    id: int
    committed_ms: int
    boundary: Boundary | None


@dataclass(frozen=True)
class TableFacts:
    """Numbers for `ottla tables list` and `describe`."""

    rows: int
    files: int
    bytes: int
    snapshots: int
    committed_ms: int | None


class FileWriter(Protocol):
    """Writes data files in tasks. The driver commits the returned files."""

    def write(self, rows: pa.Table) -> list[Any]: ...

    def remove(self, files: Sequence[Any]) -> None:
        """Remove files that will not be committed. Failures are ignored: maintenance removes them later."""
        ...


class DataFile(Protocol):
    """A file of a snapshot, to be read in a task."""

    @property
    def rows(self) -> int: ...

    def read(self, columns: Sequence[str]) -> Any:
        """Return an iterator of record batches with these columns of the table."""
        ...


class LakeTable(Protocol):
    name: str

    def refresh(self) -> None: ...

    def columns(self) -> pa.Schema: ...

    def boundary(self) -> Boundary | None:
        """Return the boundary, or None if no table job has written to the table."""
        ...

    def evolve(self, evolutions: Sequence[Evolution]) -> None: ...

    def writer(self) -> FileWriter: ...

    def append(self, files: Sequence[Any], boundary: Boundary) -> None:
        """Commit files and the boundary after them. Raises Conflict."""
        ...

    def upsert(self, change: Upsert, boundary: Boundary) -> None: ...

    def facts(self) -> TableFacts: ...

    def snapshots(self) -> list[Snapshot]:
        """Return all snapshots, oldest first."""
        ...

    def files(self, snapshot: int | None = None) -> list[DataFile]:
        """Return the data files of a snapshot. The default is the current snapshot at the last `refresh`."""
        ...

    def parquet_paths(self, snapshot: int | None = None) -> list[str] | None:
        """Return the paths for other readers of Parquet, or None if the files alone are not the rows."""
        ...

    def parquet_schema(self) -> pa.Schema:
        """Return the columns, with the ids of fields if files are read by them."""
        ...

    def snapshot_id(self) -> int | None: ...

    def at(self, snapshot: int) -> Boundary | None:
        """Return the boundary of a snapshot."""
        ...

    def expire(self, older_than_ms: int, keep: int) -> int:
        """Remove old snapshots and files that only they use. Return the number of snapshots."""
        ...

    def compact(self, target_bytes: int, min_files: int) -> int:
        """Merge small files. Return their number."""
        ...

    def location(self) -> str: ...


def reason(error: Exception) -> str:
    """Return the text of a library's error as the end of a sentence."""
    text = " ".join(str(error).split()).rstrip(".")
    return text[:300] or type(error).__name__
