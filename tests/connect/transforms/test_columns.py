"""Promise: transforms treat a column like its single records, which other tests compare with Kafka's transforms."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from ottla.connect.config.config_def import ConfigError
from ottla.connect.data.columns import Columns, MixedRecordsError, SinkColumns
from ottla.connect.data.record import ConnectRecord, SinkRecord, SourceRecord
from ottla.connect.data.schema import INT32, STRING, Schema, SchemaBuilder
from ottla.connect.data.struct import Struct
from ottla.connect.transforms import Chain
from ottla.connect.transforms.base import Predicate, Transform
from ottla.connect.transforms.chain import transform_of
from tests.connect.oracle.records import PLAIN, WITH_SCHEMA
from tests.connect.oracle.running import comparable
from tests.connect.oracle.test_random import Maker
from tests.connect.oracle.test_transforms import BOTH, CONFIGS, KAFKA

#: These transforms create headers.
ONE_BY_ONE = {"HeaderFrom", "InsertHeader"}


def _sink(schema: Schema | None, values: list[Any], *, of_key: bool) -> SinkColumns:
    others: list[Any] = ["other"] * len(values)
    return SinkColumns(
        topic="orders-1",
        partition=3,
        value_schema=STRING if of_key else schema,
        values=others if of_key else values,
        key_schema=schema if of_key else STRING,
        keys=values if of_key else others,
        timestamps=[None if n % 5 == 4 else 1709211959123 + n for n in range(len(values))],
        offsets=[2 * n for n in range(len(values))],
        timestamp_types=[n % 2 for n in range(len(values))],
        original_topic="orders-1",
        original_partition=3,
    )


def _source(columns: SinkColumns) -> Columns:
    return Columns(
        topic=columns.topic,
        value_schema=columns.value_schema,
        values=columns.values,
        key_schema=columns.key_schema,
        keys=columns.keys,
        timestamps=columns.timestamps,
    )


def _records(columns: Columns) -> list[ConnectRecord]:
    if isinstance(columns, SinkColumns):
        return list(columns.records())
    return [
        SourceRecord(
            columns.topic, value, columns.value_schema, key, columns.key_schema, columns.partition, timestamp
        )
        for value, key, timestamp in zip(columns.values, columns.keys, columns.timestamps, strict=True)
    ]


def _batches() -> list[tuple[Schema | None, list[Any]]]:
    maker = Maker(17)
    found: list[tuple[Schema | None, list[Any]]] = [(None, [each] * 3) for each in PLAIN]
    found += [(schema, [value] * 3) for schema, value in WITH_SCHEMA]
    found += [(None, [{"a": n, "b": str(n), "ts": 1709211959123 + n, "c": None} for n in range(5)])]
    for _ in range(30):
        schema = maker.schema()
        found.append((schema, [maker.value(schema) for _ in range(6)]))
    found += [(None, [maker.plain() for _ in range(6)]) for _ in range(10)]
    return found


def _one_by_one(transform: Transform, records: list[ConnectRecord]) -> list[ConnectRecord | None] | None:
    try:
        return [transform.apply(each) for each in records]
    except Exception:
        return None


@pytest.mark.parametrize("name", sorted(CONFIGS))
def test_columns_become_what_each_record_becomes(name: str) -> None:
    batches = _batches()
    together = 0
    for config in Maker(19).random.sample(CONFIGS[name], min(len(CONFIGS[name]), 8)):
        for part in ("$Key", "$Value") if name in BOTH else ("",):
            transform, other = (transform_of(KAFKA + name + part, "type") for _ in range(2))
            try:
                transform.configure(config)
                other.configure(config)
            except ConfigError:
                continue
            assert transform.takes_columns == (name not in ONE_BY_ONE)
            if not transform.takes_columns:
                continue
            for schema, values in batches:
                columns = _sink(schema, values, of_key=part == "$Key")
                together += _compare(transform, other, columns)
                if "offset.field" not in config:  # sources have no offset field
                    together += _compare(transform, other, _source(columns))
    assert together > 50 or name in ONE_BY_ONE or name == "Filter"


def _compare(transform: Transform, other: Transform, columns: Columns) -> bool:
    """Return True if the records can be transformed together."""
    before = copy.deepcopy(_records(columns))
    expected = _one_by_one(other, _records(columns))
    try:
        changed = _records(transform.apply_columns(columns))
    except MixedRecordsError:
        assert expected is not None
        if None in expected:  # dropped records
            return False
        shared = [(each.topic, each.key_schema, each.value_schema) for each in expected if each is not None]
        assert any(each != shared[0] for each in shared)
        return False
    except Exception:
        assert expected is None
        return False
    finally:
        assert comparable(_records(columns)) == comparable(before), "columns that were given are changed"
    assert expected is not None
    assert comparable(changed) == comparable(expected)
    return True


def test_a_chain_takes_columns_if_all_of_it_does() -> None:
    config = {
        "transforms": "hoist,stamp,route",
        "transforms.hoist.type": "HoistField$Value",
        "transforms.hoist.field": "line",
        "transforms.stamp.type": "InsertField$Value",
        "transforms.stamp.offset.field": "at",
        "transforms.route.type": "RegexRouter",
        "transforms.route.regex": "(.*)",
        "transforms.route.replacement": "new-$1",
    }
    columns = _sink(STRING, ["x", "y"], of_key=False)
    chain = Chain.from_config(config)
    assert chain.takes_columns
    assert chain.apply_columns(columns).records() == chain.apply_all(columns.records())
    function = {
        "transforms": "hoist,f",
        "transforms.f.type": "tests.connect.transforms.rules:fails",
    }
    assert not Chain.from_config({**config, **function}).takes_columns


def test_a_tombstone_among_records_with_a_schema_makes_two_schemas() -> None:
    insert = transform_of("InsertField$Value", "type")
    insert.configure({"static.field": "s", "static.value": "v"})
    schema = SchemaBuilder(optional=True).field("a", INT32).build()
    columns = _sink(schema, [Struct(schema, {"a": 1}), None], of_key=False)
    with pytest.raises(MixedRecordsError):
        insert.apply_columns(columns)
    first, second = (insert.apply(each) for each in columns.records())
    assert isinstance(first, SinkRecord)
    assert isinstance(second, SinkRecord)
    assert (first.value.values, second.value, second.value_schema) == ([1, "v"], None, schema)


@pytest.mark.parametrize("negate", ["false", "true"])
@pytest.mark.parametrize(
    "predicate",
    [
        {"type": "RecordIsTombstone"},
        {"type": "HasHeaderKey", "name": "h"},
        {"type": "TopicNameMatches", "pattern": "orders.*"},
        {"type": "TopicNameMatches", "pattern": "others"},
    ],
)
@pytest.mark.parametrize("transform", ["HoistField$Value", "Filter"])
@pytest.mark.parametrize("values", [["x", "y"], [None, None], ["x", None, "y"]])
def test_a_predicate_says_of_columns_what_it_says_of_each_record(
    transform: str, predicate: dict[str, str], negate: str, values: list[Any]
) -> None:
    config = {
        "transforms": "t",
        "transforms.t.type": transform,
        "transforms.t.field": "f",
        "transforms.t.predicate": "p",
        "transforms.t.negate": negate,
        "predicates": "p",
        **{f"predicates.p.{name}": value for name, value in predicate.items()},
    }
    chain = Chain.from_config(config)
    columns = _sink(None, values, of_key=False)
    assert chain.takes_columns
    expected = chain.apply_all(columns.records())
    try:
        found = chain.apply_columns(columns)
    except MixedRecordsError:
        assert len(expected) < len(values) or len(set(map(type, values))) == 2
    else:
        assert found.records() == expected


class Own(Predicate):
    def test(self, record: ConnectRecord) -> bool:
        return record.value == "x"


def test_a_predicate_of_somebody_else_is_asked_record_by_record() -> None:
    config = {
        "transforms": "t",
        "transforms.t.type": "HoistField$Value",
        "transforms.t.field": "f",
        "transforms.t.predicate": "p",
        "predicates": "p",
        "predicates.p.type": f"{__name__}:Own",
    }
    assert not Chain.from_config(config).takes_columns
