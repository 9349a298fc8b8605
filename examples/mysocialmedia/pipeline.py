"""The read side of a social network: each post with its likes and comments, and what is trending.

The site writes commands to the topics posts, likes and comments, and nothing else. What its pages show is computed
from them, live.
"""

from pyspark.sql import functions as F

from ottla.spark import json, read_topic, to_topic

EVENT = json("post STRING, user STRING, text STRING, liked BOOLEAN, at TIMESTAMP")


def happened(spark, group):
    """All three topics in one stream. A column that only one topic has is null in the rows of the others."""
    events = read_topic(spark, "posts,likes,comments", value=EVENT, commit_group=group)

    def of(topic, column):
        return F.when(F.col("topic") == topic, column)

    return events.select(
        "value.post",
        "value.at",
        of("posts", F.col("value.user")).alias("user"),
        of("posts", F.col("value.text")).alias("text"),
        F.coalesce(of("likes", F.expr("if(value.liked, 1, -1)")), F.lit(0)).alias("likes"),
        F.coalesce(of("comments", F.lit(1)), F.lit(0)).alias("comments"),
    )


def pipeline(spark):
    views = (
        happened(spark, "post-views")
        .groupBy("post")
        .agg(
            F.max("user").alias("user"),
            F.max("text").alias("text"),
            F.sum("likes").alias("likes"),
            F.sum("comments").alias("comments"),
        )
    )
    trending = (
        happened(spark, "trending-posts")
        .withWatermark("at", "5 minutes")
        .groupBy(F.window("at", "5 minutes"), "post")
        .agg((F.sum("likes") + 2 * F.sum("comments")).alias("score"))
        .select(F.col("window.start").alias("since"), "post", "score")
    )
    return [
        to_topic(views, "post-views", key=F.col("post"), output_mode="update"),
        to_topic(trending, "trending-posts", key=F.concat_ws(" ", "since", "post"), output_mode="update"),
    ]
