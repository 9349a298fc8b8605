"""Keys in AVRO, PROTOBUF and JSON_SR."""

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
)

_GROUP = "key formats with schemas"
_S = "CREATE STREAM s (k INT KEY, a INT, b STRING) WITH (kafka_topic='s', partitions=1);"


def _wrapped(form: str, key: object) -> object:
    """Wrap a key, because a Protobuf message always has a field."""
    return {"B": key} if form == PROTOBUF else key


def _partitioned(form: str) -> Case:
    return Case(
        f"PARTITION BY, {form}",
        _S + f"CREATE STREAM o WITH (key_format='{form}') AS SELECT * FROM s PARTITION BY b;"
        "CREATE STREAM j WITH (key_format='KAFKA') AS SELECT b, a FROM o;",
        [In("s", 1, {"a": 1, "b": "x"}, 10), In("s", 2, {"a": 2, "b": None}, 20)],
        [
            Out("O", _wrapped(form, "x"), {"K": 1, "A": 1}, 10),
            Out("O", None, {"K": 2, "A": 2}, 20),
            Out("J", "x", {"A": 1}, 10),
            Out("J", None, {"A": 2}, 20),
        ],
        grouped=_GROUP,
        registry=True,
        registers=(
            ("O-key", {AVRO: '"string"', PROTOBUF: "string B = 1", JSON_SR: '{"type":"string"}'}[form]),
        ),
        telling=form == AVRO,
    )


def _several(form: str) -> Case:
    return Case(
        f"several columns, {form}",
        _S + f"CREATE STREAM o WITH (key_format='{form}') AS SELECT * FROM s PARTITION BY a, b;"
        "CREATE STREAM j WITH (key_format='JSON') AS SELECT * FROM o;",
        [In("s", 1, {"a": 7, "b": "x"}, 10)],
        [Out("O", {"A": 7, "B": "x"}, {"K": 1}, 10), Out("J", {"A": 7, "B": "x"}, {"K": 1}, 10)],
        grouped=_GROUP,
        registry=True,
    )


def _counted(form: str) -> Case:
    return Case(
        f"GROUP BY, {form}",
        _S + f"CREATE TABLE o WITH (key_format='{form}') AS SELECT b, COUNT(*) AS n FROM s GROUP BY b;",
        [In("s", 1, {"a": 1, "b": "x"}, 10), In("s", 2, {"a": 2, "b": "x"}, 20)],
        [Out("O", _wrapped(form, "x"), {"N": 1}, 10), Out("O", _wrapped(form, "x"), {"N": 2}, 20)],
        grouped=_GROUP,
        registry=True,
    )


def _inferred(form: str, schema: Registered, name: str, key: object) -> Case:
    return Case(
        f"a column from the schema, {form}",
        f"CREATE STREAM s WITH (kafka_topic='s', partitions=1, format='{form}');"
        f"CREATE STREAM o WITH (format='JSON') AS SELECT {name}, v FROM s;",
        [In("s", key, {"v": 7}, 10), In("s", None, {"v": 8}, 20)],
        [Out("O", 5, {"V": 7}, 10), Out("O", None, {"V": 8}, 20)],
        grouped=_GROUP,
        registry=True,
        schemas=(
            schema,
            {
                AVRO: avro("s-value", field("v", "int")),
                PROTOBUF: proto("s-value", "message V { int32 v = 1; }"),
                JSON_SR: json_schema("s-value", {"type": "object", "properties": {"v": {"type": "integer"}}}),
            }[form],
        ),
    )


CASES: list[Case] = [
    *map(_partitioned, ALL),
    *map(_several, ALL),
    *map(_counted, ALL),
    _inferred(AVRO, Registered("s-key", '"int"'), "rowkey", 5),
    _inferred(JSON_SR, json_schema("s-key", {"type": "integer"}), "rowkey", 5),
    _inferred(PROTOBUF, proto("s-key", "message K { int32 id = 1; }"), "id", {"id": 5}),
    Case(
        "a record is one column, AVRO",
        "CREATE STREAM s (v INT) WITH (kafka_topic='s', partitions=1, key_format='AVRO');"
        "CREATE STREAM o WITH (key_format='KAFKA') AS SELECT rowkey->id AS id, v FROM s PARTITION BY rowkey->id;",
        [In("s", {"id": 5, "region": "eu"}, {"v": 7}, 10)],
        [Out("O", 5, {"V": 7}, 10)],
        grouped=_GROUP,
        registry=True,
        schemas=(avro("s-key", field("id", "int"), field("region", "string")),),
    ),
    Case(
        "a window behind the key, AVRO",
        _S + "CREATE TABLE o WITH (format='AVRO') AS SELECT b, COUNT(*) AS n FROM s "
        "WINDOW TUMBLING (SIZE 10 SECONDS) GROUP BY b;",
        [In("s", 1, {"b": "x"}, 10), In("s", 2, {"b": "x"}, 20_000)],
        [
            Out("O", "x", {"N": 1}, 10, window=(0, 10_000)),
            Out("O", "x", {"N": 1}, 20_000, window=(20_000, 30_000)),
        ],
        grouped=_GROUP,
        registry=True,
    ),
    Case(
        "a windowed source, AVRO",
        _S + "CREATE TABLE w WITH (format='AVRO') AS SELECT b, COUNT(*) AS n FROM s "
        "WINDOW TUMBLING (SIZE 10 SECONDS) GROUP BY b;"
        "CREATE TABLE o WITH (format='JSON') AS SELECT b, n * 2 AS m FROM w;",
        [In("s", 1, {"b": "x"}, 10)],
        [Out("O", "x", {"M": 2}, 10, window=(0, 10_000))],
        grouped=_GROUP,
        registry=True,
    ),
    Case(
        "rows of a table that are deleted, AVRO",
        "CREATE TABLE t (k INT PRIMARY KEY, a INT) WITH (kafka_topic='t', partitions=1, format='AVRO');"
        "CREATE TABLE o AS SELECT k, a + 1 AS a FROM t;",
        ["INSERT INTO t (rowtime, k, a) VALUES (10, 1, 1);", In("t", 1, None, 20)],
        [Out("O", 1, {"A": 2}, 10), Out("O", 1, None, 20)],
        grouped=_GROUP,
        registry=True,
    ),
]
