"""The price of a ride per region and minute: it rises where more people look for a taxi than there are taxis."""

from pyspark.sql import functions as F

from ottla.spark import json, read_topic, to_topic

HIGHEST = 3.0


POSITION = json("taxi STRING, user STRING, lat DOUBLE, lon DOUBLE, at TIMESTAMP")


def pipeline(spark):
    seen = read_topic(
        spark, "taxi-positions,user-positions", value=POSITION, commit_group="surge-prices"
    ).select("value.*")
    # A region is a hundredth of a degree, about a kilometre.
    region = F.concat_ws(",", F.floor(F.col("lat") * 100), F.floor(F.col("lon") * 100))

    def different(kind):
        return F.size(F.collect_set(kind)).alias(f"{kind}s")

    demand = (
        seen.withWatermark("at", "1 minute")
        .groupBy(F.window("at", "1 minute"), region.alias("region"))
        .agg(different("taxi"), different("user"))
    )
    price = F.greatest(F.lit(1.0), F.least(F.lit(HIGHEST), F.col("users") / F.greatest("taxis", F.lit(1))))
    prices = demand.select(
        "region", F.col("window.start").alias("minute"), "taxis", "users", F.round(price, 2).alias("price")
    )
    return to_topic(prices, "surge-prices", key=F.concat_ws(" ", "region", "minute"), output_mode="update")
