"""Batches of `read_table`: Spark reads local Parquet files itself, and so prunes columns and row groups."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from ottla.spark.options import OptionError
from ottla.spark.tables.schemas.columns import DELETED, FIXED_NAMES, KEY, OFFSET, PARTITION, TIME, lake_schema
from ottla.spark.tables.union_options import AsOf, parse_union_options
from ottla.spark.tables.union_plan import UnionPlanner

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_FIELD_ID = "parquet.field.id"


def batch(spark: SparkSession, given: dict[str, str]) -> DataFrame:
    """Return the DataFrame of a batch with the options of `format("ottla.table")`."""
    return _Batch(spark, given).frame()


class _Batch:
    def __init__(self, spark: SparkSession, given: dict[str, str]) -> None:
        self._spark = spark
        self._given = given
        self._options = parse_union_options(given)

    def frame(self) -> DataFrame:
        planner = UnionPlanner(self._options)
        try:
            if planner.settings.is_upsert:
                return self._upserted(planner)
            snapshot = planner.snapshot()
            stored = self._parquet(planner, snapshot)
            if stored is None:
                return self._source({})
            names = planner.columns().names
            stored = _before(stored, self._options.as_of).select(*map(_quoted, names))
            return stored.unionAll(self._source({"snapshot": str(snapshot), "onlyTail": "true"}))
        finally:
            planner.close()

    def _source(self, more: Mapping[str, str]) -> DataFrame:
        found: DataFrame = self._spark.read.format("ottla.table").options(**self._given, **more).load()
        return found

    def _upserted(self, planner: UnionPlanner) -> DataFrame:
        """Replace rows of the table by the latest record of their key. The end of the topic is chosen once."""
        from pyspark.sql import functions as F

        names = planner.columns().names
        snapshot = planner.snapshot()
        self._given = {
            name: value
            for name, value in self._given.items()
            if name.lower() not in ("columns", "asofoffsets", "asoftimestamp")
        } | {"asOfOffsets": json.dumps(planner.ends())}
        if self._options.columns:
            needed = dict.fromkeys([*self._options.columns, KEY, OFFSET, TIME])
            self._given["columns"] = ",".join(needed)
        more = {"onlyTail": "true"} | ({} if snapshot is None else {"snapshot": str(snapshot)})
        tail = self._source(more).where(F.col(KEY).isNotNull())
        latest = (
            tail.groupBy(KEY)
            .agg(F.max_by(F.struct(*map(_quoted, tail.columns)), F.struct(TIME, OFFSET)).alias("latest"))
            .select("latest.*")
        )
        shown = list(map(_quoted, names))
        live = latest.where(~F.col(DELETED)).select(*shown)
        if snapshot is None:
            return live
        stored = self._parquet(planner, snapshot)
        if stored is None:
            raise OptionError(
                f"The table of topic {self._options.topic} cannot be read together with its topic: its files are "
                "not local, and it has ottla.table.write.mode=upsert."
            )
        return stored.join(tail.select(KEY), KEY, "left_anti").select(*shown).unionAll(live)

    def _parquet(self, planner: UnionPlanner, snapshot: int | None) -> DataFrame | None:
        """Return the data files as Spark reads them, or None if only the Python source can."""
        table = planner.table
        if table is None or snapshot is None or planner.is_evolving:
            return None
        paths = table.parquet_paths(snapshot)
        if paths is None or any("://" in each and not each.startswith("file:") for each in paths):
            return None
        schema = spark_schema(table.parquet_schema())
        if not paths:
            return self._spark.createDataFrame([], schema)
        self._spark.conf.set("spark.sql.parquet.fieldId.read.enabled", "true")
        reader: Any = self._spark.read.schema(schema)
        found: DataFrame = reader.parquet(*map(_escaped, paths))
        return found


def spark_schema(schema: pa.Schema) -> Any:
    """Return the Spark schema with the ids of fields, by which Spark finds renamed columns in older files."""
    from pyspark.sql.types import StructType

    return StructType([_spark_field(each) for each in schema])


def _spark_field(field: pa.Field) -> Any:
    from pyspark.sql.types import StructField

    number = (field.metadata or {}).get(b"PARQUET:field_id")
    metadata = {} if number is None else {_FIELD_ID: int(number)}
    return StructField(field.name, _spark_type(field.type), True, metadata)


def _spark_type(kind: pa.DataType) -> Any:
    from pyspark.sql import types
    from pyspark.sql.pandas.types import from_arrow_type

    if pa.types.is_struct(kind):
        return types.StructType([_spark_field(each) for each in kind])
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return types.ArrayType(_spark_type(kind.value_type))
    if pa.types.is_map(kind):
        return types.MapType(_spark_type(kind.key_type), _spark_type(kind.item_type))
    plain = lake_schema(pa.schema([pa.field("", kind)])).field(0).type
    return from_arrow_type(plain)


def _before(rows: DataFrame, as_of: AsOf) -> DataFrame:
    from pyspark.sql import functions as F

    if as_of.timestamp_ms is not None:
        return rows.where(F.col(TIME) < F.timestamp_millis(F.lit(as_of.timestamp_ms)))
    if as_of.offsets is None:
        return rows
    condition = F.lit(False)
    for partition, end in as_of.offsets.items():
        condition = condition | ((F.col(PARTITION) == partition) & (F.col(OFFSET) < end))
    return rows.where(condition)


def _quoted(name: str) -> str:
    return name if name in FIXED_NAMES else "`" + name.replace("`", "``") + "`"


def _escaped(path: str) -> str:
    """Escape the characters that Hadoop reads as a pattern."""
    return "".join(f"\\{each}" if each in "*?[]{}\\" else each for each in path)
