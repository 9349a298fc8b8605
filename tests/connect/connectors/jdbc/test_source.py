"""The JDBC source against real databases: rows, schemas and offsets, each row once."""

from __future__ import annotations

import datetime as dt
import decimal
from collections.abc import Mapping
from typing import Any

import pytest

from ottla.connect.connectors.jdbc.sink import JdbcSinkConnector
from ottla.connect.connectors.jdbc.source import JdbcSourceConnector
from ottla.connect.data import logical
from ottla.connect.errors import ConnectError
from ottla.testing.connect import SourceHarness, check_source
from tests.connect.connectors.mariadb import MariaDbDatabase
from tests.connect.connectors.postgres import PostgresDatabase


def source(database: Any, **settings: str) -> SourceHarness:
    given = {name.replace("_", "."): value for name, value in settings.items()}
    return SourceHarness(
        JdbcSourceConnector, {**database.jdbc, "topic.prefix": "t-", "poll.interval.ms": "0", **given}
    )


def values(records: list[Any], field: str) -> list[Any]:
    return [record.value.get(field) for record in records]


PEOPLE = "CREATE TABLE people (id INTEGER PRIMARY KEY, name VARCHAR(40) NOT NULL, born DATE)"


def test_rows_come_in_the_order_of_the_incrementing_column_and_new_ones_later(database: Any) -> None:
    database.run(PEOPLE, "INSERT INTO people VALUES (1, 'Ottla', '1892-10-29'), (2, 'Franz', '1883-07-03')")
    with source(database, mode="incrementing", incrementing_column_name="id") as running:
        assert values(running.run(2), "name") == ["Ottla", "Franz"]
        database.run("INSERT INTO people VALUES (7, 'Elli', NULL)")
        record = running.run(3)[-1]
        assert record.topic == "t-people"
        assert (record.key, record.value_schema.name) == (None, "people")
        assert record.value.get("born") is None
        assert running.committed[0].value.get("born") == dt.date(1892, 10, 29)
        assert record.source_offset == {"incrementing": 7}
        assert record.source_partition["protocol"] == "1"
        assert record.source_partition["table"].endswith("people")


def test_a_crash_at_any_poll_neither_loses_nor_repeats_rows(database: Any) -> None:
    database.run(
        PEOPLE, "INSERT INTO people VALUES " + ", ".join(f"({n}, 'p{n}', NULL)" for n in range(1, 41))
    )

    def config() -> Mapping[str, str]:
        settings = {"mode": "incrementing", "incrementing.column.name": "id", "topic.prefix": "t-"}
        return {**database.jdbc, **settings, "poll.interval.ms": "0", "batch.max.rows": "3"}

    assert len(check_source(JdbcSourceConnector, config)) == 40


def test_rows_of_one_time_are_never_torn_apart(database: Any) -> None:
    database.run(
        "CREATE TABLE events (id INTEGER PRIMARY KEY, at TIMESTAMP NOT NULL DEFAULT '2000-01-01 00:00:00')",
        "INSERT INTO events VALUES "
        + ", ".join(f"({n}, '2024-05-01 10:00:{n // 10:02}')" for n in range(1, 41)),
    )

    settings = {"mode": "timestamp", "timestamp_column_name": "at", "batch_max_rows": "3"}
    with source(database, **settings) as running:
        for how in (running.crash, running.crash_after_commit, running.restart) * 2:
            running.poll()
            how()
            running.poll()
            running.commit()
        assert sorted(values(running.run(), "id")) == list(range(1, 41))


def test_an_update_comes_again_by_its_time_and_ties_are_broken_by_the_number(database: Any) -> None:
    database.run(
        "CREATE TABLE accounts (id INTEGER PRIMARY KEY, changed TIMESTAMP NOT NULL DEFAULT '2000-01-01 00:00:00')",
        "INSERT INTO accounts VALUES (1, '2024-05-01 10:00:00'), (2, '2024-05-01 10:00:00')",
    )
    settings = {"mode": "timestamp+incrementing", "timestamp_column_name": "changed"}
    with source(database, incrementing_column_name="id", batch_max_rows="1", **settings) as running:
        assert values(running.run(2), "id") == [1, 2]
        database.run("UPDATE accounts SET changed = '2024-05-01 10:00:05' WHERE id = 1")
        assert values(running.run(3), "id") == [1, 2, 1]
        assert running.offsets[0][1] == {
            "incrementing": 1,
            "timestamp": 1714557605000,
            "timestamp_nanos": 0,
        }


def test_bulk_reads_everything_each_time(database: Any) -> None:
    database.run(PEOPLE, "INSERT INTO people VALUES (1, 'Ottla', NULL), (2, 'Franz', NULL)")
    with source(database, mode="bulk", batch_max_rows="1") as running:
        assert values(running.run(4), "name") == ["Ottla", "Franz", "Ottla", "Franz"]
        assert running.committed[0].source_partition == {"table": "people"}


def test_a_query_has_its_own_topic(database: Any) -> None:
    database.run(PEOPLE, "INSERT INTO people VALUES (1, 'Ottla', NULL), (2, 'Franz', NULL)")
    settings = {"mode": "incrementing", "incrementing_column_name": "id"}
    query = "SELECT * FROM (SELECT id, name FROM people WHERE name LIKE 'O%') AS o"
    with source(database, query=query, **settings) as running:
        (record,) = running.run(1)
    assert (record.topic, record.source_partition) == ("t-", {"query": "query"})
    assert [field.name for field in record.value_schema.fields] == ["id", "name"]


def test_tables_are_spread_over_tasks(database: Any) -> None:
    database.run(*(f"CREATE TABLE t{n} (id INTEGER PRIMARY KEY)" for n in range(5)))
    connector = JdbcSourceConnector()
    connector.start({**database.jdbc, "mode": "bulk", "table.blacklist": "t4"})
    configs = connector.task_configs(3)
    assert len(configs) == 3
    tables = sorted(
        name for config in configs for name in config["tables"].split('"') if name.startswith("t")
    )
    assert tables == ["t0", "t1", "t2", "t3"]


def test_types_of_postgresql(postgres: PostgresDatabase) -> None:
    postgres.run(
        "CREATE TYPE mood AS ENUM ('sad', 'ok')",
        "CREATE TABLE all_types (a smallint NOT NULL, b int, c bigint, d real, e double precision, "
        "f numeric(10,2), g boolean, h text, i bytea, j date, k time, l timestamp, m timestamptz, n uuid, "
        "o jsonb, p mood, q money, r int[])",
        "INSERT INTO all_types VALUES (1, 2, 3, 1.5, 2.5, 12.3, true, 'x', '\\x01', '2024-02-03', '10:11:12.5', "
        "'2024-02-03 04:05:06.789', '2024-02-03 04:05:06+02', '4f5f6a1e-0000-0000-0000-000000000001', "
        """'{"a": 1}', 'ok', 12.5, '{1}')""",
    )
    with source(postgres, mode="bulk") as running:
        (record,) = running.run(1)
    schema = {field.name: field.schema for field in record.value_schema.fields}
    assert [schema[name].type.value for name in "abcdeghi"] == [
        "int16", "int32", "int64", "float32", "float64", "boolean", "string", "bytes",
    ]  # fmt: skip
    assert not schema["a"].optional
    assert schema["b"].optional
    assert schema["f"] == logical.decimal_schema(2, optional=True)
    assert [schema[name].name for name in "jklm"] == [
        logical.DATE, logical.TIME, logical.TIMESTAMP, logical.TIMESTAMP,
    ]  # fmt: skip
    assert "r" not in schema
    value = record.value
    assert value.get("f") == decimal.Decimal("12.30")
    assert value.get("l") == dt.datetime(2024, 2, 3, 4, 5, 6, 789000, tzinfo=dt.UTC)
    assert value.get("m") == dt.datetime(2024, 2, 3, 2, 5, 6, tzinfo=dt.UTC)
    assert value.get("n") == "4f5f6a1e-0000-0000-0000-000000000001"
    assert (value.get("o"), value.get("p"), value.get("q")) == ('{"a": 1}', "ok", 12.5)


def test_types_of_mariadb(mariadb: MariaDbDatabase) -> None:
    mariadb.run(
        "CREATE TABLE all_types (a TINYINT, b SMALLINT UNSIGNED, c INT UNSIGNED, d BIGINT NOT NULL, e FLOAT, f DOUBLE, "
        "g DECIMAL(10,2), h VARCHAR(10), i VARBINARY(10), j DATE, k TIME(3), l DATETIME(3), m BIT(1), n TEXT)",
        "INSERT INTO all_types VALUES (1, 65535, 4294967295, 4, 1.5, 2.5, 12.3, 'x', x'01', '2024-02-03', "
        "'10:11:12.5', '2024-02-03 04:05:06.789', b'1', 'long')",
    )
    with source(mariadb, mode="bulk") as running:
        (record,) = running.run(1)
    schema = {field.name: field.schema for field in record.value_schema.fields}
    assert [schema[name].type.value for name in "abcdefhimn"] == [
        "int8", "int32", "int64", "int64", "float32", "float64", "string", "bytes", "boolean", "string",
    ]  # fmt: skip
    assert not schema["d"].optional
    assert record.value.get("g") == decimal.Decimal("12.30")
    assert record.value.get("k") == dt.time(10, 11, 12, 500000)
    assert record.value.get("l") == dt.datetime(2024, 2, 3, 4, 5, 6, 789000, tzinfo=dt.UTC)
    assert (record.value.get("c"), record.value.get("m")) == (4294967295, True)


@pytest.mark.parametrize(
    ("mapping", "expected"),
    [
        ("none", ["bytes", "bytes", "bytes"]),
        ("precision_only", ["int16", "bytes", "bytes"]),
        ("best_fit", ["int16", "float64", "bytes"]),
        ("best_fit_eager_double", ["int16", "float64", "float64"]),
    ],
)
def test_numeric_mapping(postgres: PostgresDatabase, mapping: str, expected: list[str]) -> None:
    postgres.run(
        "CREATE TABLE n (a numeric(4), b numeric(8,2), c numeric(30,2))",
        "INSERT INTO n VALUES (1, 2.5, 3.25)",
    )
    with source(postgres, mode="bulk", numeric_mapping=mapping) as running:
        (record,) = running.run(1)
    assert [field.schema.type.value for field in record.value_schema.fields] == expected
    assert float(record.value.get("b")) == 2.5


def test_times_without_a_zone_are_those_of_db_timezone(database: Any) -> None:
    database.run(
        "CREATE TABLE e (id INTEGER PRIMARY KEY, at "
        + ("DATETIME)" if isinstance(database, MariaDbDatabase) else "TIMESTAMP)"),
        "INSERT INTO e VALUES (1, '2024-07-01 12:00:00')",
    )
    with source(database, mode="bulk", db_timezone="Europe/Prague") as running:
        (record,) = running.run(1)
    assert record.value.get("at") == dt.datetime(2024, 7, 1, 10, tzinfo=dt.UTC)


class TestBadInput:
    @pytest.mark.parametrize("database", ["postgres", "mariadb"], indirect=True)
    def test_wrong_password(self, database: Any) -> None:
        with pytest.raises(
            ConnectError, match=r"refuses the login: .*Check connection.user and connection.pass"
        ):
            source(database, mode="bulk", connection_password="no").start()

    @pytest.mark.parametrize("database", ["postgres", "mariadb"], indirect=True)
    @pytest.mark.parametrize("connector", [JdbcSourceConnector, JdbcSinkConnector])
    def test_validation_tries_the_connection(self, database: Any, connector: Any) -> None:
        config = {**database.jdbc, "mode": "bulk", "topic.prefix": "t"}
        assert connector().validate(config) == {}
        wrong = connector().validate({**config, "connection.password": "no"})
        assert "refuses the login" in wrong["connection.url"][0]
        elsewhere = "jdbc:postgresql://127.0.0.1:1/db"
        assert connector().validate({**config, "connection.url": elsewhere}) == {}, "it may run later"

    @pytest.mark.parametrize("product", ["postgresql", "mariadb"])
    def test_nobody_listens(self, product: str) -> None:
        harness = SourceHarness(
            JdbcSourceConnector,
            {
                "connection.url": f"jdbc:{product}://127.0.0.1:1/db",
                "mode": "bulk",
                "connection.attempts": "1",
            },
        )
        with pytest.raises(
            ConnectError, match=r"Cannot reach \w+ at 127.0.0.1:1: .*that the server runs.$"
        ) as caught:
            harness.start()
        assert "\n" not in str(caught.value)

    @pytest.mark.parametrize("database", ["postgres", "mariadb"], indirect=True)
    def test_unknown_database(self, database: Any) -> None:
        with pytest.raises(ConnectError, match=r"has no database 'nowhere'\. Check connection.url"):
            source(database, mode="bulk", connection_url=database.url.rpartition("/")[0] + "/nowhere").start()

    def test_no_table_matches(self, database: Any) -> None:
        database.run(PEOPLE)
        with pytest.raises(ConnectError, match=r"No table of .* Tables there: .*people"):
            source(database, mode="bulk", table_whitelist="peopel").start()

    def test_nullable_incrementing_column(self, database: Any) -> None:
        database.run("CREATE TABLE n (n BIGINT)")
        with (
            source(database, mode="incrementing", incrementing_column_name="n") as running,
            pytest.raises(ConnectError, match="Cannot make incremental queries using incrementing column n"),
        ):
            running.poll()

    def test_missing_column(self, database: Any) -> None:
        database.run(PEOPLE)
        with (
            source(database, mode="incrementing", incrementing_column_name="number") as running,
            pytest.raises(ConnectError),
        ):
            running.poll()

    def test_settings_that_contradict_each_other(self) -> None:
        found = JdbcSourceConnector().validate(
            {"connection.url": "jdbc:sqlite:x", "mode": "timestamp", "query": "q", "table.whitelist": "t"}
        )
        assert set(found) == {"query", "topic.prefix", "timestamp.column.name"}

    def test_a_privilege_is_missing(self, postgres: PostgresDatabase) -> None:
        user = f"reader_{postgres.name}"
        postgres.run(PEOPLE, f"CREATE USER {user} PASSWORD 'x'")
        with (
            source(postgres, mode="bulk", connection_user=user, connection_password="x") as running,
            pytest.raises(
                ConnectError, match=f"permission denied for table people. Grant this to user '{user}'"
            ),
        ):
            running.poll()
        postgres.run(f"DROP USER {user}")


def test_a_killed_database_is_waited_for(postgres: PostgresDatabase) -> None:
    postgres.run(PEOPLE, "INSERT INTO people VALUES (1, 'Ottla', NULL), (2, 'Franz', NULL)")
    with source(postgres, mode="incrementing", incrementing_column_name="id", batch_max_rows="1") as running:
        running.run(1)
        postgres.server.restart()
        with pytest.raises(ConnectError, match="Cannot reach PostgreSQL"):
            running.poll()
        assert values(running.run(2), "name") == ["Ottla", "Franz"]
