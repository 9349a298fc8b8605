"""Plan of a union read: the data files of one snapshot, and the topic from its boundary on. Runs in the driver.

The snapshot is chosen before the end of the topic, so no record is in neither part; the boundary belongs to the
snapshot, so no record is in both.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from ottla.client.cluster import Cluster, Topic, TopicPartition
from ottla.client.errors import TopicNotFound
from ottla.client.offsets import EARLIEST, LATEST, READ_COMMITTED, list_offsets
from ottla.client.schema_registry import RegistrySettings
from ottla.spark.options import OptionError
from ottla.spark.source.range_reader import read_range
from ottla.spark.source.ranges import OffsetRange, split_ranges
from ottla.spark.source.source_options import SourceOptions
from ottla.spark.tables.lakes.boundary import Boundary
from ottla.spark.tables.lakes.catalogs import Lake
from ottla.spark.tables.lakes.lake import DataFile, LakeTable, TableError
from ottla.spark.tables.materializer import shown_id, values_of
from ottla.spark.tables.row_decoder import DecodePlan, NewSchemas, RowDecoder, Rows
from ottla.spark.tables.schemas.columns import FIXED, OFFSET, PARTITION, TIME
from ottla.spark.tables.schemas.evolution import Shape, plain_shape, renamed
from ottla.spark.tables.schemas.projection import project
from ottla.spark.tables.schemas.schema_planner import SchemaPlanner
from ottla.spark.tables.topic_tables import TablesFile, read_tables_file, table_of
from ottla.spark.tables.union_options import AsOf, UnionOptions
from ottla.table_settings import JSON, TableSettings

#: Offsets of the tail that are worth a task of their own.
_PER_TASK = 500_000


@dataclass(frozen=True)
class FilePart:
    """A data file as a task reads it."""

    file: DataFile
    stored: pa.Schema
    shape: Shape
    columns: pa.Schema

    def read(self) -> Iterator[pa.RecordBatch]:
        wanted = {child.name for child in self.shape.children if child.column in self.columns.names}
        names = [name for name in self.stored.names if name in wanted] or [OFFSET]
        children = tuple(child for name in names for child in self.shape.children if child.name == name)
        shape = Shape("", pa.struct([self.stored.field(name) for name in names]), (), 0, children)
        for batch in self.file.read(names):
            rows = project(batch.to_struct_array(), shape, pa.struct(list(self.columns)))
            yield pa.RecordBatch.from_struct_array(rows)


@dataclass(frozen=True)
class TailPart:
    """A range of the topic as a task reads it."""

    wanted: OffsetRange
    source: SourceOptions
    plan: DecodePlan
    settings: TableSettings
    registry: RegistrySettings | None
    #: Columns of the value in the whole table.
    values: pa.Schema

    def read(self) -> Iterator[Rows]:
        """Decode the records. Asks the registry for schemas that are newer than the plan."""
        decoder = RowDecoder(self.plan)
        for batch in read_range(self.source, self.wanted):
            if not len(batch):
                continue
            try:
                yield decoder.decode(batch)
            except NewSchemas as found:
                decoder = RowDecoder(self._with_schemas(found))
                rows = decoder.decode(batch)
                yield rows._replace(good=rows.good.rename_columns(self.plan.columns.names))

    def _with_schemas(self, found: NewSchemas) -> DecodePlan:
        planned = SchemaPlanner(self.settings, self.registry).plan(self.values, found.names)
        newer = {
            change.path[0]: change.name
            for each in planned.evolutions
            for change in each.changes
            if change.kind == "rename" and len(change.path) == 1
        }
        columns = [pa.field(newer.get(each.name, each.name), each.type) for each in self.plan.columns]
        return replace(self.plan, columns=pa.schema(columns), recipes=planned.recipes)


class UnionPlanner:
    """Owner: one thread. Reads the settings, the catalog, the registry and the cluster."""

    def __init__(self, options: UnionOptions) -> None:
        self._options = options
        self._source = options.connection.source_options(options.topic)
        self._cluster = Cluster(self._source.settings)
        try:
            self._open()
        except BaseException:
            self.close()
            raise

    def _open(self) -> None:
        options = self._options
        file: TablesFile | None = None
        if options.tables_file:
            file = read_tables_file(Path(options.tables_file))
        self.settings: TableSettings = table_of(self._cluster, options.topic, file)
        self._lake = Lake(options.warehouse, file.catalogs if file is not None else {})
        self._schemas = SchemaPlanner(self.settings, options.connection.registry)
        self.table: LakeTable | None = self._lake.load(self.settings)
        self._plan = self._schemas.plan(self._stored_values())
        if self.table is None and self.settings.mode == JSON:
            raise TableError(
                f"Topic {options.topic} has no table yet, which would name its columns: run `ottla tables run`."
            )

    def close(self) -> None:
        self._cluster.close()

    def _stored_values(self) -> pa.Schema:
        return pa.schema([]) if self.table is None else values_of(self.table.columns())

    # Columns

    def all_columns(self) -> pa.Schema:
        return pa.schema([*FIXED, *self._plan.columns])

    def columns(self) -> pa.Schema:
        """Return the columns of the DataFrame. Raises OptionError for unknown names."""
        columns = self.all_columns()
        for name in self._options.columns:
            if name not in columns.names:
                raise OptionError(
                    f"There is no column '{name}' in the table of {self._options.topic}, only "
                    f"{', '.join(columns.names)}."
                )
        return pa.schema([columns.field(name) for name in self._options.columns or columns.names])

    @property
    def is_evolving(self) -> bool:
        """Return True if the registry has newer schemas than the table."""
        return bool(self._plan.evolutions)

    # Table

    def snapshot(self) -> int | None:
        """Return the snapshot to read: the named one, or the current one, or None without any."""
        if self.table is None:
            return None
        if self._options.snapshot is not None:
            return self._options.snapshot
        if self.settings.is_upsert and self._wants_past():
            return self._past_snapshot()
        return self.table.snapshot_id()

    def _wants_past(self) -> bool:
        return self._options.as_of != AsOf()

    def _past_snapshot(self) -> int | None:
        """Return the newest snapshot before a past moment: rows of an upsert table replace others."""
        assert self.table is not None
        ends = self.past_ends()
        found = None
        snapshots = self.table.snapshots()
        for each in snapshots:
            offsets = {} if each.boundary is None else each.boundary.offsets
            if each.boundary is not None and all(end <= ends.get(part, 0) for part, end in offsets.items()):
                found = each.id
        if found is None:
            first = min((each.committed_ms for each in snapshots), default=0)
            raise TableError(
                f"Table {self.table.name} has no snapshot of that time; the oldest is of {first} (ms). "
                "Keep more with ottla.table.snapshot.retention.ms."
            )
        return found

    def boundary(self, snapshot: int | None) -> Boundary:
        topic = self.topic()
        found = None
        if self.table is not None and snapshot is not None:
            found = self.table.at(snapshot)
            if found is None:
                found = self.table.boundary() if snapshot == self.table.snapshot_id() else None
        if found is None:
            return Boundary(topic.name, shown_id(topic))
        assert self.table is not None
        found.check_topic(self.table.name, topic.name, shown_id(topic))
        return found

    def files(self, snapshot: int | None, columns: pa.Schema) -> list[FilePart]:
        if self.table is None or snapshot is None:
            return []
        stored = self.table.columns()
        shape = plain_shape("", pa.struct(list(stored)))
        for evolution in self._plan.evolutions:
            for change in evolution.changes:
                if change.kind == "rename":
                    shape = renamed(shape, change.path, change.name)
        read = self._with_bounds(columns)
        return [FilePart(file, stored, shape, read) for file in self.table.files(snapshot)]

    def _with_bounds(self, columns: pa.Schema) -> pa.Schema:
        """Add the columns that decide whether a row is before a past moment."""
        if not self._wants_past():
            return columns
        extra = [each for each in FIXED if each.name in (PARTITION, OFFSET, TIME)]
        return pa.schema([*columns, *(each for each in extra if each.name not in columns.names)])

    # Topic

    def topic(self) -> Topic:
        name = self._options.topic
        found = self._cluster.retrying(lambda: self._cluster.topics([name])).get(name)
        if found is None:
            raise TopicNotFound(name)
        return found

    def ends(self) -> dict[int, int]:
        """Return the last stable offsets, or the requested past offsets."""
        last = self._list(dict.fromkeys(self.topic().partitions, LATEST))
        if not self._wants_past():
            return last
        past = self.past_ends()
        return {partition: min(end, past.get(partition, 0)) for partition, end in last.items()}

    def past_ends(self) -> dict[int, int]:
        as_of = self._options.as_of
        partitions = self.topic().partitions
        if as_of.offsets is not None:
            return {each.partition: as_of.offsets.get(each.partition, 0) for each in partitions}
        if not self.settings.is_upsert:
            # The time of each row decides, because times need not follow offsets.
            return self._list(dict.fromkeys(partitions, LATEST))
        assert as_of.timestamp_ms is not None
        found = self._list(dict.fromkeys(partitions, as_of.timestamp_ms))
        last = self._list(dict.fromkeys(partitions, LATEST))
        return {part: last[part] if offset < 0 else offset for part, offset in found.items()}

    def ranges(self, start: Mapping[int, int], end: Mapping[int, int]) -> list[OffsetRange]:
        """Return the ranges to read. Partitions that the start lacks begin at their first offset."""
        topic = self._options.topic
        first = self._list({TopicPartition(topic, each): EARLIEST for each in end})
        found = []
        for partition, stop in sorted(end.items()):
            begin = start.get(partition)
            if begin is not None and begin < first[partition] and stop > begin:
                raise TableError(
                    f"Offsets {begin} to {first[partition] - 1} of {topic}-{partition} were deleted from the topic "
                    "before the table had them: run `ottla tables run` more often, or keep records longer."
                )
            begin = max(begin or 0, first[partition])
            found.append(OffsetRange(TopicPartition(topic, partition), begin, max(begin, stop)))
        return split_ranges(found, None, _PER_TASK)

    def tail(self, ranges: Sequence[OffsetRange], columns: pa.Schema) -> list[TailPart]:
        wanted = self._with_bounds(columns)
        plan = DecodePlan(
            self.settings.mode,
            wanted,
            self._plan.recipes,
            self.settings.is_upsert,
            is_final=not self.settings.uses_registry,
        )
        registry, values = self._options.connection.registry, self._plan.columns
        return [TailPart(each, self._source, plan, self.settings, registry, values) for each in ranges]

    def _list(self, wanted: Mapping[TopicPartition, int]) -> dict[int, int]:
        if not wanted:
            return {}
        found = list_offsets(self._cluster, wanted, READ_COMMITTED)
        return {each.partition: at.offset for each, at in found.items()}


def before(rows: pa.RecordBatch, as_of: AsOf) -> pa.RecordBatch:
    """Return the rows before the moment."""
    import pyarrow.compute as pc

    if as_of.timestamp_ms is not None:
        bound = pa.scalar(as_of.timestamp_ms * 1000, pa.int64()).cast(pa.timestamp("us", tz="UTC"))
        return rows.filter(pc.less(rows.column(TIME), bound))
    if as_of.offsets is None:
        return rows
    keep: Any = None
    for partition, end in as_of.offsets.items():
        here = pc.and_(
            pc.equal(rows.column(PARTITION), pa.scalar(partition, pa.int32())),
            pc.less(rows.column(OFFSET), pa.scalar(end, pa.int64())),
        )
        keep = here if keep is None else pc.or_(keep, here)
    return rows.slice(0, 0) if keep is None else rows.filter(keep)
