"""The Delta sink: each record once, by append or by key, with clear errors for impossible settings."""

from __future__ import annotations

import datetime as dt
import decimal
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("deltalake")
from deltalake import DeltaTable, write_deltalake

from ottla.connect import ConfigError, ConnectError, Schema, SchemaBuilder, SchemaType, Struct
from ottla.connect.connectors.tables.delta import DeltaSinkConnector, DeltaTableWriter
from ottla.connect.connectors.tables.schemas import SchemaCannotEvolve
from ottla.connect.data.schema import INT8, INT32, INT64, OPTIONAL_STRING, STRING
from ottla.testing.connect import SinkHarness, check_sink

from .envelopes import CUSTOMER, KEY, change, customer
from .interference import write_beside_another

Make = Callable[..., dict[str, str]]


@pytest.fixture
def config(tmp_path: Path) -> Make:
    def make(**settings: str) -> dict[str, str]:
        named = {name.replace("_", "."): value for name, value in settings.items()}
        return {"name": "lake", "table.uri": f"{tmp_path}/${{topic}}", **named}

    return make


def rows(path: Path, order: str = "id") -> list[dict[str, Any]]:
    import pyarrow as pa

    table = pa.table(DeltaTable(str(path)).to_pyarrow_table())
    return sorted(table.to_pylist(), key=lambda row: row[order])


def test_appends_are_exactly_once(config: Make, tmp_path: Path) -> None:
    def fresh() -> dict[str, str]:
        shutil.rmtree(tmp_path / "t", ignore_errors=True)
        return config()

    def send(sink: SinkHarness) -> None:
        for number in range(20):
            sink.send("t", {"id": number, "name": f"n{number}"}, partition=number % 2)

    stored = check_sink(DeltaSinkConnector, fresh, send, lambda: rows(tmp_path / "t"))
    assert [row["id"] for row in stored] == list(range(20))  # type: ignore[attr-defined]
    table = DeltaTable(str(tmp_path / "t"))
    assert [table.transaction_version(f"connect-lake:t:{partition}") for partition in (0, 1)] == [10, 10]


def test_types_of_a_schema_become_columns(config: Make, tmp_path: Path) -> None:
    timestamp = Schema(SchemaType.INT64, name="org.apache.kafka.connect.data.Timestamp")
    money = Schema(SchemaType.BYTES, name="org.apache.kafka.connect.data.Decimal", parameters={"scale": "2"})
    schema = SchemaBuilder().field("id", INT8).field("at", timestamp).field("price", money).build()
    when = dt.datetime(2026, 1, 2, 3, 4, 5, tzinfo=dt.UTC)
    with SinkHarness(DeltaSinkConnector, config()) as sink:
        value = Struct(schema, {"id": 1, "at": when, "price": decimal.Decimal("9.99")})
        sink.send("t", value, value_schema=schema)
        sink.commit()
    assert rows(tmp_path / "t") == [{"id": 1, "at": when, "price": decimal.Decimal("9.99")}]


def test_a_table_gets_new_columns_and_keeps_old_ones(config: Make, tmp_path: Path) -> None:
    with SinkHarness(DeltaSinkConnector, config()) as sink:
        sink.send("t", {"id": 1, "old": "x"})
        sink.commit()
        sink.send("t", {"id": 2, "new": 0.5})
        sink.commit()
    assert rows(tmp_path / "t") == [
        {"id": 1, "old": "x", "new": None},
        {"id": 2, "old": None, "new": 0.5},
    ]


def test_narrower_numbers_fit_into_wider_columns(config: Make, tmp_path: Path) -> None:
    wide, narrow = (SchemaBuilder().field("id", each).build() for each in (INT64, INT32))
    with SinkHarness(DeltaSinkConnector, config()) as sink:
        for number, schema in enumerate((wide, narrow)):
            sink.send("t", Struct(schema, {"id": number}), value_schema=schema)
            sink.commit()
    assert rows(tmp_path / "t") == [{"id": 0}, {"id": 1}]


def test_a_column_that_cannot_change_its_type_is_named(config: Make) -> None:
    with SinkHarness(DeltaSinkConnector, config()) as sink:
        sink.send("t", {"id": 1})
        sink.commit()
        sink.send("t", {"id": "one"})
        with pytest.raises(
            SchemaCannotEvolve, match=r"'id' of the table .* is int64, but records have string"
        ):
            sink.commit()


def test_upserts_and_deletes_by_the_key_of_the_record(config: Make, tmp_path: Path) -> None:
    def fresh() -> dict[str, str]:
        shutil.rmtree(tmp_path / "t", ignore_errors=True)
        return config(insert_mode="upsert", pk_mode="record_key", pk_fields="id", delete_enabled="true")

    value = SchemaBuilder().field("name", OPTIONAL_STRING).build()

    def send(sink: SinkHarness) -> None:
        for round in range(4):
            for id in range(5):
                sink.send(
                    "t",
                    Struct(value, {"name": f"{id}/{round}"}),
                    value_schema=value,
                    key=id,
                    key_schema=INT64,
                )
        sink.send("t", None, key=3, key_schema=INT64)

    stored = check_sink(DeltaSinkConnector, fresh, send, lambda: rows(tmp_path / "t"))
    assert stored == [{"name": f"{id}/3", "id": id} for id in (0, 1, 2, 4)]


def test_changes_of_a_database_are_followed(config: Make, tmp_path: Path) -> None:
    settings = {"insert.mode": "upsert", "pk.mode": "record_key", "cdc.envelope": "debezium"}

    def fresh() -> dict[str, str]:
        shutil.rmtree(tmp_path / "customers", ignore_errors=True)
        return {**config(), **settings}

    def send(sink: SinkHarness) -> None:
        for id in range(4):
            sink.send("customers", **change(None, customer(id, "new")))
        sink.send("customers", **change(customer(1, "new"), customer(1, "changed")))
        sink.send("customers", **change(customer(2, "new"), None))
        sink.send("customers", None, key=Struct(KEY, {"id": 2}), key_schema=KEY)
        sink.send("customers", **change(None, customer(2, "again")))
        sink.send("customers", **change(customer(3, "new"), None))

    stored = check_sink(DeltaSinkConnector, fresh, send, lambda: rows(tmp_path / "customers"))
    assert stored == [{"id": 0, "name": "new"}, {"id": 1, "name": "changed"}, {"id": 2, "name": "again"}]
    assert [field.name for field in CUSTOMER.fields] == ["id", "name"]


def test_somebody_elses_commits_are_no_obstacle(config: Make, tmp_path: Path) -> None:
    import pyarrow as pa

    with SinkHarness(DeltaSinkConnector, config()) as sink:
        sink.send("t", {"id": 1})
        sink.commit()
        write_deltalake(str(tmp_path / "t"), pa.table({"id": [100]}), mode="append")
        sink.send("t", {"id": 2})
        sink.commit()
    assert [row["id"] for row in rows(tmp_path / "t")] == [1, 2, 100]


def test_a_task_that_was_replaced_writes_nothing_twice(config: Make, tmp_path: Path) -> None:
    with SinkHarness(DeltaSinkConnector, config()) as old:
        old.send("t", {"id": 0})
        old.commit()
        old.send("t", {"id": 1})
        old.put()
        with SinkHarness(DeltaSinkConnector, config()) as new:
            new.send("t", {"id": 0})
            new.send("t", {"id": 1})
            new.commit()
        old.flush()
    assert [row["id"] for row in rows(tmp_path / "t")] == [0, 1]


def test_what_another_task_writes_while_a_commit_is_read_back_is_not_written_again(
    config: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def is_there() -> bool:
        return bool(DeltaTable.is_deltatable(str(tmp_path / "t")))

    write_beside_another(monkeypatch, DeltaSinkConnector, DeltaTableWriter, config(), is_there)
    assert [row["id"] for row in rows(tmp_path / "t")] == [0, 1, 2]


def test_bad_records_are_reported(config: Make) -> None:
    with SinkHarness(DeltaSinkConnector, config()) as sink:
        sink.send("t", "text")
        sink.send("t", None)
        sink.commit()
        assert "is no row: its value is str" in str(sink.reported[0][1])
        assert "t-0@1 has no value" in str(sink.reported[1][1])
    upserts = config(insert_mode="upsert", pk_mode="record_value", pk_fields="id")
    with SinkHarness(DeltaSinkConnector, upserts) as sink:
        sink.send("t", {"name": "x"})
        sink.send("t", {"id": None, "name": "x"})
        sink.commit()
        assert "has no field 'id', which is part of the key" in str(sink.reported[0][1])
        assert "has no value in 'id'" in str(sink.reported[1][1])


def test_bad_settings_are_named(config: Make, tmp_path: Path) -> None:
    for settings, why in (
        ({"insert_mode": "upsert"}, "Upserts need a key"),
        ({"insert_mode": "upsert", "pk_mode": "record_value"}, "pk.fields has to name"),
        ({"delete_enabled": "true"}, "Deletes need pk.mode record_key"),
    ):
        with pytest.raises(ConfigError, match=why):
            SinkHarness(DeltaSinkConnector, config(**settings))
    with SinkHarness(DeltaSinkConnector, config(auto_create="false")) as sink:
        sink.send("t", {"id": 1})
        with pytest.raises(ConnectError, match="There is no Delta table at"):
            sink.commit()
    with SinkHarness(DeltaSinkConnector, config(auto_evolve="false")) as sink:
        sink.send("t", {"id": 1})
        sink.commit()
        sink.send("t", {"id": 2, "more": STRING.type.value})
        with pytest.raises(SchemaCannotEvolve, match="has no column 'more'"):
            sink.commit()
    with SinkHarness(DeltaSinkConnector, config(table_uri="gopher://host/t")) as sink:
        sink.send("t", {"id": 1})
        with pytest.raises(ConnectError, match="Unknown scheme: gopher"):
            sink.commit()
