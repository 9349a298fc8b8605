"""The examples on the database pages run as printed, except for the database's address."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from ottla.connect.data.schema import INT64, STRING, SchemaBuilder
from ottla.connect.data.struct import Struct
from ottla.connect.plugins import load_class
from ottla.testing.connect import SinkHarness, SourceHarness
from tests.connect.connectors import mariadb as mariadb_servers
from tests.connect.connectors import postgres as postgres_servers
from tests.connect.connectors.jdbc.databases import SqliteDatabase

PAGES = Path(__file__).parents[3] / "docs" / "reference" / "connect"


def example(page: str, **changes: str) -> dict[str, str]:
    found = re.search(r"```properties\n(.*?)```", (PAGES / page).read_text(), re.DOTALL)
    assert found is not None
    config = dict(line.split("=", 1) for line in found[1].splitlines())
    return config | {name.replace("_", "."): value for name, value in changes.items()}


def source(config: dict[str, str]) -> SourceHarness:
    connector: Any = load_class(config["connector.class"])
    return SourceHarness(connector, config)


def test_jdbc_source(tmp_path: Path) -> None:
    database = SqliteDatabase(tmp_path / "shop.db")
    (table,) = re.findall(r"`(CREATE TABLE.*?\))`", (PAGES / "jdbc-source.md").read_text())
    database.run(table, "INSERT INTO orders (item) VALUES ('book')")
    with source(example("jdbc-source.md", connection_url=f"jdbc:sqlite:{database.path}")) as running:
        (record,) = running.run(1)
    assert (record.topic, record.value.get("item")) == ("shop-orders", "book")


def test_jdbc_sink(tmp_path: Path) -> None:
    config = example("jdbc-sink.md", connection_url=f"jdbc:sqlite:{tmp_path / 'copy.db'}")
    connector: Any = load_class(config["connector.class"])
    key = SchemaBuilder().field("id", INT64).build()
    value = SchemaBuilder().field("item", STRING).build()
    with SinkHarness(connector, config) as sink:
        for number, item in [(1, "book"), (2, "pen")]:
            sent = Struct(value, {"item": item})
            sink.send("orders", sent, key=Struct(key, {"id": number}), key_schema=key, value_schema=value)
        sink.send("orders", key=Struct(key, {"id": 1}), key_schema=key)
        sink.commit()
    assert SqliteDatabase(tmp_path / "copy.db").run("SELECT id, item FROM orders") == [(2, "pen")]


@pytest.mark.parametrize("kind", ["postgres", "mysql"])
def test_change_data_capture(kind: str, request: pytest.FixtureRequest) -> None:
    database: Any = request.getfixturevalue("postgres" if kind == "postgres" else "mariadb")
    password = postgres_servers.PASSWORD if kind == "postgres" else mariadb_servers.PASSWORD
    where = {"database_port": str(database.server.port), "database_password": password}
    if kind == "postgres":
        where |= {"database_dbname": database.name, "slot_name": database.name}
    else:
        where |= {"database_include_list": database.name}
    database.run(
        "CREATE TABLE accounts (id INT PRIMARY KEY, balance INT)", "INSERT INTO accounts VALUES (1, 100)"
    )
    with source(example(f"{kind}-cdc.md", **where)) as running:
        running.run(1)
        database.run("UPDATE accounts SET balance = 90")
        records = running.run(2)
    assert [record.value.get("op") for record in records] == ["r", "u"]
    assert records[1].topic.startswith("bank.")
