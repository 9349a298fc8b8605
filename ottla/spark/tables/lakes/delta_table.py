"""Delta tables by the deltalake package. The boundary is an application transaction for each partition."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Schema, Transaction
from deltalake.exceptions import CommitFailedError, DeltaError, TableNotFoundError
from deltalake.transaction import AddAction

from ottla.spark.tables.lakes.boundary import Boundary
from ottla.spark.tables.lakes.delta_files import AddedFile, DeltaFile, DeltaWriter
from ottla.spark.tables.lakes.lake import Conflict, DataFile, Snapshot, TableError, TableFacts, Upsert, reason
from ottla.spark.tables.schemas.columns import KEY, lake_schema
from ottla.spark.tables.schemas.evolution import Evolution, plain_shape, renamed
from ottla.spark.tables.schemas.projection import project

_ERRORS = (DeltaError, OSError, ValueError)
_DELETED = "__deleted"
#: Prefix of the description, which names the topic's id.
_DESCRIPTION = "ottla topic "
_HOUR_MS = 3_600_000


class DeltaLakeTable:
    """One loaded table of a topic. `refresh` loads its newest state."""

    def __init__(self, table: DeltaTable, name: str, topic: str, storage: dict[str, str]) -> None:
        self.name = name
        self._topic = topic
        self._table = table
        self._storage = storage

    @classmethod
    def create(
        cls,
        uri: str,
        name: str,
        topic: str,
        topic_id: str,
        columns: pa.Schema,
        partition_by: Sequence[str],
        storage: dict[str, str],
    ) -> DeltaLakeTable:
        for column in partition_by:
            if column not in columns.names:
                raise TableError(
                    f"Table {name} cannot be partitioned by {column}: there is no such column, only "
                    f"{', '.join(columns.names)}."
                )
        try:
            table = DeltaTable.create(
                uri,
                columns,
                mode="ignore",
                partition_by=list(partition_by) or None,
                description=f"{_DESCRIPTION}{topic_id}",
                storage_options=storage,
            )
        except _ERRORS as error:
            raise TableError(f"Table {name} cannot be created: {reason(error)}.") from None
        return cls(table, name, topic, storage)

    @classmethod
    def load(cls, uri: str, name: str, topic: str, storage: dict[str, str]) -> DeltaLakeTable | None:
        try:
            return cls(DeltaTable(uri, storage_options=storage), name, topic, storage)
        except TableNotFoundError:
            return None
        except _ERRORS as error:
            raise TableError(f"Table {name} cannot be opened: {reason(error)}.") from None

    def refresh(self) -> None:
        try:
            self._table.update_incremental()
        except _ERRORS as error:
            raise TableError(f"Table {self.name} cannot be opened: {reason(error)}.") from None

    def columns(self) -> pa.Schema:
        return lake_schema(pa.schema(self._table.schema()))

    def location(self) -> str:
        return str(self._table.table_uri)

    def snapshot_id(self) -> int | None:
        return int(self._table.version())

    # Boundary

    def boundary(self) -> Boundary | None:
        return self._of(self._table)

    def at(self, snapshot: int) -> Boundary | None:
        return self._of(self._opened(snapshot))

    def _of(self, table: DeltaTable) -> Boundary | None:
        description = table.metadata().description or ""
        offsets: dict[int, int] = {}
        count = table.transaction_version(_partitions(self._topic)) or 0
        for partition in range(count):
            end = table.transaction_version(_application(self._topic, partition))
            if end is not None:
                offsets[partition] = end
        if not count:
            return None
        topic_id = description.removeprefix(_DESCRIPTION) if description.startswith(_DESCRIPTION) else ""
        return Boundary(self._topic, topic_id, offsets)

    def _opened(self, version: int) -> DeltaTable:
        try:
            return DeltaTable(self.location(), version=version, storage_options=self._storage)
        except _ERRORS as error:
            raise TableError(f"Version {version} of table {self.name} is gone: {reason(error)}.") from None

    def snapshots(self) -> list[Snapshot]:
        history = sorted(self._table.history(), key=lambda each: each["version"])
        found = []
        for each in history:
            try:
                boundary = self.at(int(each["version"]))
            except TableError:  # its log has been cleaned up
                continue
            found.append(Snapshot(int(each["version"]), int(each["timestamp"]), boundary))
        return found

    # Writing

    def writer(self) -> DeltaWriter:
        return DeltaWriter(self.location(), self._storage, tuple(self._table.metadata().partition_columns))

    def _properties(self, boundary: Boundary | None) -> CommitProperties:
        marks = []
        if boundary is not None:
            marks = [
                Transaction(_application(self._topic, partition), end)
                for partition, end in boundary.offsets.items()
            ]
            marks.append(Transaction(_partitions(self._topic), max(boundary.offsets, default=-1) + 1))
        return CommitProperties(app_transactions=marks, max_commit_retries=0)

    def append(self, files: Sequence[AddedFile], boundary: Boundary) -> None:
        self._commit(files, "append", self._table.schema(), self._properties(boundary))
        self.refresh()

    def _commit(
        self, files: Sequence[AddedFile], mode: str, schema: Any, properties: CommitProperties
    ) -> None:
        actions = [
            AddAction(each.path, each.size, each.partition_values, each.modified_ms, True, each.statistics)
            for each in files
        ]
        partition_by = list(self._table.metadata().partition_columns) or None
        with _conflicts(self.name):
            self._table.create_write_transaction(
                actions, mode, schema, partition_by, commit_properties=properties
            )

    def upsert(self, change: Upsert, boundary: Boundary) -> None:
        columns = self.columns()
        live = change.rows.append_column(_DELETED, pa.array([False] * len(change.rows), pa.bool_()))
        gone = pa.table(
            [
                change.keys if field.name == KEY else pa.nulls(len(change.keys), field.type)
                for field in columns
            ],
            schema=columns,
        ).append_column(_DELETED, pa.array([True] * len(change.keys), pa.bool_()))
        # Keys with a new row are in both.
        gone = gone.filter(pa.compute.invert(pa.compute.is_in(gone[KEY], change.rows[KEY].combine_chunks())))
        with _conflicts(self.name):
            (
                self._table.merge(
                    pa.concat_tables([live, gone]),
                    f't."{KEY}" = s."{KEY}"',
                    source_alias="s",
                    target_alias="t",
                    commit_properties=self._properties(boundary),
                )
                .when_matched_delete(f"s.{_DELETED} = true")
                .when_matched_update_all(f"s.{_DELETED} = false", except_cols=[_DELETED])
                .when_not_matched_insert_all(f"s.{_DELETED} = false", except_cols=[_DELETED])
                .execute()
            )
        self.refresh()

    def evolve(self, evolutions: Sequence[Evolution]) -> None:
        evolutions = [each for each in evolutions if each.changes]
        if not evolutions:
            return
        if all(each.only_adds_columns for each in evolutions):
            before = self.columns().names
            new = [each for each in evolutions[-1].columns if each.name not in before]
            with _conflicts(self.name):
                self._table.alter.add_columns(list(_delta_fields(new)))
        else:
            self._rewrite(evolutions)
        self.refresh()

    def _rewrite(self, evolutions: Sequence[Evolution]) -> None:
        """Write all rows again with the new columns. Delta needs it for wider types, new names and nested fields."""
        target = evolutions[-1].columns
        shape = plain_shape("", pa.struct(list(self.columns())))
        for evolution in evolutions:
            for change in evolution.changes:
                if change.kind == "rename":
                    shape = renamed(shape, change.path, change.name)
        fixed = [
            each for each in self.columns() if each.name not in target.names and each.name.startswith("__")
        ]
        schema = pa.schema([*fixed, *target])

        writer = self.writer()
        added: list[AddedFile] = []
        for file in self.files():
            batches = [
                pa.RecordBatch.from_struct_array(
                    project(batch.to_struct_array(), shape, pa.struct(list(schema)))
                )
                for batch in file.read(self.columns().names)
            ]
            added += writer.write(pa.Table.from_batches(batches, schema))
        try:
            self._commit(added, "overwrite", Schema.from_arrow(schema), self._properties(None))
        except TableError:
            writer.remove(added)
            raise

    # Reading

    def files(self, snapshot: int | None = None) -> list[DataFile]:
        table = self._table if snapshot in (None, self.snapshot_id()) else self._opened(snapshot or 0)
        columns = lake_schema(pa.schema(table.schema()))
        actions = pa.table(table.get_add_actions())
        found: list[DataFile] = []
        for each in actions.to_pylist():
            values = {name: each["partition"][name] for name in table.metadata().partition_columns}
            path = unquote(each["path"])
            found.append(
                DeltaFile(self.location(), self._storage, path, each["num_records"] or 0, columns, values)
            )
        return found

    def parquet_paths(self, snapshot: int | None = None) -> list[str] | None:
        if self._table.metadata().partition_columns:
            return None  # the paths have their values
        table = self._table if snapshot in (None, self.snapshot_id()) else self._opened(snapshot or 0)
        return list(table.file_uris())

    def parquet_schema(self) -> pa.Schema:
        return self.columns()

    def facts(self) -> TableFacts:
        actions = pa.table(self._table.get_add_actions())
        history = self._table.history(1)
        return TableFacts(
            sum(each or 0 for each in actions["num_records"].to_pylist()),
            len(actions),
            sum(actions["size_bytes"].to_pylist()),
            int(self._table.version()) + 1,
            int(history[0]["timestamp"]) if history else None,
        )

    # Maintenance

    def expire(self, older_than_ms: int, keep: int) -> int:
        import time

        hours = max(0, (time.time_ns() // 1_000_000 - older_than_ms) // _HOUR_MS)
        with _conflicts(self.name):
            removed = self._table.vacuum(
                retention_hours=hours, dry_run=False, enforce_retention_duration=False
            )
        return len(removed)

    def compact(self, target_bytes: int, min_files: int) -> int:
        sizes = pa.table(self._table.get_add_actions())["size_bytes"].to_pylist()
        small = sum(size < target_bytes // 2 for size in sizes)
        if small < max(min_files, 2):
            return 0
        with _conflicts(self.name):
            done = self._table.optimize.compact(
                target_size=target_bytes, commit_properties=self._properties(None)
            )
        self.refresh()
        return int(done["numFilesRemoved"])


class _conflicts:
    """Turns the library's errors into sentences."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        if isinstance(error, CommitFailedError):
            raise Conflict(
                f"Table {self._name} is being changed by another program: {reason(error)}."
            ) from None
        if isinstance(error, _ERRORS) and not isinstance(error, TableError):
            raise TableError(f"Table {self._name} cannot be written: {reason(error)}.") from None


def _application(topic: str, partition: int) -> str:
    return f"ottla.table:{topic}:{partition}"


def _partitions(topic: str) -> str:
    """Return the application whose version is the number of partitions in the boundary."""
    return f"ottla.table:{topic}"


def _delta_fields(fields: Sequence[pa.Field]) -> Iterator[Any]:
    yield from Schema.from_arrow(pa.schema(fields)).fields
