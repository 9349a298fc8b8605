"""Resume positions, profiles and recommendations of viewers, and a store for analysts.

The store is the directory that `--conf spark.example.store=…` names.
"""

from pyspark.sql import functions as F

from ottla.spark import json, parquet, read_topic, to_table, to_topic

POSITION = json("user STRING, show STRING, genre STRING, position INT, length INT, watched INT, at TIMESTAMP")

CATALOGUE = {
    "comedy": ("Office Hours", "Two Left Feet", "The Landlord", "Plan B", "Family Size"),
    "crime": ("Cold Harbour", "The Ledger", "Night Shift", "Blind Spot", "The Ninth Key"),
    "drama": ("The Orchard", "Late Summer", "A Quiet House", "Crossings", "Second Violin"),
    "science": ("Deep Water", "Small Worlds", "The Long Proof", "Ice Core", "Signal"),
}


def resume_positions(positions):
    """The last position per viewer and show. A show that was watched to its end has none: null is a tombstone."""
    last = positions.groupBy("user", "show").agg(F.max_by(F.struct("position", "length"), "at").alias("last"))
    return last.select(
        F.concat_ws("/", "user", "show").alias("key"),
        F.when(
            F.expr("last.position < last.length"), F.to_json(F.struct("user", "show", "last.position"))
        ).alias("value"),
    )


def watched(positions):
    """Seconds per viewer and genre, and the shows that were begun."""
    seconds = [
        F.sum(F.when(F.col("genre") == genre, F.col("watched")).otherwise(0)).alias(genre)
        for genre in CATALOGUE
    ]
    return positions.groupBy("user").agg(*seconds, F.collect_set("show").alias("begun"))


def profiles(positions):
    """Seconds per genre, and the genre that was watched most."""
    genres = [F.struct(_less(genre), F.lit(genre).alias("genre")) for genre in CATALOGUE]
    return watched(positions).select(
        "user", *CATALOGUE, F.array_min(F.array(*genres))["genre"].alias("favourite")
    )


def recommendations(positions):
    """The first show that the viewer has not begun, of the genre that was watched most; of the next genre if all of
    them were begun. Who has begun everything gets the first of all again."""
    shows = F.array(
        *(
            F.struct(
                _less(genre),
                F.lit(genre).alias("genre"),
                F.lit(place).alias("place"),
                F.lit(show).alias("show"),
            )
            for genre, shows in CATALOGUE.items()
            for place, show in enumerate(shows)
        )
    )
    new = F.filter(shows, lambda each: ~F.array_contains("begun", each["show"]))
    following = F.coalesce(F.array_min(new), F.array_min(shows))
    return (
        watched(positions)
        .withColumn("next", following)
        .select("user", F.col("next.show").alias("next_show"), F.col("next.genre").alias("genre"))
    )


def _less(genre):
    return (-F.col(genre)).alias("less")


def views_per_show(store):
    """A question that analysts may ask: how many viewers each show had on each day, and for how many hours."""
    return store.groupBy("day", "genre", "show").agg(
        F.count_distinct("user").alias("viewers"), F.round(F.sum("watched") / 3600, 2).alias("hours")
    )


def pipeline(spark):
    def positions(group):
        return read_topic(spark, "show_position", value=POSITION, commit_group=group).select("value.*")

    store = spark.conf.get("spark.example.store", "movieflix-store")
    return [
        to_topic(resume_positions(positions("resume_positions")), "resume_positions", output_mode="update"),
        to_topic(profiles(positions("profiles")), "profiles", key=F.col("user"), output_mode="update"),
        to_topic(
            recommendations(positions("recommendations")),
            "recommendations",
            key=F.col("user"),
            output_mode="update",
        ),
        to_table(
            positions("store").withColumn("day", F.to_date("at")),
            parquet(store, partition_by=["day"]),
            name="store",
        ),
    ]
