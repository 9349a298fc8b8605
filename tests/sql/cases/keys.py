"""Keys: their columns and formats."""

from __future__ import annotations

from tests.sql.cases.case import Case, In, Out, refused

_S = "CREATE STREAM s (k STRING KEY, a INT, b STRING) WITH (kafka_topic='s', partitions=1);"
_IN = [In("s", "x", {"a": 1, "b": "p"}, 10), In("s", "y", {"a": 2, "b": "q"}, 20)]
_STRUCT = "CREATE STREAM s (k INT KEY, st STRUCT<town STRING, zip INT>, a INT) WITH (kafka_topic='s', partitions=1);"
_P = "PARTITION BY"


def _typed(kind: str, form: str, key: object, written: object = None) -> Case:
    """Return a case that reads and rewrites a key of one type and format; `written` if the text changes."""
    return Case(
        f"{kind} in {form}",
        f"CREATE STREAM s (k {kind} KEY, a INT) WITH (kafka_topic='s', partitions=1, key_format='{form}');"
        "CREATE STREAM o AS SELECT k, AS_VALUE(k) AS copy, a FROM s;",
        [In("s", key, {"a": 1}, 10), In("s", None, {"a": 2}, 20)],
        [
            Out("O", key if written is None else written, {"COPY": _in_json(kind, key), "A": 1}, 10),
            Out("O", None, {"COPY": None, "A": 2}, 20),
        ],
        grouped="key formats",
    )


def _in_json(kind: str, key: object) -> object:
    if kind == "BYTES":
        return "AQID"
    if isinstance(key, str) and kind in ("INT", "BIGINT", "DATE"):
        return int(key)
    if isinstance(key, str) and (kind == "DOUBLE" or kind.startswith("DECIMAL")):
        return float(key)
    if isinstance(key, str) and kind == "BOOLEAN":
        return key == "true"
    return key


CASES: list[Case] = [
    Case(
        "a column becomes the key",
        _S + "CREATE STREAM o AS SELECT a, k, b FROM s PARTITION BY a;",
        _IN,
        [Out("O", 1, {"K": "x", "B": "p"}, 10), Out("O", 2, {"K": "y", "B": "q"}, 20)],
        grouped=_P,
        telling=True,
    ),
    Case(
        "the key stays the key",
        _S + "CREATE STREAM o AS SELECT * FROM s PARTITION BY k;",
        _IN,
        [Out("O", "x", {"A": 1, "B": "p"}, 10), Out("O", "y", {"A": 2, "B": "q"}, 20)],
        grouped=_P,
    ),
    Case(
        "a column and *: the old key becomes a value",
        _S + "CREATE STREAM o AS SELECT * FROM s PARTITION BY b;",
        _IN,
        [Out("O", "p", {"A": 1, "K": "x"}, 10), Out("O", "q", {"A": 2, "K": "y"}, 20)],
        grouped=_P,
    ),
    Case(
        "an expression and *: a column is made for it",
        _S + "CREATE STREAM o AS SELECT * FROM s PARTITION BY a * 10;"
        "CREATE STREAM p AS SELECT KSQL_COL_0 AS k10, a FROM o;",
        _IN,
        [
            Out("O", 10, {"A": 1, "B": "p", "K": "x"}, 10),
            Out("O", 20, {"A": 2, "B": "q", "K": "y"}, 20),
            Out("P", 10, {"A": 1}, 10),
            Out("P", 20, {"A": 2}, 20),
        ],
        grouped=_P,
    ),
    Case(
        "an expression with a name",
        _S + "CREATE STREAM o AS SELECT UCASE(b) AS big, a FROM s PARTITION BY UCASE(b);",
        _IN,
        [Out("O", "P", {"A": 1}, 10), Out("O", "Q", {"A": 2}, 20)],
        grouped=_P,
    ),
    Case(
        "an expression without a name",
        _S + "CREATE STREAM o AS SELECT a, b, UCASE(b) FROM s PARTITION BY UCASE(b);"
        "CREATE STREAM p AS SELECT KSQL_COL_0, a FROM o;",
        _IN[:1],
        [Out("O", "P", {"A": 1, "B": "p"}, 10), Out("P", "P", {"A": 1}, 10)],
        grouped=_P,
    ),
    Case(
        "a field of a struct",
        _STRUCT + "CREATE STREAM o AS SELECT st->town, k, a FROM s PARTITION BY st->town;"
        "CREATE STREAM p AS SELECT town, a FROM o;",
        [In("s", 1, {"st": {"town": "Brno", "zip": 602}, "a": 5}, 10)],
        [Out("O", "Brno", {"K": 1, "A": 5}, 10), Out("P", "Brno", {"A": 5}, 10)],
        grouped=_P,
    ),
    Case(
        "a field of a struct and *",
        _STRUCT + "CREATE STREAM o AS SELECT * FROM s PARTITION BY st->town;",
        [In("s", 1, {"st": {"town": "Brno", "zip": 602}, "a": 5}, 10)],
        [Out("O", "Brno", {"ST": {"TOWN": "Brno", "ZIP": 602}, "A": 5, "K": 1}, 10)],
        grouped=_P,
    ),
    Case(
        "a value that is null makes a key that is null",
        _S + "CREATE STREAM o AS SELECT b, a FROM s PARTITION BY b;",
        [In("s", "x", {"a": 1}, 10), In("s", "y", {"a": 2, "b": "q"}, 20), In("s", "z", None, 30)],
        [Out("O", None, {"A": 1}, 10), Out("O", "q", {"A": 2}, 20), Out("O", None, None, 30)],
        grouped=_P,
    ),
    Case(
        "COALESCE keeps nulls together",
        _S + "CREATE STREAM o AS SELECT COALESCE(b, 'none') AS c, a FROM s PARTITION BY COALESCE(b, 'none');",
        [In("s", "x", {"a": 1}, 10), In("s", "y", {"a": 2, "b": "q"}, 20)],
        [Out("O", "none", {"A": 1}, 10), Out("O", "q", {"A": 2}, 20)],
        grouped=_P,
    ),
    Case(
        "NULL takes the key away",
        _S + "CREATE STREAM o AS SELECT k, a FROM s PARTITION BY NULL;",
        _IN,
        [Out("O", None, {"K": "x", "A": 1}, 10), Out("O", None, {"K": "y", "A": 2}, 20)],
        grouped=_P,
    ),
    Case(
        "several columns in JSON",
        _S + "CREATE STREAM o WITH (key_format='JSON') AS SELECT a, b, k FROM s PARTITION BY a, b;",
        _IN,
        [Out("O", {"A": 1, "B": "p"}, {"K": "x"}, 10), Out("O", {"A": 2, "B": "q"}, {"K": "y"}, 20)],
        grouped=_P,
        telling=True,
    ),
    Case(
        "several columns, one of them null",
        _S + "CREATE STREAM o WITH (key_format='JSON') AS SELECT a, b, k FROM s PARTITION BY a, b;",
        [In("s", "x", {"a": 1}, 10), In("s", "y", {}, 20)],
        [Out("O", {"A": 1, "B": None}, {"K": "x"}, 10), Out("O", {"A": None, "B": None}, {"K": "y"}, 20)],
        grouped=_P,
    ),
    Case(
        "several columns in parentheses",
        _S + "CREATE STREAM o WITH (key_format='JSON') AS SELECT a, b, k FROM s PARTITION BY (a, b);",
        _IN[:1],
        [Out("O", {"A": 1, "B": "p"}, {"K": "x"}, 10)],
        grouped=_P,
    ),
    Case(
        "several expressions in DELIMITED",
        _S + "CREATE STREAM o WITH (key_format='DELIMITED') AS SELECT a + 1 AS a1, LCASE(k) AS low, b FROM s "
        "PARTITION BY a + 1, LCASE(k);",
        [In("s", "X,Y", {"a": 1, "b": "p"}, 10), In("s", "Z", {"b": "q"}, 20)],
        [Out("O", '2,"x,y"', {"B": "p"}, 10), Out("O", ",z", {"B": "q"}, 20)],
        grouped=_P,
    ),
    Case(
        "several columns and no format: JSON",
        _S + "CREATE STREAM o AS SELECT a, b, k FROM s PARTITION BY a, b;",
        _IN[:1],
        [Out("O", {"A": 1, "B": "p"}, {"K": "x"}, 10)],
        grouped=_P,
        different="ksqlDB asks for a key_format, because KAFKA holds one column",
    ),
    Case(
        "ROWTIME is the key",
        _S + "CREATE STREAM o AS SELECT ROWTIME AS t, a FROM s PARTITION BY ROWTIME;",
        _IN,
        [Out("O", 10, {"A": 1}, 10), Out("O", 20, {"A": 2}, 20)],
        grouped=_P,
    ),
    Case(
        "ROWPARTITION and ROWOFFSET are the key",
        _S + "CREATE STREAM o WITH (key_format='JSON') AS SELECT ROWPARTITION AS p, ROWOFFSET AS q, a FROM s "
        "PARTITION BY ROWPARTITION, ROWOFFSET;",
        _IN,
        [Out("O", {"P": 0, "Q": 0}, {"A": 1}, 10), Out("O", {"P": 0, "Q": 1}, {"A": 2}, 20)],
        grouped=_P,
    ),
    Case(
        "a stream that has no key gets one",
        "CREATE STREAM s (a INT, b STRING) WITH (kafka_topic='s', partitions=1);"
        "CREATE STREAM o AS SELECT * FROM s PARTITION BY a;",
        [In("s", b"whatever", {"a": 1, "b": "p"}, 10), In("s", None, {"a": 2, "b": "q"}, 20)],
        [Out("O", 1, {"B": "p"}, 10), Out("O", 2, {"B": "q"}, 20)],
        grouped=_P,
    ),
    Case(
        "with WHERE",
        _S + "CREATE STREAM o AS SELECT a, b FROM s WHERE b = 'q' PARTITION BY a;",
        _IN,
        [Out("O", 2, {"B": "q"}, 20)],
        grouped=_P,
    ),
    Case(
        "a key with the name of another column",
        _S + "CREATE STREAM o AS SELECT b AS a, k FROM s PARTITION BY b;",
        _IN[:1],
        [Out("O", "p", {"K": "x"}, 10)],
        grouped=_P,
    ),
    Case(
        "the key is copied into the value by AS_VALUE",
        _S + "CREATE STREAM o AS SELECT a, AS_VALUE(a) AS a2 FROM s PARTITION BY a;",
        _IN[:1],
        [Out("O", 1, {"A2": 1}, 10)],
        grouped=_P,
    ),
    Case(
        "quoted names of any spelling",
        "CREATE STREAM s (`Key` STRING KEY, `a-b c.d` INT, `select` STRING) WITH (kafka_topic='s', partitions=1);"
        "CREATE STREAM o AS SELECT *, `a-b c.d` AS `Ünïcode 1` FROM s PARTITION BY `select`;",
        [In("s", "x", {"a-b c.d": 1, "select": "p"}, 10)],
        [Out("O", "p", {"a-b c.d": 1, "Ünïcode 1": 1, "Key": "x"}, 10)],
        grouped=_P,
    ),
    Case(
        "the old key behind the values, in DELIMITED",
        "CREATE STREAM s (k INT KEY, a INT, b STRING) WITH (kafka_topic='s', partitions=1, value_format='DELIMITED');"
        "CREATE STREAM o AS SELECT * FROM s PARTITION BY b;",
        [In("s", 7, "1,p", 10)],
        [Out("O", "p", "1,7", 10)],
        grouped=_P,
    ),
    # Formats
    _typed("INT", "KAFKA", 7),
    _typed("INT", "JSON", 7),
    _typed("INT", "DELIMITED", "7"),
    _typed("BIGINT", "KAFKA", -9_000_000_000),
    _typed("BIGINT", "JSON", -9_000_000_000),
    _typed("BIGINT", "DELIMITED", "-9000000000", '"-9000000000"'),
    _typed("DOUBLE", "KAFKA", -1234.0625),
    _typed("DOUBLE", "JSON", 2.5),
    _typed("DOUBLE", "DELIMITED", "2.5"),
    _typed("STRING", "KAFKA", 'é, "x"'),
    _typed("STRING", "JSON", 'é, "x"'),
    _typed("STRING", "DELIMITED", "plain"),
    _typed("BOOLEAN", "JSON", True),
    _typed("BOOLEAN", "DELIMITED", "true"),
    _typed("DECIMAL(6, 2)", "JSON", 12.34),
    _typed("DECIMAL(6, 2)", "DELIMITED", "12.34"),
    _typed("DATE", "JSON", 18911),
    _typed("TIME", "JSON", 48330000),
    _typed("TIMESTAMP", "JSON", 1625055519446),
    _typed("BYTES", "KAFKA", b"\x01\x02\x03"),
    _typed("BYTES", "JSON", "AQID"),
    _typed("BYTES", "DELIMITED", "AQID"),
    _typed("ARRAY<INT>", "JSON", [1, 2]),
    _typed("STRUCT<a INT, b STRING>", "JSON", {"A": 1, "B": "x"}),
    Case(
        "several columns in JSON",
        "CREATE STREAM s (a INT KEY, b STRING KEY, c INT) WITH (kafka_topic='s', partitions=1, key_format='JSON');"
        "CREATE STREAM o AS SELECT * FROM s;",
        [
            In("s", {"a": 1, "B": "x"}, {"c": 2}, 10),
            In("s", {"a": 3}, {"c": 4}, 20),
            In("s", None, {"c": 5}, 30),
        ],
        [
            Out("O", {"A": 1, "B": "x"}, {"C": 2}, 10),
            Out("O", {"A": 3, "B": None}, {"C": 4}, 20),
            Out("O", None, {"C": 5}, 30),
        ],
        grouped="key formats",
    ),
    Case(
        "several columns in DELIMITED with a delimiter",
        "CREATE STREAM s (a INT KEY, b STRING KEY, c INT) "
        "WITH (kafka_topic='s', partitions=1, key_format='DELIMITED', key_delimiter='|');"
        "CREATE STREAM o AS SELECT a, b, c FROM s;"
        "CREATE STREAM p WITH (key_format='DELIMITED', key_delimiter='TAB') AS SELECT a, b, c FROM s;",
        [In("s", "1|x", {"c": 2}, 10)],
        [Out("O", "1,x", {"C": 2}, 10), Out("P", "1\tx", {"C": 2}, 10)],
        grouped="key formats",
    ),
    Case(
        "one format for key and value",
        "CREATE STREAM s (a INT KEY, b INT, c INT) WITH (kafka_topic='s', partitions=1, format='DELIMITED');"
        "CREATE STREAM o WITH (format='JSON') AS SELECT * FROM s;",
        [In("s", "1", "2,3", 10)],
        [Out("O", 1, {"B": 2, "C": 3}, 10)],
        grouped="key formats",
    ),
    Case(
        "NONE has no key",
        "CREATE STREAM s (b INT) WITH (kafka_topic='s', partitions=1, key_format='NONE');"
        "CREATE STREAM o AS SELECT * FROM s;",
        [In("s", b"ignored", {"b": 2}, 10)],
        [Out("O", None, {"B": 2}, 10)],
        grouped="key formats",
    ),
    Case(
        "a key that cannot be read is left out",
        "CREATE STREAM s (a INT KEY, b INT) WITH (kafka_topic='s', partitions=1);"
        "CREATE STREAM o AS SELECT * FROM s;",
        [In("s", b"abc", {"b": 1}, 10), In("s", 7, {"b": 2}, 20)],
        [Out("O", 7, {"B": 2}, 20)],
        grouped="key formats",
    ),
    Case(
        "a key of JSON that is no JSON is left out",
        "CREATE STREAM s (a INT KEY, b INT) WITH (kafka_topic='s', partitions=1, key_format='JSON');"
        "CREATE STREAM o AS SELECT * FROM s;",
        [In("s", b"{oops", {"b": 1}, 10), In("s", 7, {"b": 2}, 20)],
        [Out("O", 7, {"B": 2}, 20)],
        grouped="key formats",
    ),
    Case(
        "a table keeps rows by a key of several columns",
        "CREATE TABLE t (a INT PRIMARY KEY, b STRING PRIMARY KEY, c INT) "
        "WITH (kafka_topic='t', partitions=1, key_format='JSON');"
        "CREATE TABLE o AS SELECT a, b, c + 1 AS c1 FROM t;",
        [In("t", {"A": 1, "B": "x"}, {"c": 2}, 10), In("t", {"A": 1, "B": "x"}, None, 20)],
        [Out("O", {"A": 1, "B": "x"}, {"C1": 3}, 10), Out("O", {"A": 1, "B": "x"}, None, 20)],
        grouped="key formats",
    ),
    Case(
        "GROUP BY two columns",
        _S + "CREATE TABLE o WITH (key_format='JSON') AS SELECT a, b, COUNT(*) AS n FROM s GROUP BY a, b;",
        [
            In("s", "x", {"a": 1, "b": "p"}, 10),
            In("s", "y", {"a": 1, "b": "p"}, 20),
            In("s", "z", {"a": 1}, 30),
        ],
        [Out("O", {"A": 1, "B": "p"}, {"N": 1}, 10), Out("O", {"A": 1, "B": "p"}, {"N": 2}, 20)],
        grouped="key formats",
    ),
    Case(
        "GROUP BY a struct",
        _STRUCT + "CREATE TABLE o WITH (key_format='JSON') AS SELECT st, COUNT(*) AS n FROM s GROUP BY st;",
        [
            In("s", 1, {"st": {"town": "Brno", "zip": 602}}, 10),
            In("s", 2, {"st": {"zip": 602, "town": "Brno"}}, 20),
        ],
        [
            Out("O", {"TOWN": "Brno", "ZIP": 602}, {"N": 1}, 10),
            Out("O", {"TOWN": "Brno", "ZIP": 602}, {"N": 2}, 20),
        ],
        grouped="key formats",
    ),
    Case(
        "GROUP BY an array element",
        "CREATE STREAM s (k INT KEY, a ARRAY<STRING>) WITH (kafka_topic='s', partitions=1);"
        "CREATE TABLE o AS SELECT a[1] AS first, COUNT(*) AS n FROM s GROUP BY a[1];",
        [In("s", 1, {"a": ["p", "q"]}, 10), In("s", 2, {"a": []}, 20), In("s", 3, {"a": ["p"]}, 30)],
        [Out("O", "p", {"N": 1}, 10), Out("O", "p", {"N": 2}, 30)],
        grouped="key formats",
    ),
    # From ksqlDB's own tests
    Case(
        "a record without a value: only what is made of the old key is known",
        "CREATE STREAM s (k INT KEY, a INT) WITH (kafka_topic='s', partitions=1, format='JSON');"
        "CREATE STREAM o AS SELECT k + 1 AS next, a IS NULL AS void, 7 AS seven, ROWTIME AS at, k FROM s "
        "PARTITION BY k + 1, a IS NULL, 7, ROWTIME;",
        [In("s", 1, {"a": 5}, 10), In("s", 2, None, 20)],
        [
            Out("O", {"NEXT": 2, "VOID": False, "SEVEN": 7, "AT": 10}, {"K": 1}, 10),
            Out("O", {"NEXT": 3, "VOID": None, "SEVEN": 7, "AT": None}, None, 20),
        ],
        grouped=_P,
    ),
    Case(
        "the columns of the key are in the order of PARTITION BY",
        "CREATE STREAM s (k STRING KEY, a INT, b INT) WITH (kafka_topic='s', partitions=1, format='DELIMITED');"
        "CREATE STREAM o AS SELECT a, b, k FROM s PARTITION BY k, a;",
        [In("s", "x", "1,2", 10)],
        [Out("O", "x,1", "2", 10)],
        grouped=_P,
    ),
    Case(
        "by ROWTIME and *",
        _S + "CREATE STREAM o AS SELECT * FROM s PARTITION BY ROWTIME;",
        _IN[:1],
        [Out("O", 10, {"A": 1, "B": "p", "K": "x"}, 10)],
        grouped=_P,
    ),
    Case(
        "an expression in brackets",
        _S + "CREATE STREAM o AS SELECT a + 1 AS n, b FROM s PARTITION BY (a + 1);",
        _IN[:1],
        [Out("O", 2, {"B": "p"}, 10)],
        grouped=_P,
    ),
    Case(
        "a join and *: the pseudo columns are values",
        _S + "CREATE STREAM r (k STRING KEY, c INT) WITH (kafka_topic='r', partitions=1);"
        "CREATE STREAM o AS SELECT * FROM s JOIN r WITHIN 1 MINUTE ON s.k = r.k PARTITION BY c;",
        [_IN[0], In("r", "x", {"c": 9}, 11)],
        [
            Out(
                "O",
                9,
                {"S_A": 1, "S_B": "p", "S_ROWTIME": 10, "S_ROWPARTITION": 0, "S_ROWOFFSET": 0, "S_K": "x"}
                | {"R_ROWTIME": 11, "R_ROWPARTITION": 0, "R_ROWOFFSET": 0, "R_K": "x"},
                11,
            )
        ],
        grouped=_P,
    ),
    Case(
        "a key of two columns that is missing stays missing",
        "CREATE STREAM s (k INT KEY, l INT KEY, a INT) WITH (kafka_topic='s', partitions=1, format='JSON');"
        "CREATE STREAM o AS SELECT * FROM s;",
        [In("s", {"K": None, "L": 2}, {"a": 1}, 10), In("s", None, {"a": 2}, 20)],
        [Out("O", {"K": None, "L": 2}, {"A": 1}, 10), Out("O", None, {"A": 2}, 20)],
        grouped="key formats",
    ),
    refused(
        _P,
        "NULL among others",
        _S + "CREATE STREAM o AS SELECT a, k FROM s PARTITION BY NULL, a;",
        "Cannot PARTITION BY multiple columns including NULL",
    ),
    refused(
        _P,
        "NULL with a key format",
        _S + "CREATE STREAM o WITH (key_format='JSON') AS SELECT a, k FROM s PARTITION BY NULL;",
        "Key format specified for stream without key columns.",
    ),
    # Refused
    refused(
        _P,
        "the key is missing from the SELECT",
        _S + "CREATE STREAM o AS SELECT k, b FROM s PARTITION BY a;",
        "used to build `O` must include the partitioning expression S.A in its projection (eg, SELECT S.A...).",
    ),
    refused(
        _P,
        "another column has the name of the key",
        _S + "CREATE STREAM o AS SELECT b AS a, k FROM s PARTITION BY a;",
        "The key is missing from the SELECT",
    ),
    refused(
        _P,
        "the key is in the SELECT twice",
        _S + "CREATE STREAM o AS SELECT a, a AS a2, k FROM s PARTITION BY a;",
        "contains a key column (`A`) more than once, aliased as: A and A2. Write AS_VALUE(…)",
    ),
    refused(
        _P,
        "of a table",
        "CREATE TABLE t (k INT PRIMARY KEY, a INT) WITH (kafka_topic='t', partitions=1);"
        "CREATE TABLE o AS SELECT a, k FROM t PARTITION BY a;",
        "PARTITION BY of a table is not supported",
    ),
    refused(
        _P,
        "by a column that the SELECT makes",
        _S + "CREATE STREAM o AS SELECT UCASE(b) AS big FROM s PARTITION BY big;",
        "There is no column BIG in S.",
    ),
    refused(
        _P,
        "an aggregate",
        _S + "CREATE STREAM o AS SELECT a FROM s PARTITION BY COUNT(a);",
        "PARTITION BY does not support aggregate functions: COUNT is an aggregate function.",
    ),
    refused(
        _P,
        "a table function",
        _S + "CREATE STREAM o AS SELECT a FROM s PARTITION BY EXPLODE(ARRAY[a]);",
        "PARTITION BY cannot have table functions, and EXPLODE is one.",
    ),
    refused(
        _P,
        "a map",
        "CREATE STREAM s (m MAP<STRING, INT>) WITH (kafka_topic='s', partitions=1);"
        "CREATE STREAM o WITH (key_format='JSON') AS SELECT * FROM s PARTITION BY m;",
        "Key column name: `M`. Column type: MAP<STRING, INTEGER>.",
    ),
    refused(
        "key formats",
        "a stream without its key",
        _S + "CREATE STREAM o AS SELECT a, b FROM s;",
        "used to build `O` must include the key column K in its projection (eg, SELECT K...).",
    ),
    refused(
        "key formats",
        "a key twice without PARTITION BY",
        _S + "CREATE STREAM o AS SELECT k, k AS k2, a FROM s;",
        "contains a key column (`K`) more than once, aliased as: K and K2.",
    ),
    refused(
        "key formats",
        "two columns in KAFKA",
        "CREATE STREAM s (a INT KEY, b INT KEY) WITH (kafka_topic='s', partitions=1, key_format='KAFKA');",
        "The 'KAFKA' format only supports a single field. Got: [",
    ),
    refused(
        "key formats",
        "BOOLEAN in KAFKA",
        "CREATE STREAM s (a BOOLEAN KEY, b INT) WITH (kafka_topic='s', partitions=1);",
        "The 'KAFKA' format does not support type 'BOOLEAN', column: `A`.",
    ),
    refused(
        "key formats",
        "DECIMAL in KAFKA",
        _S
        + "CREATE STREAM o AS SELECT CAST(a AS DECIMAL(4, 2)) AS d, k FROM s PARTITION BY CAST(a AS DECIMAL(4, 2));",
        "The 'KAFKA' format does not support type 'DECIMAL', column: `D`.",
    ),
    refused(
        "key formats",
        "ARRAY in DELIMITED",
        "CREATE STREAM s (a ARRAY<INT> KEY) WITH (kafka_topic='s', partitions=1, key_format='DELIMITED');",
        "The 'DELIMITED' format does not support type 'ARRAY', column: `A`.",
    ),
    refused(
        "key formats",
        "a key in NONE",
        "CREATE STREAM s (a INT KEY) WITH (kafka_topic='s', partitions=1, key_format='NONE');",
        "The 'NONE' format can only be used when no columns are defined. Got: [`A` INTEGER KEY]",
    ),
    refused(
        "key formats",
        "MAP as a key",
        "CREATE STREAM s (a MAP<STRING, INT> KEY) WITH (kafka_topic='s', partitions=1, key_format='JSON');",
        "Key column name: `A`. Column type: MAP<STRING, INTEGER>.",
    ),
    refused(
        "key formats",
        "a MAP within a key",
        "CREATE TABLE s (a STRUCT<m MAP<STRING, INT>> PRIMARY KEY) "
        "WITH (kafka_topic='s', partitions=1, key_format='JSON');",
        "Map keys, including types that contain maps, are not supported",
    ),
    refused(
        "key formats",
        "GROUP BY a MAP",
        "CREATE STREAM s (m MAP<STRING, INT>) WITH (kafka_topic='s', partitions=1);"
        "CREATE TABLE o WITH (key_format='JSON') AS SELECT m, COUNT(*) AS n FROM s GROUP BY m;",
        "Key column name: `M`. Column type: MAP<STRING, INTEGER>.",
    ),
    refused(
        "key formats",
        "a delimiter of two characters",
        "CREATE STREAM s (a INT KEY) WITH (kafka_topic='s', partitions=1, key_format='DELIMITED', key_delimiter='ab');",
        "Delimiter must be a single character or TAB,SPACE",
    ),
    refused(
        "key formats",
        "a delimiter of JSON",
        "CREATE STREAM s (a INT KEY, b INT) WITH (kafka_topic='s', partitions=1, value_delimiter='|');",
        "A delimiter is for the format DELIMITED, and this is JSON.",
    ),
]
