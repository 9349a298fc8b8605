"""One topic becomes a table, step by step. Each step reads new records and commits them with their offsets.

The table's boundary is the only progress that is stored, so a driver that dies at any moment neither loses nor
repeats a row. Dead letters are committed before the table: after a crash in between, the boundary of the dead letters
prevents their repetition.
"""

from __future__ import annotations

import functools
import logging
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from ottla.client.cluster import Cluster, Topic, TopicPartition
from ottla.client.errors import ClientError, TopicNotFound
from ottla.client.offsets import EARLIEST, LATEST, READ_COMMITTED, list_offsets
from ottla.spark.source.ranges import OffsetRange, limit_offsets, split_ranges
from ottla.spark.tables.lakes.boundary import Boundary
from ottla.spark.tables.lakes.catalogs import Lake, boundary_of
from ottla.spark.tables.lakes.lake import Conflict, LakeTable, TableError, Upsert
from ottla.spark.tables.range_writer import WriteTask, WrittenRange, from_bytes, write_range
from ottla.spark.tables.row_decoder import DecodePlan, last_of_each_key
from ottla.spark.tables.schemas.columns import DEAD_LETTERS, DELETED, FIXED, FIXED_NAMES, KEY, OFFSET, TIME
from ottla.spark.tables.schemas.schema_planner import SchemaPlan, SchemaPlanner
from ottla.spark.tables.union_options import Connection
from ottla.table_settings import JSON, TableSettings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger("ottla.spark")

_ATTEMPTS = 5
#: Offsets in one commit: of appended rows, and of rows that replace others in the driver.
MOST_APPENDED, MOST_UPSERTED = 5_000_000, 200_000
#: Offsets that a task should have at least.
_WORTH_A_TASK = 20_000


@dataclass
class Step:
    """Outcome of one step. `behind` is the number of offsets for the next steps."""

    rows: int = 0
    dead_letters: int = 0
    behind: int = 0
    seconds: float = 0.0
    changes: list[str] = field(default_factory=list)


class Materializer:
    """Owner: one thread of the table job."""

    def __init__(
        self, spark: SparkSession, connection: Connection, lake: Lake, settings: TableSettings
    ) -> None:
        self._spark = spark
        self._settings = settings
        self._lake = lake
        self._options = connection.source_options(settings.topic)
        self._cluster = Cluster(self._options.settings)
        self._planner = SchemaPlanner(settings, connection.registry)
        self._plan: SchemaPlan | None = None
        #: Offsets without rows after the boundary, such as those of transaction markers.
        self._empty: dict[int, int] = {}
        self._most = MOST_UPSERTED if settings.is_upsert else MOST_APPENDED

    def close(self) -> None:
        self._cluster.close()

    def step(self) -> Step:
        """Commit the next records, if there are any. Raises ClientError."""
        began = time.monotonic()
        for attempt in range(_ATTEMPTS):
            try:
                step = self._step()
            except Conflict as error:
                if attempt + 1 == _ATTEMPTS:
                    raise
                log.warning("%s Trying again.", error.message)
                continue
            step.seconds = time.monotonic() - began
            return step
        raise AssertionError

    def _step(self) -> Step:
        topic = self._topic()
        table = self._lake.load(self._settings)
        boundary = self._boundary(table, topic)
        start, end = self._offsets(topic, boundary)
        behind = sum(end.values()) - sum(start.values())
        if not behind:
            return Step()
        limited = limit_offsets(start, end, self._most)
        ranges = self._ranges(start, limited)
        step = Step(behind=sum(end.values()) - sum(limited.values()))
        table, written = self._write(table, ranges, topic, step)
        step.rows = sum(each.rows for each in written)
        step.dead_letters = sum(each.dead_rows for each in written)
        reached = {**boundary.offsets, **{each.partition: offset for each, offset in limited.items()}}
        after = Boundary(self._settings.topic, boundary.topic_id, reached)
        if not step.rows and not step.dead_letters:
            self._empty = dict(reached)
            return step
        self._commit(table, written, boundary, after)
        self._empty = {}
        return step

    def _topic(self) -> Topic:
        name = self._settings.topic
        topic = self._cluster.retrying(lambda: self._cluster.topics([name])).get(name)
        if topic is None:
            raise TopicNotFound(name)
        return topic

    def _boundary(self, table: LakeTable | None, topic: Topic) -> Boundary:
        topic_id = shown_id(topic)
        boundary = boundary_of(table)
        if boundary is None:
            return Boundary(topic.name, topic_id)
        assert table is not None
        boundary.check_topic(table.name, topic.name, topic_id)
        return replace(boundary, topic_id=boundary.topic_id or topic_id)

    def _offsets(
        self, topic: Topic, boundary: Boundary
    ) -> tuple[dict[TopicPartition, int], dict[TopicPartition, int]]:
        """Return the offsets to start and end at. Records that retention deleted are reported and skipped."""
        partitions = topic.partitions
        first = list_offsets(self._cluster, dict.fromkeys(partitions, EARLIEST))
        last = list_offsets(self._cluster, dict.fromkeys(partitions, LATEST), READ_COMMITTED)
        start: dict[TopicPartition, int] = {}
        end: dict[TopicPartition, int] = {}
        for each in partitions:
            known = boundary.offsets.get(each.partition)
            begin = max(known or 0, self._empty.get(each.partition, 0))
            if known is not None and first[each].offset > known:
                log.warning(
                    "Offsets %d to %d of %s were deleted from the topic before the table had them.",
                    known, first[each].offset - 1, each,
                )  # fmt: skip
            if begin > last[each].offset:
                log.warning("Partition %s ends at %d, before the table's %d.", each, last[each].offset, begin)
            start[each] = max(begin, first[each].offset)
            end[each] = max(start[each], last[each].offset)
        return start, end

    def _ranges(
        self, start: Mapping[TopicPartition, int], end: Mapping[TopicPartition, int]
    ) -> list[OffsetRange]:
        ranges = [
            OffsetRange(each, start[each], end[each]) for each in sorted(end) if end[each] > start[each]
        ]
        if self._settings.is_upsert:
            return ranges
        size = sum(each.size for each in ranges)
        tasks = min(self._spark.sparkContext.defaultParallelism, size // _WORTH_A_TASK)
        return split_ranges(ranges, tasks or None, None)

    def _write(
        self, table: LakeTable | None, ranges: list[OffsetRange], topic: Topic, step: Step
    ) -> tuple[LakeTable, list[WrittenRange]]:
        """Run the tasks, and run them again with new columns whenever they meet new schemas."""
        dead_from = self._dead_from()
        plan = self._planned(table)
        for _ in range(1000):
            table = self._evolved(table, plan, topic, step, probing=self._must_probe(table))
            columns = value_and_fixed(table, plan)
            task = WriteTask(
                self._options,
                DecodePlan(self._settings.mode, columns, plan.recipes, self._settings.is_upsert),
                None if table is None else table.writer(),
                self._settings.target_file_bytes,
                self._settings.is_upsert,
                dead_from,
            )
            written = self._run(task, ranges)
            new = [each for each in written if each.needs_evolution]
            if not new and table is not None:
                return table, written
            files = [file for each in written for file in each.files]
            if task.writer is not None and files:
                task.writer.remove(files)
            if new:
                plan = self._replanned(table, new)
            else:
                table = self._evolved(table, plan, topic, step, probing=False)
        raise TableError(f"The schemas of topic {self._settings.topic} change faster than its table.")

    def _must_probe(self, table: LakeTable | None) -> bool:
        """Return True if the columns are not known before a look at the records."""
        return table is None and self._settings.mode == JSON and self._plan is None

    def _planned(self, table: LakeTable | None) -> SchemaPlan:
        columns = pa.schema([]) if table is None else values_of(table.columns())
        if self._plan is None or self._plan.columns != columns:
            return self._planner.plan(columns)
        return replace(self._plan, evolutions=())

    def _replanned(self, table: LakeTable | None, new: list[WrittenRange]) -> SchemaPlan:
        columns = pa.schema([]) if table is None else values_of(table.columns())
        names = frozenset().union(*(each.new_schemas for each in new))
        inferred = [each.inferred for each in new if each.inferred is not None]
        self._plan = None
        # One type after the other: the first decides, and the others add fields.
        plan = self._planner.plan(columns, names, inferred[0] if inferred else None)
        for each in inferred[1:]:
            more = self._planner.plan(plan.columns, (), each)
            plan = replace(more, evolutions=(*plan.evolutions, *more.evolutions))
        self._plan = plan
        return plan

    def _evolved(
        self, table: LakeTable | None, plan: SchemaPlan, topic: Topic, step: Step, *, probing: bool
    ) -> LakeTable | None:
        if probing:
            return None
        if table is None:
            columns = pa.schema([*FIXED, *plan.columns])
            table = self._lake.create(self._settings, columns, shown_id(topic))
        missing = [each for each in FIXED if each.name not in table.columns().names]
        if missing:
            raise TableError(
                f"Table {table.name} exists with another schema: it has no column {missing[0].name}. "
                f"Rename the table, or set ottla.table.namespace of topic {self._settings.topic}."
            )
        changes = [change for each in plan.evolutions for change in each.changes]
        if changes and values_of(table.columns()) != plan.columns:
            table.evolve(plan.evolutions)
            step.changes += [str(change) for change in changes]
        self._plan = replace(plan, evolutions=())
        return table

    def _run(self, task: WriteTask, ranges: list[OffsetRange]) -> list[WrittenRange]:
        context = self._spark.sparkContext
        work: Any = functools.partial(write_range, task)
        try:
            return list(context.parallelize(ranges, len(ranges)).map(work).collect())
        except Exception as error:
            if isinstance(error, ClientError) or type(error).__module__.partition(".")[0] not in (
                "py4j",
                "pyspark",
            ):
                raise
            from ottla.spark.pipelines.failure import sentence

            raise TableError(sentence(str(error))) from None

    # Commit

    def _commit(
        self, table: LakeTable, written: list[WrittenRange], before: Boundary, after: Boundary
    ) -> None:
        dead = from_bytes([each.dead for each in written if each.dead is not None])
        if dead is not None and len(dead):
            self._commit_dead_letters(dead, after)
        files = [file for each in written for file in each.files]
        try:
            self._check_unchanged(table, before)
            if self._settings.is_upsert:
                table.upsert(self._upsert(written, table), after)
            else:
                table.append(files, after)
        except Conflict:
            table.writer().remove(files)
            raise

    def _check_unchanged(self, table: LakeTable, before: Boundary) -> None:
        """Refuse to commit if another table job has committed since this step began.

        A commit after this check conflicts, because it has the same parent.
        """
        table.refresh()
        now = table.boundary()
        if (now.offsets if now is not None else {}) != before.offsets:
            raise Conflict(f"Another table job writes to table {table.name}.")

    def _upsert(self, written: list[WrittenRange], table: LakeTable) -> Upsert:
        rows = from_bytes([each.upserts for each in written if each.upserts is not None])
        if rows is None:
            return Upsert(table.columns().empty_table(), pa.array([], pa.binary()))
        # A key may be in two partitions, if partitions were added. The later record wins.
        last = last_of_each_key(rows.sort_by([(TIME, "ascending"), (OFFSET, "ascending")]))
        keys = last[KEY].combine_chunks()
        live = last.filter(pa.compute.invert(last[DELETED])).drop_columns([DELETED])
        return Upsert(live.select(table.columns().names), keys)

    def _dead_from(self) -> Mapping[int, int]:
        boundary = boundary_of(self._lake.load_dead_letters(self._settings))
        return {} if boundary is None else boundary.offsets

    def _commit_dead_letters(self, dead: pa.Table, after: Boundary) -> None:
        table = self._lake.load_dead_letters(self._settings)
        if table is None:
            table = self._lake.create(self._settings, DEAD_LETTERS, after.topic_id, dead_letters=True)
        table.append(table.writer().write(dead), after)


def shown_id(topic: Topic) -> str:
    """Return the topic's id as kafka-topics shows it, or nothing for brokers without topic ids."""
    import base64

    if not any(topic.topic_id):
        return ""
    return base64.urlsafe_b64encode(topic.topic_id).decode().rstrip("=")


def values_of(columns: pa.Schema) -> pa.Schema:
    return pa.schema([each for each in columns if each.name not in FIXED_NAMES])


def value_and_fixed(table: LakeTable | None, plan: SchemaPlan) -> pa.Schema:
    return pa.schema([*FIXED, *plan.columns]) if table is None else table.columns()
