"""Tweets that many people like or answer, and how often each hashtag is used per minute."""

from pyspark.sql import functions as F

from ottla.spark import json, read_topic, to_topic

TWEET = """
    id BIGINT, user STRING, text STRING, hashtags ARRAY<STRING>, likes INT, replies INT, created_at TIMESTAMP
"""


def pipeline(spark):
    tweets = read_topic(spark, "tweets", value=json(TWEET), commit_group="popular-tweets")
    popular = tweets.where("value.likes > 10 OR value.replies > 10")

    tweets = read_topic(spark, "tweets", value=json(TWEET), commit_group="trending")
    trending = (
        tweets.select("value.created_at", F.explode("value.hashtags").alias("hashtag"))
        .withWatermark("created_at", "1 minute")
        .groupBy(F.window("created_at", "1 minute"), "hashtag")
        .agg(F.count("*").alias("tweets"))
        .select(F.col("window.start").alias("minute"), "hashtag", "tweets")
    )
    return [
        to_topic(popular, "popular-tweets"),
        to_topic(trending, "trending", key=F.concat_ws(" ", "minute", "hashtag"), output_mode="update"),
    ]
