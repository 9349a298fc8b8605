"""Types, added columns, read-only sources and assertions, without Spark."""

from __future__ import annotations

from ottla.protocol.internal_topics import SQL_CATALOGUE_TOPIC
from ottla.sql import SqlSession
from tests.sql.conftest import Sql

STREAM = "CREATE STREAM s (k STRING KEY, a INT) WITH (kafka_topic='s', partitions=1);"


def test_types_are_seen_by_every_session(statements: Sql) -> None:
    statements("CREATE TYPE address AS STRUCT<town STRING, zip INT>; CREATE TYPE many AS ARRAY<address>;")
    assert statements("SHOW TYPES;") == [
        ("ADDRESS", "STRUCT<TOWN STRING, ZIP INTEGER>"),
        ("MANY", "ARRAY<STRUCT<TOWN STRING, ZIP INTEGER>>"),
    ]
    other = SqlSession(lambda: None, bootstrap_servers=statements.broker.bootstrap_servers)  # type: ignore[arg-type, return-value]
    other.execute("CREATE STREAM s (home address) WITH (kafka_topic='s', partitions=1); DROP TYPE many;")
    assert statements("DESCRIBE s;") == [("HOME", "STRUCT<TOWN STRING, ZIP INTEGER>", "")]
    assert [name for name, _ in statements("LIST TYPES;")] == ["ADDRESS"]
    assert statements.session.execute("DROP TYPE IF EXISTS many;")[0].message == "There is no type MANY."


def test_columns_are_added_and_filled(statements: Sql) -> None:
    statements(STREAM)
    result = statements.session.execute("ALTER STREAM s ADD COLUMN b STRING, ADD `c d` INT;")[0]
    assert result.message == "Added columns B, c d to S."
    assert statements("DESCRIBE s;") == [
        ("K", "STRING", "key"),
        ("A", "INTEGER", ""),
        ("B", "STRING", ""),
        ("c d", "INTEGER", ""),
    ]
    statements("INSERT INTO s VALUES ('x', 1, 'p', 2);")
    assert statements.records("s") == [(b"x", {"A": 1, "B": "p", "c d": 2})]


def test_a_source_is_read_only(statements: Sql) -> None:
    statements(STREAM.replace("CREATE STREAM", "CREATE SOURCE STREAM"))
    assert "read only" in statements.refused("INSERT INTO s VALUES ('x', 1);")
    assert "its topic cannot be deleted" in statements.refused("DROP STREAM s DELETE TOPIC;")
    statements("DROP STREAM s;")
    assert statements.broker.records("s") == []


def test_headers_are_described(statements: Sql) -> None:
    statements("CREATE STREAM s (a INT, x BYTES HEADER('x')) WITH (kafka_topic='s', partitions=1);")
    assert statements("DESCRIBE s;") == [("A", "INTEGER", ""), ("X", "BYTES", "header('x')")]
    statements("INSERT INTO s VALUES (1);")
    assert statements.records("s") == [(None, {"A": 1})]


def test_a_topic_is_asserted(statements: Sql) -> None:
    statements(STREAM)
    shape = "ASSERT TOPIC 's' WITH (partitions=1, replicas=1) TIMEOUT 1 SECOND;"
    good = f"ASSERT TOPIC s; {shape} ASSERT NOT EXISTS TOPIC t;"
    assert [result.message for result in statements.session.execute(good)] == [
        "Topic 's' exists.",
        "Topic 's' exists.",
        "Topic 't' does not exist.",
    ]
    assert (
        statements.refused("ASSERT TOPIC s WITH (partitions=2) TIMEOUT 0 SECONDS;")
        == "line 1, column 1: Topic 's' has 1 partitions, not 2."
    )
    assert "knows partitions and replicas" in statements.refused("ASSERT TOPIC s WITH (format='JSON');")


def test_all_topics_are_shown_when_asked_for(statements: Sql) -> None:
    statements(STREAM)
    assert [name for name, *_ in statements("SHOW TOPICS;")] == ["s"]
    assert "__ottla_sql" in [name for name, *_ in statements("SHOW ALL TOPICS;")]


def test_values_in_every_format_of_keys(statements: Sql) -> None:
    statements(
        "CREATE STREAM d (k DOUBLE KEY, v INT) WITH (kafka_topic='d', partitions=1, wrap_single_value=false);"
        "INSERT INTO d VALUES (1.5, 7); INSERT INTO d (k) VALUES (2.5);"
        "CREATE STREAM l (k BYTES KEY, v BYTES) WITH (kafka_topic='l', partitions=1, format='DELIMITED');"
        "INSERT INTO l VALUES ('AQID', 'AQID');"
    )
    first, second = statements.broker.records("d")
    assert (bytes(first.key or b""), bytes(first.value or b"")) == (bytes.fromhex("3ff8000000000000"), b"7")
    assert second.value is None
    [line] = statements.broker.records("l")
    assert (bytes(line.key or b""), bytes(line.value or b"")) == (b"AQID", b"AQID")


def test_a_definition_that_cannot_be_read_spoils_only_its_own_name(statements: Sql) -> None:
    statements(STREAM)
    for name, value in (("BAD", b"{"), ("ODD", b'{"name": 1}'), ("LATER", b'{"version": 2}')):
        statements.broker.produce(SQL_CATALOGUE_TOPIC, value, key=name.encode())
    assert [row[0] for row in statements("DESCRIBE s;")] == ["K", "A"]
    assert "The definition of BAD at offset" in statements.refused("DESCRIBE bad;")
    assert "is damaged" in statements.refused("DROP STREAM odd;")
    assert "LATER was defined by a newer version of Ottla. Update Ottla." in statements.refused(
        "CREATE STREAM later (k INT) WITH (kafka_topic='s');"
    )
    statements.broker.produce(SQL_CATALOGUE_TOPIC, None, key=b"BAD")
    statements("CREATE STREAM bad (k INT) WITH (kafka_topic='s');")
    assert [row[0] for row in statements("DESCRIBE bad;")] == ["K"]
