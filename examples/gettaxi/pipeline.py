"""The price of a ride per region and minute: it rises where more people look for a taxi than there are taxis."""

from pyspark.sql import functions as F

from ottla.spark import json, read_topic, to_topic

HIGHEST = 3.0


def positions(spark, kind):
    """Who is where: a region is a hundredth of a degree, about a kilometre."""
    schema = json(f"{kind} STRING, lat DOUBLE, lon DOUBLE, at TIMESTAMP")
    return read_topic(spark, f"{kind}-positions", value=schema, commit_group="surge-prices").select(
        F.lit(kind).alias("kind"),
        F.col(f"value.{kind}").alias("id"),
        F.concat_ws(",", F.floor(F.expr("value.lat * 100")), F.floor(F.expr("value.lon * 100"))).alias(
            "region"
        ),
        F.col("value.at").alias("at"),
    )


def pipeline(spark):
    seen = positions(spark, "taxi").union(positions(spark, "user"))

    def different(kind):
        return F.size(F.collect_set(F.when(F.col("kind") == kind, F.col("id"))))

    demand = (
        seen.withWatermark("at", "1 minute")
        .groupBy(F.window("at", "1 minute"), "region")
        .agg(different("taxi").alias("taxis"), different("user").alias("users"))
    )
    price = F.greatest(F.lit(1.0), F.least(F.lit(HIGHEST), F.col("users") / F.greatest("taxis", F.lit(1))))
    prices = demand.select(
        "region", F.col("window.start").alias("minute"), "taxis", "users", F.round(price, 2).alias("price")
    )
    return to_topic(prices, "surge-prices", key=F.concat_ws(" ", "region", "minute"), output_mode="update")
