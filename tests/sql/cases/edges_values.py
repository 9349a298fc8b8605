"""Values that are read and written like ksqlDB does: names in any case, delimiters, decimals, overflow and defaults."""

from __future__ import annotations

import json
from collections.abc import Iterator

from tests.sql.cases.case import Case, In, Out, Registered

_NAMES = "JSON names in any case"
_SPELLINGS = ("town", "TOWN", "Town", "toWN", "tOwN")
_TYPED = {
    "STRING": "Prague",
    "INT": 7,
    "BIGINT": 1 << 40,
    "DOUBLE": 2.5,
    "BOOLEAN": True,
    "DECIMAL(4, 2)": 12.25,
    "ARRAY<INT>": [1, 2],
    "MAP<STRING, INT>": {"Key": 1},
    "STRUCT<town INT>": {"TOWN": 3},
}


def _spelled() -> Iterator[Case]:
    for kind, value in _TYPED.items():
        yield Case(
            kind,
            f"CREATE STREAM s (k INT KEY, town {kind}) WITH (kafka_topic='s', partitions=1);"
            "CREATE STREAM o AS SELECT * FROM s;",
            [In("s", 1, {name: value}, number) for number, name in enumerate(_SPELLINGS)],
            [Out("O", 1, {"TOWN": value}, number) for number in range(len(_SPELLINGS))],
            grouped=_NAMES,
        )
    for outer in ("place", "Place"):
        for inner in _SPELLINGS:
            yield Case(
                f"nested {outer}.{inner}",
                "CREATE STREAM s (k INT KEY, place STRUCT<town STRING, at ARRAY<STRUCT<lat INT>>>) "
                "WITH (kafka_topic='s', partitions=1); CREATE STREAM o AS SELECT k, place->town, place->at FROM s;",
                [In("s", 1, {outer: {inner: "Prague", "At": [{"Lat": 1}, {"LAT": 2}, {"lat": 3}]}}, 5)],
                [Out("O", 1, {"TOWN": "Prague", "AT": [{"LAT": 1}, {"LAT": 2}, {"LAT": 3}]}, 5)],
                grouped=_NAMES,
            )


_MORE_NAMES = [
    Case(
        "a quoted name has one spelling",
        "CREATE STREAM s (k INT KEY, `Town` STRING, zip INT) WITH (kafka_topic='s', partitions=1);"
        "CREATE STREAM o AS SELECT * FROM s;",
        [In("s", 1, {"Town": "a", "Zip": 1}), In("s", 1, {"TOWN": "b", "zIP": 2}, 1)],
        [Out("O", 1, {"Town": "a", "ZIP": 1}), Out("O", 1, {"Town": None, "ZIP": 2}, 1)],
        grouped=_NAMES,
    ),
    Case(
        "two columns that differ in case",
        "CREATE STREAM s (k INT KEY, `town` STRING, town STRING) WITH (kafka_topic='s', partitions=1);"
        "CREATE STREAM o AS SELECT * FROM s;",
        [In("s", 1, {"town": "a", "TOWN": "b"}), In("s", 1, {"town": "c", "Town": "d"}, 1)],
        [Out("O", 1, {"town": "a", "TOWN": "b"}), Out("O", 1, {"town": "c", "TOWN": "d"}, 1)],
        grouped=_NAMES,
    ),
    Case(
        "in a table",
        "CREATE TABLE t (k INT PRIMARY KEY, town STRING) WITH (kafka_topic='t', partitions=1);"
        "CREATE TABLE o AS SELECT * FROM t;",
        [In("t", 1, {"Town": "a"}), In("t", 2, {"tOWN": "b"}, 1)],
        [Out("O", 1, {"TOWN": "a"}), Out("O", 2, {"TOWN": "b"}, 1)],
        grouped=_NAMES,
    ),
    Case(
        "in groups",
        "CREATE STREAM s (k INT KEY, town STRING, n INT) WITH (kafka_topic='s', partitions=1);"
        "CREATE TABLE o AS SELECT town, SUM(n) AS n FROM s GROUP BY town;",
        [In("s", 1, {"Town": "a", "N": 1}), In("s", 1, {"TOWN": "a", "n": 2}, 1)],
        [Out("O", "a", {"N": 1}), Out("O", "a", {"N": 3}, 1)],
        grouped=_NAMES,
    ),
    Case(
        "a timestamp column",
        "CREATE STREAM s (k INT KEY, at BIGINT) WITH (kafka_topic='s', partitions=1, timestamp='at');"
        "CREATE STREAM o AS SELECT * FROM s;",
        [In("s", 1, {"At": 77}, 5)],
        [Out("O", 1, {"AT": 77}, 77)],
        grouped=_NAMES,
    ),
]

# Delimiters

_DELIMITERS = "delimiters"
_MARKS = {"|": "|", ";": ";", "$": "$", "TAB": "\t", "SPACE": " ", "x": "x"}


def _delimited() -> Iterator[Case]:
    for name, mark in _MARKS.items():
        yield Case(
            f"a sink inherits {name}",
            f"CREATE STREAM s (k INT KEY, a INT, b INT) WITH (kafka_topic='s', partitions=1, value_format='DELIMITED', "
            f"value_delimiter='{name}'); CREATE STREAM o AS SELECT * FROM s;",
            [In("s", 1, f"1{mark}2", 5)],
            [Out("O", 1, f"1{mark}2", 5)],
            grouped=_DELIMITERS,
        )
        yield Case(
            f"key with {name} and value with a comma",
            f"CREATE STREAM s (k INT KEY, l INT KEY, a INT, b INT) WITH (kafka_topic='s', partitions=1, "
            f"format='DELIMITED', key_delimiter='{name}'); CREATE STREAM o AS SELECT * FROM s;",
            [In("s", f"1{mark}2", "3,4", 5)],
            [Out("O", f"1{mark}2", "3,4", 5)],
            grouped=_DELIMITERS,
        )
        yield Case(
            f"key and value with different delimiters, {name}",
            f"CREATE STREAM s (k INT KEY, l INT KEY, a INT, b INT) WITH (kafka_topic='s', partitions=1, "
            f"key_format='DELIMITED', value_format='DELIMITED', key_delimiter='#', value_delimiter='{name}');"
            "CREATE STREAM o AS SELECT * FROM s;",
            [In("s", "1#2", f"3{mark}4", 5)],
            [Out("O", "1#2", f"3{mark}4", 5)],
            grouped=_DELIMITERS,
        )
        yield Case(
            f"WITH overrides {name}",
            f"CREATE STREAM s (k INT KEY, a INT, b INT) WITH (kafka_topic='s', partitions=1, value_format='DELIMITED', "
            f"value_delimiter='{name}'); CREATE STREAM o WITH (value_delimiter='!') AS SELECT * FROM s;",
            [In("s", 1, f"1{mark}2", 5)],
            [Out("O", 1, "1!2", 5)],
            grouped=_DELIMITERS,
        )


_MORE_DELIMITERS = [
    Case(
        "a sink in JSON inherits none",
        "CREATE STREAM s (k INT KEY, a INT, b INT) WITH (kafka_topic='s', partitions=1, value_format='DELIMITED', "
        "value_delimiter='|'); CREATE STREAM o WITH (value_format='JSON') AS SELECT * FROM s;",
        [In("s", 1, "1|2", 5)],
        [Out("O", 1, {"A": 1, "B": 2}, 5)],
        grouped=_DELIMITERS,
    ),
    Case(
        "a source in JSON has none",
        "CREATE STREAM s (k INT KEY, a INT, b INT) WITH (kafka_topic='s', partitions=1);"
        "CREATE STREAM o WITH (value_format='DELIMITED') AS SELECT * FROM s;",
        [In("s", 1, {"a": 1, "b": 2}, 5)],
        [Out("O", 1, "1,2", 5)],
        grouped=_DELIMITERS,
    ),
    Case(
        "a join inherits that of its first source",
        "CREATE STREAM s (k INT KEY, a INT) WITH (kafka_topic='s', partitions=1, value_format='DELIMITED', "
        "value_delimiter='|'); CREATE TABLE t (k INT PRIMARY KEY, b INT) WITH (kafka_topic='t', partitions=1, "
        "value_format='DELIMITED', value_delimiter=';'); CREATE STREAM o AS SELECT s.k AS k, a, b FROM s "
        "JOIN t ON s.k = t.k;",
        [In("t", 1, "2", 1), In("s", 1, "1", 5)],
        [Out("O", 1, "1|2", 5)],
        grouped=_DELIMITERS,
    ),
    Case(
        "groups inherit it",
        "CREATE STREAM s (k INT KEY, a INT, b INT) WITH (kafka_topic='s', partitions=1, value_format='DELIMITED', "
        "value_delimiter='|'); CREATE TABLE o AS SELECT k, COUNT(*) AS c, SUM(a) AS d FROM s GROUP BY k;",
        [In("s", 1, "1|2", 5)],
        [Out("O", 1, "1|1", 5)],
        grouped=_DELIMITERS,
    ),
]

# Decimals in DELIMITED

_TEXT_DECIMALS = {
    "DECIMAL(21, 19)": ["10.1234512345123451234", "0", "1", "-0.0000000000000000001"],
    "DECIMAL(18, 16)": ["0", "0.0000000000000001", "12", "-0.5"],
    "DECIMAL(9, 7)": ["0", "0.0000001", "0.000001", "-0.0000009"],
    "DECIMAL(8, 6)": ["0", "0.000001", "1.5"],
    "DECIMAL(4, 2)": ["0", "-1.2", "99.99"],
    "DECIMAL(5, 0)": ["0", "12345"],
}


def _decimal(kind: str, given: list[str]) -> Case:
    """Numbers are written in full, without an exponent."""
    scale = int(kind.rstrip(")").split(",")[1])

    def written(number: str) -> str:
        whole, _, fraction = number.partition(".")
        shown = f"{whole}.{fraction.ljust(scale, '0')}" if scale else whole
        return f'"{shown}"' if shown.startswith("-") else shown

    return Case(
        kind,
        f"CREATE STREAM s (k INT KEY, d {kind}) WITH (kafka_topic='s', partitions=1, value_format='DELIMITED');"
        "CREATE STREAM o AS SELECT * FROM s;",
        [In("s", 1, each, number) for number, each in enumerate(given)],
        [Out("O", 1, written(each), number) for number, each in enumerate(given)],
        grouped="DECIMAL in DELIMITED",
    )


# Overflow

_SUMS = "SUM of decimals"


def _sum(
    name: str, kind: str, given: list[object], outputs: list[object], fails: str | None, query: str
) -> Case:
    return Case(
        name,
        f"CREATE {'TABLE' if 'FROM t' in query else 'STREAM'} {'t' if 'FROM t' in query else 's'} "
        f"(k INT {'PRIMARY KEY' if 'FROM t' in query else 'KEY'}, g INT, d {kind}) "
        f"WITH (kafka_topic='s', partitions=1); CREATE TABLE o AS {query};",
        [
            In("s", 1 + number * ("FROM t" in query), {"g": 1, "d": each}, number)
            for number, each in enumerate(given)
        ],
        [Out("O", 1, {"D": each}, number) for number, each in enumerate(outputs)],
        grouped=_SUMS,
        fails=fails,
    )


_STREAM_SUM = "SELECT g, SUM(d) AS d FROM s GROUP BY g"
_TABLE_SUM = "SELECT g, SUM(d) AS d FROM t GROUP BY g"
_HAVING_SUM = _STREAM_SUM + " HAVING COUNT(*) > 0"
_OVERFLOW = "Numeric field overflow"
_SUM_CASES = [
    _sum(f"{where}: {name}", kind, given, outputs, fails, query)
    for where, query in (("stream", _STREAM_SUM), ("table", _TABLE_SUM), ("HAVING", _HAVING_SUM))
    for name, kind, given, outputs, fails in (
        ("fits", "DECIMAL(4, 2)", [12.34, 50.0, None, -1.5], [12.34, 62.34, 62.34, 60.84], None),
        ("too large", "DECIMAL(4, 2)", [90.0, 10.0], [], _OVERFLOW),
        ("too small", "DECIMAL(4, 2)", [-90.0, -10.0], [], _OVERFLOW),
        ("whole numbers", "DECIMAL(2, 0)", [99, 1], [], _OVERFLOW),
        ("up to the last number", "DECIMAL(4, 2)", [90.0, 9.99], [90.0, 99.99], None),
        ("38 digits", "DECIMAL(38, 0)", [int("9" * 38), 1], [], _OVERFLOW),
    )
]

# Avro

_AVRO = "AVRO values as declared"


def _bare(kind: str, schema: object, given: object, read: object) -> Case:
    return Case(
        f"unwrapped {schema} as {kind}",
        f"CREATE STREAM s (k INT KEY, v {kind}) WITH (kafka_topic='s', partitions=1, value_format='AVRO', "
        "wrap_single_value=false); CREATE STREAM o WITH (value_format='JSON', wrap_single_value=true) AS "
        "SELECT * FROM s;",
        [In("s", 1, given, 5)],
        [Out("O", 1, {"V": read}, 5)],
        grouped=_AVRO,
        registry=True,
        schemas=(Registered("s-value", json.dumps(schema)),),
    )


def _wrapped(kind: str, schema: object, given: object, read: object) -> Case:
    record = {"type": "record", "name": "R", "fields": [{"name": "V", "type": schema}]}
    return Case(
        f"a field {schema} as {kind}",
        f"CREATE STREAM s (k INT KEY, v {kind}) WITH (kafka_topic='s', partitions=1, value_format='AVRO');"
        "CREATE STREAM o WITH (value_format='JSON') AS SELECT * FROM s;",
        [In("s", 1, {"V": given}, 5)],
        [Out("O", 1, {"V": read}, 5)],
        grouped=_AVRO,
        registry=True,
        schemas=(Registered("s-value", json.dumps(record)),),
    )


_COERCED: list[tuple[str, object, object, object]] = [
    ("STRING", "int", 10, "10"),
    ("STRING", "long", 1 << 40, "1099511627776"),
    ("STRING", "double", 1.5, "1.5"),
    ("STRING", "boolean", True, "true"),
    ("STRING", "string", "x", "x"),
    ("BIGINT", "int", 10, 10),
    ("BIGINT", "long", 10, 10),
    ("DOUBLE", "float", 1.5, 1.5),
    ("DOUBLE", "double", 1.5, 1.5),
    ("BOOLEAN", "boolean", False, False),
    ("INT", "int", 10, 10),
    ("STRING", ["null", "int"], 10, "10"),
    ("ARRAY<BIGINT>", {"type": "array", "items": "int"}, [1, 2], [1, 2]),
    ("ARRAY<STRING>", {"type": "array", "items": "int"}, [1, 2], ["1", "2"]),
    ("MAP<STRING, BIGINT>", {"type": "map", "values": "int"}, {"a": 1}, {"a": 1}),
]


def _defaults() -> Iterator[Case]:
    for kind, avro, default, json_value in (
        ("INT", "int", 7, 7),
        ("BIGINT", "long", 8, 8),
        ("DOUBLE", "double", 1.5, 1.5),
        ("BOOLEAN", "boolean", True, True),
        ("STRING", "string", "none", "none"),
        ("ARRAY<INT>", {"type": "array", "items": "int"}, [], []),
    ):
        record = {
            "type": "record",
            "name": "R",
            "fields": [
                {"name": "V", "type": avro, "default": default},
                {"name": "W", "type": ["null", "int"]},
            ],
        }
        yield Case(
            f"null becomes the default of {avro}",
            f"CREATE STREAM s (k INT KEY, v {kind}, w INT) WITH (kafka_topic='s', partitions=1);"
            "CREATE STREAM o WITH (value_format='AVRO', value_schema_id=1) AS SELECT * FROM s;",
            [In("s", 1, {"w": 1}, 5), In("s", 2, {}, 6)],
            [Out("O", 1, {"V": json_value, "W": 1}, 5), Out("O", 2, {"V": json_value, "W": None}, 6)],
            grouped=_AVRO,
            registry=True,
            schemas=(Registered("any", json.dumps(record)),),
        )


CASES = [
    *_spelled(),
    *_MORE_NAMES,
    *_delimited(),
    *_MORE_DELIMITERS,
    *(_decimal(*each) for each in _TEXT_DECIMALS.items()),
    *_SUM_CASES,
    *(_bare(*each) for each in _COERCED),
    *(_wrapped(*each) for each in _COERCED),
    *_defaults(),
]
