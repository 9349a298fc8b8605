"""Where each viewer resumes each show, what they like, and what they might watch next."""

from pyspark.sql import functions as F

from ottla.spark import json, read_topic, to_topic

PLAY = "user STRING, show STRING, genre STRING, position INT, length INT, watched INT, at TIMESTAMP"

CATALOGUE = {
    "comedy": ["Office Hours", "Two Left Feet", "The Landlord"],
    "crime": ["Cold Harbour", "The Ledger", "Night Shift"],
    "science": ["Deep Water", "Small Worlds", "The Long Proof"],
}


def resume(plays):
    """The last position per viewer and show. A show that was watched to its end has none: null is a tombstone."""
    last = plays.groupBy("user", "show").agg(F.max_by(F.struct("position", "length"), "at").alias("last"))
    return last.select(
        F.concat_ws("/", "user", "show").alias("key"),
        F.when(
            F.expr("last.position < last.length"), F.to_json(F.struct("user", "show", "last.position"))
        ).alias("value"),
    )


def profiles(plays):
    """Seconds per genre, the favourite one, and the first show of it that the viewer has not begun."""
    shows = F.create_map(*(F.lit(part) for item in _lists() for part in item))
    seconds = [
        F.sum(F.when(F.col("genre") == genre, F.col("watched")).otherwise(0)).alias(genre)
        for genre in CATALOGUE
    ]
    sums = plays.groupBy("user").agg(*seconds, F.collect_set("show").alias("seen"))
    ranked = F.array_sort(
        F.array(
            *(F.struct((-F.col(genre)).alias("less"), F.lit(genre).alias("genre")) for genre in CATALOGUE)
        )
    )
    favourite = sums.withColumn("favourite", ranked[0]["genre"])
    unseen = F.filter(F.split(shows[F.col("favourite")], ";"), lambda show: ~F.array_contains("seen", show))
    return favourite.select(
        F.col("user").alias("key"),
        F.to_json(
            F.struct("user", *CATALOGUE, "favourite", F.try_element_at(unseen, F.lit(1)).alias("next_show"))
        ).alias("value"),
    )


def _lists():
    return [(genre, ";".join(shows)) for genre, shows in CATALOGUE.items()]


def pipeline(spark):
    def plays(group):
        return read_topic(spark, "plays", value=json(PLAY), commit_group=group).select("value.*")

    return [
        to_topic(resume(plays("resume")), "resume", output_mode="update"),
        to_topic(profiles(plays("profiles")), "profiles", output_mode="update"),
    ]
