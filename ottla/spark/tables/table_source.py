"""`format("ottla.table")`: a table and the live tail of its topic as one DataFrame, in batches and streams.

Like `format("ottla")`, its processes import decoders only when needed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, SupportsTriggerAvailableNow

from ottla.spark.options import OptionError
from ottla.spark.tables.union_options import AsOf, UnionOptions, parse_union_options

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

    from ottla.spark.tables.union_plan import FilePart, TailPart, UnionPlanner

_INITIAL: dict[str, Any] = {"version": 1, "snapshot": None, "started": False, "offsets": {}}


class TableDataSource(DataSource):
    @classmethod
    def name(cls) -> str:
        return "ottla.table"

    def schema(self) -> StructType:
        import pyarrow as pa
        from pyspark.sql.pandas.types import from_arrow_schema

        from ottla.spark.tables.schemas.columns import DELETED

        options = parse_union_options(self.options)
        planner = _planner(options)
        try:
            if planner.settings.is_upsert and not options.only_tail:
                raise OptionError(
                    f"The table of topic {options.topic} has ottla.table.write.mode=upsert: read it in a batch with "
                    "ottla.spark.read_table."
                )
            columns = planner.columns()
            if options.only_tail and planner.settings.is_upsert:
                columns = columns.append(pa.field(DELETED, pa.bool_()))
            return from_arrow_schema(columns)
        finally:
            planner.close()

    def reader(self, schema: StructType) -> TableReader:
        return TableReader(parse_union_options(self.options), _columns(schema))

    def streamReader(self, schema: StructType) -> TableStreamReader:
        options = parse_union_options(self.options)
        if options.as_of != AsOf():
            raise OptionError("asOfOffsets and asOfTimestamp cannot be used in a streaming query.")
        return TableStreamReader(options, _columns(schema))


def _columns(schema: StructType) -> pa.Schema:
    from pyspark.sql.pandas.types import to_arrow_schema

    from ottla.spark.tables.schemas.columns import lake_schema

    return lake_schema(to_arrow_schema(schema, timezone="UTC"))


def _planner(options: UnionOptions) -> UnionPlanner:
    from ottla.spark.tables.union_plan import UnionPlanner

    return UnionPlanner(options)


class _Part(InputPartition):
    def __init__(self, part: FilePart | TailPart) -> None:
        super().__init__(part)


class TableReader(DataSourceReader):
    def __init__(self, options: UnionOptions, columns: pa.Schema) -> None:
        self._options = options
        import pyarrow as pa

        from ottla.spark.tables.schemas.columns import DELETED

        self._columns = columns
        #: Columns of the table, without the mark of tombstones.
        self._wanted = pa.schema([each for each in columns if each.name != DELETED])

    def partitions(self) -> Sequence[InputPartition]:
        planner = _planner(self._options)
        try:
            snapshot = planner.snapshot()
            boundary = planner.boundary(snapshot)
            files = [] if self._options.only_tail else planner.files(snapshot, self._wanted)
            tail = planner.tail(planner.ranges(boundary.offsets, planner.ends()), self._wanted)
            return [*map(_Part, files), *map(_Part, tail)]
        finally:
            planner.close()

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        if partition.value is None:  # Spark plans one task even without data
            return iter(())
        return _read(partition.value, self._options.as_of, self._columns)


def _read(part: FilePart | TailPart, as_of: AsOf, columns: pa.Schema) -> Iterator[pa.RecordBatch]:
    from ottla.spark.tables.union_plan import FilePart, before

    for rows in part.read() if isinstance(part, FilePart) else _tail_rows(part):
        wanted = before(rows, as_of).select(columns.names)
        if len(wanted):
            yield wanted


def _tail_rows(part: TailPart) -> Iterator[pa.RecordBatch]:
    from ottla.spark.tables.schemas.columns import DELETED

    for rows in part.read():
        yield rows.good.append_column(DELETED, rows.tombstones)


class TableStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """The first micro-batch is the table, and the others are the topic from the table's boundary on."""

    def __init__(self, options: UnionOptions, columns: pa.Schema) -> None:
        self._options = options
        self._columns = columns
        self._planner: UnionPlanner | None = None
        self._target: dict[int, int] | None = None

    @property
    def _plan(self) -> UnionPlanner:
        if self._planner is None:
            self._planner = _planner(self._options)
        return self._planner

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_planner": None}

    def initialOffset(self) -> dict[str, Any]:
        return dict(_INITIAL)

    def getDefaultReadLimit(self) -> ReadLimit:
        return ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:
        self._target = self._plan.ends()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        if not start["started"]:
            snapshot = self._plan.snapshot()
            boundary = self._plan.boundary(snapshot)
            return self._offset(snapshot, boundary.offsets)
        ends = self._plan.ends() if self._target is None else self._target
        before_now = {int(partition): end for partition, end in start["offsets"].items()}
        ends = {partition: max(end, before_now.get(partition, 0)) for partition, end in ends.items()}
        return self._offset(start["snapshot"], {**before_now, **ends})

    def _offset(self, snapshot: int | None, offsets: Mapping[int, int]) -> dict[str, Any]:
        shown = {str(partition): end for partition, end in sorted(offsets.items())}
        return {"version": 1, "snapshot": snapshot, "started": True, "offsets": shown}

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        if not start["started"]:
            return [_Part(each) for each in self._plan.files(end["snapshot"], self._columns)]
        first, last = (
            {int(partition): offset for partition, offset in each["offsets"].items()} for each in (start, end)
        )
        return [_Part(each) for each in self._plan.tail(self._plan.ranges(first, last), self._columns)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        if partition.value is None:
            return iter(())
        return _read(partition.value, self._options.as_of, self._columns)

    def commit(self, end: dict[str, Any]) -> None:
        pass

    def stop(self) -> None:
        if self._planner is not None:
            self._planner.close()
