"""ExtractNewRecordState and ByLogicalTableRouter on the connectors' published records."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.connect.connectors.cdc.envelope import CapturedColumn, CapturedTable, Events, source_schema
from ottla.connect.connectors.cdc.topic_router import ByLogicalTableRouter
from ottla.connect.connectors.cdc.unwrap import ExtractNewRecordState
from ottla.connect.data.record import SourceRecord
from ottla.connect.data.schema import INT32, INT64, STRING, Schema, SchemaType
from ottla.connect.data.struct import Struct
from ottla.connect.errors import ConnectError
from ottla.connect.transforms import PLUGINS

SOURCE = source_schema("io.debezium.connector.postgresql.Source", ("table", STRING), ("lsn", INT64))
NAME = Schema(SchemaType.STRING, optional=True, default="nobody")
TABLE = CapturedTable(
    "public",
    "people",
    "p.public.people",
    [CapturedColumn("id", INT32, int, 0), CapturedColumn("name", NAME, str, 1)],
    ["id"],
    SOURCE,
)
EVENTS = Events({}, tombstones=True, skipped=[])


def origin() -> Struct:
    return Struct(
        SOURCE,
        {"version": "1", "connector": "postgresql", "db": "d", "table": "people", "lsn": 7, "ts_ms": 5},
    )


def inserted() -> SourceRecord:
    return EVENTS.insert(TABLE, [1, "Ottla"], origin(), {})[0]


def deleted() -> list[SourceRecord]:
    return EVENTS.delete(TABLE, [1, None], origin(), {})


def unwrap(**settings: str) -> ExtractNewRecordState:
    transform = ExtractNewRecordState()
    transform.configure({name.replace("_", "."): value for name, value in settings.items()})
    return transform


def fields(record: Any) -> dict[str, Any]:
    return dict(zip((field.name for field in record.value.schema.fields), record.value.values, strict=True))


def test_the_row_after_the_change() -> None:
    record = unwrap().apply(inserted())
    assert record is not None
    assert fields(record) == {"id": 1, "name": "Ottla"}
    assert (record.value_schema.name, record.value_schema.optional) == ("p.public.people.Value", False)
    assert record.key.get("id") == 1


@pytest.mark.parametrize(
    ("mode", "expected"),
    [
        ("drop", []),
        ("tombstone", [None]),
        ("delete-to-tombstone", [None]),
        ("rewrite", [{"id": 1, "name": "nobody", "__deleted": "true"}]),
        ("rewrite-with-tombstone", [{"id": 1, "name": "nobody", "__deleted": "true"}, None]),
    ],
)
def test_what_becomes_of_a_delete_and_its_tombstone(mode: str, expected: list[Any]) -> None:
    transform = unwrap(delete_tombstone_handling_mode=mode)
    results = [transform.apply(record) for record in deleted()]
    found = [fields(each) if each.value is not None else None for each in results if each is not None]
    assert found == expected


@pytest.mark.parametrize(
    ("old", "drop", "expected"),
    [("none", "true", 1), ("none", "false", 2), ("drop", "true", 0), ("rewrite", "true", 1)],
)
def test_the_names_that_settings_had_before(old: str, drop: str, expected: int) -> None:
    transform = unwrap(delete_handling_mode=old, drop_tombstones=drop)
    assert len([each for each in map(transform.apply, deleted()) if each is not None]) == expected


def test_fields_and_headers_of_the_envelope() -> None:
    transform = unwrap(add_fields="op,table,lsn:position,source.ts_ms", add_headers="op,db")
    record = transform.apply(inserted())
    assert record is not None
    assert fields(record) == {
        "id": 1,
        "name": "Ottla",
        "__op": "c",
        "__table": "people",
        "__position": 7,
        "__source_ts_ms": 5,
    }
    assert [(header.key, header.value) for header in record.headers] == [("__op", "c"), ("__db", "d")]


def test_a_field_that_does_not_exist() -> None:
    with pytest.raises(
        ConnectError, match=r"There is no field nothing in source of p\.public\.people\.Envelope"
    ):
        unwrap(add_fields="nothing").apply(inserted())


def test_other_records_pass() -> None:
    heartbeat = SourceRecord("__debezium-heartbeat.p", {"ts_ms": 1})
    assert unwrap().apply(heartbeat) is heartbeat


def test_shards_share_a_topic_and_keys_stay_apart() -> None:
    router = ByLogicalTableRouter()
    router.configure({"topic.regex": r"(.*)\.people", "topic.replacement": "$1.all_people"})
    record = router.apply(inserted())
    assert record.topic == "p.public.all_people"
    assert record.value_schema.name == "p.public.all_people.Envelope"
    assert record.value.get("after").schema.name == "p.public.all_people.Value"
    assert record.key.get("__dbz__physicalTableIdentifier") == "p.public.people"
    assert router.apply(deleted()[1]).key_schema == record.key_schema


def test_configs_find_them_by_debeziums_names() -> None:
    assert PLUGINS["io.debezium.transforms.ExtractNewRecordState"].endswith("unwrap:ExtractNewRecordState")
