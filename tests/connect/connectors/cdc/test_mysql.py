"""MariaDB CDC against a real server: no loss, no duplicates, in Debezium's format."""

from __future__ import annotations

import socket
import time
from typing import Any

import pymysql
import pytest

from ottla.connect.connectors.cdc.mysql.capture import MariaDbCapture
from ottla.connect.connectors.cdc.mysql.connector import MariaDbConnector, MariaDbTask, MySqlConnector
from ottla.connect.errors import ConnectError, RetriableError
from ottla.testing.connect import SourceHarness
from tests.connect.connectors.cdc.bank import TABLE, Bank, insert_all, run_bank
from tests.connect.connectors.cdc.changes import (
    crash_at_random_points,
    ops,
    rows_and_then_their_changes,
)
from tests.connect.connectors.mariadb import MariaDbDatabase

PEOPLE = "CREATE TABLE people (id INT PRIMARY KEY, name VARCHAR(40))"


def capture(database: MariaDbDatabase, connector: Any = MariaDbConnector, **settings: str) -> SourceHarness:
    given = {name.replace("_", "."): value for name, value in settings.items()}
    return SourceHarness(connector, {**database.capture, "poll.interval.ms": "0", **given})


@pytest.mark.parametrize("connector", [MariaDbConnector, MySqlConnector], ids=["snapshot", "lock"])
def test_the_rows_that_are_there_and_then_their_changes(mariadb: MariaDbDatabase, connector: Any) -> None:
    mariadb.run(PEOPLE)
    source = capture(mariadb, connector)
    rows_and_then_their_changes(mariadb, source)
    assert source.committed[3].value.get("before").get("name") == "Franz"
    record = source.committed[2]
    assert record.topic == f"bank.{mariadb.name}.people"
    origin = record.value.get("source")
    assert (origin.get("db"), origin.get("table"), origin.get("snapshot")) == (
        mariadb.name,
        "people",
        "false",
    )
    assert origin.get("gtid").startswith("0-1-")


def test_a_transaction_larger_than_a_batch_is_continued_after_a_crash(mariadb: MariaDbDatabase) -> None:
    mariadb.run(PEOPLE)
    with capture(mariadb, max_batch_size="7", snapshot_mode="no_data", heartbeat_interval_ms="1") as source:
        source.run(1)
        mariadb.run(
            "INSERT INTO people SELECT seq, 'n' FROM seq_1_to_50", "INSERT INTO people VALUES (51, 'n')"
        )
        crash_at_random_points(source)
        while len(changes := [each for each in source.committed if each.topic.endswith("people")]) < 51:
            source.run(len(source.committed) + 1)
        assert [record.key.get("id") for record in changes] == list(range(1, 52))


@pytest.mark.parametrize("seed", range(2))
def test_transfers_of_a_bank_with_crashes_and_a_killed_database(mariadb: MariaDbDatabase, seed: int) -> None:
    work_and_compare(mariadb, seed, steps=40)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100, 106))
def test_transfers_of_a_bank_for_long(mariadb: MariaDbDatabase, seed: int) -> None:
    work_and_compare(mariadb, seed, steps=250)


def work_and_compare(mariadb: MariaDbDatabase, seed: int, steps: int) -> None:
    mariadb.run(TABLE, insert_all())
    run_bank(
        mariadb,
        capture(mariadb, max_batch_size="3", snapshot_fetch_size="2"),
        Bank(mariadb, seed, pymysql.MySQLError),
        seed=seed,
        steps=steps,
        faults=[mariadb.server.restart] if steps > 100 else [],
        transaction="gtid",
    )


def test_columns_that_come_and_go(mariadb: MariaDbDatabase) -> None:
    mariadb.run(PEOPLE, "INSERT INTO people VALUES (1, 'Ottla')")
    with capture(mariadb) as source:
        source.run(1)
        mariadb.run(
            "INSERT INTO people VALUES (2, 'Franz')",
            "ALTER TABLE people ADD COLUMN city VARCHAR(20) DEFAULT 'Prag'",
            "INSERT INTO people (id, name) VALUES (3, 'Elli')",
            "ALTER TABLE people DROP COLUMN name",
            "INSERT INTO people VALUES (4, 'Wien')",
        )
        source.run(4)
    fields = [[field.name for field in each.value.get("after").schema.fields] for each in source.committed]
    assert fields == [["id", "name"], ["id", "name"], ["id", "name", "city"], ["id", "city"]]
    assert source.committed[2].value.get("after").get("city") == "Prag"


def test_filters_and_truncate(mariadb: MariaDbDatabase) -> None:
    mariadb.run(PEOPLE, "CREATE TABLE other (id INT PRIMARY KEY)")
    settings = {"table.include.list": rf"{mariadb.name}\.people", "skipped.operations": "none"}
    with capture(mariadb, **settings) as source:
        source.poll()
        mariadb.run(
            "INSERT INTO other VALUES (1)", "INSERT INTO people VALUES (1, 'Ottla')", "TRUNCATE people"
        )
        source.run(2)
    assert ops(source.committed) == [("c", 1, "Ottla"), ("t", None, None)]


def test_the_first_change_of_a_log_file_after_a_snapshot_that_was_continued(mariadb: MariaDbDatabase) -> None:
    mariadb.run(PEOPLE, "INSERT INTO people VALUES (1, 'a'), (2, 'b'), (3, 'c'), (4, 'd')")
    with capture(mariadb, max_batch_size="2") as source:
        source.poll()
        source.commit()
        mariadb.run("FLUSH BINARY LOGS")
        source.crash()
        mariadb.run("UPDATE people SET name = 'D' WHERE id = 4")
        source.run(5)
    assert ops(source.committed)[2:] == [("r", 3, "c"), ("r", 4, "d"), ("u", 4, "D")]


def test_a_connection_that_is_lost_in_a_transaction(mariadb: MariaDbDatabase) -> None:
    """The reader must not resume after the table map event."""
    mariadb.run(PEOPLE)
    with capture(mariadb, snapshot_mode="no_data", max_batch_size="100") as source:
        source.poll()
        mariadb.run("INSERT INTO people SELECT seq, repeat('x', 40) FROM seq_1_to_5000")
        source.poll()
        (task,) = source._tasks
        assert isinstance(task, MariaDbTask)
        capture_ = task._capture
        assert isinstance(capture_, MariaDbCapture)
        assert capture_.stream is not None
        assert capture_.stream._reader is not None
        capture_.stream._reader._stream_connection._sock.shutdown(socket.SHUT_RDWR)
        lost = 0
        while len(source.committed) < 5000:
            try:
                source.poll()
            except RetriableError:
                lost += 1
            source.commit()
    assert lost == 1
    assert [record.key.get("id") for record in source.committed] == list(range(1, 5001))


class TestBadInput:
    def test_wrong_password(self, mariadb: MariaDbDatabase) -> None:
        with pytest.raises(ConnectError, match=r"refuses the login: Access denied .*Check database.user"):
            capture(mariadb, database_password="no").start()

    def test_nobody_listens(self, mariadb: MariaDbDatabase) -> None:
        with pytest.raises(ConnectError, match=r"Cannot reach MariaDB at 127.0.0.1:1: .*database.hostname"):
            capture(mariadb, database_port="1").start()

    def test_a_log_that_does_not_name_columns(self, mariadb: MariaDbDatabase) -> None:
        mariadb.run("SET GLOBAL binlog_row_metadata = MINIMAL")
        try:
            with pytest.raises(ConnectError, match=r"binlog_row_metadata=MINIMAL, but .* run SET GLOBAL"):
                capture(mariadb).start()
        finally:
            mariadb.run("SET GLOBAL binlog_row_metadata = FULL")

    def test_a_log_that_was_removed(self, mariadb: MariaDbDatabase) -> None:
        mariadb.run(PEOPLE, "INSERT INTO people VALUES (1, 'Ottla')")
        with capture(mariadb) as source:
            source.run(1)
            source.restart()
            mariadb.run("FLUSH BINARY LOGS")
            last = mariadb.run("SHOW MASTER STATUS")[0][0]
            # An open file survives until the server notices that its reader is gone.
            deadline = time.monotonic() + 20
            while mariadb.run("SHOW BINARY LOGS")[0][0] != last:
                assert time.monotonic() < deadline
                mariadb.run(f"PURGE BINARY LOGS TO '{last}'")
            with pytest.raises(
                ConnectError, match=r"has removed its binary log at .* reset the connector's offsets"
            ):
                source.poll()

    def test_rights_that_are_missing(self, mariadb: MariaDbDatabase) -> None:
        user = f"r{mariadb.name}"
        mariadb.run(
            PEOPLE, f"CREATE USER {user} IDENTIFIED BY 'x'", f"GRANT SELECT ON {mariadb.name}.* TO {user}"
        )
        try:
            with pytest.raises(ConnectError, match=f"Grant this to user '{user}'"):
                capture(mariadb, snapshot_mode="no_data", database_user=user, database_password="x").start()
        finally:
            mariadb.run(f"DROP USER {user}")
