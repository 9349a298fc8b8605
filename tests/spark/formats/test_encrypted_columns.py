"""Promise: a task's output is encrypted in the log, and an undecryptable record is a bad row."""

from __future__ import annotations

import json
import pickle
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark")

import pyarrow as pa

from ottla.client import cluster
from ottla.client.cluster import TopicPartition
from ottla.client.errors import ClientError
from ottla.encryption import HEADER, Decryptor, Encryptor, KeyFile, make_key_file
from ottla.records.kernels.record_columns import HEADERS_TYPE
from ottla.spark.formats import encrypted_columns
from ottla.spark.formats.value_format import json as json_format
from ottla.spark.options import OptionError
from ottla.spark.sink.sink_options import parse_sink_options
from ottla.spark.sink.task import write_rows
from ottla.spark.source.range_reader import read_range
from ottla.spark.source.ranges import OffsetRange
from ottla.spark.source.source_options import parse_options
from ottla.testing import Broker


@pytest.fixture(autouse=True)
def nothing_left() -> Iterator[None]:
    yield
    while cluster._clusters:
        cluster._clusters.popitem()[1].close()
    encrypted_columns._shared_encryptor.cache_clear()
    encrypted_columns._shared_decryptor.cache_clear()


@pytest.fixture
def file(tmp_path: Path) -> Path:
    make_key_file(tmp_path / "keys.json")
    return tmp_path / "keys.json"


def write(broker: Broker, topic: str, rows: pa.RecordBatch, file: Path, **options: str) -> None:
    given = {
        "kafka.bootstrap.servers": broker.bootstrap_servers,
        "topic": topic,
        "ottla.encryption.keys": f"file:{file}",
        **{name.replace("__", "."): value for name, value in options.items()},
    }
    write_rows(parse_sink_options(given), iter([rows]))


def read(
    broker: Broker, topic: str, file: Path, schema: str | None = None, **options: str
) -> list[dict[str, Any]]:
    given = {
        "kafka.bootstrap.servers": broker.bootstrap_servers,
        "subscribe": topic,
        "ottla.encryption.keys": f"file:{file}",
        **{name.replace("__", "."): value for name, value in options.items()},
    }
    if schema is not None:
        given |= {"valueFormat": "json", "valueSchema": schema}
    parsed = parse_options(given, streaming=False)
    if schema is not None:
        from pyspark.sql.types import BinaryType, StringType, StructField, StructType

        fields = [part.split()[0] for part in json_format(schema).schema.split(",")]  # type: ignore[union-attr]
        kind = StructType([StructField(name, StringType()) for name in fields])
        parsed = replace(parsed, typed=replace(parsed.typed, value_type=kind, key_type=BinaryType()))
    wanted = OffsetRange(TopicPartition(topic, 0), 0, len(broker.records(topic)))
    return [row for batch in read_range(parsed, wanted) for row in batch.to_pylist()]


def test_values_are_encrypted_in_the_log_and_decrypted_where_they_are_read(
    ottla_broker: Broker, ottla_topic: str, file: Path
) -> None:
    values = [b"secret %d" % n for n in range(500)]
    values[7] = None  # type: ignore[call-overload]
    headers = [[{"key": "h", "value": b"%d" % n}] if n % 2 else None for n in range(500)]
    rows = pa.record_batch({"value": values, "headers": pa.array(headers, HEADERS_TYPE)})
    write(ottla_broker, ottla_topic, rows, file)
    records = ottla_broker.records(ottla_topic)
    assert not any(b"secret" in record.value for record in records if record.value is not None)
    assert records[7].value is None
    assert [name for name, _ in records[7].headers] == ["h"]
    decryptor = Decryptor(KeyFile(file))
    assert [decryptor.decrypt(ottla_topic, each.value, each.headers).value for each in records] == values
    found = read(ottla_broker, ottla_topic, file, includeHeaders="true")
    assert [row["value"] for row in found] == values
    assert [row["headers"] for row in found] == headers
    assert not any(row["badValue"] for row in found)
    assert "headers" not in read(ottla_broker, ottla_topic, file)[0]


def test_strings_are_encrypted_too_and_without_headers(
    ottla_broker: Broker, ottla_topic: str, file: Path
) -> None:
    write(ottla_broker, ottla_topic, pa.record_batch({"value": ["one", "two"]}), file)
    assert [row["value"] for row in read(ottla_broker, ottla_topic, file)] == [b"one", b"two"]


def test_what_is_read_in_slices_keeps_its_headers(
    ottla_broker: Broker, ottla_topic: str, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ottla.spark.source.connector_columns._BATCH_BYTES", 2000)
    values = [b"value %d" % n for n in range(100)]
    write(ottla_broker, ottla_topic, pa.record_batch({"value": values}), file)
    assert [row["value"] for row in read(ottla_broker, ottla_topic, file)] == values


def test_only_fields_are_encrypted_and_the_others_are_read_by_everybody(
    ottla_broker: Broker, ottla_topic: str, file: Path
) -> None:
    texts = [json.dumps({"user": f"u{n}", "card": f"4111 {n}"}) for n in range(20)]
    rows = pa.record_batch({"value": texts})
    write(ottla_broker, ottla_topic, rows, file, ottla__encryption__fields="card")
    for record in ottla_broker.records(ottla_topic):
        assert b"4111" not in record.value
        assert json.loads(record.value)["user"].startswith("u")
    found = read(ottla_broker, ottla_topic, file, "user STRING, card STRING")
    assert [row["value"] for row in found] == [{"user": f"u{n}", "card": f"4111 {n}"} for n in range(20)]
    with pytest.raises(ClientError, match=r"cannot be encrypted: it is not a JSON object\."):
        write(
            ottla_broker,
            ottla_topic,
            pa.record_batch({"value": ["x"]}),
            file,
            ottla__encryption__fields="card",
        )


def produce_bad(broker: Broker, topic: str, file: Path) -> list[Any]:
    """Produce a good record, a plain one, one for another topic, a changed one, one with two headers, and one without
    JSON.
    """
    encryptor = Encryptor(KeyFile(file))
    good = encryptor.encrypt(topic, b'{"a": "good"}')
    assert good.value is not None
    records = [
        good,
        (b'{"a": "plain"}', []),
        encryptor.encrypt("another", b'{"a": "moved"}'),
        (good.value[:-1] + bytes((good.value[-1] ^ 1,)), good.headers),
        (good.value, good.headers * 2),
        encryptor.encrypt(topic, b"secret text that is no JSON"),
        (None, []),
    ]
    for value, headers in records:
        broker.produce(topic, value, headers=headers)
    return records


def test_what_cannot_be_decrypted_is_null_and_kept_as_it_was(
    ottla_broker: Broker, ottla_topic: str, file: Path
) -> None:
    records = produce_bad(ottla_broker, ottla_topic, file)
    found = read(ottla_broker, ottla_topic, file, "a STRING", includeHeaders="true")
    assert [row["value"] for row in found] == [{"a": "good"}] + [None] * 6
    assert [row["badValue"] for row in found] == [None, *(value for value, _ in records[1:])]
    assert [len(row["headers"] or ()) for row in found] == [0, 0, 1, 1, 2, 1, 0]
    plain = read(ottla_broker, ottla_topic, file, "a STRING", ottla__encryption__plain="allow")
    assert [row["value"] for row in plain][:3] == [{"a": "good"}, {"a": "plain"}, None]
    raw = read(ottla_broker, ottla_topic, file)
    assert [row["value"] for row in raw] == [
        b'{"a": "good"}',
        *[None] * 4,
        b"secret text that is no JSON",
        None,
    ]


def test_dead_letters_stay_encrypted_and_do_not_tell_what_is_in_them(
    ottla_broker: Broker, ottla_topic: str, file: Path
) -> None:
    records = produce_bad(ottla_broker, ottla_topic, file)
    dead = f"{ottla_topic}-dead"
    ottla_broker.create_topic(dead)
    found = read(ottla_broker, ottla_topic, file, "a STRING", deadLetterTopic=dead)
    assert [row["value"] for row in found] == [{"a": "good"}, None]
    letters = ottla_broker.records(dead)
    assert [letter.value for letter in letters] == [value for value, _ in records[1:6]]
    reasons = [dict(letter.headers)["ottla.dead.letter.reason"] for letter in letters]
    assert reasons[0] == b"the value is not encrypted: the record has no header ottla.encryption"
    assert reasons[-1] == b"the value, once it is decrypted, does not fit the schema"
    assert not any(b"secret" in (value or b"") for letter in letters for _, value in letter.headers)
    assert read(ottla_broker, dead, file)[-1]["value"] is None, "they were encrypted for another topic"
    again = read(ottla_broker, dead, file, ottla__encryption__topic=ottla_topic)
    assert again[-1]["value"] == b"secret text that is no JSON"


def test_a_bad_row_fails_the_query_if_that_was_asked_for(
    ottla_broker: Broker, ottla_topic: str, file: Path
) -> None:
    produce_bad(ottla_broker, ottla_topic, file)
    with pytest.raises(
        ClientError, match=r"The value at offset 1 of .* cannot be read: the value is not encrypted"
    ):
        read(ottla_broker, ottla_topic, file, badRows="fail")


def test_keys_that_cannot_be_had_fail_the_query_and_make_no_bad_rows(
    ottla_broker: Broker, ottla_topic: str, file: Path
) -> None:
    write(ottla_broker, ottla_topic, pa.record_batch({"value": ["one"]}), file)
    encrypted_columns._shared_decryptor.cache_clear()
    file.chmod(0o644)
    with pytest.raises(ClientError, match="open to others"):
        read(ottla_broker, ottla_topic, file)
    encrypted_columns._shared_encryptor.cache_clear()
    with pytest.raises(ClientError, match="open to others"):
        write(ottla_broker, ottla_topic, pa.record_batch({"value": ["one"]}), file)


def test_nothing_is_encrypted_twice(ottla_broker: Broker, ottla_topic: str, file: Path) -> None:
    headers = pa.array([[{"key": HEADER, "value": b"x"}]], HEADERS_TYPE)
    with pytest.raises(ClientError, match="already encrypted"):
        write(ottla_broker, ottla_topic, pa.record_batch({"value": ["x"], "headers": headers}), file)


def test_a_data_key_serves_more_than_one_task(ottla_broker: Broker, ottla_topic: str, file: Path) -> None:
    for text in ("one", "two"):
        write(ottla_broker, ottla_topic, pa.record_batch({"value": [text]}), file)
    first, second = ottla_broker.records(ottla_topic)
    assert first.headers == second.headers


def test_options_carry_where_keys_are_and_no_key(file: Path) -> None:
    given = {"kafka.bootstrap.servers": "x:1", "ottla.encryption.keys": f"file:{file}"}
    reading = parse_options({**given, "subscribe": "t"})
    writing = parse_sink_options({**given, "topic": "t", "ottla.encryption.fields": "a, b.c"})
    assert writing.encryption is not None
    assert writing.encryption.fields == ("a", "b.c")
    [key] = json.loads(file.read_text())["keys"]["default"].values()
    for each in (reading, writing):
        assert key not in repr(each)
        assert key.encode() not in pickle.dumps(each)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"ottla.encryption.plain": "allow"}, "needs ottla.encryption.keys"),
        ({"ottla.encryption.topic": "t"}, "needs ottla.encryption.keys"),
        (
            {"ottla.encryption.keys": "/x", "ottla.encryption.plain": "maybe"},
            "must be refuse or allow, not 'maybe'",
        ),
        ({"ottla.encryption.keys": "keys.json"}, "with its whole path, not 'keys.json'"),
        ({"ottla.encryption.keys": "gcp:x"}, "ottla.encryption.keys cannot be used: Keys are in file:"),
        ({"ottla.encryption.key": "x"}, "Did you mean 'ottla.encryption.keys'"),
    ],
)
def test_options_for_reading_that_make_no_sense_are_refused(options: dict[str, str], sentence: str) -> None:
    with pytest.raises(OptionError, match=sentence):
        parse_options({"kafka.bootstrap.servers": "x:1", "subscribe": "t", **options})


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"ottla.encryption.fields": "a"}, "needs ottla.encryption.keys"),
        ({"ottla.encryption.keys": "/x", "ottla.encryption.fields": " , "}, "is empty"),
        ({"ottla.encryption.keys": "/x", "ottla.encryption.fields": "a,a.b"}, "is a part of 'a'"),
        ({"ottla.encryption.keys": "vault:https://h?token=hvs.x#k"}, "A token does not belong here"),
    ],
)
def test_options_for_writing_that_make_no_sense_are_refused(options: dict[str, str], sentence: str) -> None:
    with pytest.raises(OptionError, match=sentence) as raised:
        parse_sink_options({"kafka.bootstrap.servers": "x:1", "topic": "t", **options})
    assert "hvs.x" not in str(raised.value)
