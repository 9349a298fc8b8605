"""Values in AVRO, PROTOBUF and JSON_SR: every type, registered schemas, wrapping, conversion."""

from __future__ import annotations

import json

from tests.sql.cases.case import Case, In, Out, Registered
from tests.sql.cases.registered.schemas import ALL, AVRO, JSON_SR, PROTOBUF

_GROUP = "value formats with schemas"
_J = "CREATE STREAM s (k INT KEY, a INT, b STRING) WITH (kafka_topic='s', partitions=1);"

_TYPES = (
    "a INT, b BIGINT, c DOUBLE, d BOOLEAN, e STRING, f BYTES, g DECIMAL(6, 2), h TIMESTAMP, i DATE, j TIME, "
    "l ARRAY<STRING>, m MAP<STRING, INT>, n STRUCT<x INT, y ARRAY<STRUCT<z STRING>>>"
)
_ROW = {
    "A": -1,
    "B": 9007199254740993,
    "C": 1.5,
    "D": True,
    "E": "é",
    "F": "AAH/",
    "G": -12.34,
    "H": 1704164645006,
    "I": 19756,
    "J": 3723004,
    "L": ["p", "q"],
    "M": {"k": 1},
    "N": {"X": 1, "Y": [{"Z": "z"}]},
}
_NULLS = dict.fromkeys(_ROW)
#: Types without null in Protobuf.
_DEFAULTS = _NULLS | {"A": 0, "B": 0, "C": 0.0, "D": False, "E": "", "F": "", "L": [], "M": {}}
_MARKS = {
    AVRO: "io.confluent.ksql.avro_schemas",
    PROTOBUF: "message ConnectDefault1",
    JSON_SR: "connect.index",
}


def _types(form: str) -> Case:
    """Return cases for every type from JSON to the format, and back to JSON."""
    nulls = _NULLS if form != PROTOBUF else _DEFAULTS
    return Case(
        f"every type, {form}",
        f"CREATE STREAM s (k INT KEY, {_TYPES}) WITH (kafka_topic='s', partitions=1);"
        f"CREATE STREAM o WITH (value_format='{form}') AS SELECT * FROM s;"
        "CREATE STREAM j WITH (value_format='JSON') AS SELECT * FROM o;",
        [In("s", 1, _ROW, 10), In("s", 2, {}, 20)],
        [Out("O", 1, _ROW, 10), Out("O", 2, nulls, 20), Out("J", 1, _ROW, 10), Out("J", 2, nulls, 20)],
        grouped=_GROUP,
        registry=True,
        registers=(("O-value", _MARKS[form]),),
        telling=form == PROTOBUF,
    )


def _inserted(form: str) -> Case:
    """Return a case in which INSERT INTO … VALUES writes a row that a query reads."""
    return Case(
        f"INSERT INTO … VALUES, {form}",
        f"CREATE STREAM s (k INT KEY, {_TYPES}) WITH (kafka_topic='s', partitions=1, value_format='{form}');"
        "CREATE STREAM j WITH (value_format='JSON') AS SELECT * FROM s;",
        [
            "INSERT INTO s (rowtime, k, a, b, c, d, e, f, g, h, i, j, l, m, n) VALUES (10, 1, -1, 9007199254740993, "
            "1.5, true, 'é', 'AAH/', -12.34, '2024-01-02T03:04:05.006', '2024-02-03', '01:02:03.004', ARRAY['p', 'q'], "
            "MAP('k' := 1), STRUCT(x := 1, y := ARRAY[STRUCT(z := 'z')]));"
        ],
        [Out("s", 1, _ROW, 10), Out("J", 1, _ROW, 10)],
        grouped=_GROUP,
        registry=True,
        registers=(("s-value", _MARKS[form]),),
    )


def _bare(form: str) -> Case:
    return Case(
        f"one column that is the value, {form}",
        _J + f"CREATE STREAM o WITH (value_format='{form}', wrap_single_value=false) AS SELECT k, b FROM s;"
        "CREATE STREAM j WITH (value_format='JSON') AS SELECT * FROM o;",
        [In("s", 1, {"b": "x"}, 10), In("s", 2, {"b": None}, 20)],
        [Out("O", 1, "x", 10), Out("O", 2, None, 20), Out("J", 1, {"B": "x"}, 10), Out("J", 2, None, 20)],
        grouped=_GROUP,
        registry=True,
        registers=(("O-value", '"string"'),),
    )


_ORDER = json.dumps(
    {
        "type": "record",
        "name": "Order",
        "fields": [
            {"name": "A", "type": "int"},
            {"name": "title", "type": "string", "default": "none"},
        ],
    }
)

CASES: list[Case] = [
    *map(_types, ALL),
    *map(_inserted, ALL),
    _bare(AVRO),
    _bare(JSON_SR),
    Case(
        "from one to the next",
        "CREATE STREAM s (k INT KEY, a INT, b STRING) WITH (kafka_topic='s', partitions=1, value_format='AVRO');"
        "CREATE STREAM p WITH (value_format='PROTOBUF') AS SELECT * FROM s WHERE a > 0;"
        "CREATE STREAM q WITH (value_format='JSON_SR') AS SELECT k, a * 2 AS a, UCASE(b) AS b FROM p;",
        [In("s", 1, {"A": 1, "B": "x"}, 10), In("s", 2, {"A": -1, "B": "y"}, 20)],
        [Out("P", 1, {"A": 1, "B": "x"}, 10), Out("Q", 1, {"A": 2, "B": "X"}, 10)],
        grouped=_GROUP,
        registry=True,
        telling=True,
    ),
    Case(
        "what a query makes has the format of its source",
        "CREATE STREAM s (k INT KEY, a INT) WITH (kafka_topic='s', partitions=1, value_format='AVRO');"
        "CREATE STREAM o AS SELECT k, a + 1 AS a FROM s;",
        [In("s", 1, {"A": 1}, 10), In("s", 2, None, 20)],
        [Out("O", 1, {"A": 2}, 10), Out("O", 2, None, 20)],
        grouped=_GROUP,
        registry=True,
        registers=(("O-value", '"name":"A","type":["null","int"],"default":null'),),
    ),
    Case(
        "the name of the schema, AVRO",
        _J + "CREATE STREAM o WITH (value_format='AVRO', value_schema_full_name='com.acme.Order') AS "
        "SELECT k, STRUCT(x := a) AS n FROM s;",
        [In("s", 1, {"a": 7}, 10)],
        [Out("O", 1, {"N": {"X": 7}}, 10)],
        grouped=_GROUP,
        registry=True,
        registers=(("O-value", '"name":"Order","namespace":"com.acme"'), ("O-value", '"name":"Order_N"')),
    ),
    Case(
        "the name of the schema, PROTOBUF",
        _J + "CREATE STREAM o WITH (value_format='PROTOBUF', value_schema_full_name='com.acme.Order') AS "
        "SELECT k, a FROM s;",
        [In("s", 1, {"a": 7}, 10)],
        [Out("O", 1, {"A": 7}, 10)],
        grouped=_GROUP,
        registry=True,
        registers=(("O-value", "package com.acme;"), ("O-value", "message Order {")),
    ),
    *(
        Case(
            f"nulls of PROTOBUF, {how}",
            _J
            + f"CREATE STREAM o WITH (value_format='PROTOBUF', value_protobuf_nullable_representation='{how}') AS "
            "SELECT * FROM s; CREATE STREAM j WITH (value_format='JSON') AS SELECT * FROM o;",
            [In("s", 1, {"a": 0, "b": None}, 10), In("s", 2, {"b": ""}, 20)],
            [
                Out("O", 1, {"A": 0, "B": None}, 10),
                Out("O", 2, {"A": None, "B": ""}, 20),
                Out("J", 1, {"A": 0, "B": None}, 10),
                Out("J", 2, {"A": None, "B": ""}, 20),
            ],
            grouped=_GROUP,
            registry=True,
            registers=(("O-value", word),),
        )
        for how, word in (
            ("OPTIONAL", "optional int32 A = 1"),
            ("WRAPPER", "google.protobuf.Int32Value A = 1"),
        )
    ),
    Case(
        "PROTOBUF_NOSR",
        "CREATE STREAM s (k INT KEY, a INT, b STRING) "
        "WITH (kafka_topic='s', partitions=1, value_format='PROTOBUF_NOSR');"
        "CREATE STREAM o AS SELECT k, a + 1 AS a, b FROM s;"
        "CREATE STREAM j WITH (value_format='JSON') AS SELECT * FROM s;",
        [In("s", 1, b"\x08\x07\x12\x01x", 10), In("s", 2, b"", 20)],
        [
            Out("O", 1, b"\x08\x08\x12\x01x", 10),
            Out("O", 2, b"\x08\x01\x12\x00", 20),
            Out("J", 1, {"A": 7, "B": "x"}, 10),
            Out("J", 2, {"A": 0, "B": ""}, 20),
        ],
        grouped=_GROUP,
    ),
    Case(
        "VALUE_SCHEMA_ID of what a query makes: other fields have their defaults",
        _J + "CREATE STREAM o WITH (value_format='AVRO', value_schema_id=1) AS SELECT k, a FROM s;",
        [In("s", 1, {"a": 7}, 10)],
        [Out("O", 1, {"A": 7, "title": "none"}, 10)],
        grouped=_GROUP,
        registry=True,
        schemas=(Registered("elsewhere", _ORDER),),
        registers=(("O-value", '"name":"Order"'),),
    ),
    Case(
        "INSERT INTO … SELECT",
        _J + "CREATE STREAM o (k INT KEY, a INT) WITH (kafka_topic='o', partitions=1, value_format='AVRO');"
        "INSERT INTO o SELECT k, a FROM s WHERE a > 1;",
        [In("s", 1, {"a": 1}, 10), In("s", 2, {"a": 2}, 20)],
        [Out("o", 2, {"A": 2}, 20)],
        grouped=_GROUP,
        registry=True,
    ),
]
