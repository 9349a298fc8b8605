"""Topics as tables, seen by readers that know nothing of Ottla: PyIceberg, deltalake, DuckDB, Spark's Parquet."""

from __future__ import annotations

import json
import struct
import time
from itertools import count
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("pyspark")
pytest.importorskip("pyiceberg")

from ottla.client.schema_registry import RegistrySettings, Schema, SchemaRegistry
from tests.spark.tables.conftest import FORMATS, Tables, values

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.parametrize("format", FORMATS)
_numbers = count()


def named(what: str) -> str:
    return f"{what}-{next(_numbers)}"


def test_raw_rows_have_everything_of_a_record(tables: Tables, format: str, spark: SparkSession) -> None:
    topic = tables.topic(named("raw"), partitions=2, format=format)
    now = int(time.time() * 1000)
    for partition in (0, 1):
        tables.broker.produce(
            topic, b"one", key=b"k", partition=partition, timestamp=now, headers=[("h", b"v")]
        )
        tables.broker.produce(topic, None, partition=partition)
    assert tables.run(topic) == {topic: 4}
    first, second, *_ = tables.rows(topic)
    assert (first["__partition"], first["__offset"], first["__key"], first["value"]) == (0, 0, b"k", b"one")
    assert round(first["__timestamp"].timestamp() * 1000) == now
    assert first["__headers"] == [{"key": "h", "value": b"v"}]
    assert (second["__offset"], second["__key"], second["value"]) == (1, None, None)
    # Neither an idle topic nor a second job commits anything.
    before = tables.table(topic).facts()
    assert tables.run(topic) == {}
    assert tables.table(topic).facts() == before
    # Spark's Parquet reader and DuckDB read the files alone.
    paths = tables.table(topic).parquet_paths()
    assert spark.read.parquet(*paths).count() == 4
    import duckdb

    plain = [path.removeprefix("file://") for path in paths]
    assert duckdb.sql(f"SELECT count(*), min(__offset) FROM read_parquet({plain})").fetchall() == [(4, 0)]


def test_inferred_columns_follow_the_values_and_others_become_dead_letters(
    tables: Tables, format: str
) -> None:
    topic = tables.topic(named("json"), format=format, mode="json")
    tables.put(topic, {"id": 1, "at": {"x": 1.5}}, {"id": "one"}, b"{", b"[1]", {"id": 2, "tags": ["a"]})
    assert tables.run(topic) == {topic: 2}
    tables.put(topic, {"id": 3, "at": {"y": "new"}, "late": True}, {"__offset": 5, "id": 4})
    tables.run(topic)
    assert values(tables.rows(topic)) == [
        {"id": 1, "at": {"x": 1.5, "y": None}, "tags": None, "late": None},
        {"id": 2, "at": None, "tags": ["a"], "late": None},
        {"id": 3, "at": {"x": None, "y": "new"}, "tags": None, "late": True},
        {"id": 4, "at": None, "tags": None, "late": None},
    ]
    dead = tables.rows(topic, dead_letters=True)
    assert [(row["__offset"], row["value"], row["error"]) for row in dead] == [
        (1, b'{"id": "one"}', "BadValue"), (2, b"{", "BadValue"), (3, b"[1]", "BadValue"),
    ]  # fmt: skip
    assert dead[0]["reason"] == 'id is "one", not bigint'
    assert tables.complaints == []


def test_upserts_keep_the_latest_row_of_each_key(tables: Tables, format: str) -> None:
    topic = tables.topic(named("upsert"), format=format, mode="json", **{"write_mode": "upsert"})
    for key, value in [(b"a", {"n": 1}), (b"b", {"n": 2}), (b"a", {"n": 3}), (b"c", {"n": 4})]:
        tables.put(topic, value, key=key)
    tables.run(topic)
    assert [(row["__key"], row["n"]) for row in tables.rows(topic)] == [(b"b", 2), (b"a", 3), (b"c", 4)]
    tables.put(topic, None, key=b"b")
    tables.put(topic, None, key=b"never")
    tables.put(topic, {"n": 5, "m": 1}, key=b"c")
    tables.put(topic, {"n": 6})
    tables.run(topic)
    assert [(row["__key"], row["n"], row["m"]) for row in tables.rows(topic)] == [
        (b"a", 3, None), (b"c", 5, 1),
    ]  # fmt: skip
    [dead] = tables.rows(topic, dead_letters=True)
    assert (dead["__offset"], dead["error"]) == (7, "BadKey")
    # Only tombstones: the boundary advances without a row.
    tables.put(topic, None, key=b"a")
    tables.run(topic)
    assert [row["__key"] for row in tables.rows(topic)] == [b"c"]
    assert tables.table(topic).boundary().offsets == {0: 9}


def test_only_committed_records_are_in_the_table(tables: Tables, format: str) -> None:
    from confluent_kafka import Producer

    topic = tables.topic(named("transactions"), format=format)
    producer = Producer({"bootstrap.servers": tables.broker.bootstrap_servers, "transactional.id": topic})
    producer.init_transactions()
    for end, value in ((producer.abort_transaction, b"no"), (producer.commit_transaction, b"yes")):
        producer.begin_transaction()
        producer.produce(topic, value)
        producer.flush()
        end()
    producer.begin_transaction()
    producer.produce(topic, b"open")
    producer.flush()
    assert tables.run(topic) == {topic: 1}
    producer.commit_transaction()
    assert tables.run(topic) == {topic: 1}
    assert [row["value"] for row in tables.rows(topic)] == [b"yes", b"open"]


class Registered:
    """Avro records of one topic, with a schema for each."""

    def __init__(self, tables: Tables, topic: str) -> None:
        self._tables = tables
        self._topic = topic
        self._registry = SchemaRegistry(RegistrySettings((tables.broker.schema_registry_url,)))
        self._registry.request("PUT", f"/config/{topic}-value", {"compatibility": "NONE"})

    def put(self, fields: list[dict[str, Any]], *rows: dict[str, Any]) -> int:
        import io

        import fastavro

        schema = {"type": "record", "name": "Order", "fields": fields}
        number = self._registry.register(f"{self._topic}-value", Schema(json.dumps(schema)))
        for row in rows:
            data = io.BytesIO()
            fastavro.schemaless_writer(data, fastavro.parse_schema(schema), row)
            self._tables.put(self._topic, b"\0" + struct.pack(">i", number) + data.getvalue())
        return number


@pytest.mark.parametrize("mode", ["value_schema_id", "value_schema_latest"])
def test_columns_follow_the_registry(tables: Tables, format: str, mode: str) -> None:
    """Fields are added, widened, renamed and dropped between commits; a breaking change goes to the dead letters."""
    topic = tables.topic(named(mode.replace("_", "-")), format=format, mode=mode)
    avro = Registered(tables, topic)
    avro.put([{"name": "id", "type": "int"}, {"name": "name", "type": "string"}], {"id": 1, "name": "ann"})
    assert tables.run(topic) == {topic: 1}
    wider: list[dict[str, Any]] = [
        {"name": "id", "type": "long"},
        {"name": "customer", "type": "string", "aliases": ["name"]},
        {"name": "city", "type": ["null", "string"], "default": None},
    ]
    avro.put(wider, {"id": 2**40, "customer": "bob", "city": "Graz"})
    # A record of the first schema after the rename.
    avro.put([{"name": "id", "type": "int"}, {"name": "name", "type": "string"}], {"id": 3, "name": "cid"})
    breaking = avro.put([{"name": "id", "type": "string"}], {"id": "four"})
    avro.put([{"name": "id", "type": "long"}], {"id": 5})
    tables.put(topic, b"\xff")
    tables.run(topic)
    assert tables.complaints == []
    if mode == "value_schema_id":
        assert values(tables.rows(topic)) == [
            {"id": 1, "customer": "ann", "city": None},
            {"id": 2**40, "customer": "bob", "city": "Graz"},
            {"id": 3, "customer": "cid", "city": None},
            {"id": 5, "customer": None, "city": None},
        ]
    else:  # every record is read as the latest version, which has only the id
        expected = [{"id": 1, "name": "ann"}, *({"id": id, "name": None} for id in (2**40, 3, 5))]
        assert values(tables.rows(topic)) == expected
    dead = tables.rows(topic, dead_letters=True)
    assert dead[0]["__offset"] == 3
    refusal = f"schema {breaking}" if mode == "value_schema_id" else "written as string, not long"
    assert refusal in dead[0]["reason"]
    assert dead[-1]["value"] == b"\xff"


def test_a_table_with_another_schema_is_one_sentence(tables: Tables, format: str) -> None:
    import pyarrow as pa

    topic = tables.topic(named("other"), format=format)
    tables.lake.create(tables.settings(topic), pa.schema([("n", pa.int32())]), "")
    tables.put(topic, b"x")
    assert tables.run(topic) == {}
    [complaint] = tables.complaints
    assert f"Table default.{topic} exists with another schema: it has no column __partition." in complaint


def test_a_topic_that_was_created_again_does_not_mix_with_its_old_table(tables: Tables, format: str) -> None:
    topic = tables.topic(named("again"), format=format)
    tables.put(topic, b"old")
    tables.run(topic)
    tables.broker.delete_topic(topic)
    tables.topic(topic, format=format)
    tables.put(topic, b"new", b"newer")
    assert tables.run(topic) == {}
    assert "was deleted and created again" in tables.complaints[0]
    assert [row["value"] for row in tables.rows(topic)] == [b"old"]


def test_partitions_compaction_and_expiry_keep_all_rows(tables: Tables, format: str) -> None:
    spec = "bucket(4, __offset), city" if format == "iceberg" else "city"
    topic = tables.topic(named("parts"), format=format, mode="json", **{"partition_spec": spec})
    expected = []
    for number in range(3):
        rows = [{"n": number, "city": city} for city in ("Brno", "Graz/ä", None)]
        tables.put(topic, *rows)
        expected += rows
        tables.run(topic)

    def found() -> list[dict[str, Any]]:
        return values(tables.rows(topic))

    assert found() == expected
    from ottla.spark.tables.lakes.maintenance import Maintenance

    maintenance = Maintenance(tables.lake, tables.settings(topic))
    assert maintenance.compact(least=2) >= 6
    files = tables.table(topic).facts().files
    assert files < 9
    maintenance.expire(older_than_ms=int(time.time() * 1000) + 3_600_000)
    assert found() == expected
    assert tables.table(topic).boundary().offsets == {0: 9}
    assert tables.run(topic) == {}
    assert sorted((row.n, str(row.city)) for row in tables.read(topic).collect()) == sorted(
        (row["n"], str(row["city"])) for row in expected
    )
