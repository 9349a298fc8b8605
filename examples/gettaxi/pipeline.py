"""Shared rides, prices by place and time, and a store of all positions for the invoices.

The store is the directory that `--conf spark.example.store=…` names.
"""

import math

from pyspark.sql import Window
from pyspark.sql import functions as F

from ottla.spark import json, parquet, read_topic, to_table, to_topic

POSITION = json("taxi STRING, user STRING, lat DOUBLE, lon DOUBLE, ride STRING, at TIMESTAMP")

HIGHEST = 3.0
FARTHEST = 2000  # metres from a user to a taxi
DEGREE = 111_320  # metres of a degree of latitude

# In euros.
START, PER_KILOMETRE, PER_MINUTE = 3.0, 2.0, 0.4


def region():
    """A hundredth of a degree, about a kilometre."""
    return F.concat_ws(",", F.floor(F.col("lat") * 100), F.floor(F.col("lon") * 100)).alias("region")


def surge_pricing(positions):
    """Per region and minute: free taxis, people who look for one, and the price, which rises where taxis are few."""

    def free(kind):
        return F.size(F.collect_set(F.when(F.col("ride").isNull(), F.col(kind)))).alias(f"{kind}s")

    demand = (
        positions.withWatermark("at", "1 minute")
        .groupBy(F.window("at", "1 minute"), region())
        .agg(free("taxi"), free("user"))
    )
    price = F.greatest(F.lit(1.0), F.least(F.lit(HIGHEST), F.col("users") / F.greatest("taxis", F.lit(1))))
    return demand.select(
        "region", F.col("window.start").alias("minute"), "taxis", "users", F.round(price, 2).alias("price")
    )


def nearest_pairs(positions):
    """Each user who looks for a taxi with the closest one that nobody else gets; None if all are too far."""
    last = {}
    for each in sorted(positions, key=lambda position: position.at):
        last[each.taxi or each.user] = each
    free = [each for each in last.values() if each.ride is None]
    users, taxis = [each for each in free if each.user], [each for each in free if each.taxi]

    def metres(one, other):
        east = (one.lon - other.lon) * math.cos(math.radians(one.lat))
        return round(DEGREE * math.hypot(one.lat - other.lat, east))

    near = sorted((metres(user, taxi), user.user, taxi.taxi) for user in users for taxi in taxis)
    # Also those who were here in this minute and ride by now, so that their match is taken back.
    found = {each.user: (each.user, None, None) for each in last.values() if each.user}
    taken = set()
    for distance, user, taxi in near:
        if distance <= FARTHEST and found[user][1] is None and taxi not in taken:
            found[user] = user, taxi, distance
            taken.add(taxi)
    return list(found.values())


def matches(positions):
    """Per minute and user: the taxi to ride with. Null deletes an earlier recommendation.

    All of the town is one group here; a larger one would be cut into districts.
    """
    pairs = F.udf(nearest_pairs, "ARRAY<STRUCT<user: STRING, taxi: STRING, metres: INT>>")
    seen = (
        positions.withWatermark("at", "1 minute")
        .groupBy(F.window("at", "1 minute"))
        .agg(F.collect_list(F.struct("at", "taxi", "user", "lat", "lon", "ride")).alias("seen"))
    )
    pair = seen.select(F.col("window.start").alias("minute"), F.explode(pairs("seen")).alias("pair"))
    return pair.select(
        F.concat_ws(" ", "minute", "pair.user").alias("key"),
        F.when(F.col("pair.taxi").isNotNull(), F.to_json(F.struct("minute", "pair.*"))).alias("value"),
    )


def costs(positions):
    """Price of each ride, from the distance and time of its taxi and the price at its start.

    `positions` is the store. The price is computed as the stream computes it.
    """
    way = Window.partitionBy("ride").orderBy("at")
    before = {name: F.lag(name).over(way) for name in ("lat", "lon")}
    east = (F.col("lon") - before["lon"]) * F.cos(F.radians("lat"))
    steps = positions.where("taxi IS NOT NULL AND ride IS NOT NULL").withColumn(
        "metres", F.coalesce(DEGREE * F.hypot(F.col("lat") - before["lat"], east), F.lit(0.0))
    )
    rides = steps.groupBy("ride", "taxi").agg(
        F.min("at").alias("began"),
        (F.sum("metres") / 1000).alias("kilometres"),
        ((F.unix_millis(F.max("at")) - F.unix_millis(F.min("at"))) / 60_000).alias("minutes"),
        F.min_by(region(), "at").alias("region"),
    )
    prices = surge_pricing(positions).select("region", "minute", "price")
    began = rides.withColumn("minute", F.date_trunc("minute", "began"))
    price = F.coalesce("price", F.lit(1.0))
    fare = START + PER_KILOMETRE * F.col("kilometres") + PER_MINUTE * F.col("minutes")
    return began.join(prices, ["region", "minute"], "left").select(
        "ride",
        "taxi",
        "began",
        F.round("kilometres", 3).alias("kilometres"),
        F.round("minutes", 2).alias("minutes"),
        price.alias("price"),
        F.round(price * fare, 2).alias("cost"),
    )


def pipeline(spark):
    def positions(group):
        return read_topic(spark, "taxi_position,user_position", value=POSITION, commit_group=group).select(
            "value.*"
        )

    store = spark.conf.get("spark.example.store", "gettaxi-store")
    return [
        to_topic(
            surge_pricing(positions("surge_pricing")),
            "surge_pricing",
            key=F.concat_ws(" ", "region", "minute"),
            output_mode="update",
        ),
        to_topic(matches(positions("matches")), "matches", output_mode="update"),
        to_table(
            positions("store").withColumn("day", F.to_date("at")),
            parquet(store, partition_by=["day"]),
            name="store",
        ),
    ]
