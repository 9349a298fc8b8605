"""Sources: headers, pseudo columns, read-only sources, types, wrapping, ALTER, and values in every format."""

from __future__ import annotations

from tests.sql.cases.case import Case, In, Out, refused

_S = "CREATE STREAM s (k STRING KEY, a INT, b STRING) WITH (kafka_topic='s', partitions=1);"
_T = "CREATE TABLE t (k STRING PRIMARY KEY, a INT) WITH (kafka_topic='t', partitions=1);"
_H = "headers"
_HEADERS = (("x", b"1"), ("y", b"2"), ("x", b"3"), ("z", None))


def _value(kind: str, form: str, value: object, json: object) -> Case:
    """Return a case with a one-column value in a format: its encoded form, and its JSON form."""
    return Case(
        f"{kind} in {form}",
        f"CREATE STREAM s (k INT KEY, v {kind}) WITH (kafka_topic='s', partitions=1, value_format='{form}');"
        "CREATE STREAM o AS SELECT * FROM s; CREATE STREAM j WITH (value_format='JSON') AS SELECT * FROM s;",
        [In("s", 1, value, 10)],
        [Out("O", 1, value, 10), Out("J", 1, {"V": json}, 10)],
        grouped="value formats",
    )


CASES: list[Case] = [
    # Headers
    Case(
        "all of them",
        "CREATE STREAM s (k STRING KEY, a INT, h ARRAY<STRUCT<key STRING, value BYTES>> HEADERS) "
        "WITH (kafka_topic='s', partitions=1); CREATE STREAM o AS SELECT k, h FROM s;",
        [In("s", "x", {"a": 1}, 10, headers=_HEADERS), In("s", "y", {"a": 2}, 20)],
        [
            Out(
                "O",
                "x",
                {
                    "H": [
                        {"KEY": "x", "VALUE": "MQ=="},
                        {"KEY": "y", "VALUE": "Mg=="},
                        {"KEY": "x", "VALUE": "Mw=="},
                        {"KEY": "z", "VALUE": None},
                    ]
                },
                10,
            ),
            Out("O", "y", {"H": []}, 20),
        ],
        grouped=_H,
    ),
    Case(
        "one by its key: the last one counts",
        "CREATE STREAM s (k STRING KEY, x BYTES HEADER('x'), y BYTES HEADER('y'), n BYTES HEADER('none'), "
        "z BYTES HEADER('z')) WITH (kafka_topic='s', partitions=1);"
        "CREATE STREAM o AS SELECT k, FROM_BYTES(x, 'utf8') AS x, FROM_BYTES(y, 'utf8') AS y, n, z FROM s;",
        [In("s", "p", {}, 10, headers=_HEADERS), In("s", "q", {}, 20)],
        [
            Out("O", "p", {"X": "3", "Y": "2", "N": None, "Z": None}, 10),
            Out("O", "q", {"X": None, "Y": None, "N": None, "Z": None}, 20),
        ],
        grouped=_H,
        telling=True,
    ),
    Case(
        "in WHERE",
        "CREATE STREAM s (k STRING KEY, a INT, x BYTES HEADER('x')) WITH (kafka_topic='s', partitions=1);"
        "CREATE STREAM o AS SELECT k, a FROM s WHERE FROM_BYTES(x, 'utf8') = '1';",
        [
            In("s", "p", {"a": 1}, 10, headers=(("x", b"1"),)),
            In("s", "q", {"a": 2}, 20, headers=(("x", b"2"),)),
        ],
        [Out("O", "p", {"A": 1}, 10)],
        grouped=_H,
    ),
    Case(
        "* has them, and they become values",
        "CREATE STREAM s (k STRING KEY, a INT, x BYTES HEADER('x')) WITH (kafka_topic='s', partitions=1);"
        "CREATE STREAM o AS SELECT * FROM s;",
        [In("s", "p", {"a": 1}, 10, headers=(("x", b"1"),))],
        [Out("O", "p", {"A": 1, "X": "MQ=="}, 10)],
        grouped=_H,
    ),
    refused(
        _H,
        "HEADERS of another type",
        "CREATE STREAM s (h ARRAY<STRING> HEADERS) WITH (kafka_topic='s', partitions=1);",
        "line 1, column 18: A column of HEADERS is ARRAY<STRUCT<key STRING, value BYTES>>.",
    ),
    refused(
        _H,
        "HEADER of another type",
        "CREATE STREAM s (h STRING HEADER('x')) WITH (kafka_topic='s', partitions=1);",
        "line 1, column 18: A column of HEADER('x') is BYTES.",
    ),
    refused(
        _H,
        "HEADERS beside HEADER",
        "CREATE STREAM s (h ARRAY<STRUCT<key STRING, value BYTES>> HEADERS, x BYTES HEADER('x')) "
        "WITH (kafka_topic='s', partitions=1);",
        "There is one column of HEADERS, or several of HEADER('…'), not both.",
    ),
    refused(
        _H,
        "HEADER with the same key twice",
        "CREATE STREAM s (x BYTES HEADER('x'), y BYTES HEADER('x')) WITH (kafka_topic='s', partitions=1);",
        "There are two columns of HEADER('x').",
    ),
    refused(
        _H,
        "INSERT of a header",
        "CREATE STREAM s (a INT, x BYTES HEADER('x')) WITH (kafka_topic='s', partitions=1);"
        "INSERT INTO s (a, x) VALUES (1, 'AA==');",
        "Cannot insert into HEADER columns: X.",
    ),
    # Pseudo columns
    Case(
        "ROWTIME, ROWPARTITION and ROWOFFSET",
        _S + "CREATE STREAM o AS SELECT k, ROWTIME AS t, ROWPARTITION AS p, ROWOFFSET AS q FROM s;",
        [In("s", "x", {"a": 1}, 10), In("s", "y", {"a": 2}, 5)],
        [Out("O", "x", {"T": 10, "P": 0, "Q": 0}, 10), Out("O", "y", {"T": 5, "P": 0, "Q": 1}, 5)],
        grouped="pseudo columns",
    ),
    Case(
        "ROWOFFSET in WHERE",
        _S + "CREATE STREAM o AS SELECT k, a FROM s WHERE ROWOFFSET > 0 AND ROWPARTITION = 0;",
        [In("s", "x", {"a": 1}, 10), In("s", "y", {"a": 2}, 20)],
        [Out("O", "y", {"A": 2}, 20)],
        grouped="pseudo columns",
    ),
    Case(
        "ROWTIME in WHERE",
        _S + "CREATE STREAM o AS SELECT k, a FROM s WHERE ROWTIME BETWEEN 15 AND 25;",
        [In("s", "x", {"a": 1}, 10), In("s", "y", {"a": 2}, 20), In("s", "z", {"a": 3}, 30)],
        [Out("O", "y", {"A": 2}, 20)],
        grouped="pseudo columns",
    ),
    Case(
        "ROWPARTITION of a topic with two",
        "CREATE STREAM s (k STRING KEY, a INT) WITH (kafka_topic='s', partitions=2);"
        "CREATE STREAM o WITH (partitions=1) AS SELECT k, ROWPARTITION AS p FROM s;",
        [In("s", "x", {"a": 1}, 10, partition=0), In("s", "y", {"a": 2}, 20, partition=1)],
        [Out("O", "x", {"P": 0}, 10), Out("O", "y", {"P": 1}, 20)],
        grouped="pseudo columns",
    ),
    Case(
        "* does not have them",
        _S + "CREATE STREAM o AS SELECT * FROM s;",
        [In("s", "x", {"a": 1, "b": "p"}, 10)],
        [Out("O", "x", {"A": 1, "B": "p"}, 10)],
        grouped="pseudo columns",
    ),
    *[
        refused(
            "pseudo columns",
            f"{name} as the name of a column",
            f"CREATE STREAM s ({name} BIGINT) WITH (kafka_topic='s', partitions=1);",
            f"line 1, column 18: {name} is a reserved name: no column can have it.",
        )
        for name in ("ROWTIME", "ROWPARTITION", "ROWOFFSET", "WINDOWSTART", "WINDOWEND")
    ],
    refused(
        "pseudo columns",
        "ROWTIME as an alias",
        _S + "CREATE STREAM o AS SELECT k, a AS rowtime FROM s;",
        "ROWTIME is a reserved name: no column can have it.",
    ),
    refused(
        "pseudo columns",
        "ROWTIME without a name",
        _S + "CREATE STREAM o AS SELECT k, ROWTIME FROM s;",
        "ROWTIME is a reserved name: no column can have it.",
    ),
    # Read only
    Case(
        "a stream can be read",
        "CREATE SOURCE STREAM s (k STRING KEY, a INT) WITH (kafka_topic='s', partitions=1);"
        "CREATE STREAM o AS SELECT * FROM s;",
        [In("s", "x", {"a": 1}, 10)],
        [Out("O", "x", {"A": 1}, 10)],
        grouped="CREATE SOURCE",
    ),
    Case(
        "a table can be read",
        "CREATE SOURCE TABLE t (k STRING PRIMARY KEY, a INT) WITH (kafka_topic='t', partitions=1);"
        "CREATE TABLE o AS SELECT * FROM t;",
        [In("t", "x", {"a": 1}, 10), In("t", "x", None, 20)],
        [Out("O", "x", {"A": 1}, 10), Out("O", "x", None, 20)],
        grouped="CREATE SOURCE",
    ),
    refused(
        "CREATE SOURCE",
        "INSERT INTO … VALUES",
        "CREATE SOURCE STREAM s (a INT) WITH (kafka_topic='s', partitions=1); INSERT INTO s VALUES (1);",
        "S is read only, because CREATE SOURCE made it.",
    ),
    refused(
        "CREATE SOURCE",
        "INSERT INTO … SELECT",
        _S + "CREATE SOURCE STREAM r (k STRING KEY, a INT) WITH (kafka_topic='r', partitions=1);"
        "INSERT INTO r SELECT k, a FROM s;",
        "R is read only, because CREATE SOURCE made it.",
    ),
    refused(
        "CREATE SOURCE",
        "DROP … DELETE TOPIC",
        "CREATE SOURCE STREAM s (a INT) WITH (kafka_topic='s', partitions=1); DROP STREAM s DELETE TOPIC;",
        "S is read only: its topic cannot be deleted with it.",
    ),
    refused(
        "CREATE SOURCE",
        "AS SELECT",
        _S + "CREATE SOURCE STREAM o AS SELECT * FROM s;",
        "The result of a query cannot be read-only. Omit SOURCE.",
    ),
    refused(
        "CREATE SOURCE",
        "ALTER",
        "CREATE SOURCE STREAM s (a INT) WITH (kafka_topic='s', partitions=1); ALTER STREAM s ADD COLUMN b INT;",
        "S is read only, because CREATE SOURCE made it.",
    ),
    # Types
    Case(
        "a type stands for what it was made of",
        "CREATE TYPE address AS STRUCT<town STRING, zip INT>;"
        "CREATE TYPE people AS ARRAY<STRUCT<name STRING, home address>>;"
        "CREATE STREAM s (k STRING KEY, home address, who people) WITH (kafka_topic='s', partitions=1);"
        "CREATE STREAM o AS SELECT k, home->town AS town, who[1]->home->zip AS zip FROM s;",
        [In("s", "x", {"home": {"town": "Brno"}, "who": [{"name": "a", "home": {"zip": 602}}]}, 10)],
        [Out("O", "x", {"TOWN": "Brno", "ZIP": 602}, 10)],
        grouped="CREATE TYPE",
    ),
    Case(
        "IF NOT EXISTS keeps the first",
        "CREATE TYPE n AS INT; CREATE TYPE IF NOT EXISTS n AS STRING;"
        "CREATE STREAM s (k STRING KEY, a n) WITH (kafka_topic='s', partitions=1);"
        "CREATE STREAM o AS SELECT k, a + 1 AS b FROM s;",
        [In("s", "x", {"a": 1}, 10)],
        [Out("O", "x", {"B": 2}, 10)],
        grouped="CREATE TYPE",
    ),
    refused(
        "CREATE TYPE",
        "twice",
        "CREATE TYPE n AS INT; CREATE TYPE n AS INT;",
        "Type N exists already, as INTEGER",
    ),
    refused(
        "CREATE TYPE",
        "a type that was dropped",
        "CREATE TYPE n AS INT; DROP TYPE n; CREATE STREAM s (a n) WITH (kafka_topic='s', partitions=1);",
        "column 55: 'n' is not a type; there are BOOLEAN, INTEGER",
    ),
    refused(
        "CREATE TYPE",
        "DROP of one that is not there",
        "DROP TYPE n;",
        "line 1, column 1: There is no type N.",
    ),
    # One column as the whole value
    Case(
        "read without an object",
        "CREATE STREAM s (k STRING KEY, a INT) WITH (kafka_topic='s', partitions=1, wrap_single_value=false);"
        "CREATE STREAM o AS SELECT k, a + 1 AS b FROM s;",
        [In("s", "x", 1, 10), In("s", "y", 7, 20)],
        [Out("O", "x", {"B": 2}, 10), Out("O", "y", {"B": 8}, 20)],
        grouped="WRAP_SINGLE_VALUE",
    ),
    Case(
        "written without an object",
        _S + "CREATE STREAM o WITH (wrap_single_value=false) AS SELECT k, b FROM s;",
        [In("s", "x", {"b": "p"}, 10), In("s", "y", {}, 20)],
        [Out("O", "x", "p", 10), Out("O", "y", None, 20)],
        grouped="WRAP_SINGLE_VALUE",
    ),
    Case(
        "an array, a map and a struct",
        "CREATE STREAM a (v ARRAY<INT>) WITH (kafka_topic='a', partitions=1, wrap_single_value=false);"
        "CREATE STREAM m (v MAP<STRING, INT>) WITH (kafka_topic='m', partitions=1, wrap_single_value=false);"
        "CREATE STREAM st (v STRUCT<x INT>) WITH (kafka_topic='st', partitions=1, wrap_single_value=false);"
        "CREATE STREAM oa WITH (wrap_single_value=false) AS SELECT v FROM a;"
        "CREATE STREAM om WITH (wrap_single_value=false) AS SELECT v FROM m;"
        "CREATE STREAM os WITH (wrap_single_value=false) AS SELECT v FROM st;",
        [In("a", None, [1, 2], 10), In("m", None, {"p": 1}, 10), In("st", None, {"x": 3}, 10)],
        [Out("OA", None, [1, 2], 10), Out("OM", None, {"p": 1}, 10), Out("OS", None, {"X": 3}, 10)],
        grouped="WRAP_SINGLE_VALUE",
    ),
    Case(
        "TRUE is what it is anyway",
        _S + "CREATE STREAM o WITH (wrap_single_value=true) AS SELECT k, b FROM s;",
        [In("s", "x", {"b": "p"}, 10)],
        [Out("O", "x", {"B": "p"}, 10)],
        grouped="WRAP_SINGLE_VALUE",
    ),
    refused(
        "WRAP_SINGLE_VALUE",
        "with two columns",
        "CREATE STREAM s (a INT, b INT) WITH (kafka_topic='s', partitions=1, wrap_single_value=false);",
        "'WRAP_SINGLE_VALUE' is only valid for single-field value schemas, and this has 2 fields.",
    ),
    refused(
        "WRAP_SINGLE_VALUE",
        "with DELIMITED",
        "CREATE STREAM s (a INT) WITH (kafka_topic='s', partitions=1, value_format='DELIMITED', "
        "wrap_single_value=true);",
        "Format 'DELIMITED' does not support 'WRAP_SINGLE_VALUE' set to 'true'.",
    ),
    refused(
        "WRAP_SINGLE_VALUE",
        "with KAFKA",
        "CREATE STREAM s (a INT) WITH (kafka_topic='s', partitions=1, value_format='KAFKA', wrap_single_value=true);",
        "Format 'KAFKA' does not support 'WRAP_SINGLE_VALUE' set to 'true'.",
    ),
    # ALTER
    Case(
        "a query that starts later sees the new column",
        _S + "ALTER STREAM s ADD COLUMN c INT, ADD d STRING;CREATE STREAM o AS SELECT k, c, d FROM s;",
        [In("s", "x", {"a": 1, "c": 2, "d": "q"}, 10)],
        [Out("O", "x", {"C": 2, "D": "q"}, 10)],
        grouped="ALTER",
    ),
    Case(
        "a table",
        _T + "ALTER TABLE t ADD COLUMN c INT; CREATE TABLE o AS SELECT k, c FROM t;",
        [In("t", "x", {"a": 1, "c": 2}, 10), In("t", "x", {"a": 1}, 20)],
        [Out("O", "x", {"C": 2}, 10), Out("O", "x", {"C": None}, 20)],
        grouped="ALTER",
    ),
    refused(
        "ALTER",
        "a column that is there",
        _S + "ALTER STREAM s ADD COLUMN a INT;",
        "S has a column A already.",
    ),
    refused(
        "ALTER", "of another kind", _S + "ALTER TABLE s ADD COLUMN c INT;", "S is a stream: ALTER STREAM."
    ),
    refused(
        "ALTER", "a key", _S + "ALTER STREAM s ADD COLUMN c INT KEY;", "ALTER adds columns to the value only."
    ),
    refused(
        "ALTER",
        "what a query made",
        _S + "CREATE STREAM o AS SELECT * FROM s; ALTER STREAM o ADD COLUMN c INT;",
        "ALTER command is not supported for CREATE ... AS statements. O was made by a query",
    ),
    refused(
        "ALTER",
        "a reserved name",
        _S + "ALTER STREAM s ADD COLUMN rowtime INT;",
        "ROWTIME is a reserved name",
    ),
    # Formats of values
    _value("INT", "KAFKA", 7, 7),
    _value("BIGINT", "KAFKA", 7_000_000_000, 7_000_000_000),
    _value("DOUBLE", "KAFKA", 2.5, 2.5),
    _value("STRING", "KAFKA", "text", "text"),
    _value("BYTES", "KAFKA", b"\x01\x02\x03", "AQID"),
    _value("BOOLEAN", "DELIMITED", "true", True),
    _value("DECIMAL(6, 2)", "DELIMITED", "12.34", 12.34),
    _value("BYTES", "DELIMITED", "AQID", "AQID"),
    _value("DATE", "DELIMITED", "18911", 18911),
    _value("TIMESTAMP", "DELIMITED", "1625055519446", 1625055519446),
    Case(
        "lines with quotes, delimiters and nulls",
        "CREATE STREAM s (k INT KEY, a STRING, b INT, c STRING) "
        "WITH (kafka_topic='s', partitions=1, value_format='DELIMITED');"
        "CREATE STREAM o AS SELECT * FROM s;"
        "CREATE STREAM p WITH (value_delimiter='|') AS SELECT k, a, c FROM s;",
        [In("s", 1, '"x,y",2,z', 10), In("s", 2, ",,z", 20)],
        [
            Out("O", 1, '"x,y",2,z', 10),
            Out("O", 2, ",,z", 20),
            Out("P", 1, "x,y|z", 10),
            Out("P", 2, "|z", 20),
        ],
        grouped="value formats",
    ),
    Case(
        "what cannot be read is left out",
        _S + "CREATE STREAM o AS SELECT * FROM s;",
        [
            In("s", "x", b"{oops", 10),
            In("s", "y", {"a": "no number"}, 20),
            In("s", "z", {"a": 1, "b": "q"}, 30),
        ],
        [Out("O", "z", {"A": 1, "B": "q"}, 30)],
        grouped="value formats",
    ),
    Case(
        "fields that are missing are null, others are ignored",
        _S + "CREATE STREAM o AS SELECT * FROM s;",
        [In("s", "x", {"a": 1, "more": [1, 2]}, 10), In("s", "y", {}, 20)],
        [Out("O", "x", {"A": 1, "B": None}, 10), Out("O", "y", {"A": None, "B": None}, 20)],
        grouped="value formats",
    ),
    Case(
        "a record without a value stays one",
        _S + "CREATE STREAM o AS SELECT k, a FROM s;",
        [In("s", "x", None, 10), In("s", "y", {"a": 1}, 20)],
        [Out("O", "x", None, 10), Out("O", "y", {"A": 1}, 20)],
        grouped="value formats",
    ),
    Case(
        "WHERE drops a record without a value",
        _S + "CREATE STREAM o AS SELECT k, a FROM s WHERE a IS NULL;",
        [In("s", "x", None, 10), In("s", "y", {"b": "q"}, 20)],
        [Out("O", "y", {"A": None}, 20)],
        grouped="value formats",
    ),
    Case(
        "aggregates do not see a record without a value",
        _S + "CREATE TABLE o AS SELECT k, COUNT(*) AS n FROM s GROUP BY k;",
        [In("s", "x", None, 10), In("s", "x", {"b": "q"}, 20)],
        [Out("O", "x", {"N": 1}, 20)],
        grouped="value formats",
    ),
    refused(
        "value formats",
        "two columns in KAFKA",
        "CREATE STREAM s (a INT, b INT) WITH (kafka_topic='s', partitions=1, value_format='KAFKA');",
        "The 'KAFKA' format only supports a single field. Got: [",
    ),
    refused(
        "value formats",
        "STRUCT in DELIMITED",
        "CREATE STREAM s (a STRUCT<b INT>) WITH (kafka_topic='s', partitions=1, value_format='DELIMITED');",
        "The 'DELIMITED' format does not support type 'STRUCT', column: `A`.",
    ),
    Case(
        "texts in DELIMITED: quotes, blanks and nothing",
        "CREATE STREAM s (a STRING, b STRING, n DOUBLE) WITH (kafka_topic='s', partitions=1, value_format='DELIMITED');"
        "CREATE STREAM o AS SELECT a, b, n, SUBSTRING(a, 99) AS none FROM s;",
        [
            In("s", None, '"x,y","say ""hi""",1', 1),
            In("s", None, " a,b ,2.50", 2),
            In("s", None, "#,,", 3),
            In("s", None, "-,c#,-1", 4),
        ],
        [
            Out("O", None, '"x,y","say ""hi""",1.0,', 1),
            Out("O", None, '" a","b ",2.5,', 2),
            Out("O", None, '"#",,,', 3),
            Out("O", None, '"-",c#,-1.0,', 4),
        ],
        grouped="value formats",
    ),
    refused(
        "value formats",
        "a query makes an ARRAY in DELIMITED",
        "CREATE STREAM s (a INT) WITH (kafka_topic='s', partitions=1, value_format='DELIMITED');"
        "CREATE STREAM o AS SELECT ARRAY[a] AS b FROM s;",
        "The 'DELIMITED' format does not support type 'ARRAY', column: `B`.",
    ),
    refused(
        "value formats",
        "a format that there is not",
        "CREATE STREAM s (a INT) WITH (kafka_topic='s', partitions=1, value_format='XML');",
        "There is no format XML; there are JSON",
    ),
    Case(
        "JSON: numbers in texts, and fractions of whole numbers",
        "CREATE STREAM s (k STRING KEY, i INT, l BIGINT, d DOUBLE, p DECIMAL(5, 2), a ARRAY<INT>) "
        "WITH (kafka_topic='s', partitions=1);"
        "CREATE STREAM o AS SELECT * FROM s;",
        [
            In("s", "x", {"i": "12", "l": "-7000000000", "d": "2.5", "p": "1.5", "a": ["1", 2.0]}, 10),
            In("s", "y", {"i": 12.9, "l": 3}, 20),
            In("s", "z", {"i": "a dozen"}, 30),
        ],
        [
            Out("O", "x", {"I": 12, "L": -7000000000, "D": 2.5, "P": 1.5, "A": [1, 2]}, 10),
            Out("O", "y", {"I": 12, "L": 3, "D": None, "P": None, "A": None}, 20),
        ],
        grouped="value formats",
    ),
    Case(
        "DELIMITED is quoted where it would not be read, and where a record does not begin with a letter or digit",
        "CREATE STREAM s (k STRING KEY, a STRING, b STRING, n INT) WITH (kafka_topic='s', partitions=1);"
        "CREATE STREAM o WITH (value_format='DELIMITED') AS SELECT * FROM s;",
        [
            In("s", "1", {"a": "x y", "b": "-1", "n": -1}, 10),
            In("s", "2", {"a": "-1", "b": "!", "n": 2}, 20),
            In("s", "3", {"a": "_a", "b": "#a"}, 30),
            In("s", "4", {"a": "ü", "b": "ü"}, 40),
            In("s", "5", {"b": "a,b", "n": 5}, 50),
            In("s", "6", {"a": 'q"q', "b": "x "}, 60),
            In("s", "7", {"a": "", "b": ""}, 70),
        ],
        [
            Out("O", "1", "x y,-1,-1", 10),
            Out("O", "2", '"-1","!",2', 20),
            Out("O", "3", '"_a","#a",', 30),
            Out("O", "4", '"ü",ü,', 40),
            Out("O", "5", ',"a,b",5', 50),
            Out("O", "6", '"q""q","x ",', 60),
            Out("O", "7", '"",,', 70),
        ],
        grouped="value formats",
    ),
]
