"""Columns inferred from schemas, records of several versions, and unreadable records."""

from __future__ import annotations

from tests.sql.cases.case import Case, In, Out, Registered
from tests.sql.cases.registered.schemas import (
    ALL,
    AVRO,
    JSON_SR,
    PROTOBUF,
    avro,
    field,
    json_schema,
    proto,
    user,
)

_GROUP = "schema inference"
_ANN, _BOB = {"name": "ann", "userAge": 7}, {"name": "bob"}


def _latest(form: str) -> Case:
    return Case(
        f"columns from the latest version, {form}",
        f"CREATE STREAM s WITH (kafka_topic='s', partitions=1, value_format='{form}');"
        "CREATE STREAM o WITH (value_format='JSON') AS SELECT name, userage + 1 AS next FROM s;",
        [In("s", None, _ANN, 10), In("s", None, _BOB, 20)],
        [Out("O", None, {"NAME": "ann", "NEXT": 8}, 10), Out("O", None, {"NAME": "bob", "NEXT": None}, 20)],
        grouped=_GROUP,
        registry=True,
        schemas=(user(form),),
        telling=form == AVRO,
    )


def _by_id(form: str) -> Case:
    return Case(
        f"VALUE_SCHEMA_ID keeps the case of names, {form}",
        f"CREATE STREAM s (k INT KEY) WITH (kafka_topic='s', partitions=1, value_format='{form}', value_schema_id=1);"
        "CREATE STREAM o WITH (value_format='JSON') AS SELECT k, `userAge` AS age FROM s;",
        [In("s", 1, _ANN, 10)],
        [Out("O", 1, {"AGE": 7}, 10)],
        grouped=_GROUP,
        registry=True,
        schemas=(user(form, "elsewhere"),),
        registers=(("s-value", "userAge"),),
    )


def _declared(form: str) -> Case:
    return Case(
        f"columns that are given: some, in any case, {form}",
        "CREATE STREAM s (k INT KEY, userage BIGINT, more STRING) "
        f"WITH (kafka_topic='s', partitions=1, value_format='{form}');"
        "CREATE STREAM o WITH (value_format='JSON') AS SELECT * FROM s;",
        [In("s", 1, _ANN, 10), In("s", 2, None, 20)],
        [Out("O", 1, {"USERAGE": 7, "MORE": None}, 10), Out("O", 2, None, 20)],
        grouped=_GROUP,
        registry=True,
        schemas=(user(form),),
    )


_VERSIONS = {
    AVRO: tuple(
        avro("s-value", *fields)
        for fields in (
            (field("a", "int"),),
            (field("a", "int"), field("b", "string", default="new")),
            (
                field("a", "long"),
                field("b", "string", default="new"),
                field("c", ["null", "int"], default=None),
            ),
        )
    ),
    PROTOBUF: tuple(
        proto("s-value", f"message M {{ {fields} }}")
        for fields in (
            "int32 a = 1;",
            "int32 a = 1; optional string b = 2;",
            "int64 a = 1; optional string b = 2; optional int32 c = 3;",
        )
    ),
    JSON_SR: tuple(
        json_schema(
            "s-value",
            {"type": "object", "properties": dict(properties), "additionalProperties": False},
        )
        for properties in (
            [("a", {"type": "integer"})],
            [("a", {"type": "integer"}), ("b", {"type": "string"})],
            [("a", {"type": "integer"}), ("b", {"type": "string"}), ("c", {"type": "integer"})],
        )
    ),
}


def _evolved(form: str) -> Case:
    """Return a case with two schema versions. ksqlDB ignores the reader's schema, so b of version 1 is null in any
    format.
    """
    old = "new" if form == AVRO else None
    return Case(
        f"records of three versions, {form}",
        f"CREATE STREAM s (k INT KEY) WITH (kafka_topic='s', partitions=1, value_format='{form}');"
        "CREATE STREAM o WITH (value_format='JSON') AS SELECT * FROM s;",
        [
            In("s", 1, {"a": 1}, 10, version=1),
            In("s", 2, {"a": 2, "b": "x"}, 20, version=2),
            In("s", 3, {"a": 3, "b": "y", "c": 4}, 30, version=3),
        ],
        [
            Out("O", 1, {"A": 1, "B": old, "C": None}, 10),
            Out("O", 2, {"A": 2, "B": "x", "C": None}, 20),
            Out("O", 3, {"A": 3, "B": "y", "C": 4}, 30),
        ],
        grouped=_GROUP,
        different="a field that an older version does not have has the default of its schema" if old else "",
        registry=True,
        schemas=_VERSIONS[form],
        telling=form == AVRO,
    )


_MAP_ENTRY = {
    "type": "array",
    "items": {
        "type": "record",
        "name": "Entry",
        "connect.internal.type": "MapEntry",
        "fields": [field("key", ["null", "string"]), field("value", ["null", "int"])],
    },
}


def _written_back(form: str) -> Case:
    return Case(
        f"columns from a schema are written with it, {form}",
        f"CREATE STREAM s (k INT KEY) WITH (kafka_topic='s', partitions=1, value_format='{form}');"
        "CREATE STREAM i (k INT KEY, name STRING, userage INT) WITH (kafka_topic='i', partitions=1);"
        "INSERT INTO s SELECT * FROM i;",
        [
            In("i", 1, {"name": "ann", "userage": 7}, 10),
            "INSERT INTO s (rowtime, k, name) VALUES (20, 2, 'bob');",
        ],
        [
            Out("s", 1, {"name": "ann", "userAge": 7}, 10),
            Out("s", 2, {"name": "bob", "userAge": None}, 20),
        ],
        grouped=_GROUP,
        registry=True,
        schemas=(user(form),),
    )


CASES: list[Case] = [
    *map(_latest, ALL),
    *map(_written_back, ALL),
    Case(
        "one of several messages, by its name",
        "CREATE STREAM s (k INT KEY) WITH (kafka_topic='s', partitions=1, value_format='PROTOBUF', "
        "value_schema_full_name='acme.Refund');"
        "CREATE STREAM o WITH (value_format='JSON') AS SELECT * FROM s;",
        [
            "INSERT INTO s (rowtime, k, amount) VALUES (10, 1, 7);",
            # The record carries the type's position in the file; another type is not part of this stream.
            In("s", 2, b"\x00\x00\x00\x00\x01\x02\x02\x08\x08", 20),
            In("s", 3, b"\x00\x00\x00\x00\x01\x00\x08\x09", 30),
        ],
        [Out("O", 1, {"AMOUNT": 7}, 10), Out("O", 2, {"AMOUNT": 8}, 20)],
        grouped=_GROUP,
        registry=True,
        schemas=(
            proto(
                "s-value",
                "package acme; message Order { int32 id = 1; } message Refund { int32 amount = 1; }",
            ),
        ),
    ),
    Case(
        "a column that ALTER adds is registered",
        "CREATE STREAM s (k INT KEY, a INT) WITH (kafka_topic='s', partitions=1, value_format='AVRO');"
        "ALTER STREAM s ADD COLUMN b STRING; CREATE STREAM o WITH (value_format='JSON') AS SELECT * FROM s;",
        ["INSERT INTO s (rowtime, k, a, b) VALUES (10, 1, 2, 'x');"],
        [Out("s", 1, {"A": 2, "B": "x"}, 10), Out("O", 1, {"A": 2, "B": "x"}, 10)],
        grouped=_GROUP,
        registry=True,
        registers=(("s-value", '"name":"B"'),),
    ),
    *map(_by_id, ALL),
    *map(_declared, ALL),
    *map(_evolved, ALL),
    Case(
        "types of AVRO",
        "CREATE STREAM s (k INT KEY) WITH (kafka_topic='s', partitions=1, value_format='AVRO');"
        "CREATE STREAM o WITH (value_format='JSON') AS SELECT * FROM s;",
        [
            In(
                "s",
                1,
                {
                    "f": 1.5,
                    "e": "RED",
                    "x": b"\x00\x01",
                    "t": 1_000_000,
                    "ms": 2000,
                    "u": ("int", 3),
                    "entries": [{"key": "p", "value": 1}],
                    "m": {"q": 2},
                    "r": {"deep": [1, 2]},
                },
                10,
            )
        ],
        [
            Out(
                "O",
                1,
                {
                    "F": 1.5,
                    "E": "RED",
                    "X": "AAE=",
                    "T": 1000,
                    "MS": 2000,
                    "ENTRIES": {"p": 1},
                    "M": {"q": 2},
                    "R": {"DEEP": [1, 2]},
                },
                10,
            )
        ],
        grouped=_GROUP,
        different="timestamp-micros is a TIMESTAMP, and not a BIGINT; a union of several types is left out, and not "
        "a STRUCT",
        registry=True,
        schemas=(
            avro(
                "s-value",
                field("f", "float"),
                field("e", {"type": "enum", "name": "Colour", "symbols": ["RED", "BLUE"]}),
                field("x", {"type": "fixed", "name": "Two", "size": 2}),
                field("t", {"type": "long", "logicalType": "timestamp-micros"}),
                field("ms", {"type": "long", "logicalType": "timestamp-millis"}),
                field("u", ["string", "int", "null"]),
                field("entries", _MAP_ENTRY),
                field("m", {"type": "map", "values": "int"}),
                field(
                    "r",
                    {
                        "type": "record",
                        "name": "Inner",
                        "fields": [field("deep", {"type": "array", "items": ["null", "int"]})],
                    },
                ),
            ),
        ),
    ),
    Case(
        "types of PROTOBUF",
        "CREATE STREAM s (k INT KEY) WITH (kafka_topic='s', partitions=1, value_format='PROTOBUF');"
        "CREATE STREAM o WITH (value_format='JSON') AS SELECT * FROM s;",
        [
            In(
                "s",
                1,
                {
                    "a": 4_000_000_000,
                    "b": 7,
                    "c": "BLUE",
                    "d": 5,
                    "e": 1.5,
                    "m": {"3": "x"},
                    "n": {"y": [1, 2]},
                    "t": "1970-01-01T00:00:01Z",
                },
                10,
            )
        ],
        [
            Out(
                "O",
                1,
                {
                    "A": 4_000_000_000,
                    "B": 7,
                    "C": "BLUE",
                    "D": 5,
                    "E": 1.5,
                    "M": {"3": "x"},
                    "N": {"Y": [1, 2]},
                    "T": 1000,
                    "P": None,
                    "Q": None,
                },
                10,
            )
        ],
        grouped=_GROUP,
        different="the members of a oneof are columns, and not fields of a STRUCT",
        registry=True,
        schemas=(
            proto(
                "s-value",
                'import "google/protobuf/timestamp.proto"; import "google/protobuf/wrappers.proto";\n'
                "message M { enum Colour { RED = 0; BLUE = 1; } message In { repeated int32 y = 1; } uint32 a = 1; "
                "uint64 b = 2; Colour c = 3; google.protobuf.Int32Value d = 4; float e = 5; map<int32, string> m = 6; "
                "In n = 7; google.protobuf.Timestamp t = 8; oneof choice { string p = 9; int32 q = 10; } }",
            ),
        ),
    ),
    Case(
        "types of JSON_SR",
        "CREATE STREAM s (k INT KEY) WITH (kafka_topic='s', partitions=1, value_format='JSON_SR');"
        "CREATE STREAM o WITH (value_format='JSON') AS SELECT * FROM s;",
        [In("s", 1, {"i": 7, "n": 1.5, "l": ["x"], "o": {"Deep": True}, "t": 1000, "r": {"v": "w"}}, 10)],
        [
            Out(
                "O",
                1,
                {"I": 7, "N": 1.5, "L": ["x"], "O": {"DEEP": True}, "T": 1000, "R": {"V": "w"}},
                10,
            )
        ],
        grouped=_GROUP,
        registry=True,
        schemas=(
            json_schema(
                "s-value",
                {
                    "type": "object",
                    "definitions": {"R": {"type": "object", "properties": {"v": {"type": "string"}}}},
                    "properties": {
                        "i": {"type": "integer"},
                        "n": {"type": "number"},
                        "l": {"type": "array", "items": {"type": "string"}},
                        "o": {"type": "object", "properties": {"Deep": {"type": "boolean"}}},
                        "t": {
                            "type": "integer",
                            "title": "org.apache.kafka.connect.data.Timestamp",
                            "connect.type": "int64",
                        },
                        "r": {"$ref": "#/definitions/R"},
                    },
                },
            ),
        ),
    ),
    Case(
        "a value that is no record, AVRO",
        "CREATE STREAM s (k INT KEY) "
        "WITH (kafka_topic='s', partitions=1, value_format='AVRO', wrap_single_value=false);"
        "CREATE STREAM o WITH (value_format='JSON') AS SELECT k, rowval FROM s;",
        [In("s", 1, 7, 10)],
        [Out("O", 1, {"ROWVAL": 7}, 10)],
        grouped=_GROUP,
        registry=True,
        schemas=(Registered("s-value", '"int"'),),
    ),
    Case(
        "records that cannot be read are left out",
        "CREATE STREAM s (k INT KEY, a INT) WITH (kafka_topic='s', partitions=1, value_format='AVRO');"
        "CREATE STREAM o WITH (value_format='JSON') AS SELECT * FROM s;",
        [
            In("s", 1, b'{"A": 1}', 10),
            In("s", 2, b"", 20),
            In("s", 3, b"\x00\x00\x00\x00\x63\x02\x02", 30),
            In("s", 4, b"\x00\x00\x00\x00\x01\x02", 40),
            In("s", 5, {"A": 5}, 50),
            In("s", 6, None, 60),
        ],
        [Out("O", 5, {"A": 5}, 50), Out("O", 6, None, 60)],
        grouped=_GROUP,
        registry=True,
    ),
]
