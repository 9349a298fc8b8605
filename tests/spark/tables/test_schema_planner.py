"""Schemas of all three types in a registry: the columns of the table, and records of every version in them."""

from __future__ import annotations

import json
import struct
from itertools import count
from typing import Any

import pytest

pytest.importorskip("pyspark")

import pyarrow as pa

from ottla.client.schema_registry import JSON, PROTOBUF, RegistrySettings, Schema, SchemaRegistry
from ottla.records.kernels.record_columns import HEADERS_TYPE
from ottla.spark.tables.row_decoder import DecodePlan, NewSchemas, RowDecoder
from ottla.spark.tables.schemas.columns import FIXED
from ottla.spark.tables.schemas.schema_planner import SchemaPlan, SchemaPlanner
from ottla.table_settings import TableSettings
from ottla.testing import Broker

_numbers = count()


class Topic:
    """Versions of one subject, and records of them."""

    def __init__(self, broker: Broker, mode: str) -> None:
        self.settings = RegistrySettings((broker.schema_registry_url,))
        self.registry = SchemaRegistry(self.settings)
        self.name = f"planned-{next(_numbers)}"
        self.registry.request("PUT", f"/config/{self.name}-value", {"compatibility": "NONE"})
        self.mode = mode
        self.planner = SchemaPlanner(TableSettings(self.name, "iceberg", mode=mode), self.settings)

    def register(self, text: str, kind: str = "AVRO", subject: str | None = None) -> int:
        return self.registry.register(subject or f"{self.name}-value", Schema(text, kind))

    def decode(self, plan: SchemaPlan, *values: bytes | None) -> tuple[list[Any], dict[int, str]]:
        """Return rows without the fixed columns, and reasons by offset."""
        rows = len(values)
        batch = pa.RecordBatch.from_arrays(
            [
                pa.nulls(rows, pa.binary()),
                pa.array(values, pa.binary()),
                pa.array([0] * rows, pa.int32()),
                pa.array(range(rows), pa.int64()),
                pa.array([0] * rows, pa.timestamp("us", "UTC")),
                pa.nulls(rows, HEADERS_TYPE),
            ],
            names=["key", "value", "partition", "offset", "timestamp", "headers"],
        )
        columns = pa.schema([*FIXED, *plan.columns])
        found = RowDecoder(DecodePlan(self.mode, columns, plan.recipes)).decode(batch)
        good = found.good.select(plan.columns.names).to_pylist()
        return good, {row["__offset"]: row["reason"] for row in found.dead.to_pylist()}


def framed(number: int, data: bytes) -> bytes:
    return b"\0" + struct.pack(">i", number) + data


def record(*fields: dict[str, Any]) -> str:
    return json.dumps({"type": "record", "name": "R", "fields": list(fields)})


def proto(body: str) -> str:
    return 'syntax = "proto3"; ' + body


@pytest.fixture(scope="module")
def broker() -> Any:
    with Broker(registry=True) as running:
        yield running


def test_protobuf_follows_numbers(broker: Broker) -> None:
    topic = Topic(broker, "value_schema_id")
    first = topic.register(
        proto("message E { int32 id = 1; string name = 2; P at = 3; message P { int32 x = 1; } }"), PROTOBUF
    )
    plan = topic.planner.plan(pa.schema([]))
    before = plan.columns
    assert before.names == ["id", "name", "at"]
    second = topic.register(
        proto(
            "message E { int64 id = 1; string who = 2; P at = 3; message P { int32 col = 1; int32 y = 2; } }"
        ),
        PROTOBUF,
    )
    breaking = topic.register(proto("message E { string id = 1; }"), PROTOBUF)
    plan = topic.planner.plan(before)
    assert [str(change) for each in plan.evolutions for change in each.changes] == [
        "rename name to who", "rename at.x to col", "widen id bigint", "add at.y int",
    ]  # fmt: skip
    rows, reasons = topic.decode(
        plan,
        framed(first, b"\0\x08\x01\x12\x03ann\x1a\x02\x08\x05"),
        framed(second, b"\0\x08\x80\x80\x80\x80\x80\x20\x12\x03bob\x1a\x04\x08\x06\x10\x07"),
        framed(breaking, b"\0\x0a\x01x"),
        None,
        framed(first, b""),
    )
    assert rows == [
        {"id": 1, "who": "ann", "at": {"col": 5, "y": None}},
        {"id": 2**40, "who": "bob", "at": {"col": 6, "y": 7}},
        {"id": None, "who": None, "at": None},
    ]
    assert "its field id is string, but the column is bigint" in reasons[2]
    assert sorted(reasons) == [2, 4]


def test_json_schema_adds_properties(broker: Broker) -> None:
    topic = Topic(broker, "value_schema_id")

    def register(**properties: str) -> int:
        document = {
            "type": "object",
            "properties": {name: {"type": kind} for name, kind in properties.items()},
        }
        return topic.register(json.dumps(document), JSON)

    first, second = register(id="integer"), register(id="integer", city="string")
    third = register(id="string")
    plan = topic.planner.plan(pa.schema([]))
    assert plan.columns == pa.schema([("id", pa.int64()), ("city", pa.string())])
    values = (framed(first, b'{"id": 1}'), framed(second, b'{"id": 2, "city": "Graz"}'), framed(third, b"{}"))
    rows, reasons = topic.decode(plan, *values)
    assert rows == [{"id": 1, "city": None}, {"id": 2, "city": "Graz"}]
    assert list(reasons) == [2]


def test_unknown_schemas_are_asked_for_and_may_be_of_other_subjects(broker: Broker) -> None:
    topic = Topic(broker, "value_schema_id")
    text = record({"name": "a", "type": "int"})
    first = topic.register(text)
    plan = topic.planner.plan(pa.schema([]))
    other = topic.register(record({"name": "b", "type": "string"}), subject=f"{topic.name}-other")
    values = framed(first, b"\x02"), framed(other, b"\x02x"), framed(2**30, b"\x02")
    with pytest.raises(NewSchemas) as found:
        topic.decode(plan, *values)
    assert {name.id for name in found.value.names} == {other, 2**30}
    plan = topic.planner.plan(plan.columns, found.value.names)
    rows, reasons = topic.decode(plan, *values)
    assert rows == [{"a": 1, "b": None}, {"a": None, "b": "x"}]
    assert reasons == {2: f"it was written with schema {2**30}: schema {2**30} is not in the registry"}


def test_the_latest_version_reads_all_records_with_its_defaults(broker: Broker) -> None:
    topic = Topic(broker, "value_schema_latest")
    first = topic.register(record({"name": "a", "type": "int"}, {"name": "gone", "type": "int"}))
    second = topic.register(
        record({"name": "a", "type": "long"}, {"name": "b", "type": "string", "default": "none"})
    )
    plan = topic.planner.plan(pa.schema([]))
    assert plan.columns == pa.schema([("a", pa.int64()), ("b", pa.string())])
    values = framed(first, b"\x02\x04"), framed(second, b"\x04\x02x"), b"\x06\x02y"
    rows, reasons = topic.decode(plan, *values)
    assert rows == [{"a": 1, "b": "none"}, {"a": 2, "b": "x"}, {"a": 3, "b": "y"}]
    assert reasons == {}
    breaking = topic.register(record({"name": "a", "type": "string"}))
    plan = topic.planner.plan(plan.columns)
    rows, reasons = topic.decode(plan, framed(breaking, b"\x02x"), framed(second, b"\x04\x02x"))
    assert rows == [{"a": 2, "b": "x"}]
    assert "its field a is string, but the column is bigint" in reasons[0]


def test_a_value_without_fields_is_a_column(broker: Broker) -> None:
    topic = Topic(broker, "value_schema_id")
    number = topic.register('"string"')
    plan = topic.planner.plan(pa.schema([]))
    assert plan.columns == pa.schema([("value", pa.string())])
    assert topic.decode(plan, framed(number, b"\x06abc"))[0] == [{"value": "abc"}]


def test_avro_renames_inside_of_lists_and_maps(broker: Broker) -> None:
    topic = Topic(broker, "value_schema_id")

    def nested(field: dict[str, Any]) -> str:
        item = {"type": "record", "name": "I", "fields": [field]}
        items = {"name": "items", "type": {"type": "array", "items": item}}
        return record(items, {"name": "by", "type": {"type": "map", "values": "I"}})

    first = topic.register(nested({"name": "x", "type": "int"}))
    before = topic.planner.plan(pa.schema([])).columns
    second = topic.register(nested({"name": "y", "type": "long", "aliases": ["x"]}))
    plan = topic.planner.plan(before)
    values = (
        framed(first, b"\x02\x02\x00\x02\x02k\x04\x00"),
        framed(second, b"\x02\x06\x00\x02\x02k\x08\x00"),
    )
    rows, reasons = topic.decode(plan, *values)
    assert reasons == {}
    assert rows == [
        {"items": [{"y": 1}], "by": [("k", {"y": 2})]},
        {"items": [{"y": 3}], "by": [("k", {"y": 4})]},
    ]
