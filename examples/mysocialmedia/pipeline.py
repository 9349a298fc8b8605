"""The read side of a social network: each post with its likes and comments, and trending posts.

The site writes commands to the topics posts, likes and comments, and nothing else. What its pages show is computed
from them, live.
"""

from pyspark.sql import functions as F

from ottla.spark import json, read_topic, to_topic

EVENT = json("post STRING, user STRING, text STRING, liked BOOLEAN, deleted BOOLEAN, at TIMESTAMP")


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
        F.coalesce(of("posts", F.col("value.deleted")), F.lit(False)).alias("deleted"),
        F.coalesce(of("likes", F.expr("if(value.liked, 1, -1)")), F.lit(0)).alias("likes"),
        F.coalesce(of("comments", F.lit(1)), F.lit(0)).alias("comments"),
    )


def unless_deleted(*columns):
    """The columns as JSON. Null, which is a tombstone, if the post was deleted: then nobody may see it any more."""
    return F.when(~F.col("deleted"), F.to_json(F.struct(*columns))).alias("value")


def posts_with_counts(events):
    posts = events.groupBy("post").agg(
        F.max("user").alias("user"),
        F.max("text").alias("text"),
        F.sum("likes").alias("likes"),
        F.sum("comments").alias("comments"),
        F.max("deleted").alias("deleted"),
    )
    return posts.select(
        F.col("post").alias("key"), unless_deleted("post", "user", "text", "likes", "comments")
    )


def trending_posts(events):
    """The score of each post in each five minutes. Pages show the current ones and those before, so a post that is
    deleted leaves both; older ones are past, and the topic keeps them for an hour."""
    before = F.col("at") - F.expr("INTERVAL 5 MINUTES")
    times = F.when(F.col("deleted"), F.array("at", before)).otherwise(F.array("at"))
    scores = (
        events.withColumn("at", F.explode(times))
        .withWatermark("at", "10 minutes")
        .groupBy(F.window("at", "5 minutes"), "post")
        .agg((F.sum("likes") + 2 * F.sum("comments")).alias("score"), F.max("deleted").alias("deleted"))
        .withColumn("since", F.col("window.start"))
    )
    return scores.select(
        F.concat_ws(" ", "since", "post").alias("key"), unless_deleted("since", "post", "score")
    )


def pipeline(spark):
    return [
        to_topic(
            posts_with_counts(happened(spark, "posts_with_counts")), "posts_with_counts", output_mode="update"
        ),
        to_topic(trending_posts(happened(spark, "trending_posts")), "trending_posts", output_mode="update"),
    ]
