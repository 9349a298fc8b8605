"""Counts per tag and minute, from topic to topic, on a cluster. test_standalone.py runs it like a user.

    python window_on_cluster.py MASTER BOOTSTRAP_SERVERS CHECKPOINT

Runs until its input is closed.
"""

from __future__ import annotations

import sys

from pyspark.sql.functions import col, from_json, window

from ottla.spark import session


def main(master: str, servers: str, checkpoint: str) -> None:
    spark = session(
        "window",
        master=master,
        config={
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.ui.enabled": "false",
            "spark.executor.memory": "600m",
            "spark.sql.shuffle.partitions": "2",
        },
    )
    options = {"kafka.bootstrap.servers": servers}
    reading = {"subscribe": "events", "startingOffsets": "earliest", "maxOffsetsPerTrigger": "200"}
    events = spark.readStream.format("ottla").options(**options, **reading).load()
    event = from_json(col("value").cast("string"), "tag STRING, at TIMESTAMP").alias("event")
    counts = (
        events.select(event)
        .select("event.*")
        .withWatermark("at", "1 minute")
        .groupBy(window("at", "1 minute"), "tag")
        .count()
    )
    rows = counts.selectExpr(
        "concat(tag, ' ', date_format(window.start, 'HH:mm')) AS key", "CAST(count AS STRING) AS value"
    )
    query = (
        rows.writeStream.format("ottla")
        .options(**options, topic="counts", checkpointLocation=checkpoint)
        .start()
    )
    sys.stdin.read()
    if query.exception() is not None:
        sys.exit(str(query.exception()))
    query.stop()
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
