"""A table and the live tail of its topic: each record exactly once, in batches and streams."""

from __future__ import annotations

from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("pyspark")
pytest.importorskip("pyiceberg")

from ottla.client.errors import ClientError
from tests.spark.tables.conftest import FORMATS, Tables

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_numbers = count()


def named(what: str) -> str:
    return f"union-{what}-{next(_numbers)}"


def numbers(frame: DataFrame) -> list[int]:
    return sorted(row.n for row in frame.select("n").collect())


@pytest.mark.parametrize("format", FORMATS)
def test_table_and_tail_are_one(tables: Tables, format: str) -> None:
    topic = tables.topic(named("batch"), partitions=2, format=format, mode="json")
    with pytest.raises(ClientError, match="has no table yet"):
        tables.read(topic)
    tables.put(topic, {"n": 1, "more": "x"}, {"n": 2})
    tables.put(topic, {"n": 3}, partition=1)
    tables.run(topic)
    assert numbers(tables.read(topic)) == [1, 2, 3]
    tables.put(topic, {"n": 4}, partition=1)
    tables.put(topic, {"n": 5, "new": 1})
    found = tables.read(topic)
    assert numbers(found) == [1, 2, 3, 4, 5]
    assert "new" not in found.columns
    by_source = tables.read(topic, columns=["n", "__offset"])
    assert by_source.columns == ["n", "__offset"]
    assert sorted(map(tuple, by_source.collect())) == [(1, 0), (2, 1), (3, 0), (4, 1), (5, 2)]
    assert numbers(tables.read(topic, as_of_offsets={0: 1, 1: 2})) == [1, 3, 4]
    assert numbers(tables.read(topic, as_of_timestamp=0)) == []
    assert numbers(tables.read(topic, as_of_timestamp="2999-01-01T00:00:00+00:00")) == [1, 2, 3, 4, 5]
    with pytest.raises(Exception, match="There is no column 'm' in the table"):
        tables.read(topic, columns=["m"])


@pytest.mark.parametrize("format", FORMATS)
def test_a_stream_has_the_table_first_and_then_the_topic(tables: Tables, format: str, tmp_path: Path) -> None:
    topic = tables.topic(named("stream"), format=format, mode="json")
    batches: list[list[int]] = []

    def run() -> None:
        stream = tables.read(topic, stream=True)
        writer = stream.writeStream.foreachBatch(lambda rows, _: batches.append(numbers(rows)))
        writer = writer.option("checkpointLocation", str(tmp_path / "checkpoint"))
        writer.trigger(availableNow=True).start().awaitTermination()

    tables.put(topic, {"n": 1}, {"n": 2})
    tables.run(topic)
    tables.put(topic, {"n": 3})
    run()
    assert batches == [[1, 2], [3]]
    # The restarted stream goes on with the topic, whatever the table has meanwhile.
    tables.put(topic, {"n": 4})
    tables.run(topic)
    tables.put(topic, {"n": 5})
    run()
    assert batches[2:] == [[4, 5]]


@pytest.mark.parametrize("format", FORMATS)
def test_the_tail_of_an_upsert_table_replaces_and_deletes_rows(tables: Tables, format: str) -> None:
    topic = tables.topic(named("upsert"), format=format, mode="json", write_mode="upsert")

    def rows(**more: Any) -> dict[bytes, int]:
        return {bytes(row["__key"]): row.n for row in tables.read(topic, **more).collect()}

    for key, n in ((b"a", 1), (b"b", 2), (b"c", 3)):
        tables.put(topic, {"n": n}, key=key)
    tables.run(topic)
    tables.put(topic, {"n": 4}, {"n": 5}, key=b"a")
    tables.put(topic, None, key=b"b")
    tables.put(topic, {"n": 6}, key=b"d")
    assert rows() == {b"a": 5, b"c": 3, b"d": 6}
    tables.run(topic)
    assert rows() == {b"a": 5, b"c": 3, b"d": 6}
    assert rows(as_of_offsets={0: 4}) == {b"a": 4, b"b": 2, b"c": 3}
    with pytest.raises(Exception, match="read it in a batch with ottla"):
        tables.read(topic, stream=True)


def test_records_that_were_deleted_before_the_table_had_them_are_reported(
    tables: Tables, spark: SparkSession
) -> None:
    from ottla.client.admin.offsets import delete_records
    from ottla.client.cluster import Cluster, TopicPartition
    from ottla.client.settings import Settings

    topic = tables.topic(named("lost"), format="iceberg", mode="json")
    tables.put(topic, {"n": 1})
    tables.run(topic)
    tables.put(topic, {"n": 2}, {"n": 3})
    cluster = Cluster(Settings.from_properties(dict(tables.connection.properties), client_id="tests"))
    delete_records(cluster, {TopicPartition(topic, 0): 2})
    cluster.close()
    with pytest.raises(Exception, match="were deleted from the topic before the table had them"):
        tables.read(topic).collect()
    tables.run(topic)
    assert numbers(tables.read(topic)) == [1, 3]
