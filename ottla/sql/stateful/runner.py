"""Steps of a pipeline, and their execution for a micro-batch."""

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
    #: Input → key, an expression of any type over the flow. Equal keys have equal JSON text.
    keys: Mapping[int, str]
    #: Inputs that are tables, which come first at equal times.
    tables: frozenset[int] = frozenset()
    #: Inputs created by one stage, whose order is preserved.
    together: frozenset[int] = frozenset()
    #: Payload of the operator's output as DDL, or None if it equals the input's.
    payload: str | None = None


@dataclass(frozen=True)
class Projection:
    sql: str  # over FLOW


Step = Stage | Projection


@dataclass(frozen=True)
class Batch:
    """One micro-batch of a query, with everything that its stages share."""

    checkpoint: str
    query_id: str
    number: int
    partitions: int


@dataclass(frozen=True)
class Pipeline:
    steps: tuple[Step, ...] = field(default_factory=tuple)

    def run(self, flow: DataFrame, batch: Batch) -> DataFrame:
        """Return the output of a micro-batch. Evaluation is lazy."""
        # Spark must not skip tasks without rows, because each task writes a version of its state.
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
        """Return an empty flow with the output columns."""
        for step in self.steps:
            if isinstance(step, Projection):
                flow = over(flow, step.sql)
            elif step.payload is not None:
                flow = _empty(flow, _schema(flow, step))
        return flow

    @property
    def reads_twice(self) -> bool:
        """Return True if a micro-batch should be cached, because some rows bypass a stage for later stages."""
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
    """Make all fields nullable: the operator may emit null where the flow has a literal."""
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
