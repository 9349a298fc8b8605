"""Incremental snapshots and transaction metadata of PostgreSQL."""

from __future__ import annotations

import contextlib
import json
import random
import threading
from typing import Any

import psycopg
import pytest

from ottla.connect.connectors.cdc.postgres.connector import PostgresConnector
from ottla.testing.connect import SourceHarness
from tests.connect.connectors.cdc.changes import ops
from tests.connect.connectors.postgres import PostgresDatabase

PEOPLE = "CREATE TABLE people (id INT PRIMARY KEY, name TEXT)"
SIGNALS = "CREATE TABLE signals (id VARCHAR(42) PRIMARY KEY, type VARCHAR(32) NOT NULL, data VARCHAR(2048))"


def capture(database: PostgresDatabase, **settings: str) -> SourceHarness:
    given = {name.replace("_", "."): value for name, value in settings.items()}
    return SourceHarness(
        PostgresConnector,
        {
            **database.capture,
            "poll.interval.ms": "0",
            "signal.data.collection": "public.signals",
            "incremental.snapshot.chunk.size": "3",
            **given,
        },
    )


def signal(kind: str, **data: Any) -> str:
    id = random.randbytes(8).hex()
    return f"INSERT INTO signals VALUES ('{id}', '{kind}', '{json.dumps(data)}')"


def execute(*tables: str, **more: Any) -> str:
    named = [f"public.{each}" for each in tables]
    return signal("execute-snapshot", **{"data-collections": named, "type": "incremental", **more})


def people(source: SourceHarness) -> list[Any]:
    return [each for each in source.committed if each.topic == "bank.public.people"]


def ids(source: SourceHarness, op: str = "r") -> list[int]:
    return [key for found, key, *_ in ops(people(source)) if found == op]


def test_a_signal_reads_a_table_in_chunks(postgres: PostgresDatabase) -> None:
    postgres.run(PEOPLE, SIGNALS, "INSERT INTO people SELECT n, 'n' FROM generate_series(1, 8) AS n")
    with capture(postgres, snapshot_mode="no_data") as source:
        postgres.run(execute("people"))
        source.run(9)
        assert ids(source) == [*range(1, 9)]
        origin = people(source)[0].value.get("source")
        assert (origin.get("snapshot"), origin.get("txId"), origin.get("lsn")) == ("incremental", None, None)
        # The event of the signal is published as well, as by Debezium.
        assert [each.topic for each in source.committed if each not in people(source)] == [
            "bank.public.signals"
        ]
        offset = source.offsets[0][1]
        assert not [name for name in offset if name.startswith("incremental")]
        postgres.run("INSERT INTO people VALUES (9, 'n')")
        source.run(10)
        assert ids(source, "c") == [9]


def test_conditions_surrogate_keys_and_patterns(postgres: PostgresDatabase) -> None:
    postgres.run(
        PEOPLE,
        SIGNALS,
        "CREATE TABLE pairs (a TEXT, b INT, c INT NOT NULL, PRIMARY KEY (a, b))",
        "CREATE TABLE keyless (a INT)",
        "INSERT INTO people SELECT n, 'n' FROM generate_series(1, 8) AS n",
        "INSERT INTO pairs SELECT chr(97 + n % 3), n, 10 - n FROM generate_series(1, 7) AS n",
        "INSERT INTO keyless VALUES (1)",
    )
    with capture(postgres, snapshot_mode="no_data") as source:
        conditions = [{"data-collection": "public.people", "filter": "id % 2 = 0"}]
        postgres.run(execute("p.*", "keyless", **{"additional-conditions": conditions}))
        source.run(12)
        assert ids(source) == [2, 4, 6, 8]
        found = [each.key for each in source.committed if each.topic == "bank.public.pairs"]
        assert [(key.get("a"), key.get("b")) for key in found] == [
            ("a", 3), ("a", 6), ("b", 1), ("b", 4), ("b", 7), ("c", 2), ("c", 5)
        ]  # fmt: skip
        source.committed.clear()
        postgres.run(execute("pairs", **{"surrogate-key": "c"}))
        source.run(8)
        found = [each.key for each in source.committed if each.topic == "bank.public.pairs"]
        assert [key.get("b") for key in found] == [7, 6, 5, 4, 3, 2, 1]


def test_it_continues_after_a_crash_where_it_was(postgres: PostgresDatabase) -> None:
    postgres.run(PEOPLE, SIGNALS, "INSERT INTO people SELECT n, 'n' FROM generate_series(1, 30) AS n")
    with capture(postgres, snapshot_mode="no_data") as source:
        postgres.run(execute("people"))
        for _ in range(12):
            source.poll()
            source.poll()
            source.crash_after_commit()
            source.poll()
            source.crash()
        source.run(31)
        assert ids(source) == [*range(1, 31)]


def test_it_pauses_resumes_and_stops(postgres: PostgresDatabase) -> None:
    postgres.run(PEOPLE, SIGNALS, "INSERT INTO people SELECT n, 'n' FROM generate_series(1, 30) AS n")
    with capture(postgres, snapshot_mode="no_data") as source:
        postgres.run(signal("pause-snapshot"), execute("people"))
        source.run()
        assert ids(source) == []
        source.crash_after_commit()
        source.run()
        assert ids(source) == []
        postgres.run(signal("resume-snapshot"))
        while len(ids(source)) < 6:
            source.poll()
            source.commit()
        postgres.run(
            signal("stop-snapshot", **{"data-collections": ["public.people"], "type": "incremental"})
        )
        source.run()
        assert len(ids(source)) < 30
        postgres.run(execute("people"))
        source.run()
        assert ids(source)[-30:] == [*range(1, 31)]


@pytest.mark.parametrize("seed", range(3))
def test_the_last_event_of_each_row_is_its_state_while_others_write(
    postgres: PostgresDatabase, seed: int
) -> None:
    postgres.run(PEOPLE, SIGNALS, "INSERT INTO people SELECT n, '0' FROM generate_series(1, 40) AS n")
    stopping = threading.Event()

    def write(own: random.Random) -> None:
        number = 0
        while not stopping.is_set():
            number += 1
            id = own.randint(1, 50)
            statements = [
                f"UPDATE people SET name = '{seed}-{number}' WHERE id = {id}",
                f"DELETE FROM people WHERE id = {id}",
                f"INSERT INTO people VALUES ({id}, 'new {number}') ON CONFLICT DO NOTHING",
                f"UPDATE people SET id = id + 100 WHERE id = {id}",
            ]
            with contextlib.suppress(psycopg.errors.UniqueViolation):
                postgres.run(own.choice(statements))

    writers = [threading.Thread(target=write, args=[random.Random(f"{seed} {n}")]) for n in range(2)]
    with capture(postgres, max_batch_size="5") as source:
        source.run(40)
        for each in writers:
            each.start()
        try:
            postgres.run(execute("people"))
            chance = random.Random(seed)
            for _ in range(120):
                source.poll()
                if chance.random() < 0.1:
                    chance.choice([source.crash, source.crash_after_commit])()
                else:
                    source.commit()
        finally:
            stopping.set()
            for each in writers:
                each.join()
        source.run()
    state: dict[int, str | None] = {}
    for each in people(source):
        if each.value is not None:
            after = each.value.get("after")
            state[each.key.get("id")] = None if after is None else after.get("name")
    with postgres.connect() as connection:
        rows = dict(connection.execute("SELECT id, name FROM people").fetchall())
    assert {id: name for id, name in state.items() if name is not None} == rows
    assert "r" in {op for op, *_ in ops(people(source))}


def test_unusable_signals_are_logged(postgres: PostgresDatabase, caplog: pytest.LogCaptureFixture) -> None:
    postgres.run(PEOPLE, SIGNALS)
    caplog.set_level("INFO")
    with capture(postgres) as source:
        postgres.run(
            "INSERT INTO signals VALUES ('1', 'execute-snapshot', 'no json')",
            "INSERT INTO signals VALUES ('2', 'dance', NULL)",
            execute("absent"),
            signal("execute-snapshot", **{"data-collections": ["public.people"], "type": "blocking"}),
            signal("log", message="hello"),
        )
        source.run(5)
    for part in (
        "Signal 1 is ignored",
        "type dance is not known",
        "names no captured table",
        "blocking",
        "hello",
    ):
        assert part in caplog.text


def transaction_values(source: SourceHarness) -> list[tuple[Any, ...]]:
    found = []
    for each in source.committed:
        if each.topic == "bank.transaction":
            value = each.value
            counts = value.get("data_collections")
            found.append(
                (
                    value.get("status"),
                    value.get("event_count"),
                    counts and [(one.get("data_collection"), one.get("event_count")) for one in counts],
                )
            )
        elif each.value is not None:
            block = each.value.get("transaction")
            found.append((each.key.get("id"), block.get("total_order"), block.get("data_collection_order")))
    return found


_PARTS = (
    "BEGIN; INSERT INTO people VALUES (1, 'x'); INSERT INTO more VALUES (1), (2); "
    "DELETE FROM people WHERE id = 1; COMMIT",
    "INSERT INTO more VALUES (3)",
)
_EXPECTED = [
    ("BEGIN", None, None),
    (1, 1, 1),
    (1, 2, 1),
    (2, 3, 2),
    (1, 4, 2),
    ("END", 4, [("public.more", 2), ("public.people", 2)]),
    ("BEGIN", None, None),
    (3, 1, 1),
    ("END", 1, [("public.more", 1)]),
]


@pytest.mark.parametrize("batch", ["1", "2", "3", "100"])
def test_transactions_are_described_once_over_crashes(postgres: PostgresDatabase, batch: str) -> None:
    postgres.run(PEOPLE, "CREATE TABLE more (id INT PRIMARY KEY)", "INSERT INTO people VALUES (0, 'x')")
    with capture(postgres, provide_transaction_metadata="true", max_batch_size=batch) as source:
        source.run(1)
        source.committed.clear()
        postgres.run(*_PARTS)
        for _ in range(6):
            source.poll()
            source.crash()
            source.poll()
            source.crash_after_commit()
        source.run()
        assert transaction_values(source) == _EXPECTED
        assert [each.headers for each in source.committed if each.topic == "bank.transaction"] == [[]] * 4
