"""Execution of plans on Spark: batches, rows for a reader, and queries that write topics.

Statements need some Spark settings. They are set during planning, when a streaming query copies them, and restored
afterwards, because the session belongs to the caller.
"""

from __future__ import annotations

import queue
import shutil
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from ottla.spark import queries
from ottla.spark.formats.value_format import quoted
from ottla.spark.sink.batches import write_batch
from ottla.spark.state import fixed_partitions
from ottla.sql.brokers import Brokers
from ottla.sql.errors import SqlError, sentence
from ottla.sql.frames import TIME, batch_frame, empty_frame, found_frame, milliseconds_of, stream_frame
from ottla.sql.paces import Paces
from ottla.sql.planning.aggregate_plan import KEEP, ROW_TIME
from ottla.sql.planning.join_plan import view
from ottla.sql.planning.plan import WINDOW_END, WINDOW_START, Plan
from ottla.sql.planning.record_expressions import encode_key, encode_value
from ottla.sql.registered.codecs import Codecs
from ottla.sql.registered.schemas import Schemas
from ottla.sql.sources import Source
from ottla.sql.stateful.flows import source_flow
from ottla.sql.stateful.pipelines import pipeline_of
from ottla.sql.stateful.runner import Batch, over

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import DataStreamWriter, StreamingQuery
    from pyspark.sql.types import StructType

    from ottla.sql.pull.table_index import Found

SETTINGS = {
    # Names are upper case unless quoted. Quoted names are case-sensitive.
    "spark.sql.caseSensitive": "true",
    # A value that does not fit becomes null instead of ending the query.
    "spark.sql.ansi.enabled": "false",
    "spark.sql.session.timeZone": "UTC",
    # For duplicate map keys, the last entry wins.
    "spark.sql.mapKeyDedupPolicy": "LAST_WIN",
    "spark.sql.variant.allowDuplicateKeys": "true",
    "spark.sql.timeType.enabled": "true",
}

Row = tuple[Any, ...]


class Engine:
    def __init__(
        self, spark: SparkSession, brokers: Brokers, schemas: Schemas, *, paced: bool = False
    ) -> None:
        self.spark = spark
        self._brokers = brokers
        self._schemas = schemas
        self._installed: set[str] = set()  # function names
        self._paces = Paces() if paced else None
        # Settings and views belong to the session, and a server plans for many clients.
        self._planning = threading.RLock()
        #: Maximum records per micro-batch for queries started from now on.
        self.max_offsets: str = ""

    def asking(self, schemas: Schemas) -> Engine:
        """Return a copy for another client, which may use another schema registry."""
        other = Engine(self.spark, self._brokers, schemas)
        other._installed, other._paces, other._planning = self._installed, self._paces, self._planning
        other.max_offsets = self.max_offsets
        return other

    @contextmanager
    def _settings(self) -> Iterator[None]:
        with self._planning:
            yield from self._set()

    def _set(self) -> Iterator[None]:
        # Spark looks up data sources in the thread's active session, regardless of the frame's session.
        self.spark._jvm.SparkSession.setActiveSession(self.spark._jsparkSession)
        before = {name: self.spark.conf.get(name, None) for name in SETTINGS}
        for name, value in SETTINGS.items():
            self.spark.conf.set(name, value)
        try:
            yield
        finally:
            for name, value in before.items():
                if value is None:
                    self.spark.conf.unset(name)
                else:
                    self.spark.conf.set(name, value)

    # Frames

    def schema(self, plan: Plan) -> StructType:
        with self._settings():
            return self._result(plan).schema

    def _result(self, plan: Plan) -> DataFrame:
        frames = {
            alias: empty_frame(self.spark, source, self._codecs(source))
            for alias, source in plan.sources.items()
        }
        return self._batch(self.spark, plan, frames).select(*map(quoted, plan.names))

    def _over(self, spark: SparkSession, plan: Plan, frames: Mapping[str, DataFrame]) -> DataFrame:
        for alias, frame in frames.items():
            frame.createOrReplaceTempView(view(alias))
        try:
            return spark.sql(plan.sql)
        finally:
            for alias in frames:
                spark.catalog.dropTempView(view(alias).strip("`"))

    def _batch(
        self, spark: SparkSession, plan: Plan, given: Mapping[str, DataFrame] | None = None
    ) -> DataFrame:
        frames = {
            alias: (given or {}).get(alias)
            or batch_frame(spark, source, self._brokers.read_options(), self._codecs(source))
            for alias, source in plan.sources.items()
        }
        if plan.mode == "stateful":  # only for its columns
            return over(pipeline_of(plan).shape(source_flow(plan, frames)), plan.sql)
        return self._over(spark, plan, frames)

    def _stream(self, plan: Plan, starting: str, group: str | None) -> DataFrame:
        frames = {}
        for alias, source in plan.sources.items():
            frame = self._source(source, starting, group)
            if alias in plan.watermarks:
                frame = frame.withWatermark(TIME, f"{plan.watermarks[alias]} milliseconds")
            frames[alias] = frame
        return self._over(self.spark, plan, frames)

    def _source(self, source: Source, starting: str, group: str | None) -> DataFrame:
        # A table needs all its rows, regardless of where streams start.
        start = "earliest" if source.kind == "TABLE" else starting
        return stream_frame(self.spark, source, self._options(group), start, self._codecs(source))

    def _codecs(self, source: Source, *, writing: bool = False) -> Codecs:
        return self._schemas.codecs(source, writing=writing).install(self.spark, self._installed)

    def _options(self, group: str | None) -> dict[str, str]:
        options = self._brokers.read_options()
        if group is not None:
            options["ottla.commit.group"] = group
            if self.max_offsets:
                options["maxOffsetsPerTrigger"] = self.max_offsets
        return options

    def _encoded(self, frame: DataFrame, plan: Plan, target: Source, codecs: Codecs) -> DataFrame:
        hidden = [name for name in (ROW_TIME, KEEP, WINDOW_START, WINDOW_END) if name in frame.columns]
        typed = frame.selectExpr(
            *(
                f"CAST({quoted(each.name)} AS {each.type.ddl}) AS {quoted(each.name)}"
                for each in target.columns
            ),
            *hidden,
        )
        value = encode_value(target, codecs.value)
        if KEEP in hidden:
            value = f"CASE WHEN {KEEP} THEN {value} END"
        is_new = bool(plan.select.partition_by or plan.select.group_by)
        time = ROW_TIME
        if target.timestamp is not None:
            # A tombstone has a time but no columns. Rows with an unknown time are not written.
            kept = KEEP if KEEP in hidden else "true"
            time = f"CASE WHEN {kept} THEN {milliseconds_of(target)} ELSE {ROW_TIME} END"
            typed = typed.where(f"{time} >= 0")
        return typed.selectExpr(
            f"{encode_key(target, WINDOW_START, WINDOW_END, codecs.key, is_new=is_new)} AS key",
            f"{value} AS value",
            f"timestamp_millis({time}) AS timestamp",
        )

    # Batches

    def pull(self, plan: Plan, found: Sequence[Found] | None = None) -> list[Row]:
        """Query all current records, or only the records found in the table's index."""
        with self._settings():
            given = {}
            if found is not None:
                [(alias, source)] = plan.sources.items()
                given[alias] = found_frame(self.spark, source, found, self._codecs(source))
            rows = self._batch(self.spark, plan, given).select(*map(quoted, plan.names)).collect()
        return [tuple(map(plain, row)) for row in rows]

    def explain(self, plan: Plan) -> str:
        with self._settings():
            return str(self._batch(self.spark, plan)._jdf.queryExecution().simpleString())

    # Queries that write

    def start(
        self,
        plan: Plan,
        target: Source,
        query_id: str,
        checkpoint: str,
        starting: str,
        *,
        exactly_once: bool = True,
    ) -> StreamingQuery:
        group = f"ottla-sql-{query_id}"
        delivery = "exactly-once" if exactly_once else "at-least-once"
        options = {**self._brokers.write_options(), "topic": target.topic, "ottla.delivery": delivery}

        codecs = self._codecs(target, writing=True)

        def write(rows: DataFrame, batch: int) -> None:
            if _is_hopping(plan):
                # Spark emits the windows of a record in any order; Kafka Streams emits earlier windows first.
                keys = [quoted(output.name) for output in plan.outputs if output.is_key]
                rows = rows.repartition(*keys).sortWithinPartitions(WINDOW_START)
            write_batch(
                self._encoded(rows, plan, target, codecs), options, batch_id=batch, checkpoint=checkpoint
            )

        def begin() -> StreamingQuery:
            with self._settings():
                if plan.mode in ("append", "changes"):
                    rows = self._encoded(self._stream(plan, starting, group), plan, target, codecs)
                    writer = rows.writeStream.format("ottla").options(**options).outputMode("append")
                else:
                    writer = self._each_batch(plan, starting, group, checkpoint, write)
                return queries.start(writer, self.spark, query_id, checkpoint, None)

        return self._begun(begin)

    def _begun(
        self, begin: Callable[[], StreamingQuery], interrupted: threading.Event | None = None
    ) -> StreamingQuery:
        return begin() if self._paces is None else self._paces.begin(begin, interrupted)

    def _each_batch(
        self,
        plan: Plan,
        starting: str,
        group: str | None,
        checkpoint: str,
        use: Callable[[DataFrame, int], None],
    ) -> DataStreamWriter:
        """Run a query that passes each micro-batch to `use`, in the session of the query."""
        if plan.mode == "stateful":
            return self._stateful(plan, starting, group, checkpoint, use)
        mode = "update" if plan.mode == "update" else "append"
        return self._stream(plan, starting, group).writeStream.outputMode(mode).foreachBatch(use)

    def _stateful(
        self,
        plan: Plan,
        starting: str,
        group: str | None,
        checkpoint: str,
        use: Callable[[DataFrame, int], None],
    ) -> DataStreamWriter:
        frames = {alias: self._source(source, starting, group) for alias, source in plan.sources.items()}
        pipeline = pipeline_of(plan)
        facts = self._brokers.topic(plan.sources[plan.select.source.alias].topic)
        # Use the topic's partition count, so that stream time covers the same records as in Kafka Streams.
        partitions = fixed_partitions(checkpoint, 1 if facts is None else facts.partitions)

        def each(batch: DataFrame, number: int) -> None:
            if pipeline.reads_twice:
                batch.persist()
            try:
                query_id = queries.query_id(batch.sparkSession)
                assert query_id is not None
                flow = pipeline.run(batch, Batch(checkpoint, query_id, number, partitions))
                use(over(flow, plan.sql), number)
            finally:
                if pipeline.reads_twice:
                    batch.unpersist()

        return source_flow(plan, frames).writeStream.foreachBatch(each)

    # Rows for a reader

    def push(self, plan: Plan, starting: str, interrupted: threading.Event | None = None) -> Iterator[Row]:
        """Yield rows as they arrive, until the reader stops or another thread interrupts."""
        waiting: queue.Queue[Row] = queue.Queue()
        names = [*plan.names, ROW_TIME]

        def collect(rows: DataFrame, _batch: int) -> None:
            if KEEP in rows.columns:
                rows = rows.where(KEEP)
            shown = [*names, WINDOW_START] if _is_hopping(plan) else names
            found = rows.select(*map(quoted, shown)).collect()
            if plan.mode != "stateful":  # stateful rows are already in order
                found.sort(key=lambda row: tuple(each or 0 for each in row[len(plan.names) :]))
            for row in found:
                waiting.put(tuple(map(plain, row[: len(plan.names)])))

        checkpoint = tempfile.mkdtemp(prefix="ottla-sql-")

        def begin() -> StreamingQuery:
            with self._settings():
                writer = self._each_batch(plan, starting, None, checkpoint, collect)
                return writer.option("checkpointLocation", checkpoint).start()

        try:
            query = self._begun(begin, interrupted)
            try:
                yield from self._waited(query, waiting, interrupted)
            finally:
                query.stop()
        finally:
            shutil.rmtree(checkpoint, ignore_errors=True)

    def _waited(
        self, query: StreamingQuery, waiting: queue.Queue[Row], interrupted: threading.Event | None
    ) -> Iterator[Row]:
        while interrupted is None or not interrupted.is_set():
            try:
                yield waiting.get(timeout=0.2)
            except queue.Empty:
                failure = query.exception()
                if failure is not None:
                    raise SqlError(sentence(failure)) from None
                if not query.isActive and waiting.empty():
                    return


def _is_hopping(plan: Plan) -> bool:
    """Return True if a record may fall into several windows, which Spark computes."""
    return plan.mode == "update" and plan.window is not None and plan.window.advance_ms is not None


def plain(value: Any) -> Any:
    if hasattr(value, "asDict"):
        value = value.asDict()
    if isinstance(value, list):
        return [plain(each) for each in value]
    if isinstance(value, dict):
        return {name: plain(each) for name, each in value.items()}
    return bytes(value) if isinstance(value, bytearray) else value
