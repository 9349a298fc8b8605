"""Records with the same topic and schemas form columns, and per-record changes of a class apply to columns too."""

from __future__ import annotations

from typing import Any

from ottla.connect.api import SinkTask, SourceTask
from ottla.connect.connectors.file_stream import FileStreamSinkTask, FileStreamSourceTask
from ottla.connect.converters.converter import Converter
from ottla.connect.converters.json_converter import JsonConverter
from ottla.connect.converters.registry.protobuf_converter import ProtobufConverter
from ottla.connect.converters.string_converter import StringConverter
from ottla.connect.data.columns import SinkColumns, runs
from ottla.connect.data.record import ConnectRecord, Header, SinkRecord, SourceRecord
from ottla.connect.data.schema import INT32, STRING, Schema
from ottla.connect.transforms.functions import FunctionTransform
from ottla.connect.transforms.header_from import HeaderFromValue
from ottla.connect.transforms.hoist_field import HoistFieldValue
from ottla.connect.transforms.insert_field import InsertFieldKey


def test_runs_end_where_topic_partition_schemas_or_headers_differ() -> None:
    records = (
        [SourceRecord("a", n, INT32, key=str(n), timestamp=n) for n in range(5)]
        + [SourceRecord("b", n, INT32, timestamp=n) for n in range(4)]
        + [SourceRecord("b", n, INT32, partition=1) for n in range(4)]
        + [SourceRecord("b", "x", STRING, partition=1) for _ in range(4)]
        + [SourceRecord("b", "x", STRING, partition=1, headers=[Header("h", 1)]) for _ in range(4)]
        + [SourceRecord("b", None) for _ in range(3)]
    )
    found = list(runs(records))
    assert [record for some, _ in found for record in some] == records
    assert [(len(some), columns is None) for some, columns in found] == [
        (5, False), (4, False), (4, False), (4, False), (1, True), (1, True), (1, True), (1, True), (3, True),
    ]  # fmt: skip
    first, third = found[0][1], found[2][1]
    assert first is not None
    assert third is not None
    assert (first.topic, first.values, first.value_schema) == ("a", [0, 1, 2, 3, 4], INT32)
    assert (first.keys, first.key_schema, first.timestamps) == (list("01234"), None, [0, 1, 2, 3, 4])
    assert (first.partition, third.partition) == (None, 1)
    assert list(runs([])) == []


def test_columns_of_a_sink_are_its_records() -> None:
    columns = SinkColumns(
        topic="new",
        partition=2,
        value_schema=STRING,
        values=["x", "y"],
        key_schema=None,
        keys=[1, None],
        timestamps=[5, None],
        offsets=[10, 12],
        timestamp_types=[0, 1],
        original_topic="old",
        original_partition=2,
    )
    about: dict[str, Any] = {"partition": 2, "original_topic": "old", "original_partition": 2}
    assert columns.records() == [
        SinkRecord("new", "x", STRING, 1, None, timestamp=5, offset=10, timestamp_type=0, **about),
        SinkRecord("new", "y", STRING, None, None, timestamp=None, offset=12, timestamp_type=1, **about),
    ]
    assert [each.records() for each in columns.parts(1)] == [[each] for each in columns.records()]


class Shouting(JsonConverter):
    def from_connect(self, topic: str, schema: Schema | None, value: Any) -> bytes | None:
        found = super().from_connect(topic, schema, value)
        return None if found is None else found.upper()


class Numbered(HoistFieldValue):
    def apply(self, record: ConnectRecord) -> ConnectRecord:
        return super().apply(record).replaced(partition=7)


class _Twice:
    def poll(self) -> Any: ...

    def put(self, records: Any) -> None: ...


class TwiceSourceTask(_Twice, FileStreamSourceTask): ...


class TwiceSinkTask(_Twice, FileStreamSinkTask): ...


def test_whoever_changes_what_happens_to_one_record_does_not_inherit_what_happens_to_many() -> None:
    shouting = Shouting()
    shouting.configure({"schemas.enable": "false"})
    assert shouting.all_from_connect("t", STRING, ["a", "b"]) == [b'"A"', b'"B"']
    assert JsonConverter.all_from_connect is not Converter.all_from_connect
    assert StringConverter.all_to_connect is not Converter.all_to_connect
    assert ProtobufConverter.all_from_connect is Converter.all_from_connect
    assert HoistFieldValue().takes_columns
    assert InsertFieldKey().takes_columns
    assert not HeaderFromValue().takes_columns
    assert not Numbered().takes_columns
    assert not FunctionTransform(lambda record: record).takes_columns
    assert FileStreamSourceTask().gives_columns
    assert FileStreamSinkTask().takes_columns
    assert not TwiceSourceTask().gives_columns
    assert not TwiceSinkTask().takes_columns
    assert not SourceTask().gives_columns
    assert not SinkTask().takes_columns
