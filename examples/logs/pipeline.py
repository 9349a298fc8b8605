"""Lines per level and figures of metrics, per service and ten seconds: each window once, when it is over.

A window is over when an event arrives that is ten seconds later than its end. Later ones are dropped.
"""

from pyspark.sql import functions as F

from ottla.spark import json, read_topic, to_topic

LINE = json("service STRING, level STRING, message STRING, at TIMESTAMP")
METRIC = json("service STRING, name STRING, value DOUBLE, at TIMESTAMP")


def pipeline(spark):
    def read(topic, schema, group):
        records = read_topic(spark, topic, value=schema, commit_group=group)
        return records.select("value.*").withWatermark("at", "10 seconds")

    window, since = F.window("at", "10 seconds"), F.col("window.start").alias("since")
    counts = (
        read("logs", LINE, "log-counts")
        .groupBy(window, "service", "level")
        .agg(F.count("*").alias("lines"))
        .select(since, "service", "level", "lines")
    )
    figures = (
        read("metrics", METRIC, "metric-figures")
        .groupBy(window, "service", "name")
        .agg(F.min("value").alias("least"), F.avg("value").alias("mean"), F.max("value").alias("most"))
        .select(since, "service", "name", "least", "mean", "most")
    )
    return [
        to_topic(counts, "log-counts", key=F.col("service")),
        to_topic(figures, "metric-figures", key=F.col("service")),
    ]
