"""The side of a social network that is read: each post with its likes and comments, and what is trending.

Commands go to the topics posts, likes and comments, and nothing else is ever written by the site. What its pages show
is computed from them, live.
"""

from pyspark.sql import functions as F

from ottla.spark import json, read_topic, to_topic


def happened(spark, group):
    """All three topics in one shape."""

    def read(topic, fields):
        schema = json(f"post STRING, {fields}, at TIMESTAMP")
        return read_topic(spark, topic, value=schema, commit_group=group).select("value.*")

    nothing, text = F.lit(0), F.lit(None).cast("string")
    posts = read("posts", "user STRING, text STRING").select(
        "post", "at", "user", "text", nothing.alias("likes"), nothing.alias("comments")
    )
    likes = read("likes", "liked BOOLEAN").select(
        "post", "at", text, text, F.when(F.col("liked"), 1).otherwise(-1), nothing
    )
    comments = read("comments", "text STRING").select("post", "at", text, text, nothing, F.lit(1))
    return posts.union(likes).union(comments)


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
