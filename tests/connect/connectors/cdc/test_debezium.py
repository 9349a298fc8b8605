"""Debezium and Ottla capture the same changes at the same time and write the same records and schemas."""

from __future__ import annotations

import copy
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from ottla.connect.connectors.cdc.mysql.connector import MariaDbConnector
from ottla.connect.connectors.cdc.postgres.connector import PostgresConnector
from ottla.connect.connectors.cdc.unwrap import ExtractNewRecordState
from ottla.connect.converters.json_converter import JsonConverter
from ottla.testing.connect import SourceHarness
from tests.connect.connectors import mariadb as mariadb_servers
from tests.connect.connectors import postgres as postgres_servers
from tests.connect.connectors.cdc.debezium import Debezium
from tests.connect.connectors.mariadb import MariaDbDatabase
from tests.connect.connectors.postgres import PostgresDatabase

pytestmark = [pytest.mark.peers, pytest.mark.timeout(300)]

_POSTGRES_TYPES = {
    "a smallint NOT NULL DEFAULT 3": "1",
    "b int": "2",
    "c bigint NOT NULL": "3",
    "d real": "1.5",
    "e double precision": "2.5",
    "f numeric(10,2) NOT NULL": "12.3",
    "g boolean NOT NULL DEFAULT true": "false",
    "h text NOT NULL": "'čaj'",
    "i bytea": r"'\x01ff'",
    "j date NOT NULL": "'2024-02-03'",
    "k time": "'10:11:12.5'",
    "l time(3)": "'10:11:12.5'",
    "m timestamp": "'2024-02-03 04:05:06.789'",
    "n timestamp(3) DEFAULT '2020-01-01 00:00:00'": "'2024-02-03 04:05:06.789'",
    "o timestamptz": "'2024-02-03 04:05:06.5+02'",
    "p timetz": "'10:11:12.5+02'",
    "q uuid": "'4f5f6a1e-0000-0000-0000-000000000001'",
    "r jsonb": """'{"a": 1}'""",
    "s mood": "'ok'",
    "t money": "12.5",
    "u int[]": "'{1,NULL,3}'",
    "v text[]": """'{"a b",c}'""",
    "w interval": "'1 year 2 mons 3 days 04:05:06.7'",
    "x varchar(10) DEFAULT 'x'": "'u'",
    "y char(4)": "'v'",
    "z numeric": "12.345",
    "aa xml": "'<a/>'",
    "ab bit(1)": "B'1'",
    "ac bit(5)": "B'10110'",
    "ad inet": "'10.0.0.1'",
    "ae int4range": "'[1,5)'",
    "af point": "'(1.5,2)'",
    "ag oid": "17",
    "ah timestamptz NOT NULL DEFAULT now()": "'2024-02-03 04:05:06+00'",
}
_MARIADB_TYPES = {
    "a TINYINT NOT NULL DEFAULT 3": "1",
    "b TINYINT(1)": "1",
    "c TINYINT UNSIGNED": "255",
    "d SMALLINT UNSIGNED": "65535",
    "e MEDIUMINT UNSIGNED": "16777215",
    "f INT UNSIGNED": "4294967295",
    "g BIGINT NOT NULL": "-5",
    "h BIGINT UNSIGNED": "18446744073709551615",
    "i FLOAT": "1.5",
    "j DOUBLE": "2.5",
    "k DECIMAL(10,2) NOT NULL": "12.3",
    "l VARCHAR(10) DEFAULT 'x'": "'čaj'",
    "m CHAR(4)": "'m'",
    "n TEXT": "'n'",
    "o VARBINARY(10)": "x'01'",
    "p BLOB": "x'02'",
    "q BINARY(3)": "x'03'",
    "r DATE NOT NULL": "'2024-02-03'",
    "s TIME": "'10:11:12'",
    "t TIME(3)": "'-100:11:12.5'",
    "u DATETIME": "'2024-02-03 04:05:06'",
    "v DATETIME(3)": "'2024-02-03 04:05:06.789'",
    "w DATETIME(6)": "'2024-02-03 04:05:06.789123'",
    "x TIMESTAMP NULL": "'2024-02-03 04:05:06'",
    "y TIMESTAMP(3) NULL": "'2024-02-03 04:05:06.789'",
    "z YEAR": "2024",
    "aa ENUM('a','b')": "'b'",
    "ab SET('x','y')": "'x,y'",
    "ac BIT(1)": "b'1'",
    "ad BIT(5)": "b'10110'",
    "ae JSON": """'{"a": 1}'""",
}


def tables(types: dict[str, str]) -> tuple[list[str], list[str]]:
    """Statements before and during the capture, the same for both databases."""
    given = {column.split()[0]: value for column, value in types.items()}
    required = {column.split()[0]: value for column, value in types.items() if "NOT NULL" in column}

    def insert(number: int, values: dict[str, str]) -> str:
        return f"INSERT INTO types (id, {', '.join(values)}) VALUES ({number}, {', '.join(values.values())})"

    before = [
        f"CREATE TABLE types (id INT PRIMARY KEY, {', '.join(types)})",
        "CREATE TABLE no_key (a INT, b VARCHAR(5) NOT NULL)",
        "CREATE TABLE two (a INT NOT NULL, b VARCHAR(5) NOT NULL, c TEXT, PRIMARY KEY (a, b))",
        "CREATE TABLE uniq (a INT NOT NULL, b VARCHAR(5), UNIQUE (a))",
        insert(1, given),
        insert(2, required),
        "INSERT INTO no_key VALUES (0, 'zero')",
    ]
    during = [
        insert(3, given),
        insert(4, required),
        "UPDATE types SET a = 9 WHERE id = 1",
        "UPDATE types SET id = 77 WHERE id = 2",
        "DELETE FROM types WHERE id = 77",
        "INSERT INTO no_key VALUES (1, 'x')",
        "INSERT INTO two VALUES (1, 'x', 'c')",
        "UPDATE two SET c = 'd'",
        "UPDATE two SET b = 'z'",
        "DELETE FROM two",
        "INSERT INTO uniq VALUES (1, 'x')",
        "ALTER TABLE two ADD COLUMN more INT DEFAULT 4 NOT NULL",
        "INSERT INTO two VALUES (9, 'n', 'b', 8)",
    ]
    return before, during


def as_json(records: Sequence[Any]) -> list[dict[str, Any]]:
    keys, values = JsonConverter(), JsonConverter()
    keys.configure({}, is_key=True)
    values.configure({}, is_key=False)
    found = []
    for record in records:
        key = keys.from_connect(record.topic, record.key_schema, record.key)
        value = values.from_connect(record.topic, record.value_schema, record.value)
        found.append(
            {
                "topic": record.topic,
                "key": json.loads(key) if key is not None else None,
                "value": json.loads(value) if value is not None else None,
                "headers": [header.key for header in record.headers],
            }
        )
    return found


def comparable(records: Sequence[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    """Return the records by topic, without versions, capture times and snapshot positions."""
    topics: dict[str, list[dict[str, Any]]] = {}
    for record in records:
        record = copy.deepcopy(record)
        payload = (record["value"] or {}).get("payload")
        if payload is not None:
            for name in ("ts_ms", "ts_us", "ts_ns"):
                payload.pop(name, None)
            source = payload.get("source")
            if source is not None:
                source.pop("version")
                if payload["op"] == "r":
                    for name in ("ts_ms", "ts_us", "ts_ns", "sequence", "txId", "lsn", "pos"):
                        source.pop(name, None)
            for name in ("__source_ts_ms", "__lsn"):
                if payload.get("__op") == "r":
                    payload.pop(name, None)
        topics.setdefault(record["topic"], []).append(record)
    return topics


def postgres_config(database: PostgresDatabase, slot: str) -> dict[str, str]:
    return {
        "database.hostname": "127.0.0.1",
        "database.port": str(database.server.port),
        "database.user": database.server.user,
        "database.password": postgres_servers.PASSWORD,
        "database.dbname": database.name,
        "topic.prefix": "compared",
        "slot.name": slot,
    }


@pytest.mark.parametrize(
    "unwrap",
    [
        None,
        {},
        {
            "delete.tombstone.handling.mode": "rewrite-with-tombstone",
            "add.fields": "op,table,lsn,source.ts_ms",
        },
    ],
    ids=["envelope", "unwrapped", "rewritten"],
)
def test_postgresql(postgres: PostgresDatabase, tmp_path: Path, unwrap: dict[str, str] | None) -> None:
    before, during = tables(_POSTGRES_TYPES)
    postgres.run("CREATE TYPE mood AS ENUM ('sad', 'ok')", *before)
    theirs = {
        **postgres_config(postgres, f"{postgres.name}_theirs"),
        "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
        "plugin.name": "pgoutput",
    }
    if unwrap is not None:
        theirs |= {
            "transforms": "unwrap",
            "transforms.unwrap.type": "io.debezium.transforms.ExtractNewRecordState",
        }
        theirs |= {f"transforms.unwrap.{name}": value for name, value in unwrap.items()}
    with (
        Debezium(tmp_path, theirs) as debezium,
        SourceHarness(PostgresConnector, postgres_config(postgres, f"{postgres.name}_ours")) as ours,
    ):
        debezium.wait_for(lambda records: len(records) >= 3)
        ours.run(3)
        postgres.run(*during)
        records: list[Any] = list(ours.run())
        if unwrap is not None:
            transform = ExtractNewRecordState()
            transform.configure(unwrap)
            records = [record for record in map(transform.apply, records) if record is not None]
        debezium.wait_for(lambda found: len(found) >= len(records))
    assert comparable(as_json(records)) == comparable(debezium.records)


def test_transactions_and_signals_of_postgresql(postgres: PostgresDatabase, tmp_path: Path) -> None:
    """The orders agree within each topic: Debezium publishes transactions through another queue."""
    postgres.run(
        "CREATE TABLE a (id INT PRIMARY KEY, n TEXT)",
        "CREATE TABLE b (id INT PRIMARY KEY, n TEXT)",
        "CREATE TABLE signals (id VARCHAR(42) PRIMARY KEY, type VARCHAR(32) NOT NULL, data VARCHAR(2048))",
        "INSERT INTO a SELECT n, 'n' FROM generate_series(1, 5) AS n",
    )
    more = {
        "provide.transaction.metadata": "true",
        "signal.data.collection": "public.signals",
        "incremental.snapshot.chunk.size": "2",
        "table.include.list": "public.a,public.b",
    }
    theirs = {
        **postgres_config(postgres, f"{postgres.name}_theirs"),
        **more,
        "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
        "plugin.name": "pgoutput",
    }
    with (
        Debezium(tmp_path, theirs) as debezium,
        SourceHarness(PostgresConnector, postgres_config(postgres, f"{postgres.name}_ours") | more) as ours,
    ):
        debezium.wait_for(lambda records: len(records) >= 5)
        ours.run(5)
        postgres.run(
            "BEGIN; INSERT INTO a VALUES (10, 'x'); INSERT INTO b VALUES (1, 'y'), (2, 'z'); "
            "UPDATE a SET n = 'w' WHERE id = 10; UPDATE b SET id = 7 WHERE id = 1; COMMIT",
            "DELETE FROM b WHERE id = 7",
        )
        ours.run()
        debezium.wait_for(lambda records: len(records) >= len(ours.committed))
        assert comparable(as_json(ours.committed)) == comparable(debezium.records)
        postgres.run(
            """INSERT INTO signals VALUES ('1', 'execute-snapshot', '{"data-collections": ["public.a"]}')"""
        )
        ours.run()
        debezium.wait_for(lambda records: len(of_chunks(records)) >= 6)
    assert of_chunks(as_json(ours.committed)) == of_chunks(debezium.records)


def of_chunks(records: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the rows of incremental snapshots. Debezium repeats their context headers."""
    found = comparable(records)["compared.public.a"]
    rows = [each for each in found if each["value"]["payload"]["source"]["snapshot"] == "incremental"]
    return [{**each, "headers": list(dict.fromkeys(each["headers"]))} for each in rows]


def test_mariadb(mariadb: MariaDbDatabase, tmp_path: Path) -> None:
    before, during = tables(_MARIADB_TYPES)
    mariadb.run(*before)
    config = {
        "database.hostname": "127.0.0.1",
        "database.port": str(mariadb.server.port),
        "database.user": mariadb.server.user,
        "database.password": mariadb_servers.PASSWORD,
        "database.include.list": mariadb.name,
        "topic.prefix": "compared",
        "poll.interval.ms": "10",
    }
    theirs = {
        **config,
        "connector.class": "io.debezium.connector.mariadb.MariaDbConnector",
        "database.server.id": "77",
        "schema.history.internal": "io.debezium.storage.file.history.FileSchemaHistory",
        "schema.history.internal.file.filename": str(tmp_path / "history"),
    }
    with Debezium(tmp_path, theirs) as debezium, SourceHarness(MariaDbConnector, config) as ours:
        debezium.wait_for(lambda records: len(records) >= 3)
        ours.run(3)
        mariadb.run(*during)
        ours.run()
        debezium.wait_for(lambda found: len(found) >= len(ours.committed))
    assert comparable(as_json(ours.committed)) == comparable(debezium.records)
