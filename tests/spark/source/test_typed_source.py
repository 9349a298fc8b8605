"""Promise: decoding JSON at the source matches `from_json`, and a bad row is never lost."""

from __future__ import annotations

import json
import random
import string
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("pyspark")

from confluent_kafka import Producer

from ottla.testing import Broker
from tests.spark.sink.test_sink import consume

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from tests.spark_fixtures import Source

SCHEMA = """
    name STRING, tiny TINYINT, small SMALLINT, whole INT, large BIGINT, single FLOAT, double DOUBLE, truth BOOLEAN,
    price DECIMAL(10, 2), day DATE, at TIMESTAMP, local TIMESTAMP_NTZ, data BINARY, tags ARRAY<STRING>,
    place STRUCT<lat: DOUBLE, lon: DOUBLE, days: ARRAY<DATE>>, items ARRAY<STRUCT<id: INT, at: TIMESTAMP>>
"""
MAP_SCHEMA = "counts MAP<STRING, INT>, nested MAP<STRING, STRUCT<x: INT>>, name STRING"

#: Texts that are JSON of SCHEMA in unusual notation.
ODD = [
    "{}",
    ' \n\t{ "name" :\r\n "a" , "whole":\n1 } \n',
    '{"name": null, "tags": null, "place": null, "items": [null, {}]}',
    '{"name": "one", "name": "two"}',
    '{"unknown": [1, {"name": "x"}], "name": "y", "Name": "z"}',
    '{"name": 12}',
    '{"name": 1.50}',
    '{"name": true, "tags": [1, "b", null, {"c":  2.0}]}',
    '{"name": {"a": [1,  2]}}',
    r'{"name": "\u00fc \ud83d\ude00 \" \\ \/ \b\f\n\r\t \u0000"}',
    '{"name": "grüß 😀 𝄞"}',
    '{"tiny": -128, "small": 32767, "whole": -2147483648, "large": 9223372036854775807}',
    '{"whole": -0, "single": 0.1, "large": 0}',
    '{"name": -0.0}',
    '{"name": 1E+2}',
    '{"name": 1e-7}',
    '{"name": 12345678.125}',
    '{"name": 0.0010}',
    '{"name": 123456789012345678901234567890}',
    '{"name": [{"a": "\\u00fc\\n\\""}, [ ], NaN, false, null]}',
    r'{"name": "\ud83d"}',
    '{"price": "1,000.5"}',
    '{"price": "1e2"}',
    '{"single": 1e300}',
    '{"single": 16777217}',
    '{"at": "2024-05-06T07"}',
    '{"at": "2024-05-06T07:08:09+0530"}',
    '{"at": " 2024-05-06T07:08:09.  "}',
    '{"at": "2024-05-06T07:08:09GMT+2"}',
    '{"double": 1e10, "single": 1E-3}',
    '{"double": 12345678901234567890123, "single": 7}',
    '{"double": NaN}',
    '{"double": "NaN", "single": "Infinity"}',
    '{"double": "-Infinity"}',
    '{"double": 1e999}',
    '{"price": 1.5}',
    '{"price": 1.255}',
    '{"price": -1.005}',
    '{"price": "12.30"}',
    '{"price": 1e3}',
    '{"price": 12345678.99}',
    '{"day": "2024-2-3"}',
    '{"day": "2024-02-29T12:00:00"}',
    '{"day": "2024"}',
    '{"day": "2024-07"}',
    '{"at": "2024-05-06T07:08:09.123456Z"}',
    '{"at": "2024-05-06 07:08:09"}',
    '{"at": "2024-05-06"}',
    '{"at": "2024-05-06T07:08"}',
    '{"at": "2024-5-6 7:8:9.5+02:00"}',
    '{"at": "2024-05-06T07:08:09.123456789-03:30"}',
    '{"at": "2024-05-06 07:08:09 Europe/Berlin"}',
    '{"at": "1969-12-31T23:59:59.999999Z"}',
    '{"at": "2024-05-06T07:08:09 UTC"}',
    '{"at": 1700000000}',
    '{"local": "2024-05-06T07:08:09.1"}',
    '{"local": "2024-05-06"}',
    '{"data": "AAEC/w=="}',
    '{"data": ""}',
    '{"tags": [], "items": [], "place": {}}',
    '{"place": {"lat": 1, "lon": 2.5, "days": ["2024-01-01", null]}}',
    '{"items": [{"id": 1, "at": "2024-05-06 07:08:09"}, {"id": null}]}',
]

#: Texts that are not JSON, or do not match SCHEMA.
BAD = [
    b"",
    b"  ",
    b"null",
    b"12",
    b'"text"',
    b"[]",
    b"{",
    b'{"name": "a"',
    b'{"name": "a",}',
    b'{"name": "a"} {"name": "b"}',
    b'{"name": "a"}{',
    b'{"name": "a"}}',
    b"{'name': 'a'}",
    b'{name: "a"}',
    b'{"name": "a\nb"}',
    b'{"name": "\xff"}',
    b'\x0b{"name": "a"}',
    b'{"whole": 1.0}',
    b'{"whole": "1"}',
    b'{"whole": 3000000000}',
    b'{"tiny": 128}',
    b'{"large": 9223372036854775808}',
    b'{"whole": 01}',
    b'{"truth": "true"}',
    b'{"double": "1.5"}',
    b'{"price": 123456789.99}',
    b'{"day": "yesterday"}',
    b'{"day": "2024-05-06x"}',
    b'{"local": "2024-05-06T07:08:09Z"}',
    b'{"local": 5}',
    b'{"at": 1.5}',
    b'{"at": "2024-05-06T"}',
    b'{"price": " 1"}',
    b'{"price": "1_0"}',
    b'{"double": +1}',
    b'{"day": "2024-02-30"}',
    b'{"at": "2024-13-01"}',
    b'{"at": ""}',
    b'{"data": "***"}',
    b'{"tags": "a"}',
    b'{"place": [1, 2]}',
    b'{"items": {"id": 1}}',
]


def produce(broker: Broker, topic: str, values: list[Any]) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
    for value in values:
        producer.produce(topic, value, partition=0)
    assert producer.flush(30) == 0


def some_row(random_: random.Random) -> dict[str, Any]:
    """Return any fields of SCHEMA with any values."""

    def text() -> str:
        return "".join(random_.choices(string.printable + "äß😀\u2028\x7f", k=random_.randrange(12)))

    def day() -> str:
        return (
            f"{random_.randrange(1900, 2100):04}-{random_.randrange(1, 13):02}-{random_.randrange(1, 29):02}"
        )

    def moment(zone: str = "") -> str:
        hours, minutes, seconds = random_.randrange(24), random_.randrange(60), random_.randrange(60)
        fraction = random_.choice(["", f".{random_.randrange(10**6)}"])
        return f"{day()}{random_.choice('T ')}{hours:02}:{minutes:02}:{seconds:02}{fraction}{zone}"

    def number() -> float:
        return random_.choice(
            [random_.random(), random_.gauss(0, 1e9), float(random_.randrange(10**6)), 1e-300]
        )

    everything: dict[str, Any] = {
        "name": text(),
        "tiny": random_.randrange(-128, 128),
        "small": random_.randrange(-(2**15), 2**15),
        "whole": random_.randrange(-(2**31), 2**31),
        "large": random_.randrange(-(2**63), 2**63),
        "single": number(),
        "double": number(),
        "truth": random_.random() < 0.5,
        "price": round(random_.uniform(-(10**6), 10**6), 2),
        "day": day(),
        "at": moment(random_.choice(["", "Z", "+05:30"])),
        "local": moment(),
        "data": "AAEC",
        "tags": [text() for _ in range(random_.randrange(3))],
        "place": {"lat": number(), "days": [day()]},
        "items": [{"id": number_, "at": moment("Z")} for number_ in range(random_.randrange(3))],
        text() or "other": [text(), {"name": 1}],
    }
    chosen = random_.sample(list(everything), random_.randrange(len(everything)))
    return {name: random_.choice([everything[name]] * 5 + [None]) for name in chosen}


def by_from_json(records: DataFrame, schema: str) -> DataFrame:
    from pyspark.sql import functions as F

    return records.select("offset", F.from_json(F.col("value").cast("string"), schema).alias("value"))


def texts(frame: DataFrame) -> list[Any]:
    """Return the values in order as text, in which NaN equals itself and different floats differ."""
    return [str(row.value) for row in frame.orderBy("offset").select("value").collect()]


@pytest.mark.parametrize("together", [True, False], ids=["among many", "alone"])
def test_odd_json_is_what_from_json_makes_of_it(
    source: Source, ottla_broker: Broker, ottla_topic: str, together: bool
) -> None:
    plain = [json.dumps({"name": "plain", "whole": number}).encode() for number in range(20)]
    values: list[bytes] = []
    for text in ODD:
        values += [text.encode(), *(plain if together else [])]
    produce(ottla_broker, ottla_topic, values)
    typed = source.batch(subscribe=ottla_topic, valueFormat="json", valueSchema=SCHEMA)
    expected = texts(by_from_json(source.batch(subscribe=ottla_topic), SCHEMA))
    found = texts(typed)
    assert [
        (value, *pair) for value, *pair in zip(values, found, expected, strict=True) if pair[0] != pair[1]
    ] == []
    assert typed.where("badValue IS NOT NULL").count() == 0


@pytest.mark.parametrize("seed", range(2))
def test_random_json_is_what_from_json_makes_of_it(
    source: Source, ottla_broker: Broker, ottla_topic: str, seed: int
) -> None:
    random_ = random.Random(seed)
    values = [
        json.dumps(
            some_row(random_), ensure_ascii=random_.random() < 0.5, indent=random_.choice([None, 1])
        ).encode()
        for _ in range(400)
    ]
    produce(ottla_broker, ottla_topic, values)
    found = texts(source.batch(subscribe=ottla_topic, valueFormat="json", valueSchema=SCHEMA))
    expected = texts(by_from_json(source.batch(subscribe=ottla_topic), SCHEMA))
    assert [
        (value, *pair) for value, *pair in zip(values, found, expected, strict=True) if pair[0] != pair[1]
    ] == []


def test_maps_and_arrays_are_read_too(source: Source, ottla_broker: Broker, ottla_topic: str) -> None:
    for text in (
        '{"counts": {"a": 1, "b": null}, "nested": {"k": {"x": 1}}, "name": "m"}',
        '{"counts": {}}',
        "{}",
    ):
        ottla_broker.produce(ottla_topic, text.encode())
    found = texts(source.batch(subscribe=ottla_topic, valueFormat="json", valueSchema=MAP_SCHEMA))
    assert found == texts(by_from_json(source.batch(subscribe=ottla_topic), MAP_SCHEMA))
    ottla_broker.produce(ottla_topic, b"[1, 2]")
    arrays = source.batch(subscribe=ottla_topic, valueFormat="json", valueSchema="ARRAY<INT>")
    assert texts(arrays.where("offset = 3")) == ["[1, 2]"]


def test_what_cannot_be_read_is_null_and_its_bytes_are_kept(
    source: Source, ottla_broker: Broker, ottla_topic: str
) -> None:
    good = [json.dumps({"whole": number}).encode() for number in range(3)]
    values: list[bytes | None] = []
    for bad in BAD:
        values += [*good, bad]
    values.append(None)
    produce(ottla_broker, ottla_topic, values)
    typed = source.batch(subscribe=ottla_topic, valueFormat="json", valueSchema=SCHEMA)
    rows = typed.orderBy("offset").select("value.whole", "value", "badValue").collect()
    taken = [value for value, row in zip(values, rows, strict=True) if value in BAD and row.value is not None]
    assert taken == []
    assert [bytes(row.badValue) for row in rows if row.badValue is not None] == BAD
    assert [row.whole for row in rows if row.value is not None] == [0, 1, 2] * len(BAD)
    assert (rows[-1].value, rows[-1].badValue) == (None, None)


def test_keys_are_decoded_too(source: Source, ottla_broker: Broker, ottla_topic: str) -> None:
    ottla_broker.produce(ottla_topic, b"text", key=b'{"id": 7}')
    ottla_broker.produce(ottla_topic, b"text", key=b"seven")
    typed = source.batch(subscribe=ottla_topic, valueFormat="text", keyFormat="json", keySchema="id INT")
    rows = typed.orderBy("offset").select("key.id", "value", "badKey").collect()
    assert [tuple(row) for row in rows] == [(7, "text", None), (None, "text", bytearray(b"seven"))]


def test_a_bad_row_can_end_the_query_which_names_it(
    source: Source, ottla_broker: Broker, ottla_topic: str
) -> None:
    for value in (b'{"whole": 1}', b'{"whole": "many"}'):
        ottla_broker.produce(ottla_topic, value)
    typed = source.batch(subscribe=ottla_topic, valueFormat="json", valueSchema="whole INT", badRows="fail")
    assert typed.columns[-1] == "timestampType"
    with pytest.raises(
        Exception, match=rf'offset 1 of {ottla_topic}-0 cannot be read: whole is "many", not int\.'
    ):
        typed.collect()


def test_dead_letters_say_where_they_are_from_and_why(
    source: Source, ottla_broker: Broker, ottla_topic: str, checkpoint: str
) -> None:
    dead = f"{ottla_topic}-dead"
    ottla_broker.create_topic(dead)
    ottla_broker.produce(ottla_topic, b'{"whole": 1}')
    ottla_broker.produce(
        ottla_topic, b"broken", key=b"k", headers=[("trace", b"1")], timestamp=1_700_000_000_000
    )
    typed = source.stream(
        subscribe=ottla_topic,
        startingOffsets="earliest",
        valueFormat="json",
        valueSchema="whole INT",
        deadLetterTopic=dead,
    )
    found: list[Any] = []
    writer = typed.writeStream.foreachBatch(
        lambda rows, _: found.extend(rows.select("value.whole").collect())
    )
    writer.option("checkpointLocation", checkpoint).trigger(availableNow=True).start().awaitTermination()
    assert [row.whole for row in found] == [1]
    [letter] = consume(ottla_broker, dead, partitions=1)
    assert (letter.key(), letter.value()) == (b"k", b"broken")
    assert dict(letter.headers()) == {
        "trace": b"1",
        "ottla.dead.letter.error": b"BadValue",
        "ottla.dead.letter.reason": b"not JSON at character 0",
        "ottla.dead.letter.topic": ottla_topic.encode(),
        "ottla.dead.letter.partition": b"0",
        "ottla.dead.letter.offset": b"1",
        "ottla.dead.letter.timestamp": b"1700000000000",
    }


def test_timestamps_without_a_zone_are_of_the_zone_that_is_named(
    spark: SparkSession, source: Source, ottla_broker: Broker, ottla_topic: str
) -> None:
    moments = [
        "2024-03-31 02:30:00",
        "2024-10-27 02:30:00",
        "2024-07-01 12:00:00",
    ]  # in no hour, in two, in one
    for moment in moments * 5:
        ottla_broker.produce(ottla_topic, json.dumps({"at": moment}).encode())
    schema = "at TIMESTAMP"
    spark.conf.set("spark.sql.session.timeZone", "Europe/Berlin")
    try:
        typed = source.batch(
            subscribe=ottla_topic, valueFormat="json", valueSchema=schema, timeZone="Europe/Berlin"
        )
        expected = texts(by_from_json(source.batch(subscribe=ottla_topic), schema))
        assert texts(typed) == expected
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"valueFormat": "json"}, "valueFormat=json needs valueSchema"),
        (
            {"valueFormat": "xml"},
            "valueFormat must be json, avro, protobuf, jsonschema, text or raw, not 'xml'",
        ),
        ({"valueSchema": "a INT"}, "valueSchema has no meaning without valueFormat=json"),
        ({"keyFormat": "text", "keySchema": "a INT"}, "keySchema has no meaning without keyFormat=json"),
        ({"badRows": "fail"}, "badRows has no meaning without valueFormat=json"),
        ({"valueFormat": "json", "valueSchema": "a INT", "badRows": "drop"}, "badRows must be keep or fail"),
        (
            {"valueFormat": "json", "valueSchema": "a INT", "badRows": "fail", "deadLetterTopic": "d"},
            "badRows and deadLetterTopic contradict",
        ),
        ({"valueFormat": "json", "valueSchema": "a INT NOT NULL"}, "value.a is NOT NULL"),
        (
            {"valueFormat": "json", "valueSchema": "a MAP<INT, INT>"},
            "value.a is a map whose keys are not strings",
        ),
        (
            {"valueFormat": "json", "valueSchema": "a INTERVAL DAY"},
            "value.a cannot be read from JSON as interval",
        ),
        ({"valueFormat": "json", "valueSchema": "a INT", "timeZone": "Mars"}, "timeZone must be a time zone"),
        ({"valueFormat": "json", "valueSchema": "a WHAT"}, "WHAT"),
    ],
    ids=lambda value: "" if isinstance(value, str) else ", ".join(value),
)
def test_options_that_make_no_sense_are_refused(
    source: Source, ottla_topic: str, options: dict[str, str], sentence: str
) -> None:
    with pytest.raises(Exception, match=sentence):
        source.batch(subscribe=ottla_topic, **options).collect()
