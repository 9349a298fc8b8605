"""Steps, and how a micro-batch goes through them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ottla.spark.arrow_map import map_in_arrow
from ottla.sql.planning.join_plan import FLOW
from ottla.sql.stateful.columns import HEAD, INPUT, KEY
from ottla.sql.stateful.records import Operator
from ottla.sql.stateful.task import StageTask

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import DataType, StructType

_HEAD_SCHEMA = "__input INT, __time BIGINT, __deleted BOOLEAN, __part INT, __seq BIGINT"


@dataclass(frozen=True)
class Stage:
    operator: Operator
    #: Input → its key, an expression over the flow of any type. Equal keys have equal text in JSON.
    keys: Mapping[int, str]
    #: Inputs that are tables: at equal times they are processed first.
    tables: frozenset[int] = frozenset()
    #: Inputs that one stage made: their rows stay in its order.
    together: frozenset[int] = frozenset()
    #: The payload that the operator makes, as DDL; None if it has the columns of the one that it gets.
    payload: str | None = None


@dataclass(frozen=True)
class Projection:
    sql: str  # over FLOW


Step = Stage | Projection


@dataclass(frozen=True)
class Batch:
    """One micro-batch of a query. Everything that is the same for all its stages."""

    checkpoint: str
    query_id: str
    number: int
    partitions: int


@dataclass(frozen=True)
class Pipeline:
    steps: tuple[Step, ...] = field(default_factory=tuple)

    def run(self, flow: DataFrame, batch: Batch) -> DataFrame:
        """What a micro-batch becomes. Nothing is computed before that is used."""
        # Spark must not leave a task out because it has no rows: each of them has a version to write.
        flow.sparkSession.conf.set("spark.sql.adaptive.enabled", "false")
        for number, step in enumerate(self.steps):
            if isinstance(step, Projection):
                flow = over(flow, step.sql)
            else:
                flow = _through(flow, step, batch, self._inputs_after(number) - set(step.keys))
        return flow

    def _inputs_after(self, number: int) -> set[int]:
        return {each for step in self.steps[number + 1 :] if isinstance(step, Stage) for each in step.keys}

    def shape(self, flow: DataFrame) -> DataFrame:
        """A flow without rows, as this makes it: for its columns."""
        for step in self.steps:
            if isinstance(step, Projection):
                flow = over(flow, step.sql)
            elif step.payload is not None:
                flow = _empty(flow, _schema(flow, step))
        return flow

    @property
    def reads_twice(self) -> bool:
        """Whether a micro-batch should be kept while it is used: some of its rows are for later stages."""
        return any(
            self._inputs_after(number) - set(step.keys)
            for number, step in enumerate(self.steps)
            if isinstance(step, Stage)
        )


def over(flow: DataFrame, sql: str) -> DataFrame:
    flow.createOrReplaceTempView(FLOW.strip("`"))
    try:
        return flow.sparkSession.sql(sql)
    finally:
        flow.sparkSession.catalog.dropTempView(FLOW.strip("`"))


def _empty(flow: DataFrame, schema: StructType) -> DataFrame:
    return flow.sparkSession.createDataFrame([], schema)


def _through(flow: DataFrame, stage: Stage, batch: Batch, later: set[int]) -> DataFrame:
    inputs = ", ".join(map(str, stage.keys))
    mine = flow.where(f"{INPUT} IN ({inputs})") if later else flow
    keyed = mine.selectExpr("*", f"{_key(stage)} AS {KEY}").repartition(batch.partitions, KEY)
    schema = _schema(flow, stage)
    task = StageTask(
        stage.operator,
        stage.tables,
        stage.together,
        batch.checkpoint,
        batch.query_id,
        batch.number,
        _arrow(schema),
    )
    made = map_in_arrow(keyed, task, schema)
    return made.unionByName(flow.where(f"{INPUT} NOT IN ({inputs})")) if later else made


def _key(stage: Stage) -> str:
    """Bytes that are equal where keys are, and null where they are null."""
    choices = " ".join(
        f"WHEN {INPUT} = {number} THEN CASE WHEN ({key}) IS NOT NULL THEN to_json(named_struct('k', {key})) END"
        for number, key in stage.keys.items()
    )
    return f"CAST(CASE {choices} END AS BINARY)"


def _schema(flow: DataFrame, stage: Stage) -> StructType:
    from pyspark.sql.types import StructType, _parse_datatype_string

    head = _parse_datatype_string(_HEAD_SCHEMA)
    assert isinstance(head, StructType)
    if stage.payload is not None:
        payload = _parse_datatype_string(stage.payload)
        assert isinstance(payload, StructType)
        return StructType(head.fields + payload.fields)
    payload = StructType([each for each in flow.schema.fields if each.name not in HEAD])
    nullable = _nullable(payload)
    assert isinstance(nullable, StructType)
    return StructType(head.fields + nullable.fields)


def _nullable(kind: DataType) -> DataType:
    """Where the flow has a literal, the operator may have nothing."""
    from pyspark.sql.types import ArrayType, MapType, StructField, StructType

    if isinstance(kind, ArrayType):
        return ArrayType(_nullable(kind.elementType), True)
    if isinstance(kind, MapType):
        return MapType(kind.keyType, _nullable(kind.valueType), True)
    if isinstance(kind, StructType):
        return StructType([StructField(each.name, _nullable(each.dataType), True) for each in kind.fields])
    return kind


def _arrow(schema: StructType) -> object:
    from pyspark.sql.pandas.types import to_arrow_schema

    return to_arrow_schema(schema, timezone="UTC")
