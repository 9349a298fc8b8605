"""Planning a SELECT for Spark, and refusals. No Spark."""

from __future__ import annotations

import pytest

pytest.importorskip("sqlglot")

from ottla.sql.errors import Position, SqlError
from ottla.sql.parsing import statements as s
from ottla.sql.parsing.parser import parse
from ottla.sql.planning.plan import Plan, plan_select
from ottla.sql.sources import Source, from_statement

SOURCES = """
CREATE STREAM clicks (id BIGINT KEY, page STRING, tags ARRAY<STRING>, user STRUCT<name STRING, age INT>);
CREATE STREAM views (id BIGINT KEY, page STRING);
CREATE TABLE pages (page STRING PRIMARY KEY, title STRING, owner STRING);
CREATE TABLE owners (name STRING PRIMARY KEY, mail STRING);
"""


def sources() -> dict[str, Source]:
    return {each.name: each for each in (from_statement(one)[0] for one in parse(SOURCES))}  # type: ignore[arg-type]


def plan(query: str) -> Plan:
    [statement] = parse(query)
    assert isinstance(statement, s.Query)
    known = sources()

    def find(name: str, position: Position) -> Source:
        if name not in known:
            raise SqlError(f"no {name}", position)
        return known[name]

    return plan_select(statement.select, find, batch=statement.select.emit is None)


@pytest.mark.parametrize(
    ("query", "mode", "result"),
    [
        ("SELECT * FROM clicks", "batch", "STREAM"),
        ("SELECT * FROM clicks EMIT CHANGES", "append", "STREAM"),
        ("SELECT page, COUNT(*) FROM clicks GROUP BY page EMIT CHANGES", "update", "TABLE"),
        (
            "SELECT page, COUNT(*) FROM clicks WINDOW SESSION (1 MINUTE) GROUP BY page EMIT CHANGES",
            "stateful",
            "TABLE",
        ),
        (
            "SELECT page, COUNT(*) FROM clicks WINDOW TUMBLING (SIZE 1 DAY) GROUP BY page EMIT FINAL",
            "stateful",
            "TABLE",
        ),
        ("SELECT * FROM clicks c JOIN pages p ON c.page = p.page EMIT CHANGES", "stateful", "STREAM"),
        (
            "SELECT * FROM clicks c JOIN views v WITHIN 1 HOUR ON c.id = v.id EMIT CHANGES",
            "stateful",
            "STREAM",
        ),
        ("SELECT * FROM pages EMIT CHANGES", "changes", "TABLE"),
        ("SELECT * FROM pages p JOIN owners o ON p.owner = o.name EMIT CHANGES", "stateful", "TABLE"),
        ("SELECT owner, COUNT(*) FROM pages GROUP BY owner EMIT CHANGES", "stateful", "TABLE"),
    ],
)
def test_how_a_query_runs(query: str, mode: str, result: str) -> None:
    planned = plan(query)
    assert (planned.mode, planned.result) == (mode, result)


def keys(query: str) -> list[str]:
    return [output.name for output in plan(query).outputs if output.is_key]


def test_the_key_of_the_result() -> None:
    assert keys("SELECT id, page FROM clicks EMIT CHANGES") == ["ID"]
    assert keys("SELECT page AS p, COUNT(*) FROM clicks GROUP BY page EMIT CHANGES") == ["P"]
    assert keys("SELECT page, id, COUNT(*) FROM clicks GROUP BY page, id EMIT CHANGES") == ["PAGE", "ID"]
    assert keys("SELECT UCASE(page) AS u, id FROM clicks PARTITION BY UCASE(page) EMIT CHANGES") == ["U"]
    assert keys("SELECT * FROM clicks PARTITION BY NULL EMIT CHANGES") == []
    assert keys(
        "SELECT c.id, p.title, p.page FROM clicks c JOIN pages p ON c.page = p.page EMIT CHANGES"
    ) == ["P_PAGE"]
    assert keys(
        "SELECT p.page, o.name, mail FROM pages p JOIN owners o ON p.owner = o.name EMIT CHANGES"
    ) == ["PAGE"]
    assert keys("SELECT AS_VALUE(id) AS v, id FROM clicks EMIT CHANGES") == ["ID"]
    missing = plan("SELECT title FROM pages EMIT CHANGES").missing_key
    assert missing == "must include the key column PAGE in its projection (eg, SELECT PAGE...)."


def test_the_names_of_columns() -> None:
    assert plan("SELECT id, user->name, UCASE(page), page AS p FROM clicks").names == [
        "ID",
        "NAME",
        "KSQL_COL_0",
        "P",
    ]
    assert plan("SELECT * FROM clicks c JOIN views v WITHIN 1 DAY ON c.id = v.id EMIT CHANGES").names == [
        "C_ID", "C_PAGE", "C_TAGS", "C_USER", "V_ID", "V_PAGE",
    ]  # fmt: skip
    assert plan("SELECT c.id, v.id, c.tags FROM clicks c JOIN views v WITHIN 1 DAY ON c.id = v.id").names == [
        "C_ID",
        "V_ID",
        "TAGS",
    ]


@pytest.mark.parametrize(
    ("expression", "spark"),
    [
        ("user->age", "`CLICKS`.`USER`.`AGE`"),
        ("clicks.user->age", "`CLICKS`.`USER`.`AGE`"),
        ("tags[1]", "try_element_at(`CLICKS`.`TAGS`, 1)"),
        ("LEN(page) + 1", "length(`CLICKS`.`PAGE`) + 1"),
        ("EXTRACTJSONFIELD(page, '$.a')", "get_json_object(`CLICKS`.`PAGE`, '$.a')"),
        ("IFNULL(page, 'it''s')", "coalesce(`CLICKS`.`PAGE`, 'it\\'s')"),
        ("CAST(id AS VARCHAR)", "try_cast(`CLICKS`.`ID` AS STRING)"),
        ("TRANSFORM(tags, x => UCASE(x))", "transform(`CLICKS`.`TAGS`, `X` -> upper(`X`))"),
        ("MAP('a' := id)", "map('a', `CLICKS`.`ID`)"),
        ("STRUCT(a := id, `b` := 1)", "named_struct('A', `CLICKS`.`ID`, 'b', 1)"),
        (
            "CASE WHEN id = 1 THEN 'x' ELSE page END",
            "CASE WHEN coalesce(`CLICKS`.`ID` = 1, false) THEN 'x' ELSE `CLICKS`.`PAGE` END",
        ),
        (
            "TIMESTAMPADD(DAYS, 2, FROM_UNIXTIME(ROWTIME))",
            "timestampadd(DAY, 2, timestamp_millis(`CLICKS`.`ROWTIME`))",
        ),
        ("REGEXP_REPLACE(page, 'a.*', 'b')", "regexp_replace(`CLICKS`.`PAGE`, 'a.*', 'b')"),
        (
            "page LIKE 'a%' AND NOT id IN (1, 2)",
            "`CLICKS`.`PAGE` LIKE 'a%' AND NOT coalesce(`CLICKS`.`ID` IN (1, 2), false)",
        ),
        ("(id + 1) * 2", "(`CLICKS`.`ID` + 1) * 2"),
        (
            "ROWTIME > '1970-01-01T00:00:05' AND ROWTIME BETWEEN '1970-01-01' AND 9",
            "coalesce(`CLICKS`.`ROWTIME` > 5000, false) AND coalesce(`CLICKS`.`ROWTIME` BETWEEN 0 AND 9, false)",
        ),
    ],
)
def test_expressions_in_the_words_of_spark(expression: str, spark: str) -> None:
    [output] = plan(f"SELECT {expression} AS x FROM clicks").outputs
    assert output.sql == spark


def test_the_latest_goes_by_offset_where_a_group_is_in_one_partition() -> None:
    by_key = plan("SELECT id, LATEST_BY_OFFSET(page) FROM clicks GROUP BY id EMIT CHANGES").outputs[1].sql
    assert by_key == (
        "max_by(`CLICKS`.`PAGE`, `CLICKS`.`ROWOFFSET`) FILTER (WHERE `CLICKS`.`PAGE` IS NOT NULL)"
    )
    by_page = plan("SELECT page, LATEST_BY_OFFSET(id) FROM clicks GROUP BY page EMIT CHANGES").outputs[1].sql
    assert "struct(`CLICKS`.`ROWTIME`, `CLICKS`.`ROWOFFSET`, `CLICKS`.`ROWPARTITION`)" in by_page


@pytest.mark.parametrize(
    ("query", "message"),
    [
        (
            "SELECT pge FROM clicks",
            "line 1, column 8: SELECT column 'PGE' cannot be resolved. There is no column PGE",
        ),
        (
            "SELECT\n  page FROM clicks c JOIN pages p ON c.page = p.page",
            "line 2, column 3: Column 'PAGE' is ambiguous. Could be C.PAGE or P.PAGE.",
        ),
        ("SELECT x FROM nothing", "line 1, column 15: no NOTHING"),
        (
            "SELECT * FROM clicks JOIN views ON clicks.id = views.id",
            "line 1, column 22: Stream-Stream joins must have a WITHIN clause specified.",
        ),
        (
            "SELECT * FROM clicks c RIGHT JOIN pages p ON c.page = p.page",
            "line 1, column 24: Invalid join type: right-outer join not supported for stream-table join.",
        ),
        ("SELECT * FROM pages p JOIN clicks c ON c.page = p.page", "Name the stream first"),
        (
            "SELECT * FROM clicks c JOIN pages p ON c.page > p.page",
            "Only equality join criteria is supported",
        ),
        (
            "SELECT page, COUNT(*) FROM clicks WINDOW TUMBLING (SIZE 1 DAY) EMIT CHANGES",
            "WINDOW needs GROUP BY",
        ),
        (
            "SELECT COUNT(*) FROM clicks EMIT CHANGES",
            "Use of aggregate function COUNT requires a GROUP BY clause.",
        ),
        ("SELECT WINDOWSTART FROM clicks", "WINDOWSTART needs a WINDOW"),
        ("SELECT page, COUNT(DISTINCT id) FROM clicks GROUP BY page", "use COUNT_DISTINCT"),
        (
            "SELECT UCASE(page, id) FROM clicks",
            "does not accept parameters (STRING, BIGINT): it takes 1 argument, not 2.",
        ),
        (
            "SELECT EXPLODE(EXPLODE(tags)) FROM clicks",
            "A table function cannot be the argument of another one.",
        ),
        ("SELECT id, page AS id FROM clicks", "line 1, column 12: There are two columns ID"),
        (
            "SELECT id FROM clicks WHERE COUNT(*) > 1",
            "WHERE does not support aggregate functions: COUNT is an aggregate function. Use HAVING.",
        ),
        (
            "SELECT id, page + 1 AS x FROM clicks",
            "line 1, column 12: Unsupported arithmetic types. STRING INTEGER",
        ),
        ("SELECT id, CAST(TO_BYTES(page, 'hex') AS STRING) FROM clicks", "use FROM_BYTES"),
        (
            "SELECT page, id, COUNT(*) FROM clicks GROUP BY page HAVING COUNT(*) > 1 EMIT CHANGES",
            "not part of GROUP BY",
        ),
        ("SELECT EXPLODE(tags), COUNT(*) FROM clicks GROUP BY page", "Table functions cannot be used with"),
    ],
)
def test_what_is_refused(query: str, message: str) -> None:
    with pytest.raises(SqlError) as caught:
        plan(query)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("properties", "message"),
    [
        ("value_format='XML'", "There is no format XML; there are JSON, DELIMITED, KAFKA, NONE, AVRO,"),
        ("kafka_topik='a'", "WITH (kafka_topik=…) is not supported; did you mean kafka_topic?"),
        (
            "value_format='KAFKA'",
            "The 'KAFKA' format only supports a single field. Got: [`A` INTEGER, `B` INTEGER]",
        ),
        ("timestamp='z'", "does not exist in the schema: 'Z'"),
        ("partitions=0", "partitions is a number of at least 1."),
    ],
)
def test_properties_that_cannot_be(properties: str, message: str) -> None:
    [statement] = parse(f"CREATE STREAM x (a INT, b INT) WITH ({properties})")
    assert isinstance(statement, s.CreateSource)
    with pytest.raises(SqlError) as caught:
        from_statement(statement)
    assert message in str(caught.value)


def test_a_definition_survives_the_catalogue() -> None:
    for source in sources().values():
        assert Source.from_json(source.to_json()) == source


@pytest.mark.parametrize(
    ("query", "names"),
    [
        ("SELECT * FROM counts", ["PAGE", "WINDOWSTART", "WINDOWEND", "N"]),
        ("SELECT * FROM counts EMIT CHANGES", ["PAGE", "WINDOWSTART", "WINDOWEND", "N"]),
        ("SELECT *, n + 1 AS m FROM counts", ["PAGE", "WINDOWSTART", "WINDOWEND", "N", "M"]),
        ("SELECT n, page FROM counts", ["N", "PAGE"]),
        ("SELECT * FROM late_key", ["ID", "A", "B"]),
        ("SELECT * FROM late_key EMIT CHANGES", ["ID", "A", "B"]),
    ],
)
def test_a_star_lists_the_key_first_and_then_the_window(query: str, names: list[str]) -> None:
    more = (
        "CREATE TABLE counts (n INT, page STRING PRIMARY KEY) "
        "WITH (kafka_topic='c', window_type='TUMBLING', window_size='1 HOUR');"
        "CREATE STREAM late_key (a INT, b INT, id INT KEY) WITH (kafka_topic='l');"
    )
    known = {each.name: each for each in (from_statement(one)[0] for one in parse(more))}  # type: ignore[arg-type]
    [statement] = parse(query)
    assert isinstance(statement, s.Query)
    batch = statement.select.emit is None
    made = plan_select(statement.select, lambda name, _: known[name], batch=batch, reader=True)
    assert made.names == names
