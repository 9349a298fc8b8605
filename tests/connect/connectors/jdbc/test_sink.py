"""The JDBC sink against real databases: the final table contents, despite failures."""

from __future__ import annotations

import datetime as dt
import decimal
import random
from typing import Any

import pytest

from ottla.connect.connectors.jdbc.sink import JdbcSinkConnector
from ottla.connect.data import logical
from ottla.connect.data.schema import (
    INT32,
    INT64,
    OPTIONAL_STRING,
    STRING,
    Schema,
    SchemaBuilder,
)
from ottla.connect.data.struct import Struct
from ottla.connect.errors import ConnectError
from ottla.testing.connect import SinkHarness, check_sink
from tests.connect.connectors.postgres import PostgresDatabase

PERSON = SchemaBuilder("person").field("id", INT32).field("name", OPTIONAL_STRING).build()
KEY = SchemaBuilder("key").field("id", INT32).build()


def sink(database: Any, **settings: str) -> SinkHarness:
    given = {name.replace("_", "."): value for name, value in settings.items()}
    config = {**database.jdbc, "name": "my-sink", "retry.backoff.ms": "10", "max.retries": "300"}
    return SinkHarness(JdbcSinkConnector, {**config, "auto.create": "true", **given})


def send(harness: SinkHarness, number: int, name: str | None, *, topic: str = "people", **more: Any) -> None:
    harness.send(
        topic,
        Struct(PERSON, {"id": number, "name": name}),
        value_schema=PERSON,
        key=Struct(KEY, {"id": number}),
        key_schema=KEY,
        **more,
    )


def delete(harness: SinkHarness, number: int) -> None:
    harness.send("people", key=Struct(KEY, {"id": number}), key_schema=KEY)


def test_records_become_rows_of_a_table_that_is_created(database: Any) -> None:
    with sink(database) as running:
        send(running, 1, "Ottla")
        send(running, 2, None)
        running.commit()
    assert database.run("SELECT id, name FROM people ORDER BY id") == [(1, "Ottla"), (2, None)]


def test_upsert_changes_the_row_of_the_key_and_a_tombstone_deletes_it(database: Any) -> None:
    settings = {"insert_mode": "upsert", "pk_mode": "record_key", "delete_enabled": "true"}
    with sink(database, **settings) as running:
        for number, name in [(1, "O"), (2, "F"), (1, "Ottla"), (3, "E")]:
            send(running, number, name)
        delete(running, 3)
        send(running, 4, "V")
        delete(running, 4)
        send(running, 4, "Valli")
        running.commit()
    assert database.run("SELECT id, name FROM people ORDER BY id") == [(1, "Ottla"), (2, "F"), (4, "Valli")]


def test_update_changes_only_rows_that_are_there(database: Any) -> None:
    database.run(
        "CREATE TABLE people (id INTEGER PRIMARY KEY, name VARCHAR(9))", "INSERT INTO people VALUES (1, 'x')"
    )
    with sink(database, insert_mode="update", pk_mode="record_value", pk_fields="id") as running:
        send(running, 1, "Ottla")
        send(running, 2, "Franz")
        running.commit()
    assert database.run("SELECT id, name FROM people") == [(1, "Ottla")]


@pytest.mark.parametrize(
    "settings",
    [
        {"insert.mode": "upsert", "pk.mode": "record_key"},
        {"insert.mode": "insert", "pk.mode": "kafka"},
        {"insert.mode": "insert", "pk.mode": "none", "offsets.table": "stored_offsets"},
    ],
    ids=["upsert", "coordinates", "offsets-table"],
)
def test_crashes_neither_lose_nor_repeat_records(database: Any, settings: dict[str, str]) -> None:
    def config() -> dict[str, str]:
        database.run("DROP TABLE IF EXISTS people", "DROP TABLE IF EXISTS stored_offsets")
        return {**database.jdbc, "name": "s", "auto.create": "true", **settings}

    def send_all(harness: SinkHarness) -> None:
        for number in range(30):
            send(harness, number % 7 if settings["pk.mode"] == "record_key" else number, f"n{number}")

    def stored() -> object:
        return database.run("SELECT id, name FROM people ORDER BY id, name")

    rows: Any = check_sink(JdbcSinkConnector, config, send_all, stored)
    assert len(rows) == (7 if settings["pk.mode"] == "record_key" else 30)


@pytest.mark.parametrize("partition", [0, 1], ids=["known", "new"])
def test_a_task_that_was_replaced_writes_nothing_twice(database: Any, partition: int) -> None:
    """The task knows the offsets of one partition, and learns that partition 0 has moved on."""
    settings = {"pk_mode": "none", "offsets_table": "stored_offsets"}
    database.run("DROP TABLE IF EXISTS stored_offsets")
    with sink(database, **settings) as old, sink(database, **settings) as new:
        send(old, 0, "zero", partition=partition)
        old.put()
        send(new, 0, "zero", partition=partition)
        send(new, 1, "one")
        new.commit()
        send(old, 1, "one")
        send(old, 2, "two")
        old.commit()
    assert database.run("SELECT id, name FROM people ORDER BY id") == [(0, "zero"), (1, "one"), (2, "two")]


def test_kafka_coordinates_as_primary_key(database: Any) -> None:
    with sink(database, pk_mode="kafka", table_name_format="copy_of_${topic}") as running:
        send(running, 1, "Ottla")
        running.commit()
    assert database.run("SELECT * FROM copy_of_people") == [("people", 0, 0, 1, "Ottla")]


def test_a_primitive_key_is_named_by_pk_fields(database: Any) -> None:
    with sink(database, insert_mode="upsert", pk_mode="record_key", pk_fields="pk") as running:
        for name in ("a", "b"):
            running.send(
                "t", Struct(PERSON, {"id": 1, "name": name}), value_schema=PERSON, key="k", key_schema=STRING
            )
        running.commit()
    assert database.run("SELECT pk, id, name FROM t") == [("k", 1, "b")]


def test_new_fields_become_columns(database: Any) -> None:
    newer = (
        SchemaBuilder("person")
        .field("id", INT32)
        .field("city", OPTIONAL_STRING)
        .field("points", Schema(INT64.type, default=7))
        .build()
    )
    with sink(
        database, auto_evolve="true", insert_mode="upsert", pk_mode="record_value", pk_fields="id"
    ) as running:
        send(running, 1, "Ottla")
        running.commit()
        running.send("people", Struct(newer, {"id": 2, "city": "Prag", "points": 1}), value_schema=newer)
        running.commit()
    rows = database.run("SELECT id, name, city, points FROM people ORDER BY id")
    assert rows == [(1, "Ottla", None, 7), (2, None, "Prag", 1)]


def test_every_type_comes_back_as_it_was(database: Any) -> None:
    schema = (
        SchemaBuilder("types")
        .field("id", INT32)
        .field("day", logical.DATE_SCHEMA)
        .field("at", logical.TIMESTAMP_SCHEMA)
        .field("amount", logical.decimal_schema(2))
        .build()
    )
    moment = dt.datetime(2024, 7, 1, 12, 0, 0, 250_000, tzinfo=dt.UTC)
    values = {"id": 1, "day": dt.date(2024, 2, 29), "at": moment, "amount": decimal.Decimal("12.50")}
    with sink(database) as running:
        running.send("types", Struct(schema, values), value_schema=schema)
        running.commit()
    ((number, day, at, amount),) = database.run("SELECT id, day, at, amount FROM types")
    assert (number, str(day), decimal.Decimal(str(amount))) == (1, "2024-02-29", decimal.Decimal("12.5"))
    assert dt.datetime.fromisoformat(str(at)) == moment.replace(tzinfo=None)


def test_a_record_that_the_database_refuses_is_reported_and_the_others_are_stored(database: Any) -> None:
    database.run("CREATE TABLE people (id INTEGER PRIMARY KEY, name VARCHAR(20) NOT NULL)")
    with sink(database) as running:
        send(running, 1, "Ottla")
        send(running, 2, None)
        send(running, 3, "Franz")
        running.commit()
        ((record, reason),) = running.reported
    assert record.offset == 1
    assert "partition 0, offset 1" in str(reason)
    assert "\n" not in str(reason)
    assert database.run("SELECT id FROM people ORDER BY id") == [(1,), (3,)]


class TestBadInput:
    def test_no_table(self, database: Any) -> None:
        with sink(database, auto_create="false") as running:
            send(running, 1, "x")
            with pytest.raises(ConnectError, match=r"Table people is missing .* set auto\.create=true"):
                running.commit()

    def test_a_missing_column(self, database: Any) -> None:
        database.run("CREATE TABLE people (id INTEGER PRIMARY KEY)")
        with sink(database) as running:
            send(running, 1, "x")
            with pytest.raises(
                ConnectError, match=r"missing the columns name and auto-evolution is disabled"
            ):
                running.commit()

    def test_a_schema_that_cannot_evolve(self, database: Any) -> None:
        database.run("CREATE TABLE people (name VARCHAR(10))")
        with sink(database, auto_evolve="true") as running:
            send(running, 1, "x")
            with pytest.raises(ConnectError, match=r"Cannot ALTER TABLE .*people.* field id: .*not optional"):
                running.commit()

    def test_upsert_into_a_table_without_key(self, database: Any) -> None:
        database.run("CREATE TABLE people (id INTEGER, name VARCHAR(10))")
        with sink(database, insert_mode="upsert", pk_mode="record_key") as running:
            send(running, 1, "x")
            with pytest.raises(ConnectError, match=r"has no primary key, so insert\.mode=upsert cannot find"):
                running.commit()

    def test_values_without_schema_are_reported(self, database: Any) -> None:
        with sink(database) as running:
            running.send("people", {"id": 1})
            running.commit()
            ((_, reason),) = running.reported
        assert "value.converter that has schemas" in str(reason)

    def test_a_field_without_column_type(self, postgres: PostgresDatabase) -> None:
        schema = SchemaBuilder("o").field("inner", PERSON).build()
        with sink(postgres) as running:
            running.send("t", Struct(schema, {"inner": Struct(PERSON, {"id": 1})}), value_schema=schema)
            with pytest.raises(ConnectError, match="Flatten"):
                running.commit()

    def test_settings_that_contradict_each_other(self) -> None:
        url = {"connection.url": "jdbc:sqlite:x"}
        assert set(JdbcSinkConnector().validate({**url, "delete.enabled": "true"})) == {"delete.enabled"}
        assert set(JdbcSinkConnector().validate({**url, "insert.mode": "upsert"})) == {"pk.mode"}


def test_transfers_of_a_bank_keep_their_sum_while_the_database_is_killed(postgres: PostgresDatabase) -> None:
    """Each put is one transaction, so every reader sees a constant sum."""
    account = SchemaBuilder("account").field("id", INT32).field("balance", INT64).build()
    random_source = random.Random(7)
    balances = dict.fromkeys(range(5), 100)
    settings = {
        "insert_mode": "upsert",
        "pk_mode": "record_value",
        "pk_fields": "id",
        "offsets_table": "done",
    }
    with sink(postgres, **settings) as running:

        def set_balance(number: int) -> None:
            values = {"id": number, "balance": balances[number]}
            running.send("accounts", Struct(account, values), value_schema=account)

        for number in balances:
            set_balance(number)
        for step in range(60):
            here, there = random_source.sample(sorted(balances), 2)
            amount = random_source.randrange(50)
            balances[here] -= amount
            balances[there] += amount
            set_balance(here)
            set_balance(there)
            if step % 4 == 0:
                random_source.choice(
                    [running.crash_before_commit, running.commit, running.put, running.crash]
                )()
                rows = postgres.run("SELECT to_regclass('accounts')")
                if rows != [(None,)]:
                    assert postgres.run("SELECT coalesce(sum(balance), 500) FROM accounts") == [(500,)]
            if step in (20, 40):
                postgres.server.restart()
        running.commit()
    assert dict(postgres.run("SELECT id, balance FROM accounts")) == balances
