"""Definitions, listings, single records: statements without Spark."""

from __future__ import annotations

import dataclasses
import json
import uuid
from contextlib import closing
from pathlib import Path

import pytest

from ottla.sql.errors import SqlError
from tests.sql.conftest import Sql

TWEETS = (
    "CREATE STREAM tweets (id BIGINT KEY, text STRING, likes INT) WITH (kafka_topic='tweets', partitions=2);"
)


def test_a_stream_makes_its_topic_and_is_seen_by_another_session(statements: Sql) -> None:
    from ottla.sql import SqlSession

    statements(TWEETS)
    other = SqlSession(lambda: None, bootstrap_servers=statements.broker.bootstrap_servers)  # type: ignore[arg-type, return-value]
    [streams, topics] = other.execute("SHOW STREAMS; SHOW TOPICS;")
    assert list(streams.rows) == [("TWEETS", "tweets", "KAFKA", "JSON", "no")]
    assert list(topics.rows) == [("tweets", 2, 1)]
    [described] = other.execute("DESCRIBE tweets;")
    assert list(described.rows) == [("ID", "BIGINT", "key"), ("TEXT", "STRING", ""), ("LIKES", "INTEGER", "")]


def test_a_dropped_stream_is_gone_for_all_and_its_topic_if_asked(statements: Sql) -> None:
    statements(TWEETS)
    statements("DROP STREAM tweets;")
    assert statements("SHOW STREAMS;") == []
    assert statements("SHOW TOPICS;") == [("tweets", 2, 1)]
    statements(TWEETS + "DROP STREAM tweets DELETE TOPIC;")
    assert statements("SHOW TOPICS;") == []
    assert "Stream TWEETS does not exist." in statements.refused("DROP STREAM tweets;")
    statements("DROP STREAM IF EXISTS tweets;")


def test_the_same_name_twice(statements: Sql) -> None:
    statements(TWEETS)
    assert "Stream TWEETS exists already; DROP it, or CREATE OR REPLACE." in statements.refused(TWEETS)
    statements(TWEETS.replace("CREATE STREAM", "CREATE STREAM IF NOT EXISTS"))
    less = "CREATE OR REPLACE STREAM tweets (id BIGINT KEY) WITH (kafka_topic='tweets');"
    assert "TWEETS cannot be replaced: columns are changed, missing or reordered" in statements.refused(less)
    more = TWEETS.replace("CREATE", "CREATE OR REPLACE").replace("likes INT", "likes INT, more STRING")
    statements(more)
    assert statements("DESCRIBE tweets;")[-1] == ("MORE", "STRING", "")
    assert "TWEETS is a stream already" in statements.refused(
        "CREATE TABLE tweets (id BIGINT PRIMARY KEY) WITH (kafka_topic='tweets');"
    )


def test_a_topic_that_is_not_there_is_not_made_by_accident(statements: Sql) -> None:
    message = statements.refused("CREATE STREAM x (a INT) WITH (kafka_topic='nothing');")
    assert (
        message == "line 1, column 1: The topic 'nothing' does not exist. WITH (…, partitions=1) creates it."
    )


def test_inserted_values_are_what_clients_read(statements: Sql) -> None:
    statements(TWEETS.replace("partitions=2", "partitions=1"))
    statements(
        "INSERT INTO tweets (ROWTIME, id, text, likes) VALUES (1234, 7, 'it''s', -3); "
        "INSERT INTO tweets (text) VALUES ('no key');"
    )
    first, second = statements.broker.records("tweets")
    assert (bytes(first.key or b""), first.timestamp) == ((7).to_bytes(8, "big"), 1234)
    assert [value for _, value in statements.records("tweets")] == [
        {"TEXT": "it's", "LIKES": -3},
        {"TEXT": "no key", "LIKES": None},
    ]
    assert second.key is None


def test_inserted_values_in_every_format(statements: Sql) -> None:
    statements(
        """
        CREATE STREAM d (k INT KEY, a STRING, b DOUBLE, c BOOLEAN)
            WITH (kafka_topic='d', partitions=1, value_format='DELIMITED', value_delimiter='TAB');
        CREATE TABLE j (k STRING PRIMARY KEY, s STRUCT<x INT, y ARRAY<STRING>>, m MAP<STRING, DATE>, t TIMESTAMP)
            WITH (kafka_topic='j', partitions=1, key_format='JSON');
        CREATE STREAM p (v STRING) WITH (kafka_topic='p', partitions=1, format='KAFKA');
        INSERT INTO d VALUES (-1, 'a\tb', 1.5, TRUE);
        INSERT INTO j VALUES ('k', STRUCT(x := 1, y := ARRAY['a']), MAP('d' := '1970-01-11'), '2026-01-01T12:00:00');
        INSERT INTO p VALUES ('plain');
        """
    )
    [record] = statements.broker.records("d")
    assert (bytes(record.key or b""), bytes(record.value or b"")) == (
        b"\xff\xff\xff\xff",
        b'"a\tb"\t1.5\ttrue',
    )
    [(key, value)] = statements.records("j")
    assert key == b'"k"'
    assert value == {"S": {"X": 1, "Y": ["a"]}, "M": {"d": 10}, "T": 1_767_268_800_000}
    [record] = statements.broker.records("p")
    assert bytes(record.value or b"") == b"plain"


def test_values_that_do_not_fit_are_refused(statements: Sql) -> None:
    statements(TWEETS)
    assert "LIKES is INTEGER, and 'many' is not." in statements.refused(
        "INSERT INTO tweets VALUES (1, 'a', 'many');"
    )
    assert "LIKES is INTEGER" in statements.refused("INSERT INTO tweets VALUES (1, 'a', 3000000000);")
    assert "There are 3 columns and 2 values." in statements.refused("INSERT INTO tweets VALUES (1, 'a');")
    assert "VALUES takes constants" in statements.refused("INSERT INTO tweets VALUES (1, UCASE('a'), 1);")


def test_print_shows_records_as_they_are(statements: Sql) -> None:
    statements(TWEETS.replace("partitions=2", "partitions=1"))
    for i in range(4):
        statements.produce("tweets", {"n": i}, key=b"k%d" % i, at=1_767_268_800_000)
    rows = statements("PRINT 'tweets' FROM BEGINNING INTERVAL 2 LIMIT 2;")
    assert rows == [
        ("2026-01-01T12:00:00.000Z", 0, 0, "k0", '{"n": 0}'),
        ("2026-01-01T12:00:00.000Z", 0, 2, "k2", '{"n": 2}'),
    ]
    assert "Topic 'nothing' does not exist." in statements.refused("PRINT 'nothing' LIMIT 1;")
    assert "give it a LIMIT" in statements.refused("PRINT 'tweets';")


def test_properties_and_variables(statements: Sql) -> None:
    assert statements("SHOW PROPERTIES;") == [
        ("auto.offset.reset", "latest", "latest"),
        ("ksql.output.topic.name.prefix", "", ""),
        ("ksql.persistence.wrap.single.values", "", ""),
        ("ksql.query.pull.table.scan.enabled", "true", "true"),
        ("ksql.schema.registry.url", "", ""),
        ("ottla.max.offsets.per.trigger", "", ""),
        ("processing.guarantee", "exactly_once_v2", "exactly_once_v2"),
    ]
    assert statements("SET 'auto.offset.reset' = 'earliest'; SHOW PROPERTIES;")[0][2] == "earliest"
    assert statements("UNSET 'auto.offset.reset'; SHOW PROPERTIES;")[0][2] == "latest"
    assert "auto.offset.reset is earliest or latest" in statements.refused("SET 'auto.offset.reset' = 'x';")
    assert "did you mean 'auto.offset.reset'?" in statements.refused("SET 'auto.ofset.reset' = 'earliest';")
    statements("DEFINE topic = 'a'; CREATE STREAM s (x INT) WITH (kafka_topic='${topic}', partitions=1);")
    assert statements("SHOW STREAMS;")[0][:2] == ("S", "a")


def test_names_that_are_not_there_get_a_guess(statements: Sql) -> None:
    statements(TWEETS)
    assert statements.refused("SELECT * FROM tweet;") == (
        "line 1, column 15: Source `TWEET` does not exist. Did you mean TWEETS?"
    )


def test_a_broker_that_is_not_there_is_one_sentence() -> None:
    from ottla.sql import SqlError, SqlSession

    session = SqlSession(
        lambda: None, bootstrap_servers="127.0.0.1:1", properties={"socket.timeout.ms": "500"}
    )  # type: ignore[arg-type, return-value]
    with pytest.raises(SqlError) as caught:
        session.execute("SHOW TOPICS;")
    assert str(caught.value) == "Cannot reach a broker at 127.0.0.1:1: is it running?"


def test_drop_removes_the_checkpoints_and_the_commit_logs_of_the_queries(
    statements: Sql, tmp_path: Path
) -> None:
    """Their names are never reused, so nobody can ask for them."""
    from ottla.client.cluster import Cluster
    from ottla.client.settings import Settings
    from ottla.spark.sink.exactly_once.commit_topic import CommitTopic

    session, servers = statements.session, statements.broker.bootstrap_servers
    session.shared.checkpoints = str(tmp_path)
    statements("CREATE STREAM e (k INT KEY, x INT) WITH (kafka_topic='e', partitions=1);")
    source = session.catalogue.find("E")
    session.catalogue.put(dataclasses.replace(source, query_id="CSAS_E_0"))
    place = tmp_path / session.brokers.cluster_id()
    topics = {}
    with closing(Cluster(Settings.from_properties({"bootstrap.servers": servers}))) as cluster:
        for name in ("CSAS_E_0", "INSERT_E_0_0123456789ab", "CSAS_OTHER_1"):
            query = str(uuid.uuid4())
            (place / name).mkdir(parents=True)
            (place / name / "metadata").write_text(json.dumps({"id": query}))
            topic = CommitTopic(query)
            topic.read(cluster)
            topics[name] = topic.name
        statements("DROP STREAM e;")
        assert [each.name for each in place.iterdir()] == ["CSAS_OTHER_1"]
        assert set(topics.values()) & set(cluster.topics()) == {topics["CSAS_OTHER_1"]}
    assert statements("SHOW TOPICS;") == [("e", 1, 1)]


def test_a_conversation_shares_the_catalogue_but_not_its_settings(statements: Sql) -> None:
    statements(TWEETS)
    other = statements.session.conversation({"name": "tweets"})
    other.execute(
        "SET 'auto.offset.reset' = 'earliest'; SET 'ksql.schema.registry.url' = 'http://127.0.0.1:1';"
    )
    assert [row[0] for row in other.execute("DESCRIBE ${name};")[0].rows]
    assert statements.session.properties.get("auto.offset.reset") == "latest"
    assert statements.session.variables == {}
    # Its pull queries ask its own registry.
    [source] = other.catalogue.all()
    registered = dataclasses.replace(source, value_format="AVRO")
    with pytest.raises(SqlError, match=r"127\.0\.0\.1:1"):
        other._pull._codecs(registered)
