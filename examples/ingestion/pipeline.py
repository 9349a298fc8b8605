"""A topic into a lake of Parquet files, and the same figures from both: live from the topic, in batches from files.

The lake is the directory that `--conf spark.example.lake=…` names.
"""

from pyspark.sql import functions as F

from ottla.spark import json, parquet, read_topic, to_table, to_topic

CLICK = json("id BIGINT, visitor STRING, page STRING, milliseconds INT, at TIMESTAMP")


def page_views(clicks):
    """Per page and day. It does not matter whether `clicks` is a stream or a table."""
    return clicks.groupBy("page", F.to_date("at").alias("day")).agg(
        F.count("*").alias("views"), F.sum("milliseconds").alias("milliseconds")
    )


def batch_layer(spark, lake):
    """All of the past, from the files."""
    return page_views(spark.read.parquet(lake))


def pipeline(spark):
    def clicks(group):
        return read_topic(spark, "clicks", value=CLICK, commit_group=group).select("value.*")

    lake = spark.conf.get("spark.example.lake", "lake")
    files = clicks("lake").withColumn("day", F.to_date("at"))
    views = page_views(clicks("page-views"))
    return [
        to_table(files, parquet(lake, partition_by=["day"]), name="lake"),
        to_topic(views, "page-views", key=F.concat_ws(" ", "page", "day"), output_mode="update"),
    ]
