"""Pipelines on Spark: topics as DataFrames, over the Kafka protocol and without a jar.

    from ottla.spark import json, read_topic, session, to_topic

    spark = session("orders")
    orders = read_topic(spark, "orders", value=json("customer STRING, amount DOUBLE"))
    large = orders.where("value.amount > 100")
    to_topic(large, "large-orders", checkpoint="checkpoints/large-orders").awaitTermination()

The functions build on `format("ottla")`, which has the options, columns and semantics of Spark's Kafka connector.
"""

import sys

from ottla.jvm.java import NoJava
from ottla.spark.alerts import foreach
from ottla.spark.formats.value_format import avro, json, jsonschema, protobuf, raw, text
from ottla.spark.moved import MovedModules
from ottla.spark.session import register, session
from ottla.spark.tables import delta, jdbc, parquet, table, to_table
from ottla.spark.tables.reading import read_table
from ottla.spark.topics import read_topic, to_topic

__all__ = [
    "NoJava",
    "avro",
    "delta",
    "foreach",
    "jdbc",
    "json",
    "jsonschema",
    "parquet",
    "protobuf",
    "raw",
    "read_table",
    "read_topic",
    "register",
    "session",
    "table",
    "text",
    "to_table",
    "to_topic",
]

sys.meta_path.insert(0, MovedModules())  # before the finder that would load the files a second time
