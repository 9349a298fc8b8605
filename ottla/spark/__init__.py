"""Pipelines on Spark: `format("ottla")` reads topics into DataFrames, by the wire protocol and without a jar.

    from ottla.spark import session

    spark = session("orders")
    orders = (
        spark.readStream.format("ottla")
        .option("kafka.bootstrap.servers", "localhost:9092")
        .option("subscribe", "orders")
        .load()
    )

Options, columns and meaning are those of Spark's Kafka connector.
"""

from ottla.jvm.java import NoJava
from ottla.spark.session import register, session

__all__ = ["NoJava", "register", "session"]
