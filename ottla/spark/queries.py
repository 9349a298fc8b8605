"""Common settings of all queries: brokers, checkpoint and trigger."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from ottla.spark.options import OptionError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import DataStreamWriter, StreamingQuery

BOOTSTRAP_SERVERS = "spark.ottla.bootstrap.servers"
CHECKPOINTS = "spark.ottla.checkpoints"
TRIGGER = "spark.ottla.trigger"
SCHEMA_REGISTRY = "spark.ottla.schema.registry."

#: The command line uses the second variable.
_ENVIRONMENT = ("OTTLA_BOOTSTRAP_SERVERS", "OTTLA_BOOTSTRAP_SERVER")
_REGISTRY_ENVIRONMENT = "OTTLA_SCHEMA_REGISTRY_URL"
#: Output topic by the id of a query in this process.
_outputs: dict[str, str] = {}
_AVAILABLE_NOW = ("available-now", "availablenow", "available now")


def bootstrap_servers(spark: SparkSession, given: str | None) -> str:
    named = [given, spark.conf.get(BOOTSTRAP_SERVERS, None), *map(os.environ.get, _ENVIRONMENT)]
    return next(filter(None, named), "localhost:9092")


def registry_options(spark: SparkSession) -> dict[str, str]:
    """Return the session's registry settings, which begin with spark.ottla.schema.registry."""
    found = {
        name.removeprefix("spark.ottla."): value
        for name, value in spark.conf.getAll.items()
        if name.startswith(SCHEMA_REGISTRY)
    }
    if "schema.registry.url" not in found and os.environ.get(_REGISTRY_ENVIRONMENT):
        found["schema.registry.url"] = os.environ[_REGISTRY_ENVIRONMENT]
    return found


def start(
    writer: DataStreamWriter, spark: SparkSession, name: str, checkpoint: str | None, trigger: str | None
) -> StreamingQuery:
    """Start a query under this name. It continues from its checkpoint."""
    writer = writer.queryName(name).option("checkpointLocation", checkpoint_of(spark, name, checkpoint))
    wanted = trigger or spark.conf.get(TRIGGER, None)
    if wanted is not None:
        writer = writer.trigger(**_trigger(wanted))
    return writer.start()


def start_batches(
    df: DataFrame,
    function: Any,
    name: str,
    checkpoint: str | None,
    trigger: str | None,
    output_mode: str = "append",
) -> StreamingQuery:
    """Start a query that passes every micro-batch and its number to `function`."""
    writer = df.writeStream.outputMode(output_mode).foreachBatch(function)
    return start(writer, df.sparkSession, name, checkpoint, trigger)


def note_output(query: StreamingQuery, topic: str) -> StreamingQuery:
    _outputs[str(query.id)] = topic
    return query


def output_topics(query: StreamingQuery) -> tuple[str, ...]:
    """Return the known output topics: from `note_output`, or from the sink's option `topic`.

    The options are not part of Spark's public interface, so they may be missing. Ask only after the first batch,
    because the query's own thread must create the plan.
    """
    noted = _outputs.get(str(query.id))
    if noted is not None or query.lastProgress is None:
        return () if noted is None else (noted,)
    try:
        topic = query._jsq.streamingQuery().logicalPlan().writeOptions().get("topic")
        return (str(topic.get()),) if topic.isDefined() else ()
    except Exception:
        return ()


def checkpoint_of(spark: SparkSession, name: str, given: str | None) -> str:
    if given:
        return given
    parent = spark.conf.get(CHECKPOINTS, None)
    if not parent:
        raise OptionError(
            f"Where does query '{name}' keep its progress? Say checkpoint='…', "
            f"or set {CHECKPOINTS} to a directory for all queries."
        )
    return f"{parent.rstrip('/')}/{name}"


def _trigger(text: str) -> dict[str, Any]:
    if text.strip().lower() in _AVAILABLE_NOW:
        return {"availableNow": True}
    return {"processingTime": text}


def last_part(path: str) -> str:
    return path.rstrip("/").rsplit("/", 1)[-1]


def query_id(spark: SparkSession) -> str | None:
    """Return the id of the current micro-batch's query, which the checkpoint keeps."""
    return _of_this_thread(spark, "sql.streaming.queryId")


def run_id(spark: SparkSession) -> str | None:
    """Return the run id of the current micro-batch's query."""
    return _of_this_thread(spark, "spark.jobGroup.id")


def _of_this_thread(spark: SparkSession, name: str) -> str | None:
    # Spark calls foreachBatch in the JVM thread of the query, which has these properties.
    found: str | None = spark.sparkContext.getLocalProperty(name)
    return found
