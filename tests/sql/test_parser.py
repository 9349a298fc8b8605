"""ksqlDB statements become plain data; unsupported ones are refused with their position. No Spark."""

from __future__ import annotations

import pytest

pytest.importorskip("sqlglot")

from ottla.sql.errors import SqlError
from ottla.sql.parsing import statements as s
from ottla.sql.parsing.parser import is_complete, parse


def one(script: str) -> s.Statement:
    [statement] = parse(script)
    return statement


def refusal(script: str) -> str:
    with pytest.raises(SqlError) as caught:
        parse(script)
    return str(caught.value)


def test_names_are_upper_case_unless_quoted() -> None:
    statement = one(
        "CREATE STREAM tweets (id INT KEY, `userName` STRING, \"text\" STRING) WITH (kafka_topic='t');"
    )
    assert isinstance(statement, s.CreateSource)
    assert statement.name == "TWEETS"
    assert [column.name for column in statement.columns] == ["ID", "userName", "text"]
    assert [column.written for column in statement.columns] == ["id", "userName", "text"]
    assert [column.is_key for column in statement.columns] == [True, False, False]


@pytest.mark.parametrize(
    ("written", "read", "spark"),
    [
        ("INT", "INTEGER", "INT"),
        ("VARCHAR", "STRING", "STRING"),
        ("BYTES", "BYTES", "BINARY"),
        ("decimal(4, 2)", "DECIMAL(4, 2)", "DECIMAL(4,2)"),
        ("ARRAY<MAP<STRING, INT>>", "ARRAY<MAP<STRING, INTEGER>>", "ARRAY<MAP<STRING,INT>>"),
        (
            "STRUCT<a INT, `b` ARRAY<STRUCT<c DATE>>>",
            "STRUCT<A INTEGER, `b` ARRAY<STRUCT<C DATE>>>",
            "STRUCT<`A`:INT,`b`:ARRAY<STRUCT<`C`:DATE>>>",
        ),
    ],
)
def test_types(written: str, read: str, spark: str) -> None:
    statement = one(f"CREATE STREAM x (c {written})")
    assert isinstance(statement, s.CreateSource)
    assert (str(statement.columns[0].type), statement.columns[0].type.ddl) == (read, spark)


def test_properties_of_a_source() -> None:
    statement = one(
        "CREATE OR REPLACE TABLE IF NOT EXISTS t (k STRING PRIMARY KEY, v INT)"
        " WITH (KAFKA_TOPIC='Topic', value_format='JSON', partitions=3);"
    )
    assert isinstance(statement, s.CreateSource)
    assert (statement.or_replace, statement.if_not_exists, statement.kind) == (True, True, "TABLE")
    values = {name: given.value for name, given in statement.properties.items()}
    assert values == {"kafka_topic": "Topic", "value_format": "JSON", "partitions": 3}


def test_the_clauses_of_a_select() -> None:
    statement = one(
        """
        CREATE TABLE hot WITH (partitions=2) AS
        SELECT t.tag AS tag, COUNT(*) n, WINDOWSTART FROM tweets AS t
        WINDOW HOPPING (SIZE 1 MINUTE, ADVANCE BY 10 SECONDS, GRACE PERIOD 5 SECONDS)
        WHERE t.user->age > 3 AND LEFT(t.text, 1) = 'a' GROUP BY t.tag HAVING COUNT(*) > 10 EMIT CHANGES;
        """
    )
    assert isinstance(statement, s.CreateAsSelect)
    select = statement.select
    assert [item.alias for item in select.items] == ["TAG", "N", None]
    assert (select.source.name, select.source.alias) == ("TWEETS", "T")
    assert select.window == s.Window("HOPPING", 60_000, 10_000, 5_000)
    assert len(select.group_by) == 1
    assert select.having is not None
    assert select.emit == "CHANGES"


def test_joins_with_their_bounds() -> None:
    statement = one(
        "SELECT a.*, b.x FROM a LEFT OUTER JOIN b WITHIN (1 HOUR, 2 DAYS) GRACE PERIOD 10 MINUTES ON a.id = b.id "
        "JOIN c ON c.id = a.id WHERE LEFT(b.x, 1) = 'y' EMIT CHANGES LIMIT 4"
    )
    assert isinstance(statement, s.Query)
    first, second = statement.select.joins
    assert (first.kind, first.before_ms, first.after_ms, first.grace_ms) == (
        "LEFT",
        3_600_000,
        172_800_000,
        600_000,
    )
    assert (second.kind, second.right.name, second.before_ms) == ("INNER", "C", None)
    assert statement.select.limit == 4
    assert [(item.expression is None, item.source) for item in statement.select.items] == [
        (True, "A"),
        (False, None),
    ]


def test_the_small_statements() -> None:
    script = """
        -- a comment
        SHOW STREAMS; LIST TABLES; DESCRIBE x EXTENDED; EXPLAIN CSAS_X_1; TERMINATE ALL;
        PRINT 'it''s' FROM BEGINNING INTERVAL 2 LIMIT 3; DROP STREAM IF EXISTS x DELETE TOPIC;
        SET 'auto.offset.reset' = 'earliest'; UNSET 'auto.offset.reset'; RUN SCRIPT 'a.sql';
    """
    found = parse(script)
    assert [type(each).__name__ for each in found] == [
        "Show", "Show", "Describe", "Explain", "Terminate", "Print", "Drop", "SetProperty", "UnsetProperty",
        "RunScript",
    ]  # fmt: skip
    printed = found[5]
    assert isinstance(printed, s.Print)
    assert (printed.topic, printed.from_beginning, printed.interval, printed.limit) == ("it's", True, 2, 3)
    assert str(found[2].position) == "line 3, column 36"


def test_insert_values_takes_several_rows() -> None:
    statement = one("INSERT INTO x (a, b) VALUES (1, 'one'), (-2, NULL)")
    assert isinstance(statement, s.InsertValues)
    assert statement.columns == ("A", "B")
    assert len(statement.rows) == 2


def test_variables_are_put_in() -> None:
    [_, query] = parse("DEFINE t = 'tweets'; SELECT * FROM ${t};", {"t": "tweets"})
    assert isinstance(query, s.Query)
    assert query.select.source.name == "TWEETS"
    assert refusal("SELECT * FROM ${nothing};") == (
        "line 1, column 1: There is no variable nothing; DEFINE nothing = '…' makes it."
    )


@pytest.mark.parametrize(
    ("script", "message"),
    [
        ("SELECT a\n  FROM b ORDER BY a", "line 2, column 10: ORDER is not supported."),
        ("SELECT DISTINCT a FROM b", "line 1, column 8: SELECT DISTINCT is not supported; GROUP BY"),
        ("SELECT a FROM (SELECT 1)", "line 1, column 15: A SELECT in FROM is not supported"),
        ("SELECT a FROM b CROSS JOIN c", "line 1, column 17: CROSS JOIN is not supported"),
        ("CREATE SINK CONNECTOR x", "line 1, column 8: CREATE SINK is not supported."),
        ("CREATE STREAM x (a FOO)", "line 1, column 20: 'FOO' is not a type"),
        ("CREATE STREAM x (a INT PRIMARY KEY)", "line 1, column 24: A stream has a KEY"),
        ("CREATE STREAM x (a INT, A INT)", "line 1, column 25: There are two columns A."),
        ("SELECT a +\n FROM b", "line 1, column"),
        ("SELECT a FROM b WHERE", "An expression is missing after WHERE."),
        ("SELECT a FROM b WINDOW TUMBLING (SIZE 1 FORTNIGHT) GROUP BY a", "Unknown time unit: 'FORTNIGHT'"),
        (
            "SELECT a FROM b WINDOW TUMBLING (SIZE 1 DAY, RETENTION 2 HOURS) GROUP BY a",
            "RETENTION is at least the size",
        ),
        ("SELECT a FROM b LIMIT 3 nonsense", "line 1, column 25: Nothing is expected here"),
        ("GRANT ALL", "line 1, column 1: 'GRANT' does not begin a statement"),
        ("SELECT 'open", "line 1, column 12:"),
    ],
)
def test_what_is_wrong_is_said_with_its_place(script: str, message: str) -> None:
    assert message in refusal(script)


def test_a_shell_waits_for_the_semicolon() -> None:
    assert is_complete("")
    assert is_complete("SHOW STREAMS;")
    assert not is_complete("SELECT *")
    assert not is_complete("SELECT ';")
    assert not is_complete("SELECT * FROM x; SHOW")


@pytest.mark.parametrize(
    "expression",
    [
        "(" * 5000 + "1" + ")" * 5000,
        "LCASE(" * 5000 + "a" + ")" * 5000,
        "NOT " * 5000 + "a",
        "a[" * 5000 + "1" + "]" * 5000,
        "CASE WHEN " * 3000 + "a" + " THEN 1 END" * 3000,
        "CAST(a AS " + "ARRAY<" * 5000 + "INT" + ">" * 5000 + ")",
    ],
    ids=["parentheses", "functions", "not", "elements", "case", "types"],
)
def test_a_statement_that_nests_too_deep_is_refused_in_a_sentence(expression: str) -> None:
    assert "nests too deep" in refusal(f"SELECT {expression} FROM s;")


def test_a_type_that_nests_too_deep_is_refused_in_a_sentence() -> None:
    kind = "ARRAY<" * 5000 + "INT" + ">" * 5000
    assert "nests too deep" in refusal(f"CREATE STREAM s (a {kind}) WITH (kafka_topic='s');")
