"""A topic as the latest value of each key, and tables that hold each row once despite repetitions."""

from __future__ import annotations

import json as standard_json
import sqlite3
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("pyspark")

from ottla.client.errors import ClientError
from ottla.spark import delta, jdbc, json, parquet, read_topic, table, text, to_table
from ottla.spark.tables.jdbc import upsert
from ottla.testing import Broker

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

PRICE = json("price INT")


def produce(broker: Broker, topic: str, key: str, value: Any, **more: Any) -> None:
    data = None if value is None else standard_json.dumps(value).encode()
    broker.produce(topic, data, key=key.encode(), **more)


def prices(frame: DataFrame) -> dict[str, int | None]:
    return {row.key: row.price for row in frame.selectExpr("key", "value.price").collect()}


def test_a_table_has_the_latest_value_of_each_key(
    session: SparkSession, ottla_broker: Broker, ottla_topic: str
) -> None:
    for key, price in [("tea", 1), ("milk", 2), ("tea", 3), ("rice", 4), ("rice", None)]:
        produce(ottla_broker, ottla_topic, key, None if price is None else {"price": price})
    ottla_broker.produce(ottla_topic, b'{"price": 9}')  # a record without a key belongs to no row
    assert prices(table(session, ottla_topic, value=PRICE)) == {"tea": 3, "milk": 2}


def test_a_key_that_moved_to_another_partition_is_there_once(
    session: SparkSession, ottla_broker: Broker, ottla_topic: str
) -> None:
    now = int(time.time() * 1000)
    name = f"{ottla_topic}-moved"
    ottla_broker.create_topic(name, partitions=2)
    for _ in range(3):
        produce(ottla_broker, name, "tea", {"price": 1}, partition=0, timestamp=now)
    produce(ottla_broker, name, "tea", {"price": 2}, partition=1, timestamp=now + 1)
    assert prices(table(session, name, value=PRICE)) == {"tea": 2}


def test_a_table_as_a_stream_tells_the_keys_that_changed(
    session: SparkSession, ottla_broker: Broker, ottla_topic: str, checkpoint: str
) -> None:
    batches: list[dict[str, int | None]] = []

    def run() -> None:
        prices_now = table(session, ottla_topic, value=PRICE, stream=True)
        writer = prices_now.writeStream.foreachBatch(lambda rows, _: batches.append(prices(rows)))
        query = writer.outputMode("update").option("checkpointLocation", checkpoint)
        query.trigger(availableNow=True).start().awaitTermination()

    for key, price in [("tea", 1), ("tea", 2), ("milk", 3)]:
        produce(ottla_broker, ottla_topic, key, {"price": price})
    run()
    produce(ottla_broker, ottla_topic, "milk", None)
    run()
    assert [batch for batch in batches if batch] == [{"tea": 2, "milk": 3}, {"milk": None}]


def test_a_micro_batch_can_be_joined_with_the_table_of_that_moment(
    session: SparkSession, ottla_broker: Broker, ottla_topic: str, checkpoint: str
) -> None:
    sales = f"{ottla_topic}-sales"
    ottla_broker.create_topic(sales)
    found: list[tuple[str, int]] = []

    def join(items: DataFrame, batch: int) -> None:
        costs = table(session, ottla_topic, value=PRICE).selectExpr("key AS product", "value.price")
        found.extend((row.product, row.price) for row in items.join(costs, "product").collect())

    for price in (1, 2):
        produce(ottla_broker, ottla_topic, "tea", {"price": price})
        ottla_broker.produce(sales, b"tea")
        items = read_topic(session, sales, value=text).selectExpr("value AS product")
        writer = items.writeStream.foreachBatch(join).option("checkpointLocation", checkpoint)
        writer.trigger(availableNow=True).start().awaitTermination()
    assert found == [("tea", 1), ("tea", 2)]


def test_a_stream_joined_with_a_table_that_follows_sees_its_changes(
    session: SparkSession, ottla_broker: Broker, ottla_topic: str, checkpoint: str
) -> None:
    sales = f"{ottla_topic}-sales"
    ottla_broker.create_topic(sales)
    found: list[tuple[str, int]] = []
    items = read_topic(session, sales, value=text).selectExpr("value AS product")
    costs = table(session, ottla_topic, value=PRICE, follow=True).selectExpr("key AS product", "value.price")
    writer = items.join(costs, "product").writeStream.option("checkpointLocation", checkpoint)
    query = writer.foreachBatch(
        lambda rows, _: found.extend((row.product, row.price) for row in rows.collect())
    ).start()
    try:
        for price in (None, 1, 2):
            if price is not None:
                produce(ottla_broker, ottla_topic, "tea", {"price": price})
            ottla_broker.produce(sales, b"tea")
            query.processAllAvailable()
    finally:
        query.stop()
    assert found == [("tea", 1), ("tea", 2)]


def test_parquet_has_each_row_once_in_its_directory(
    session: SparkSession, ottla_broker: Broker, ottla_topic: str, tmp_path: Path
) -> None:
    path = str(tmp_path / "sales")
    for key, price in [("tea", 1), ("milk", 2)]:
        produce(ottla_broker, ottla_topic, key, {"price": price})
        sales = read_topic(session, ottla_topic, value=PRICE).selectExpr("key AS product", "value.price")
        query = to_table(sales, parquet(path, partition_by=["product"]))
        assert query is not None
        assert query.name == "sales"
        query.awaitTermination()
    found = session.read.parquet(path)
    assert sorted(map(tuple, found.select("product", "price").collect())) == [("milk", 2), ("tea", 1)]
    assert (tmp_path / "sales" / "product=tea").is_dir()


def test_delta_has_each_batch_once_though_it_is_run_again(
    session: SparkSession, ottla_broker: Broker, ottla_topic: str, tmp_path: Path
) -> None:
    deltalake = pytest.importorskip("deltalake")
    path, progress = str(tmp_path / "sales"), tmp_path / "progress"

    def run() -> None:
        sales = read_topic(session, ottla_topic, value=PRICE).selectExpr("key AS product", "value.price")
        query = to_table(sales, delta(path, partition_by=["product"]), checkpoint=str(progress))
        assert query is not None
        query.awaitTermination()

    produce(ottla_broker, ottla_topic, "tea", {"price": 1})
    run()
    for done in (progress / "commits").glob("*0"):  # as if the driver had died before writing this down
        done.unlink()
    for check in (progress / "commits").glob(".*"):
        check.unlink()
    run()
    produce(ottla_broker, ottla_topic, "milk", {"price": 2})
    run()
    found = deltalake.DeltaTable(path).to_pyarrow_table().to_pylist()
    assert sorted(row["product"] for row in found) == ["milk", "tea"]


def test_delta_keeps_one_row_per_key(session: SparkSession, tmp_path: Path) -> None:
    deltalake = pytest.importorskip("deltalake")
    path = str(tmp_path / "prices")
    for rows in ([("tea", 1), ("milk", 2)], [("tea", 3), ("rice", 4)]):
        frame = session.createDataFrame(rows, "product STRING, price INT")
        assert to_table(frame, delta(path, mode="upsert", key=["product"])) is None
    found = {
        row["product"]: row["price"] for row in deltalake.DeltaTable(path).to_pyarrow_table().to_pylist()
    }
    assert found == {"tea": 3, "milk": 2, "rice": 4}


def test_a_database_keeps_one_row_per_key(session: SparkSession) -> None:
    url = "jdbc:derby:memory:shop;create=true"
    for rows in ([("tea", 1), ("milk", 2)], [("tea", 3), ("rice", 4)]):
        frame = session.createDataFrame(rows, "product STRING, price INT")
        if rows[0] == ("tea", 1):
            frame.limit(0).write.option("createTableColumnTypes", "product VARCHAR(20)").jdbc(url, "prices")
        assert to_table(frame, jdbc(url, "prices", mode="upsert", key=["product"])) is None
    found = session.read.jdbc(url, "prices")
    assert {row[0]: row[1] for row in found.collect()} == {"tea": 3, "milk": 2, "rice": 4}


def test_a_stream_is_appended_to_a_database(
    session: SparkSession, ottla_broker: Broker, ottla_topic: str
) -> None:
    url = "jdbc:derby:memory:log;create=true"
    produce(ottla_broker, ottla_topic, "tea", {"price": 1})
    sales = read_topic(session, ottla_topic, value=PRICE).selectExpr("key AS product", "value.price")
    query = to_table(sales, jdbc(url, "sales"))
    assert query is not None
    query.awaitTermination()
    assert [tuple(row) for row in session.read.jdbc(url, "sales").collect()] == [("tea", 1)]


def test_the_statement_for_on_conflict_runs() -> None:
    database = sqlite3.connect(":memory:")
    database.executescript(
        "CREATE TABLE prices (product TEXT PRIMARY KEY, price INT); INSERT INTO prices VALUES ('tea', 1);"
        "CREATE TABLE staging (product TEXT, price INT); INSERT INTO staging VALUES ('tea', 2), ('milk', 3);"
    )
    for columns in (["product", "price"], ["product"]):
        database.execute(upsert("jdbc:sqlite:shop", "prices", "staging", columns, ["product"]))
    assert dict(database.execute("SELECT * FROM prices")) == {"tea": 2, "milk": 3}
    database.close()


def test_what_a_target_cannot_do_is_said_before_anything_runs() -> None:
    with pytest.raises(ClientError, match="not known for oracle"):
        jdbc("jdbc:oracle:thin:@x", "t", mode="upsert", key=["id"]).check()
    with pytest.raises(ClientError, match="needs key="):
        delta("/nowhere", mode="upsert")
    with pytest.raises(ClientError, match="mode must be append, upsert, overwrite, not 'merge'"):
        jdbc("jdbc:derby:x", "t", mode="merge")
