"""Topics as files with Confluent's names, formats and directories; each record is in one file, once."""

from __future__ import annotations

import datetime as dt
import decimal
import gzip
import io
import json
import os
from collections.abc import Callable
from pathlib import Path

import fastavro
import pyarrow.parquet as pq
import pytest

from ottla.connect import (
    ConfigError,
    ConnectError,
    DataError,
    Schema,
    SchemaBuilder,
    SchemaType,
    Struct,
)
from ottla.connect.connectors.files.connector import FilesSinkConnector, FilesSinkTask
from ottla.connect.data.schema import INT64, OPTIONAL_STRING, STRING, array
from ottla.testing.connect import SinkHarness, check_sink

TIMESTAMP = Schema(SchemaType.INT64, name="org.apache.kafka.connect.data.Timestamp", version=1)
DECIMAL = Schema(
    SchemaType.BYTES, name="org.apache.kafka.connect.data.Decimal", version=1, parameters={"scale": "2"}
)
ORDER = (
    SchemaBuilder("com.example.Order", version=1)
    .field("id", INT64)
    .field("customer", STRING)
    .field("when", TIMESTAMP)
    .field("amount", DECIMAL)
    .field("tags", array(STRING))
    .build()
)
WHEN = dt.datetime(2026, 3, 29, 0, 30, tzinfo=dt.UTC)


def order(number: int) -> Struct:
    return Struct(
        ORDER,
        {
            "id": number,
            "customer": f"c{number % 3}",
            "when": WHEN,
            "amount": decimal.Decimal("12.50"),
            "tags": ["a", "b"],
        },
    )


@pytest.fixture
def config(tmp_path: Path) -> Callable[..., dict[str, str]]:
    def make(**settings: str) -> dict[str, str]:
        named = {name.replace("_", "."): value for name, value in settings.items()}
        return {"store.url": str(tmp_path), "flush.size": "3", "format.class": "JsonFormat", **named}

    return make


Make = Callable[..., dict[str, str]]


def files(root: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(root)): path.read_bytes() for path in sorted(root.rglob("*")) if path.is_file()
    }


def test_files_have_topic_partition_and_first_offset_in_their_names(config: Make, tmp_path: Path) -> None:
    with SinkHarness(FilesSinkConnector, config()) as sink:
        for number in range(7):
            sink.send("orders", {"id": number})
        sink.commit()
        assert sink.committed == {("orders", 0): 6}, "only what is in closed files is committed"
    assert files(tmp_path) == {
        "topics/orders/partition=0/orders+0+0000000000.json": b'{"id":0}\n{"id":1}\n{"id":2}\n',
        "topics/orders/partition=0/orders+0+0000000003.json": b'{"id":3}\n{"id":4}\n{"id":5}\n',
    }


@pytest.mark.parametrize(
    "settings", [{}, {"partitioner.class": "FieldPartitioner", "partition.field.name": "kind"}]
)
def test_crashes_neither_double_nor_lose_records(
    config: Make, tmp_path: Path, settings: dict[str, str]
) -> None:
    def fresh() -> dict[str, str]:
        for path in tmp_path.rglob("*"):
            if path.is_file():
                path.unlink()
        return {**config(), **settings}

    def send(sink: SinkHarness) -> None:
        for number in range(24):
            sink.send("t", {"n": number, "kind": "abc"[number % 3]}, partition=number % 2)

    def stored() -> list[int]:
        lines = [line for content in files(tmp_path).values() for line in content.splitlines()]
        return sorted(json.loads(line)["n"] for line in lines)

    assert check_sink(FilesSinkConnector, fresh, send, stored) == list(range(24))


def test_a_crash_leaves_the_same_files_with_the_same_content(config: Make, tmp_path: Path) -> None:
    with SinkHarness(FilesSinkConnector, config(format_class="AvroFormat")) as sink:
        for number in range(10):
            sink.send("t", order(number), value_schema=ORDER)
        sink.put(4)
        sink.flush()
        before = files(tmp_path)
        sink.crash()
        sink.commit()
        after = files(tmp_path)
    assert len(before) == 1
    assert len(after) == 3
    assert all(after[name] == content for name, content in before.items())


def test_avro(config: Make, tmp_path: Path) -> None:
    with SinkHarness(
        FilesSinkConnector, config(format_class="io.confluent.connect.s3.format.avro.AvroFormat")
    ) as sink:
        for number in range(3):
            sink.send("t", order(number), value_schema=ORDER)
        sink.commit()
    [(name, content)] = files(tmp_path).items()
    assert name == "topics/t/partition=0/t+0+0000000000.avro"
    reader = fastavro.reader(io.BytesIO(content))
    assert reader.writer_schema["name"] == "com.example.Order"
    assert list(reader)[2] == {
        "id": 2,
        "customer": "c2",
        "when": WHEN,
        "amount": decimal.Decimal("12.50"),
        "tags": ["a", "b"],
    }


def test_parquet(config: Make, tmp_path: Path) -> None:
    with SinkHarness(FilesSinkConnector, config(format_class="ParquetFormat")) as sink:
        for number in range(3):
            sink.send("t", order(number), value_schema=ORDER)
        sink.commit()
    [(name, content)] = files(tmp_path).items()
    assert name == "topics/t/partition=0/t+0+0000000000.snappy.parquet"
    table = pq.read_table(io.BytesIO(content))
    assert table.column("id").to_pylist() == [0, 1, 2]
    assert table.column("when").to_pylist()[0] == WHEN
    assert table.column("amount").to_pylist()[0] == decimal.Decimal("12.50")


def test_bytes_and_compression(config: Make, tmp_path: Path) -> None:
    settings = {**config(format_class="ByteArrayFormat"), "s3.compression.type": "gzip"}
    with SinkHarness(FilesSinkConnector, settings) as sink:
        for value in (b"a", b"b", b"c"):
            sink.send("t", value)
        sink.send("t", "text")
        sink.commit()
        assert "ByteArrayConverter" in str(sink.reported[0][1])
    [(name, content)] = files(tmp_path).items()
    assert name.endswith("t+0+0000000000.bin.gz")
    assert gzip.decompress(content) == b"a\nb\nc\n"


def test_a_changed_schema_begins_a_new_file(config: Make, tmp_path: Path) -> None:
    changed = (
        SchemaBuilder("com.example.Order", version=2)
        .field("id", INT64)
        .field("note", OPTIONAL_STRING)
        .build()
    )
    old = SchemaBuilder("com.example.Order", version=1).field("id", INT64).build()
    for compatibility, wanted in (("NONE", [1, 1, 1]), ("BACKWARD", [1, 2])):
        root = tmp_path / compatibility
        settings = {**config(), "format.class": "ParquetFormat", "store.url": str(root), "flush.size": "10"}
        with SinkHarness(FilesSinkConnector, {**settings, "schema.compatibility": compatibility}) as sink:
            sink.send("t", Struct(old, {"id": 0}), value_schema=old)
            sink.send("t", Struct(changed, {"id": 1, "note": "x"}), value_schema=changed)
            sink.send("t", Struct(old, {"id": 2}), value_schema=old)
            sink.put()
            assert isinstance(sink.task, FilesSinkTask)
            for writer in sink.task._writers.values():
                writer.close()
        assert [pq.read_table(io.BytesIO(each)).num_rows for each in files(root).values()] == wanted


def test_directories_by_field(config: Make, tmp_path: Path) -> None:
    settings = {
        **config(flush_size="4"),
        "partitioner.class": "FieldPartitioner",
        "partition.field.name": "country,ok",
    }
    with SinkHarness(FilesSinkConnector, settings) as sink:
        for country, ok in (("de", True), ("at/ch", False), ("de", True), ("at/ch", False)):
            sink.send("t", {"country": country, "ok": ok})
        sink.send("t", {"other": 1})
        sink.commit()
        assert isinstance(sink.reported[0][1], DataError)
        assert "no field 'country'" in str(sink.reported[0][1])
    assert sorted(files(tmp_path)) == [
        "topics/t/country=at_ch/ok=false/t+0+0000000001.json",
        "topics/t/country=de/ok=true/t+0+0000000000.json",
    ]


def test_directories_by_time(config: Make, tmp_path: Path) -> None:
    def paths(name: str, **more: str) -> list[str]:
        root = tmp_path / name
        settings = {
            **config(flush_size="2"),
            "store.url": str(root),
            "partitioner.class": name,
            "timestamp.extractor": "Record",
        }
        with SinkHarness(
            FilesSinkConnector, {**settings, **{k.replace("_", "."): v for k, v in more.items()}}
        ) as sink:
            for hours in (0, 1):
                when = WHEN + dt.timedelta(hours=hours)
                value = {"created": {"at": when.isoformat()}}
                sink.send("t", value, timestamp=int(when.timestamp() * 1000))
            sink.commit()
        return [os.path.dirname(each).removeprefix("topics/t/") for each in sorted(files(root))]

    assert paths("DailyPartitioner") == ["year=2026/month=03/day=29"]
    assert paths("HourlyPartitioner", timezone="Europe/Berlin") == [
        "year=2026/month=03/day=29/hour=01",
        # Daylight saving time starts at two o'clock.
        "year=2026/month=03/day=29/hour=03",
    ]
    own = {"path_format": "'d'=yyyy-MM-dd'T'HHmm", "partition_duration_ms": "1800000"}
    assert paths(
        "TimeBasedPartitioner", **own, timestamp_extractor="RecordField", timestamp_field="created.at"
    ) == [
        "d=2026-03-29T0030",
        "d=2026-03-29T0130",
    ]


def test_rotation_by_the_times_of_records(config: Make, tmp_path: Path) -> None:
    settings = {
        **config(flush_size="100"),
        "partitioner.class": "DailyPartitioner",
        "timestamp.extractor": "Record",
        "rotate.interval.ms": "1000",
    }
    with SinkHarness(FilesSinkConnector, settings) as sink:
        for when in (0, 500, 999, 1000, 1500, 2000, 90_000_000):
            sink.send("t", when, timestamp=when)
        sink.commit()
        assert sink.committed == {("t", 0): 6}
    assert [content.split() for content in files(tmp_path).values()] == [
        [b"0", b"500", b"999"],
        [b"1000", b"1500"],
        [b"2000"],
    ]


def test_rotation_by_the_clock(config: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = 1000.0
    monkeypatch.setattr("ottla.connect.connectors.files.writer.time.time", lambda: now)
    with SinkHarness(FilesSinkConnector, {**config(), "rotate.schedule.interval.ms": "5000"}) as sink:
        sink.send("t", 1)
        sink.commit()
        assert sink.committed == {}
        now = 1005.0
        sink.commit()
        assert sink.committed == {("t", 0): 1}


def test_records_without_a_value(config: Make, tmp_path: Path) -> None:
    with SinkHarness(FilesSinkConnector, config()) as sink:
        sink.send("t", None)
        sink.commit()
        assert "t-0@0 has no value" in str(sink.reported[0][1])
    with SinkHarness(FilesSinkConnector, config(behavior_on_null_values="ignore")) as sink:
        sink.send("t", None)
        sink.commit()
        assert sink.reported == []
        assert sink.committed == {("t", 0): 1}


def test_avro_and_parquet_want_schemas(config: Make) -> None:
    with SinkHarness(FilesSinkConnector, config(format_class="ParquetFormat")) as sink:
        sink.send("t", {"a": 1})
        sink.commit()
        assert "ParquetFormat needs values that are structs with a schema" in str(sink.reported[0][1])


def test_a_file_that_cannot_be_made_fails_the_task(config: Make) -> None:
    """This holds even with error tolerance, because the task cannot tell which record is at fault."""
    value = order(1)
    value.values[3] = decimal.Decimal("1" * 40)
    with SinkHarness(FilesSinkConnector, config(format_class="ParquetFormat", flush_size="1")) as sink:
        sink.send("t", value, value_schema=ORDER)
        with pytest.raises(
            ConnectError, match=r"The file topics/t/partition=0/t\+0\+0000000000.snappy.parquet cannot"
        ):
            sink.commit()
        assert sink.reported == []


def test_a_put_that_has_to_be_repeated_doubles_nothing(config: Make, tmp_path: Path) -> None:
    with SinkHarness(FilesSinkConnector, config()) as sink:
        records = [sink.send("t", number) for number in range(4)]
        (tmp_path / "topics").write_text("in the way")
        with pytest.raises(ConnectError, match="Cannot write"):
            sink.task.put(records)
        (tmp_path / "topics").unlink()
        sink.task.put(records)
        assert sink.task.flush({("t", 0): 4}) == {("t", 0): 3}  # type: ignore[dict-item]
    assert files(tmp_path) == {"topics/t/partition=0/t+0+0000000000.json": b"0\n1\n2\n"}


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({"format.class": "XmlFormat"}, "There is no format.class 'XmlFormat'. There are: JsonFormat,"),
        ({"partitioner.class": "MyPartitioner"}, "There is no partitioner.class 'MyPartitioner'"),
        ({"partitioner.class": "FieldPartitioner"}, "needs partition.field.name"),
        ({"partitioner.class": "TimeBasedPartitioner"}, "needs path.format"),
        ({"partitioner.class": "DailyPartitioner", "timezone": "Mars"}, "There is no time zone 'Mars'"),
        (
            {"partitioner.class": "DailyPartitioner", "timestamp.extractor": "Oracle"},
            "There is no timestamp.extractor",
        ),
        ({"flush.size": "0"}, "Value must be at least 1"),
        ({"schema.compatibility": "MAYBE"}, "String must be one of"),
    ],
)
def test_bad_settings_are_named(config: Make, settings: dict[str, str], why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        SinkHarness(FilesSinkConnector, {**config(), **settings})


def test_a_place_that_cannot_be_written_is_named(config: Make, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for url, why in (
        (str(tmp_path / "file" / "x"), "Cannot write to the directory"),
        ("ftp://host/x", "store.url 'ftp://host/x' cannot be used"),
    ):
        with pytest.raises(ConnectError, match=why):
            SinkHarness(FilesSinkConnector, {**config(), "store.url": url}).start()
