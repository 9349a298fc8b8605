"""Iceberg tables by PyIceberg. The summary of each snapshot has the boundary, so a commit is exactly once."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

import pyarrow as pa
from pyiceberg import exceptions, expressions

from ottla.spark.tables.lakes.boundary import PROPERTY, Boundary
from ottla.spark.tables.lakes.iceberg_files import IcebergFile, IcebergWriter
from ottla.spark.tables.lakes.lake import Conflict, DataFile, Snapshot, TableError, TableFacts, Upsert, reason
from ottla.spark.tables.schemas.columns import KEY, lake_schema
from ottla.spark.tables.schemas.evolution import Evolution
from ottla.table_settings import PartitionField

_ERRORS = (exceptions.RESTError, exceptions.ValidationError, OSError, ValueError)
_CONFLICTS = (exceptions.CommitFailedException, exceptions.ValidationException)
#: Without retries, because PyIceberg would append the same rows after another writer's commit.
_NO_RETRIES = {"commit.retry.num-retries": "0"}


class IcebergTable:
    """One loaded table. `refresh` loads its newest state."""

    def __init__(self, table: Any, name: str, reopen: Callable[[], Any]) -> None:
        self.name = name
        self._reopen = reopen
        self._table = _without_retries(table)

    @classmethod
    def create(
        cls,
        catalog: Any,
        identifier: Sequence[str],
        columns: pa.Schema,
        spec: Sequence[PartitionField],
        properties: Mapping[str, str],
    ) -> IcebergTable | None:
        """Create a table, or return None if it exists meanwhile."""
        name = ".".join(identifier)
        for field in spec:
            if field.column.partition(".")[0] not in columns.names:
                raise TableError(
                    f"Table {name} cannot be partitioned by {field.column}: there is no such column, only "
                    f"{', '.join(columns.names)}."
                )
        try:
            catalog.create_namespace_if_not_exists(tuple(identifier[:-1]))
            transaction = catalog.create_table_transaction(
                tuple(identifier), columns, properties=dict(properties)
            )
            with transaction:
                if spec:
                    with transaction.update_spec() as update:
                        for field in spec:
                            update.add_field(field.column, _transform(field), field.name)
        except exceptions.TableAlreadyExistsError:
            return None
        except _ERRORS as error:
            raise TableError(f"Table {name} cannot be created: {reason(error)}.") from None
        return cls.load(catalog, identifier)

    @classmethod
    def load(cls, catalog: Any, identifier: Sequence[str]) -> IcebergTable | None:
        name = ".".join(identifier)

        def reopen() -> Any:
            try:
                return catalog.load_table(tuple(identifier))
            except (exceptions.NoSuchTableError, exceptions.NoSuchNamespaceError):
                return None
            except _ERRORS as error:
                raise TableError(f"Table {name} cannot be opened: {reason(error)}.") from None

        table = reopen()
        return None if table is None else cls(table, name, reopen)

    def refresh(self) -> None:
        table = self._reopen()
        if table is None:
            raise TableError(f"Table {self.name} no longer exists.")
        self._table = _without_retries(table)

    def columns(self) -> pa.Schema:
        return lake_schema(self._table.schema().as_arrow())

    def location(self) -> str:
        return str(self._table.location())

    def snapshot_id(self) -> int | None:
        current = self._table.current_snapshot()
        return None if current is None else int(current.snapshot_id)

    # Boundary

    def boundary(self) -> Boundary | None:
        current = self._table.current_snapshot()
        while current is not None:
            found = self._of(current)
            if found is not None:
                return found
            parent = current.parent_snapshot_id
            current = None if parent is None else self._table.snapshot_by_id(parent)
        # Other programs have committed since, and the snapshots of the table job have expired.
        text = self._table.properties.get(PROPERTY)
        return None if text is None else Boundary.from_json(text, self.name)

    def at(self, snapshot: int) -> Boundary | None:
        if snapshot == self.snapshot_id():
            return self.boundary()
        found = self._table.snapshot_by_id(snapshot)
        return None if found is None else self._of(found)

    def _of(self, snapshot: Any) -> Boundary | None:
        summary = snapshot.summary.additional_properties if snapshot.summary else {}
        return Boundary.from_json(summary[PROPERTY], self.name) if PROPERTY in summary else None

    def snapshots(self) -> list[Snapshot]:
        found = sorted(self._table.snapshots(), key=lambda each: each.timestamp_ms)
        return [Snapshot(int(each.snapshot_id), int(each.timestamp_ms), self._of(each)) for each in found]

    # Writing

    def writer(self) -> IcebergWriter:
        return IcebergWriter(
            self._table.metadata.model_dump_json(), dict(self._table.io.properties), self._table.location()
        )

    def evolve(self, evolutions: Sequence[Evolution]) -> None:
        if not any(each.changes for each in evolutions):
            return

        def change(transaction: Any) -> None:
            for evolution in evolutions:
                for kind in ("widen", "rename", "add"):
                    changes = [each for each in evolution.changes if each.kind == kind]
                    # Deeper paths first, because a rename changes the paths below it.
                    for each in sorted(changes, key=lambda each: -len(each.path)):
                        with transaction.update_schema() as update:
                            _apply(update, each)

        self._commit(change)

    def append(self, files: Sequence[Any], boundary: Boundary) -> None:
        text = boundary.to_json()

        def change(transaction: Any) -> None:
            with transaction.update_snapshot(snapshot_properties={PROPERTY: text}).merge_append() as update:
                for file in files:
                    update.append_data_file(file)
            transaction.set_properties({PROPERTY: text})

        self._commit(change)

    def upsert(self, change: Upsert, boundary: Boundary) -> None:
        text = boundary.to_json()
        # Write before the commit begins, so that a conflict repeats no work of tasks.
        files = self.writer().write(change.rows) if len(change.rows) else []

        def replace_rows(transaction: Any) -> None:
            if self._table.current_snapshot() is not None:
                # Suppress the warning that no row matches, which is normal.
                with warnings.catch_warnings(action="ignore", category=UserWarning):
                    transaction.delete(expressions.In(KEY, change.keys.to_pylist()))
            with transaction.update_snapshot(snapshot_properties={PROPERTY: text}).merge_append() as update:
                for file in files:
                    update.append_data_file(file)
            transaction.set_properties({PROPERTY: text})

        self._commit(replace_rows)

    def _commit(self, change: Callable[[Any], None]) -> None:
        try:
            transaction = self._table.transaction()
            change(transaction)
            transaction.commit_transaction()
        except _CONFLICTS as error:
            raise Conflict(
                f"Table {self.name} is being changed by another program: {reason(error)}."
            ) from None
        except _ERRORS as error:
            raise TableError(f"Table {self.name} cannot be written: {reason(error)}.") from None
        self.refresh()

    # Reading

    def files(self, snapshot: int | None = None) -> list[DataFile]:
        metadata, io = self._table.metadata.model_dump_json(), dict(self._table.io.properties)
        return [
            IcebergFile(metadata, io, self._table.location(), task.file, tuple(task.delete_files))
            for task in self._tasks(snapshot)
        ]

    def parquet_paths(self, snapshot: int | None = None) -> list[str] | None:
        """Return the paths for other readers of Parquet, or None if rows of these files were deleted."""
        tasks = list(self._tasks(snapshot))
        return None if any(each.delete_files for each in tasks) else [each.file.file_path for each in tasks]

    def parquet_schema(self) -> pa.Schema:
        return self._table.schema().as_arrow()

    def _tasks(self, snapshot: int | None) -> Iterator[Any]:
        wanted = snapshot if snapshot is not None else self.snapshot_id()
        if wanted is None:
            return iter(())
        try:
            return iter(self._table.scan(snapshot_id=wanted).plan_files())
        except _ERRORS as error:
            raise TableError(f"Table {self.name} cannot be read: {reason(error)}.") from None

    def facts(self) -> TableFacts:
        tasks = list(self._tasks(None))
        current = self._table.current_snapshot()
        return TableFacts(
            sum(each.file.record_count for each in tasks),
            len(tasks),
            sum(each.file.file_size_in_bytes for each in tasks),
            len(self._table.snapshots()),
            None if current is None else int(current.timestamp_ms),
        )

    # Maintenance

    def expire(self, older_than_ms: int, keep: int) -> int:
        snapshots = self.snapshots()
        old = [each.id for each in snapshots[:-keep] if each.committed_ms < older_than_ms]
        if not old:
            return 0
        before = self._paths()
        self._expire(old)
        for path in before - self._paths():
            _delete(self._table.io, path)
        return len(old)

    def _expire(self, ids: list[int]) -> None:
        try:
            self._table.maintenance.expire_snapshots().by_ids(ids).commit()
        except _CONFLICTS as error:
            raise Conflict(
                f"Table {self.name} is being changed by another program: {reason(error)}."
            ) from None
        except _ERRORS as error:
            raise TableError(f"Snapshots of table {self.name} cannot expire: {reason(error)}.") from None
        self.refresh()

    def _paths(self) -> set[str]:
        """Return the data files, manifests and manifest lists of all snapshots."""
        found: set[str] = set()
        for snapshot in self._table.snapshots():
            found.add(snapshot.manifest_list)
            for manifest in snapshot.manifests(self._table.io):
                if manifest.manifest_path in found:  # snapshots share most manifests
                    continue
                found.add(manifest.manifest_path)
                entries = manifest.fetch_manifest_entry(self._table.io, discard_deleted=True)
                found.update(entry.data_file.file_path for entry in entries)
        return found

    def compact(self, target_bytes: int, min_files: int) -> int:
        boundary = self.boundary()
        small = [
            each
            for each in self._tasks(None)
            if each.file.file_size_in_bytes < target_bytes // 2 and not each.delete_files
        ]
        if len(small) < max(min_files, 2):
            return 0
        metadata, io = self._table.metadata.model_dump_json(), dict(self._table.io.properties)
        written: list[Any] = []
        for group in _grouped(small, target_bytes):
            rows: list[pa.RecordBatch] = []
            for task in group:
                file = IcebergFile(metadata, io, self._table.location(), task.file, ())
                rows += file.read(self.columns().names)
            written += self.writer().write(pa.Table.from_batches(rows, self.columns()))
        properties = {} if boundary is None else {PROPERTY: boundary.to_json()}

        def replace_files(transaction: Any) -> None:
            with transaction.update_snapshot(snapshot_properties=properties).overwrite() as update:
                for task in small:
                    update.delete_data_file(task.file)
                for file in written:
                    update.append_data_file(file)

        self._commit(replace_files)
        return len(small)


def _grouped(tasks: Sequence[Any], target_bytes: int) -> Iterator[list[Any]]:
    """Group files of one partition to about the target size."""
    by_partition: dict[Any, list[Any]] = {}
    for task in tasks:
        by_partition.setdefault(repr(task.file.partition), []).append(task)
    for members in by_partition.values():
        group: list[Any] = []
        size = 0
        for task in members:
            if group and size + task.file.file_size_in_bytes > target_bytes:
                yield group
                group, size = [], 0
            group.append(task)
            size += task.file.file_size_in_bytes
        yield group


def _delete(io: Any, path: str) -> None:
    with suppress(OSError):
        io.delete(path)


def _transform(field: PartitionField) -> Any:
    from pyiceberg.transforms import parse_transform

    return parse_transform(f"{field.transform}[{field.size}]" if field.size else field.transform)


def _apply(update: Any, change: Any) -> None:
    if change.kind == "add":
        update.add_column(change.path, _iceberg_type(change.type))
    elif change.kind == "widen":
        update.update_column(change.path, _iceberg_type(change.type))
    else:
        update.rename_column(change.path, change.name)


def _iceberg_type(kind: pa.DataType) -> Any:
    from pyiceberg.io.pyarrow import _pyarrow_to_schema_without_ids
    from pyiceberg.schema import assign_fresh_schema_ids

    schema = _pyarrow_to_schema_without_ids(pa.schema([pa.field("column", kind)]))
    return assign_fresh_schema_ids(schema).fields[0].field_type


def _without_retries(table: Any) -> Any:
    table.metadata.properties.update(_NO_RETRIES)
    return table
