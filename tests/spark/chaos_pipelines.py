"""The pipelines under attack, from topics to a topic. A value is `number,user,seconds`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.spark import to_topic
from ottla.sql import SqlSession

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import StreamingQuery

PARTS = "split(CAST(value AS STRING), ',')"
EVENT = (
    f"CAST({PARTS}[0] AS INT) AS number",
    f"{PARTS}[1] AS user",
    f"timestamp_seconds(CAST({PARTS}[2] AS BIGINT)) AS at",
)


def _source(spark: SparkSession, options: dict[str, str], topic: str) -> DataFrame:
    reader = (
        spark.readStream.format("ottla")
        .option("kafka.bootstrap.servers", options["servers"])
        .option("subscribe", topic)
        .option("startingOffsets", "earliest")
    )
    if "per_batch" in options:
        reader = reader.option("maxOffsetsPerTrigger", options["per_batch"])
    return reader.load()


def _start(frame: DataFrame, options: dict[str, str], to: str) -> StreamingQuery:
    writer = (
        frame.writeStream.format("ottla")
        .option("kafka.bootstrap.servers", options["servers"])
        .option("topic", to)
        .option("checkpointLocation", f"{options['checkpoint']}/{to}")
    )
    if "crash" in options:
        writer = writer.option("crash", options["crash"]).option("pids", options["pids"])
    if "interval" in options:
        return writer.trigger(processingTime=options["interval"]).start()
    return writer.trigger(availableNow=True).start()


def stateless(spark: SparkSession, options: dict[str, str]) -> StreamingQuery:
    """Convert each value to upper case."""
    frame = _source(spark, options, "events")
    return _start(frame.selectExpr("key", "upper(CAST(value AS STRING)) AS value"), options, "stateless")


def windowed(spark: SparkSession, options: dict[str, str]) -> StreamingQuery:
    """Count each user's events in windows of ten seconds. The watermark of a day loses none, and closes none before an
    event of a later day.
    """
    events = _source(spark, options, "events").selectExpr(*EVENT).withWatermark("at", "1 day")
    events.createOrReplaceTempView("events")
    counts = spark.sql("SELECT window(at, '10 seconds') AS w, user, count(*) AS n FROM events GROUP BY 1, 2")
    text = "concat(user, ' ', unix_seconds(w.start), ' ', n)"
    return _start(counts.selectExpr("user AS key", f"{text} AS value"), options, "windowed")


def joined(spark: SparkSession, options: dict[str, str]) -> StreamingQuery:
    """Join each event with its answer."""
    events = _source(spark, options, "events").selectExpr(*EVENT).withWatermark("at", "1 day")
    answers = _source(spark, options, "answers").selectExpr(*EVENT).withWatermark("at", "1 day")
    events.createOrReplaceTempView("asked")
    answers.createOrReplaceTempView("answered")
    pairs = spark.sql(
        "SELECT asked.number AS number, asked.user AS asker, answered.user AS answerer FROM asked JOIN answered "
        "ON asked.number = answered.number AND answered.at BETWEEN asked.at AND asked.at + INTERVAL 1 hour"
    )
    text = "concat(number, ' ', asker, ' ', answerer)"
    return _start(pairs.selectExpr(f"{text} AS value"), options, "joined")


def counted(spark: SparkSession, options: dict[str, str]) -> StreamingQuery:
    """Count the events with even and odd numbers, in update mode."""
    parity = "CAST(CAST(CAST(key AS STRING) AS INT) % 2 AS STRING) AS key"
    counts = _source(spark, options, "events").selectExpr(parity).groupBy("key").count()
    query = to_topic(
        counts.selectExpr("key", "concat(key, ':', count) AS value"),
        "counted",
        checkpoint=f"{options['checkpoint']}/counted",
        bootstrap_servers=options["servers"],
        trigger=options.get("interval", "available-now"),
        output_mode="update",
    )
    assert query is not None
    return query


COUNTS = """
CREATE STREAM events (id STRING KEY, number INT, who STRING, at BIGINT)
  WITH (kafka_topic='events', value_format='DELIMITED', timestamp='at');
CREATE TABLE {topic} WITH (kafka_topic='{topic}', value_format='JSON') AS
  SELECT who, COUNT(*) AS n, SUM(number) AS numbers FROM events
  WINDOW TUMBLING (SIZE 10 SECONDS, GRACE PERIOD 1 DAY) GROUP BY who;
"""


def sql_counts(spark: SparkSession, options: dict[str, str]) -> StreamingQuery:
    return _sql(spark, options, COUNTS.format(topic=f"counts_{options['run']}"))


JOINED = """
CREATE TABLE lefts (id STRING PRIMARY KEY, number INT) WITH (kafka_topic='lefts', value_format='DELIMITED');
CREATE TABLE rights (id STRING PRIMARY KEY, number INT) WITH (kafka_topic='rights', value_format='DELIMITED');
CREATE TABLE {topic} WITH (kafka_topic='{topic}', value_format='JSON') AS
  SELECT l.id AS id, l.number AS left_number, r.number AS right_number FROM lefts l LEFT JOIN rights r ON l.id = r.id;
"""


def sql_joined(spark: SparkSession, options: dict[str, str]) -> StreamingQuery:
    return _sql(spark, options, JOINED.format(topic=f"joined_{options['run']}"))


def _sql(spark: SparkSession, options: dict[str, str], script: str) -> StreamingQuery:
    """Run the last query of a script, continuing from its checkpoint if it exists."""
    spark.conf.set("spark.ottla.trigger", options.get("interval", "available-now"))
    sql = SqlSession(spark, bootstrap_servers=options["servers"], checkpoints=options["checkpoint"])
    settings = f"SET 'ottla.max.offsets.per.trigger' = '{options['per_batch']}'; SET 'auto.offset.reset' = 'earliest';"
    sql.execute(settings)
    query = sql.execute(script, resume=True)[-1].query
    assert query is not None
    return query
