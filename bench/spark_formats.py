"""Avro and Protobuf to columns in the Spark benchmark: typed at the source, beside from_avro and from_protobuf."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from bench.rows import spark_data
from bench.rows.spark_rows import OURS, Bench, Experiment, Figure, timed

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

AVRO = json.dumps(
    {
        "type": "record",
        "name": "Event",
        "fields": [
            {"name": "id", "type": "long"},
            {"name": "tag", "type": "string"},
            {"name": "likes", "type": "int"},
            {"name": "text", "type": ["null", "string"]},
        ],
    }
)
PROTO = 'syntax = "proto3"; message Event { int64 id = 1; string tag = 2; int32 likes = 3; optional string text = 4; }'
_SIZE = 100


def format_experiments() -> list[Experiment]:
    """The same events as in the experiment with JSON, counted per tag."""
    return [
        _counting("avro", AVRO, _avro_values, _from_avro),
        _counting("protobuf", PROTO, _protobuf_values, _from_protobuf),
    ]


def _counting(
    kind: str, schema: str, values: Callable[[], list[bytes]], by_spark: Callable[[DataFrame], DataFrame]
) -> Experiment:
    name = f"{kind} to columns, count per tag"

    def measure(bench: Bench, connector: str) -> dict[str, float]:
        topic = bench.filled(f"read-{kind}", values)
        if connector == OURS:
            frame = bench.read(connector, topic, valueFormat=kind, valueSchema=schema).select("value.*")
        else:
            frame = by_spark(bench.read(connector, topic)).select("value.*")
        counts = frame.where("likes >= 10").groupBy("tag").count()
        found: list[Any] = []
        seconds = timed(lambda: found.extend(counts.collect()))
        if len(found) != len(spark_data.TAGS):
            raise RuntimeError(f"{len(found)} tags were counted instead of {len(spark_data.TAGS)}")
        return {name: bench.scale.rows(_SIZE) / seconds / 1e6}

    return Experiment((Figure(name, target=2),), measure)


def _events() -> list[dict[str, Any]]:
    return [json.loads(each) for each in spark_data.values(_SIZE)]


def _avro_values() -> list[bytes]:
    import fastavro

    schema = fastavro.parse_schema(json.loads(AVRO))
    made = []
    for event in _events():
        target = io.BytesIO()
        fastavro.schemaless_writer(target, schema, event)
        made.append(target.getvalue())
    return made


def _protobuf_values() -> list[bytes]:
    from google.protobuf import descriptor_pool, message_factory

    pool = descriptor_pool.DescriptorPool()
    pool.Add(_descriptor())
    event_class: Any = message_factory.GetMessageClass(pool.FindMessageTypeByName("Event"))
    return [event_class(**event).SerializeToString() for event in _events()]


@lru_cache
def _descriptor() -> Any:
    from ottla.registry.schemas.protobuf import parse_protobuf

    file = parse_protobuf(PROTO, {}).raw
    file.name = "event.proto"
    return file


def _from_avro(frame: DataFrame) -> DataFrame:
    from pyspark.sql.avro.functions import from_avro

    return frame.select(from_avro("value", AVRO).alias("value"))


def _from_protobuf(frame: DataFrame) -> DataFrame:
    from google.protobuf.descriptor_pb2 import FileDescriptorSet
    from pyspark.sql.protobuf.functions import from_protobuf

    files = FileDescriptorSet(file=[_descriptor()]).SerializeToString()
    return frame.select(from_protobuf("value", "Event", binaryDescriptorSet=files).alias("value"))


def _comparisons() -> list[Any]:
    from google.protobuf.descriptor_pb2 import FileDescriptorSet

    from bench.peers.older_spark import Comparison, encoded

    avro, protobuf = format_experiments()
    files = FileDescriptorSet(file=[_descriptor()]).SerializeToString()
    return [
        Comparison("avro", avro, _avro_values, AVRO),
        Comparison("protobuf", protobuf, _protobuf_values, encoded(files)),
    ]


if __name__ == "__main__":
    from bench.peers.older_spark import main

    raise SystemExit(main(_comparisons()))
