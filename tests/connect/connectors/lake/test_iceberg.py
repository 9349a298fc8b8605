"""The Iceberg sink: the snapshots contain the offsets, so each record is in the table once."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyiceberg")
from pyiceberg.catalog import Catalog, load_catalog

from ottla.connect import ConfigError, ConnectError, Struct
from ottla.connect.connectors.tables.iceberg import IcebergSinkConnector, IcebergTableWriter
from ottla.connect.connectors.tables.schemas import SchemaCannotEvolve
from ottla.testing.connect import SinkHarness, check_sink

from .envelopes import CUSTOMER, KEY, change, customer
from .interference import write_beside_another

Make = Callable[..., dict[str, str]]


@pytest.fixture(scope="module")
def catalog_properties(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    path: Path = tmp_path_factory.mktemp("iceberg")
    return {"type": "sql", "uri": f"sqlite:///{path}/catalog.db", "warehouse": f"file://{path}/warehouse"}


@pytest.fixture
def catalog(catalog_properties: dict[str, str]) -> Catalog:
    return load_catalog("iceberg", **catalog_properties)


@pytest.fixture
def config(catalog_properties: dict[str, str]) -> Make:
    def make(table: str, **settings: str) -> dict[str, str]:
        return {
            "name": "lake",
            "iceberg.tables": table,
            "iceberg.tables.auto-create-enabled": "true",
            "iceberg.tables.evolve-schema-enabled": "true",
            **{f"iceberg.catalog.{name}": value for name, value in catalog_properties.items()},
            **settings,
        }

    return make


class Fresh:
    """A separate table for every run."""

    def __init__(self, config: Make, **settings: str) -> None:
        self._config, self._settings = config, settings
        self.table = ""

    def __call__(self) -> dict[str, str]:
        self.table = f"db.t{uuid.uuid4().hex}"
        return self._config(self.table, **self._settings)


def rows(catalog: Catalog, table: str) -> list[dict[str, Any]]:
    found = catalog.load_table(table).scan().to_arrow().to_pylist()
    return sorted(found, key=lambda row: row["id"])


def test_appends_are_exactly_once_by_the_summary_of_snapshots(config: Make, catalog: Catalog) -> None:
    fresh = Fresh(config)

    def send(sink: SinkHarness) -> None:
        for number in range(12):
            sink.send("t", {"id": number, "name": f"n{number}"}, partition=number % 2)

    stored = check_sink(IcebergSinkConnector, fresh, send, lambda: rows(catalog, fresh.table))
    assert [row["id"] for row in stored] == list(range(12))  # type: ignore[attr-defined]
    snapshot = catalog.load_table(fresh.table).current_snapshot()
    assert snapshot is not None
    assert snapshot.summary is not None
    offsets = snapshot.summary.additional_properties["kafka.connect.offsets.lake"]
    assert json.loads(offsets) == {"t-0": 6, "t-1": 6}


@pytest.mark.parametrize("is_there", [True, False])
def test_a_task_that_was_replaced_writes_nothing_twice(
    config: Make, catalog: Catalog, is_there: bool
) -> None:
    settings = Fresh(config)()
    with SinkHarness(IcebergSinkConnector, settings) as old:
        old.send("t", {"id": 0})
        old.put()
        if is_there:
            old.commit()
            old.send("t", {"id": 1})
            old.put()
        with SinkHarness(IcebergSinkConnector, settings) as new:
            new.send("t", {"id": 0})
            new.send("t", {"id": 1})
            new.commit()
        old.flush()
    assert [row["id"] for row in rows(catalog, settings["iceberg.tables"])] == [0, 1]


def test_what_another_task_writes_while_a_commit_is_read_back_is_not_written_again(
    config: Make, catalog: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = Fresh(config)()

    def is_there() -> bool:
        return bool(catalog.table_exists(settings["iceberg.tables"]))

    write_beside_another(monkeypatch, IcebergSinkConnector, IcebergTableWriter, settings, is_there)
    assert [row["id"] for row in rows(catalog, settings["iceberg.tables"])] == [0, 1, 2]


def test_changes_of_a_database_are_followed(config: Make, catalog: Catalog) -> None:
    fresh = Fresh(config, **{"cdc.envelope": "debezium"})

    def send(sink: SinkHarness) -> None:
        for id in range(4):
            sink.send("customers", **change(None, customer(id, "new")))
        sink.send("customers", **change(customer(1, "new"), customer(1, "changed")))
        sink.send("customers", **change(customer(2, "new"), None))
        sink.send("customers", None, key=Struct(KEY, {"id": 2}), key_schema=KEY)
        sink.send("customers", **change(None, customer(2, "again")))
        sink.send("customers", **change(customer(3, "new"), None))

    stored = check_sink(IcebergSinkConnector, fresh, send, lambda: rows(catalog, fresh.table))
    assert stored == [{"id": 0, "name": "new"}, {"id": 1, "name": "changed"}, {"id": 2, "name": "again"}]


def test_upserts_by_columns_of_the_value_and_an_operation_field(config: Make, catalog: Catalog) -> None:
    table = "db.upserts"
    settings = {"iceberg.tables.default-id-columns": "id,region", "iceberg.tables.cdc-field": "op"}
    with SinkHarness(IcebergSinkConnector, config(table, **settings)) as sink:
        for op, id, region, name in [
            ("I", 1, "eu", "a"),
            ("I", 1, "us", "b"),
            ("U", 1, "eu", "c"),
            ("I", 2, "eu", "d"),
            ("D", 2, "eu", ""),
        ]:
            sink.send("t", {"op": op, "id": id, "region": region, "name": name})
            sink.commit()
    found = sorted((row["id"], row["region"], row["name"]) for row in rows(catalog, table))
    assert found == [(1, "eu", "c"), (1, "us", "b")]


def test_a_table_gets_new_columns(config: Make, catalog: Catalog) -> None:
    with SinkHarness(IcebergSinkConnector, config("db.evolving")) as sink:
        sink.send("t", {"id": 1, "old": "x"})
        sink.commit()
        sink.send("t", {"id": 2, "new": 0.5})
        sink.commit()
    assert rows(catalog, "db.evolving") == [
        {"id": 1, "old": "x", "new": None},
        {"id": 2, "old": None, "new": 0.5},
    ]


def test_compaction_by_others_does_not_hide_the_offsets(config: Make, catalog: Catalog) -> None:
    with SinkHarness(IcebergSinkConnector, config("db.shared")) as sink:
        sink.send("t", {"id": 1})
        sink.commit()
        catalog.load_table("db.shared").append(catalog.load_table("db.shared").scan().to_arrow())
        sink.send("t", {"id": 2})
        sink.crash_before_commit()
        sink.commit()
    assert [row["id"] for row in rows(catalog, "db.shared")] == [1, 1, 2]


def test_records_find_their_tables(config: Make, catalog: Catalog) -> None:
    dynamic = {"iceberg.tables.dynamic-enabled": "true", "iceberg.tables.route-field": "to"}
    with SinkHarness(IcebergSinkConnector, config("", **dynamic)) as sink:
        sink.send("t", {"id": 1, "to": "DB.first"})
        sink.send("t", {"id": 2, "to": "db.second"})
        sink.send("t", {"id": 3})
        sink.commit()
        assert "has no field 'to'" in str(sink.reported[0][1])
    assert [row["id"] for row in rows(catalog, "db.first")] == [1]
    assert [row["id"] for row in rows(catalog, "db.second")] == [2]
    with SinkHarness(IcebergSinkConnector, config("db.of_${topic}")) as sink:
        sink.send("t", customer(7, "x"), value_schema=CUSTOMER)
        sink.commit()
    assert rows(catalog, "db.of_t") == [{"id": 7, "name": "x"}]


def test_what_cannot_be_is_said(config: Make) -> None:
    with pytest.raises(ConfigError, match="Must specify table name"):
        SinkHarness(IcebergSinkConnector, config(""))
    wrong = config(
        "db.t", **{"iceberg.catalog.type": "sql", "iceberg.catalog.uri": "sqlite:////no/such/dir/c.db"}
    )
    with pytest.raises(ConnectError, match=r"The Iceberg catalog cannot be used: check iceberg.catalog.\*"):
        SinkHarness(IcebergSinkConnector, wrong).start()
    with SinkHarness(
        IcebergSinkConnector, config("db.none", **{"iceberg.tables.auto-create-enabled": "false"})
    ) as sink:
        sink.send("t", {"id": 1})
        with pytest.raises(ConnectError, match=r"There is no Iceberg table db.none"):
            sink.commit()
    with SinkHarness(IcebergSinkConnector, config("db.typed")) as sink:
        sink.send("t", {"id": 1})
        sink.commit()
        sink.send("t", {"id": "one"})
        with pytest.raises(SchemaCannotEvolve, match="is int64, but records have string"):
            sink.commit()
