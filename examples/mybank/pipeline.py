"""An alert for each payment above the threshold that its account had at that time.

Owners set thresholds by events. A new threshold applies to payments from then on: there is no alert for the past.
"""

from pyspark.sql import functions as F

from ottla.spark import json, queries, read_topic, to_topic

PAYMENT = json("payment BIGINT, account STRING, amount DOUBLE, at TIMESTAMP")
THRESHOLD = json("account STRING, above DOUBLE, at TIMESTAMP")


def alerts(payments, thresholds):
    known = thresholds.select("account", "above", F.col("at").alias("since"))
    in_force = (
        payments.join(known, "account")
        .where("since <= at")
        .groupBy("payment", "account", "amount", "at")
        .agg(F.max_by("above", "since").alias("above"))
    )
    return in_force.where("amount > above")


def pipeline(spark):
    payments = read_topic(spark, "payments", value=PAYMENT, commit_group="alerts").select("value.*")

    def alert(batch, _number):
        # Read again for each micro-batch, because a threshold may have been set a moment ago.
        thresholds = read_topic(spark, "thresholds", value=THRESHOLD, stream=False).select("value.*")
        to_topic(alerts(batch, thresholds), "alerts", key=F.col("account"))

    return queries.start_batches(payments, alert, "alerts", None, None)
