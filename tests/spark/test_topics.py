"""The helpers: topics become typed DataFrames, and DataFrames become topics that any client reads."""

from __future__ import annotations

import json as standard_json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("pyspark")

from ottla.client.errors import ClientError
from ottla.spark import foreach, json, raw, read_topic, text, to_topic
from ottla.spark.alerts import RowFailed
from ottla.spark.queries import output_topics
from ottla.testing import Broker

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SCHEMA = "user STRING, likes INT"


def produce(broker: Broker, topic: str, *values: Any, key: bytes | None = None) -> None:
    for value in values:
        broker.produce(topic, standard_json.dumps(value).encode(), key=key)


def rows(frame: DataFrame) -> list[Any]:
    return [tuple(row) for row in frame.orderBy("offset").select("key", "value").collect()]


def test_json_becomes_a_struct(session: SparkSession, ottla_broker: Broker, ottla_topic: str) -> None:
    produce(ottla_broker, ottla_topic, {"user": "ada", "likes": 3}, {"user": "bob"}, key=b"k")
    tweets = read_topic(session, ottla_topic, value=json(SCHEMA), stream=False)
    assert tweets.columns[:6] == ["key", "value", "topic", "partition", "offset", "timestamp"]
    assert [tuple(row) for row in tweets.orderBy("offset").select("key", "value.*").collect()] == [
        ("k", "ada", 3),
        ("k", "bob", None),
    ]


def test_text_and_bytes(session: SparkSession, ottla_broker: Broker, ottla_topic: str) -> None:
    ottla_broker.produce(ottla_topic, "grüß".encode(), key=b"\xff")
    assert rows(read_topic(session, ottla_topic, value=text, key=raw, stream=False)) == [(b"\xff", "grüß")]
    assert rows(read_topic(session, ottla_topic, value=bytes, key=raw, stream=False)) == [
        (b"\xff", "grüß".encode())
    ]
    assert rows(read_topic(session, ottla_topic, value=str, key=bytes, stream=False)) == [(b"\xff", "grüß")]


def test_headers_come_if_they_are_asked_for(
    session: SparkSession, ottla_broker: Broker, ottla_topic: str
) -> None:
    ottla_broker.produce(ottla_topic, b"x", headers=[("h", b"1")])
    frame = read_topic(session, ottla_topic, value=text, stream=False, options={"includeHeaders": "true"})
    [row] = frame.select("headers").collect()
    assert [tuple(header) for header in row.headers] == [("h", b"1")]


def test_a_stream_goes_from_topic_to_topic(
    session: SparkSession, ottla_broker: Broker, ottla_topic: str
) -> None:
    out = f"{ottla_topic}-out"
    ottla_broker.create_topic(out, partitions=1)
    produce(ottla_broker, ottla_topic, {"user": "ada", "likes": 30}, {"user": "bob", "likes": 3}, key=b"k")
    liked = read_topic(session, ottla_topic, value=json(SCHEMA)).where("value.likes > 10")
    query = to_topic(liked, out)
    assert query is not None
    assert query.name == out
    query.awaitTermination()
    [found] = read_topic(session, out, value=text, stream=False).collect()
    [sent] = read_topic(session, ottla_topic, value=text, stream=False).where("offset = 0").collect()
    assert (found.key, standard_json.loads(found.value)) == ("k", {"user": "ada", "likes": 30})
    assert found.timestamp == sent.timestamp


def test_it_is_known_which_topic_a_query_writes_to(
    session: SparkSession, ottla_broker: Broker, ottla_topic: str, tmp_path: Path
) -> None:
    """Both through `to_topic` and through the option of any other sink."""
    outs = [f"{ottla_topic}-{number}" for number in range(3)]
    for out in outs:
        ottla_broker.create_topic(out, partitions=1)
    produce(ottla_broker, ottla_topic, {"user": "ada", "likes": 30})
    tweets = read_topic(session, ottla_topic, value=text)
    by_hand = (
        tweets.select("value")
        .writeStream.format("ottla")
        .option("kafka.bootstrap.servers", ottla_broker.bootstrap_servers)
        .option("topic", outs[2])
        .option("checkpointLocation", str(tmp_path))
        .trigger(availableNow=True)
        .start()
    )
    nowhere = tweets.writeStream.foreachBatch(lambda batch, number: None).trigger(availableNow=True).start()
    queries = [to_topic(tweets, outs[0]), to_topic(tweets, outs[1], output_mode="update"), by_hand, nowhere]
    found = []
    for query in queries:
        assert query is not None
        query.awaitTermination()
        found.append(output_topics(query))
    assert found == [(outs[0],), (outs[1],), (outs[2],), ()]


def test_columns_are_written_as_json_under_their_key(
    session: SparkSession, ottla_broker: Broker, ottla_topic: str
) -> None:
    frame = session.createDataFrame([("ada", 3, 0.5)], "user STRING, likes INT, score DOUBLE")
    assert to_topic(frame, ottla_topic, key="user") is None
    [found] = read_topic(session, ottla_topic, value=text, stream=False).collect()
    assert (found.key, found.value) == ("ada", '{"likes":3,"score":0.5}')


@pytest.mark.parametrize(
    ("value", "expected"),
    [("likes", "3"), (text, "3"), (json, '{"likes":3}'), (json("x INT"), '{"likes":3}')],
    ids=["column", "text", "json", "json with schema"],
)
def test_the_value_is_what_is_asked_for(
    session: SparkSession, ottla_broker: Broker, ottla_topic: str, value: Any, expected: str
) -> None:
    frame = session.createDataFrame([("ada", 3)], "user STRING, likes INT")
    to_topic(frame, ottla_topic, key="user", value=value)
    [found] = read_topic(session, ottla_topic, value=text, stream=False).collect()
    assert found.value == expected


def test_keys_and_values_may_be_expressions(
    session: SparkSession, ottla_broker: Broker, ottla_topic: str
) -> None:
    from pyspark.sql import functions as F

    frame = session.createDataFrame([("ada", 3)], "user STRING, likes INT")
    to_topic(frame, ottla_topic, key=F.upper("user"), value=F.struct("user"))
    [found] = read_topic(session, ottla_topic, value=text, stream=False).collect()
    assert (found.key, found.value) == ("ADA", '{"user":"ada"}')


def test_the_column_that_decides_the_partition_goes_along(session: SparkSession) -> None:
    from ottla.spark.topics import _encoded

    frame = session.createDataFrame([("a", "b", 1)], "key STRING, value STRING, shard INT")
    assert _encoded(frame, None, None, "shard").columns == ["key", "value", "shard"]
    assert _encoded(frame, "value", json, "shard").columns == ["key", "value", "shard"]


def test_brokers_are_found_in_the_session_and_in_the_environment(
    session: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    from ottla.spark.queries import BOOTSTRAP_SERVERS, bootstrap_servers

    monkeypatch.setenv("OTTLA_BOOTSTRAP_SERVERS", "environment:9092")
    assert bootstrap_servers(session, "given:9092") == "given:9092"
    assert bootstrap_servers(session, None) == session.conf.get(BOOTSTRAP_SERVERS)
    session.conf.unset(BOOTSTRAP_SERVERS)
    assert bootstrap_servers(session, None) == "environment:9092"
    monkeypatch.delenv("OTTLA_BOOTSTRAP_SERVERS")
    monkeypatch.delenv("OTTLA_BOOTSTRAP_SERVER", raising=False)
    assert bootstrap_servers(session, None) == "localhost:9092"


def test_columns_beside_a_value_are_not_lost_in_silence(session: SparkSession, ottla_topic: str) -> None:
    frame = session.createDataFrame([("a", "b")], "value STRING, extra STRING")
    with pytest.raises(ClientError, match="Column 'extra' would be lost"):
        to_topic(frame, ottla_topic)


def test_what_is_missing_is_said_in_a_sentence(session: SparkSession, ottla_topic: str) -> None:
    frame = session.createDataFrame([("a", "b")], "one STRING, two STRING")
    with pytest.raises(ClientError, match="There is no column 'three', only one, two"):
        to_topic(frame, ottla_topic, key="three")
    with pytest.raises(ClientError, match="value=text takes one column"):
        to_topic(frame, ottla_topic, value=text)
    with pytest.raises(ClientError, match="lacks a schema"):
        read_topic(session, ottla_topic, value=json)
    session.conf.unset("spark.ottla.checkpoints")
    with pytest.raises(ClientError, match="Where does query 'copy' keep its progress"):
        to_topic(read_topic(session, ottla_topic, value=text), ottla_topic, name="copy")


def test_a_function_gets_every_row(session: SparkSession, ottla_broker: Broker, ottla_topic: str) -> None:
    produce(ottla_broker, ottla_topic, {"user": "ada"}, {"user": "bob"})
    users = read_topic(session, ottla_topic, value=json(SCHEMA)).select("value.*")
    alerts: list[str] = []
    query = foreach(users, lambda row: alerts.append(row.user), name="alerts")
    assert query is not None
    query.awaitTermination()
    assert alerts == ["ada", "bob"]


def test_a_row_that_fails_is_named_and_comes_again(
    session: SparkSession, ottla_broker: Broker, ottla_topic: str
) -> None:
    produce(ottla_broker, ottla_topic, {"user": "ada"})
    users = read_topic(session, ottla_topic, value=json(SCHEMA)).select("value.*")

    def fail(row: Any) -> None:
        raise ValueError("no such person")

    query = foreach(users, fail, name="alerts")
    assert query is not None
    with pytest.raises(
        Exception, match=r"alerts: batch 0: Row\(user='ada', likes=None\): ValueError: no such"
    ):
        query.awaitTermination()
    with pytest.raises(RowFailed, match="ValueError: no such person"):
        foreach(users.sparkSession.createDataFrame([("ada",)], "user STRING"), fail, name="alerts")
    seen: list[str] = []
    again = foreach(users, lambda row: seen.append(row.user), name="alerts")
    assert again is not None
    again.awaitTermination()
    assert seen == ["ada"]
