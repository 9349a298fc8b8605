"""What all queries have in common: the brokers, the checkpoint and the trigger."""

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

#: The second is that of the command line.
_ENVIRONMENT = ("OTTLA_BOOTSTRAP_SERVERS", "OTTLA_BOOTSTRAP_SERVER")
_REGISTRY_ENVIRONMENT = "OTTLA_SCHEMA_REGISTRY_URL"
#: By the id of a query of this process.
_outputs: dict[str, str] = {}
_AVAILABLE_NOW = ("available-now", "availablenow", "available now")


def bootstrap_servers(spark: SparkSession, given: str | None) -> str:
    named = [given, spark.conf.get(BOOTSTRAP_SERVERS, None), *map(os.environ.get, _ENVIRONMENT)]
    return next(filter(None, named), "localhost:9092")


def registry_options(spark: SparkSession) -> dict[str, str]:
    """How the session reaches the schema registry: its settings that begin with spark.ottla.schema.registry."""
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
    """Start a query that hands every micro-batch to `function`, with its number."""
    writer = df.writeStream.outputMode(output_mode).foreachBatch(function)
    return start(writer, df.sparkSession, name, checkpoint, trigger)


def note_output(query: StreamingQuery, topic: str) -> StreamingQuery:
    """So that whoever shows the query can say where its rows go."""
    _outputs[str(query.id)] = topic
    return query


def output_topics(query: StreamingQuery) -> tuple[str, ...]:
    """As far as it is known: `to_topic` says it, and others by the option `topic` of their sink.

    The options are not a part of Spark's public interface; without them nothing is known. They may be asked for only
    after the first batch, because the thread of the query has to be the one that makes its plan.
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
    """The last part of a path or URL."""
    return path.rstrip("/").rsplit("/", 1)[-1]


def query_id(spark: SparkSession) -> str | None:
    """Inside a micro-batch: the id of its query, which the checkpoint keeps."""
    return _of_this_thread(spark, "sql.streaming.queryId")


def run_id(spark: SparkSession) -> str | None:
    """Inside a micro-batch: the id of this start of its query."""
    return _of_this_thread(spark, "spark.jobGroup.id")


def _of_this_thread(spark: SparkSession, name: str) -> str | None:
    # Spark calls the function of foreachBatch in the thread of Java that runs the query, and knows there what it runs.
    found: str | None = spark.sparkContext.getLocalProperty(name)
    return found
