"""Postgres CDC against a real server: no loss, no duplicates, in Debezium's format."""

from __future__ import annotations

import json

import psycopg
import pytest

from ottla.connect.connectors.cdc.postgres.connector import PostgresConnector
from ottla.connect.errors import ConnectError
from ottla.testing.connect import SourceHarness
from tests.connect.connectors.cdc.bank import TABLE, Bank, insert_all, run_bank
from tests.connect.connectors.cdc.changes import (
    crash_at_random_points,
    ops,
    rows_and_then_their_changes,
)
from tests.connect.connectors.postgres import PostgresDatabase, PostgresServer

PEOPLE = "CREATE TABLE people (id INT PRIMARY KEY, name TEXT)"


def capture(database: PostgresDatabase, **settings: str) -> SourceHarness:
    given = {name.replace("_", "."): value for name, value in settings.items()}
    return SourceHarness(PostgresConnector, {**database.capture, "poll.interval.ms": "0", **given})


def test_the_rows_that_are_there_and_then_their_changes(postgres: PostgresDatabase) -> None:
    postgres.run(PEOPLE)
    source = capture(postgres)
    rows_and_then_their_changes(postgres, source)
    record = source.committed[2]
    assert record.topic == "bank.public.people"
    assert record.value_schema.name == "bank.public.people.Envelope"
    context = [
        ("__debezium.context.connectorLogicalName", "bank"),
        ("__debezium.context.taskId", "0"),
        ("__debezium.context.connectorName", "postgresql"),
    ]
    assert [(header.key, header.value) for header in record.headers] == context
    assert source.committed[4].headers[0].key == "__debezium.newkey"
    assert source.committed[6].headers[0].key == "__debezium.oldkey"
    origin = record.value.get("source")
    assert (origin.get("db"), origin.get("schema"), origin.get("table")) == (
        postgres.name,
        "public",
        "people",
    )
    assert origin.get("snapshot") == "false"
    markers = [each.value.get("source").get("snapshot") for each in source.committed[:2]]
    assert markers == ["first", "last"]


def test_a_transaction_larger_than_a_batch_is_continued_after_a_crash(postgres: PostgresDatabase) -> None:
    postgres.run(PEOPLE)
    with capture(postgres, max_batch_size="7") as source:
        source.run()
        postgres.run("INSERT INTO people SELECT n, 'n' FROM generate_series(1, 50) AS n")
        postgres.run("INSERT INTO people VALUES (51, 'n')")
        crash_at_random_points(source)
        source.run(51)
        assert [record.key.get("id") for record in source.committed] == list(range(1, 52))
        assert source.poll() == []


def test_transactions_stay_whole_where_they_fit_into_a_batch(postgres: PostgresDatabase) -> None:
    postgres.run(PEOPLE)
    with capture(postgres, max_batch_size="5") as source:
        source.run()
        for first in (1, 4, 7):
            postgres.run(f"INSERT INTO people SELECT n, 'n' FROM generate_series({first}, {first + 2}) AS n")
        assert [len(source.poll()) for _ in range(3)] == [3, 3, 3]


@pytest.mark.parametrize("seed", [0, 100, 102])
def test_transfers_of_a_bank_with_crashes_and_a_killed_database(
    postgres: PostgresDatabase, seed: int
) -> None:
    work_and_compare(postgres, seed, steps=40)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100, 108))
def test_transfers_of_a_bank_for_long(postgres: PostgresDatabase, seed: int) -> None:
    work_and_compare(postgres, seed, steps=300)


def work_and_compare(postgres: PostgresDatabase, seed: int, steps: int) -> None:
    postgres.run(TABLE, insert_all())
    run_bank(
        postgres,
        capture(postgres, max_batch_size="3", snapshot_fetch_size="2"),
        Bank(postgres, seed, psycopg.Error),
        seed=seed,
        steps=steps,
        faults=[postgres.server.restart] if steps > 100 or seed == 0 else [],
        transaction="txId",
    )


def test_the_whole_row_of_before_with_replica_identity_full(postgres: PostgresDatabase) -> None:
    long = "".join(chr(ord("a") + n * 7 % 26) for n in range(20_000))
    postgres.run(
        PEOPLE,
        "ALTER TABLE people ADD COLUMN story TEXT",
        "ALTER TABLE people ALTER COLUMN story SET STORAGE EXTERNAL",
        f"INSERT INTO people VALUES (1, 'O', '{long}')",
    )
    with capture(postgres) as source:
        source.run(1)
        postgres.run("UPDATE people SET name = 'P'")
        postgres.run("ALTER TABLE people REPLICA IDENTITY FULL", "UPDATE people SET name = 'Q'")
        without, whole = source.run(3)[1:]
    assert without.value.get("before") is None
    assert without.value.get("after").get("story") == "__debezium_unavailable_value"
    assert whole.value.get("before").get("name") == "P"
    assert whole.value.get("after").get("story") == long


def test_columns_that_come_and_go(postgres: PostgresDatabase) -> None:
    postgres.run(PEOPLE, "INSERT INTO people VALUES (1, 'Ottla')")
    with capture(postgres) as source:
        source.run(1)
        postgres.run(
            "ALTER TABLE people ADD COLUMN city TEXT DEFAULT 'Prag'",
            "INSERT INTO people VALUES (2, 'Franz')",
            "ALTER TABLE people DROP COLUMN name",
            "INSERT INTO people VALUES (3, 'Wien')",
        )
        first, second = source.run(3)[1:]
    assert first.value.get("after").get("city") == "Prag"
    assert first.value.get("after").get("name") == "Franz"
    assert [field.name for field in second.value.get("after").schema.fields] == ["id", "city"]


def test_filters_masks_and_the_key_that_is_asked_for(postgres: PostgresDatabase) -> None:
    postgres.run(
        "CREATE TABLE people (id INT PRIMARY KEY, name TEXT, secret TEXT, mail TEXT, card TEXT)",
        "CREATE TABLE other (id INT PRIMARY KEY)",
        "INSERT INTO people VALUES (1, 'Ottla', 's', 'o@example.org', '1234567')",
        "INSERT INTO other VALUES (1)",
    )
    settings = {
        "table.include.list": r"public\.peo.*",
        "column.exclude.list": "public.people.secret",
        "column.mask.with.4.chars": "public.people.mail",
        "column.truncate.to.2.chars": "public.people.card",
        "message.key.columns": "public.people:name",
        "publication.autocreate.mode": "filtered",
    }
    with capture(postgres, **settings) as source:
        (record,) = source.run(1)
        postgres.run("INSERT INTO other VALUES (2)", "INSERT INTO people VALUES (2, 'F', 's', 'f', '9')")
        second = source.run(2)[1]
    after = record.value.get("after")
    assert [field.name for field in after.schema.fields] == ["id", "name", "mail", "card"]
    assert (after.get("mail"), after.get("card"), record.key.get("name")) == ("****", "12", "Ottla")
    assert second.value.get("after").get("mail") == "****"


@pytest.mark.parametrize("mode", ["no_data", "never"])
def test_without_snapshot_only_changes_come(postgres: PostgresDatabase, mode: str) -> None:
    postgres.run(PEOPLE, "INSERT INTO people VALUES (1, 'Ottla')")
    with capture(postgres, snapshot_mode=mode) as source:
        assert source.poll() == []
        postgres.run("INSERT INTO people VALUES (2, 'Franz')")
        assert ops(source.run(1)) == [("c", 2, "Franz")]


def test_only_the_snapshot(postgres: PostgresDatabase) -> None:
    postgres.run(PEOPLE, "INSERT INTO people VALUES (1, 'Ottla')")
    with capture(postgres, snapshot_mode="initial_only") as source:
        source.run(1)
        postgres.run("INSERT INTO people VALUES (2, 'Franz')")
        source.restart()
        assert source.run() == source.committed[:1]


def test_heartbeats_let_the_server_remove_its_log(postgres: PostgresDatabase) -> None:
    postgres.run(PEOPLE, "CREATE TABLE other (id INT)")
    settings = {"table_include_list": "public.people", "heartbeat_interval_ms": "1"}
    with capture(
        postgres, publication_autocreate_mode="filtered", **settings, snapshot_mode="no_data"
    ) as source:
        postgres.run(
            PEOPLE.replace("people", "people_too"), "INSERT INTO other SELECT generate_series(1, 1000)"
        )
        before = postgres.run("SELECT pg_current_wal_lsn()")[0][0]
        source.run(2)
        source.poll()
        assert source.committed[-1].topic == "__debezium-heartbeat.bank"
        query = f"SELECT confirmed_flush_lsn >= '{before}' FROM pg_replication_slots WHERE database = '{postgres.name}'"
        assert postgres.run(query) == [(True,)]
        postgres.run("INSERT INTO people VALUES (1, 'Ottla')")
        source.crash()
        while not any(record.topic == "bank.public.people" for record in source.committed):
            source.run(len(source.committed) + 1)


def test_an_offset_of_debezium_is_continued(postgres: PostgresDatabase) -> None:
    """Debezium stores the previous commit and the last change. Here the second transaction, with three changes, is
    done.
    """
    postgres.run(PEOPLE)
    with capture(postgres, snapshot_mode="no_data") as source:
        source.poll()
        postgres.run(
            "INSERT INTO people VALUES (1, 'a')", "INSERT INTO people VALUES (2, 'b'), (3, 'c'), (4, 'd')"
        )
        first, *_, last = source.poll()
        offset = {
            "lsn_proc": last.source_offset["lsn"],
            "messageType": "INSERT",
            "lsn_commit": first.source_offset["lsn_commit"],
            "lsn": last.source_offset["lsn"],
            "txId": last.source_offset["txId"],
            "ts_usec": last.source_offset["ts_usec"],
        }
        source._offsets.stored['{"server": "bank"}'] = json.dumps(offset)
        postgres.run("INSERT INTO people VALUES (5, 'e')")
        source.crash()
        assert ops(source.run(1)) == [("c", 5, "e")]


def test_headers_with_the_context_can_be_turned_off(postgres: PostgresDatabase) -> None:
    postgres.run(PEOPLE, "INSERT INTO people VALUES (1, 'Ottla')")
    with capture(postgres, extended_headers_enabled="false") as source:
        assert source.run(1)[0].headers == []


def test_defaults_of_functions_have_a_placeholder(postgres: PostgresDatabase) -> None:
    """As Debezium declares them: a client that reads a missing field gets a value of the type."""
    postgres.run(
        "CREATE TABLE people (id INT PRIMARY KEY, name TEXT, at TIMESTAMPTZ DEFAULT now(), "
        "day DATE DEFAULT now(), code UUID DEFAULT gen_random_uuid(), said TIMESTAMP DEFAULT CURRENT_TIMESTAMP)",
        "INSERT INTO people VALUES (1, 'Ottla')",
    )
    with capture(postgres) as source:
        (record,) = source.run(1)
    after = next(each.schema for each in record.value_schema.fields if each.name == "after")
    defaults = {each.name: each.schema.default for each in after.fields}
    assert defaults == {
        "id": None,
        "name": None,
        "at": "1970-01-01T00:00:00.000000Z",
        "day": 0,
        "code": "00000000-0000-0000-0000-000000000000",
        "said": None,
    }


class TestBadInput:
    def test_wrong_password(self, postgres: PostgresDatabase) -> None:
        with pytest.raises(
            ConnectError, match=r"refuses the login: password .*Check database.user and database.pass"
        ):
            capture(postgres, database_password="no").start()

    def test_validation_tries_the_connection(self, postgres: PostgresDatabase) -> None:
        validate = PostgresConnector().validate
        assert validate(postgres.capture) == {}
        wrong = validate({**postgres.capture, "database.user": "nobody"})
        assert "refuses the login" in wrong["database.hostname"][0]
        wrong = validate({**postgres.capture, "database.port": "1"})
        assert "Cannot reach PostgreSQL" in wrong["database.hostname"][0]

    def test_nobody_listens(self, postgres: PostgresDatabase) -> None:
        with pytest.raises(
            ConnectError, match=r"Cannot reach PostgreSQL at 127.0.0.1:1: .*database.hostname"
        ):
            capture(postgres, database_port="1").start()

    def test_a_slot_that_somebody_else_has_read(self, postgres: PostgresDatabase) -> None:
        postgres.run(PEOPLE, "INSERT INTO people VALUES (1, 'Ottla')")
        with capture(postgres) as source:
            source.run(1)
            postgres.run("INSERT INTO people VALUES (2, 'Franz')")
            postgres.run(f"SELECT pg_replication_slot_advance('{postgres.name}', pg_current_wal_lsn())")
            with pytest.raises(
                ConnectError, match=r"was read by somebody else up to .* changes in between are lost"
            ):
                source.crash()

    def test_a_slot_that_was_dropped(self, postgres: PostgresDatabase) -> None:
        postgres.run(PEOPLE, "INSERT INTO people VALUES (1, 'Ottla')")
        with capture(postgres) as source:
            source.run(1)
            postgres.run(f"SELECT pg_drop_replication_slot('{postgres.name}')")
            with pytest.raises(ConnectError, match=r"does not exist any more.*reset the connector's offsets"):
                source.crash()

    def test_a_slot_of_another_plugin(self, postgres: PostgresDatabase) -> None:
        postgres.run(f"SELECT pg_create_logical_replication_slot('{postgres.name}', 'test_decoding')")
        with pytest.raises(ConnectError, match="is for plugin test_decoding"):
            capture(postgres).start()

    def test_rights_that_are_missing(self, postgres: PostgresDatabase) -> None:
        user = f"reader_{postgres.name}"
        login = {"database_user": user, "database_password": "x"}
        postgres.run(PEOPLE, f"CREATE USER {user} PASSWORD 'x'")
        try:
            with pytest.raises(
                ConnectError, match=r"may not create publication 'dbz_publication'.*administrator"
            ):
                capture(postgres, **login).start()
            postgres.run("CREATE PUBLICATION dbz_publication FOR ALL TABLES")
            with pytest.raises(ConnectError, match=r"may not create a replication slot: run ALTER ROLE"):
                capture(postgres, **login).start()
            postgres.run(f"ALTER ROLE {user} REPLICATION")
            with (
                capture(postgres, **login) as source,
                pytest.raises(
                    ConnectError, match=f"permission denied for table people. Grant this to user '{user}'"
                ),
            ):
                source.poll()
        finally:
            postgres.run(f"DROP USER {user}")

    def test_a_publication_that_nobody_makes(self, postgres: PostgresDatabase) -> None:
        with pytest.raises(
            ConnectError, match=r"There is no publication 'dbz_publication' .* CREATE PUBLICATION"
        ):
            capture(postgres, publication_autocreate_mode="disabled").start()

    def test_a_log_without_changes_of_rows(self) -> None:
        with PostgresServer(wal_level="replica", max_wal_senders="0") as server:
            database = PostgresDatabase(server)
            with pytest.raises(
                ConnectError, match=r"has wal_level=replica, but .*wal_level=logical: set it in post"
            ):
                capture(database).start()

    def test_a_slot_name_that_cannot_be_one(self, postgres: PostgresDatabase) -> None:
        with pytest.raises(ConnectError, match="small letters"):
            capture(postgres, slot_name="My-Slot")
