"""Statements that ksqlDB refuses, with the reason and the place."""

from __future__ import annotations

from tests.sql.cases.case import Case, refused

_S = "CREATE STREAM s (k STRING KEY, a INT, b STRING, m MAP<STRING, INT>) WITH (kafka_topic='s', partitions=1);\n"
_T = "CREATE TABLE t (k STRING PRIMARY KEY, a INT) WITH (kafka_topic='t', partitions=1);\n"
_R = "CREATE STREAM r (k STRING KEY, c INT) WITH (kafka_topic='r', partitions=1);\n"
_WITH = "WITH (kafka_topic='x', partitions=1);"


def _create(name: str, columns: str, reason: str, *, kind: str = "STREAM", given: str = _WITH) -> Case:
    return refused(f"CREATE {kind}", name, f"CREATE {kind} x {columns} {given}", reason)


def _select(name: str, select: str, reason: str, *, what: str = "CREATE TABLE o AS") -> Case:
    return refused("SELECT", name, f"{_S}{_T}{_R}{what} {select};", reason)


CASES: list[Case] = [
    # CREATE STREAM and CREATE TABLE
    _create("a column twice", "(a INT, `A` STRING)", "line 1, column 25: There are two columns A."),
    _create("PRIMARY KEY", "(a INT PRIMARY KEY)", "A stream has a KEY; only a table has a PRIMARY KEY."),
    _create("a type that there is not", "(a TEXTS)", "line 1, column 20: 'TEXTS' is not a type"),
    _create(
        "MAP with keys of INT", "(a MAP<INT, INT>)", "line 1, column 24: The keys of a MAP must be STRING."
    ),
    _create("no columns", "", "No columns supplied: expected the columns of X, or AS SELECT."),
    _create(
        "an unknown property",
        "(a INT)",
        "WITH (kafka_topics=…) is not supported; did you mean kafka_topic?",
        given="WITH (kafka_topics='x');",
    ),
    _create(
        "partitions that are no number",
        "(a INT)",
        "partitions is a number of at least 1.",
        given="WITH (kafka_topic='x', partitions=0);",
    ),
    _create(
        "a topic that does not exist",
        "(a INT)",
        "The topic 'x' does not exist. WITH (…, partitions=1) creates it.",
        given="WITH (kafka_topic='x');",
    ),
    _create(
        "a size of SESSION windows",
        "(a INT KEY)",
        "'WINDOW_SIZE' should not be set for SESSION windows.",
        given="WITH (kafka_topic='x', partitions=1, window_type='SESSION', window_size='1 HOUR');",
    ),
    _create(
        "a timestamp that is no column",
        "(a INT)",
        "The TIMESTAMP column set in the WITH clause does not exist in the schema: 'T'",
        given="WITH (kafka_topic='x', partitions=1, timestamp='t');",
    ),
    _create(
        "a timestamp of INT",
        "(a INT)",
        "Timestamp column, `A`, should be LONG(INT64), TIMESTAMP, or a String with a timestamp_format specified.",
        given="WITH (kafka_topic='x', partitions=1, timestamp='a');",
    ),
    _create(
        "a timestamp of STRING without its format",
        "(a STRING)",
        "A is STRING, which needs timestamp_format.",
        given="WITH (kafka_topic='x', partitions=1, timestamp='a');",
    ),
    _create(
        "a timestamp of BIGINT with a format",
        "(a BIGINT)",
        "A is BIGINT, which takes no timestamp_format.",
        given="WITH (kafka_topic='x', partitions=1, timestamp='a', timestamp_format='yyyy');",
    ),
    _create(
        "a window without its size",
        "(k STRING KEY)",
        "windows require 'WINDOW_SIZE' to be provided in the WITH clause.",
        given="WITH (kafka_topic='x', partitions=1, window_type='TUMBLING');",
    ),
    _create(
        "a window that there is not",
        "(k STRING KEY)",
        "window_type is TUMBLING, HOPPING or SESSION.",
        given="WITH (kafka_topic='x', partitions=1, window_type='ROUND');",
    ),
    _create("no PRIMARY KEY", "(a INT)", "A table needs a column with PRIMARY KEY.", kind="TABLE"),
    _create("KEY", "(a INT KEY)", "A table needs PRIMARY KEY here", kind="TABLE"),
    refused("CREATE STREAM", "a name that is taken", _S + _S, "Stream S exists already; DROP it"),
    refused(
        "CREATE STREAM",
        "a name that a table has",
        _T + "CREATE STREAM t (a INT) WITH (kafka_topic='t');",
        "T is a table already.",
    ),
    refused(
        "CREATE STREAM",
        "a topic with other partitions",
        _S + "CREATE STREAM other (a INT) WITH (kafka_topic='s', partitions=3);",
        "The topic 's' has 1 partitions, not 3.",
    ),
    # CREATE OR REPLACE
    refused(
        "CREATE OR REPLACE",
        "a column less",
        _S + "CREATE OR REPLACE STREAM s (k STRING KEY, a INT) WITH (kafka_topic='s');",
        "S cannot be replaced: columns are changed, missing or reordered: B STRING, M MAP<STRING, INTEGER>",
    ),
    refused(
        "CREATE OR REPLACE",
        "a column of another type",
        _R + "CREATE OR REPLACE STREAM r (k STRING KEY, c BIGINT) WITH (kafka_topic='r');",
        "R cannot be replaced: columns are changed, missing or reordered: C INTEGER",
    ),
    refused(
        "CREATE OR REPLACE",
        "another key",
        _R + "CREATE OR REPLACE STREAM r (k INT KEY, c INT) WITH (kafka_topic='r');",
        "R cannot be replaced: its key must stay the same",
    ),
    refused(
        "CREATE OR REPLACE",
        "another format",
        _R
        + "CREATE OR REPLACE STREAM r (k STRING KEY, c INT) WITH (kafka_topic='r', value_format='DELIMITED');",
        "R cannot be replaced: its value format is JSON, not DELIMITED",
    ),
    refused(
        "CREATE OR REPLACE",
        "another topic",
        _R + "CREATE OR REPLACE STREAM r (k STRING KEY, c INT) WITH (kafka_topic='q', partitions=1);",
        "R cannot be replaced: its topic is r, not q",
    ),
    refused(
        "CREATE OR REPLACE",
        "a stream by a table",
        _R + "CREATE OR REPLACE TABLE r (k STRING PRIMARY KEY, c INT) WITH (kafka_topic='r');",
        "R is a stream already.",
    ),
    # SELECT
    _select("a source that there is not", "SELECT * FROM nothing", "Source `NOTHING` does not exist."),
    _select(
        "a column that there is not",
        "SELECT k, aa FROM s",
        "SELECT column 'AA' cannot be resolved. There is no column AA in S. Did you mean A?",
    ),
    _select(
        "a stream from a table",
        "SELECT * FROM t",
        "Please use CREATE TABLE AS SELECT",
        what="CREATE STREAM o AS",
    ),
    _select("a table from a stream", "SELECT * FROM s", "Please use CREATE STREAM AS SELECT"),
    _select(
        "GROUP BY without aggregates",
        "SELECT k FROM s GROUP BY k",
        "line 4, column 44: GROUP BY requires aggregate functions in either the SELECT or HAVING clause.",
    ),
    _select(
        "* with GROUP BY", "SELECT * FROM s GROUP BY k HAVING COUNT(*) > 1", "* cannot be used with GROUP BY"
    ),
    _select(
        "a column that is in no group",
        "SELECT k, a, COUNT(*) FROM s GROUP BY k",
        "line 4, column 29: Non-aggregate SELECT expression(s) not part of GROUP BY: A",
    ),
    _select(
        "a column beside an aggregate",
        "SELECT k, SUM(a) + a AS x FROM s GROUP BY k",
        "Non-aggregate SELECT expression(s) not part of GROUP BY: ",
    ),
    _select("an aggregate without GROUP BY", "SELECT COUNT(*) AS n FROM s", "requires a GROUP BY clause"),
    _select(
        "an aggregate in WHERE", "SELECT k, COUNT(*) FROM s WHERE COUNT(*) > 1 GROUP BY k", "Use HAVING."
    ),
    _select(
        "an aggregate in GROUP BY",
        "SELECT COUNT(*) FROM s GROUP BY COUNT(a)",
        "GROUP BY does not support aggregate functions: ",
    ),
    _select(
        "nested aggregates",
        "SELECT k, SUM(COUNT(a)) FROM s GROUP BY k",
        "Aggregate functions can not be nested",
    ),
    _select(
        "WHERE of a number",
        "SELECT * FROM s WHERE a",
        "Type error in WHERE expression: Should evaluate to boolean but is A (INTEGER) instead.",
    ),
    _select(
        "WHERE of a text",
        "SELECT * FROM s WHERE b + 'x'",
        "Should evaluate to boolean but is (B + 'x') (STRING) instead.",
    ),
    _select(
        "HAVING of a number",
        "SELECT k, COUNT(*) FROM s GROUP BY k HAVING COUNT(*)",
        "Type error in HAVING expression: Should evaluate to boolean but is ",
    ),
    _select("HAVING without GROUP BY", "SELECT * FROM s HAVING a > 1", "HAVING needs GROUP BY; use WHERE."),
    _select(
        "a window without GROUP BY", "SELECT * FROM s WINDOW TUMBLING (SIZE 1 HOUR)", "WINDOW needs GROUP BY."
    ),
    _select(
        "WINDOWSTART without a window", "SELECT k, WINDOWSTART AS w FROM s", "WINDOWSTART needs a WINDOW"
    ),
    _select(
        "WINDOWEND in WHERE of what has no window",
        "SELECT k, COUNT(*) FROM s WHERE WINDOWEND > 1 GROUP BY k",
        "WINDOWEND needs a WINDOW",
    ),
    _select(
        "an advance that is larger than the size",
        "SELECT k, COUNT(*) FROM s WINDOW HOPPING (SIZE 1 HOUR, ADVANCE BY 2 HOURS) GROUP BY k",
        "A HOPPING window advances by its size at most.",
    ),
    _select(
        "a retention that is shorter than the window",
        "SELECT k, COUNT(*) FROM s WINDOW TUMBLING (SIZE 1 HOUR, RETENTION 1 MINUTE) GROUP BY k",
        "RETENTION is at least the size of the window and its GRACE PERIOD.",
    ),
    _select(
        "a window of no size",
        "SELECT k, COUNT(*) FROM s WINDOW TUMBLING (SIZE 0 SECONDS) GROUP BY k",
        "The size of a window and its advance are more than 0.",
    ),
    _select(
        "a table function in WHERE",
        "SELECT * FROM s WHERE EXPLODE(ARRAY[a]) = 1",
        "WHERE cannot have table functions",
    ),
    _select(
        "a table function of a table",
        "SELECT k, EXPLODE(ARRAY[a]) AS e FROM t",
        "Table source is not supported with table functions",
    ),
    _select(
        "a table function with GROUP BY",
        "SELECT k, EXPLODE(ARRAY[1]), COUNT(*) FROM s GROUP BY k",
        "Table functions cannot be used with",
    ),
    _select(
        "two columns of one name", "SELECT k, a AS x, b AS x FROM s", "There are two columns X in the result"
    ),
    _select(
        "LIMIT",
        "SELECT * FROM s LIMIT 3",
        "LIMIT is for queries that somebody reads",
        what="CREATE STREAM o AS",
    ),
    _select(
        "a type that cannot be added",
        "SELECT k, b + 1 AS x FROM s",
        "Unsupported arithmetic types. STRING INTEGER",
    ),
    _select(
        "a function that there is not",
        "SELECT k, NOTHING(a) AS x FROM s",
        "Can't find any functions with the name 'NOTHING'",
    ),
    _select(
        "too many arguments",
        "SELECT k, UCASE(b, b) AS x FROM s",
        "Function 'UCASE' does not accept parameters (STRING, STRING): it takes 1 argument, not 2",
    ),
    _select(
        "a name that two sources have",
        "SELECT k FROM s JOIN r WITHIN 1 HOUR ON s.k = r.k",
        "Column 'K' is ambiguous. Could be S.K or R.K.",
    ),
    _select(
        "a source twice",
        "SELECT * FROM s JOIN s WITHIN 1 HOUR ON s.k = s.k",
        "multiple occurrences of the same source. Source: 'S'",
    ),
    _select("a SELECT in FROM", "SELECT * FROM (SELECT * FROM s)", "A SELECT in FROM is not supported"),
    _select("DISTINCT", "SELECT DISTINCT a FROM s", "SELECT DISTINCT is not supported"),
    _select("ORDER BY", "SELECT * FROM s ORDER BY a", "ORDER is not supported."),
    _select("a comma in FROM", "SELECT * FROM s, r", "Name one source after FROM"),
    # INSERT
    refused(
        "INSERT INTO",
        "too few values",
        _S + "INSERT INTO s VALUES ('x');",
        "There are 4 columns and 1 values.",
    ),
    refused(
        "INSERT INTO",
        "a column that there is not",
        _S + "INSERT INTO s (z) VALUES (1);",
        "There is no column Z in S",
    ),
    refused(
        "INSERT INTO",
        "a value of another type",
        _S + "INSERT INTO s (a) VALUES ('x');",
        "A is INTEGER, and 'x' is not.",
    ),
    refused(
        "INSERT INTO",
        "a number that is too large",
        _S + "INSERT INTO s (a) VALUES (3000000000);",
        "A is INTEGER",
    ),
    refused(
        "INSERT INTO",
        "a table without its key",
        _T + "INSERT INTO t (a) VALUES (1);",
        "needs its PRIMARY KEY.",
    ),
    refused(
        "INSERT INTO",
        "a query with less columns",
        _S + _R + "INSERT INTO r SELECT k FROM s;",
        "Incompatible schema between results and sink: the query lacks C.",
    ),
    refused(
        "INSERT INTO",
        "a query with more columns",
        _S + _R + "INSERT INTO r SELECT k, a AS c, b FROM s;",
        "which R has not",
    ),
    refused(
        "INSERT INTO",
        "a table from a stream",
        _S + _T + "INSERT INTO t SELECT k, a FROM s;",
        "INSERT INTO can only be used to insert into a stream. T is a table.",
    ),
    refused(
        "INSERT INTO",
        "a query with another key",
        _S + _R + "INSERT INTO r SELECT k, a AS c FROM s PARTITION BY a;",
        "C is the key of the query, but not of R.",
    ),
    # The rest
    refused("DROP", "what is not there", "DROP STREAM s;", "Stream S does not exist."),
    refused("DROP", "of another kind", _T + "DROP STREAM t;", "T is a table: DROP TABLE."),
    refused(
        "DROP",
        "what a query reads",
        _R + "CREATE STREAM o AS SELECT * FROM r; DROP STREAM r;",
        "R is read by CSAS_O_1",
    ),
    refused(
        "TERMINATE", "a query that there is not", "TERMINATE csas_1;", "This session runs no query CSAS_1."
    ),
    refused("PAUSE", "a query that there is not", "PAUSE csas_1;", "This session runs no query CSAS_1."),
    refused(
        "ASSERT",
        "a topic that there is not",
        "ASSERT TOPIC x TIMEOUT 0 SECONDS;",
        "Topic 'x' does not exist.",
    ),
    refused(
        "ASSERT",
        "other partitions",
        _R + "ASSERT TOPIC 'r' WITH (partitions=4) TIMEOUT 0 SECONDS;",
        "Topic 'r' has 1 partitions, not 4.",
    ),
    refused(
        "ASSERT",
        "that a topic is not there",
        _R + "ASSERT NOT EXISTS TOPIC 'r' TIMEOUT 0 SECONDS;",
        "Topic 'r' exists.",
    ),
    refused(
        "ASSERT",
        "a schema without a registry",
        "ASSERT SCHEMA SUBJECT 'r-value';",
        "KSQL is not configured to use a schema registry",
    ),
    refused(
        "SET",
        "a property that there is not",
        "SET 'auto.offset.resets' = 'latest';",
        "did you mean 'auto.offset.reset'?",
    ),
    refused(
        "SET",
        "a value that there is not",
        "SET 'auto.offset.reset' = 'middle';",
        "auto.offset.reset is earliest or latest",
    ),
    refused("DESCRIBE", "what is not there", "DESCRIBE nothing;", "Source `NOTHING` does not exist."),
    refused(
        "other statements", "what begins no statement", "GRANT ALL;", "'GRANT' does not begin a statement"
    ),
    refused(
        "other statements",
        "connectors",
        "CREATE SINK CONNECTOR x WITH ('a'='b');",
        "CREATE SINK is not supported.",
    ),
]
