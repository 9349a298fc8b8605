"""SQL conditions over messages, with ksqlDB's WHERE semantics as far as a single record suffices."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.console.messages.expression import BadExpression
from ottla.console.messages.sql_expression import compile_sql

MESSAGE: dict[str, Any] = {
    "key": "eu-17",
    "value": {
        "amount": 12.5,
        "count": 7,
        "Name": "Žofie O'Neil",
        "paid": True,
        "none": None,
        "lines": [{"sku": "a"}, {"sku": "b"}],
        "address": {"city": "Brno", "key": "inner"},
        "key": "of the value",
        "rate": "50%",
    },
    "headers": {"tenant": "a", "trace-id": "x1"},
    "offset": 17,
    "partition": 3,
    "timestamp": 1_700_000_000_000,
    "topic": "orders",
}


@pytest.mark.parametrize(
    "text",
    [
        "value->amount > 12 AND value->amount <= 12.5",
        "amount = 12.5",  # a bare name is a field of the value
        "WHERE amount > 12;",
        "value->address->city = 'Brno'",
        "address->CITY = 'Brno'",  # unquoted names are case-insensitive
        "value->NAME LIKE 'Ž%'",
        "name = 'Žofie O''Neil'",
        "value->\"key\" = 'of the value' AND \"key\" = 'of the value' AND key = 'eu-17'",
        "`key` = 'of the value'",
        "key LIKE 'eu-__'",
        "key LIKE '%-1%'",
        "key NOT LIKE 'us-%'",
        "rate LIKE '50!%' ESCAPE '!'",
        "key IN ('a', 'eu-17')",
        "partition NOT IN (1, 2)",
        "offset BETWEEN 10 AND 17",
        "offset NOT BETWEEN 18 AND 20",
        "none IS NULL AND missing IS NULL AND amount IS NOT NULL",
        "missing->deeper IS NULL",
        "paid",
        "paid = TRUE AND NOT (paid = FALSE)",
        "paid IS TRUE AND none IS NOT TRUE",
        "lines[1]->sku = 'a' AND lines[-1]->sku = 'b'",
        "headers->tenant = 'a'",
        "headers['trace-id'] = 'x1'",
        "LOWER(name) LIKE 'žofie%' AND UCASE(key) = 'EU-17'",
        "LEN(key) = 5 AND LENGTH(lines) = 2 AND ARRAY_LENGTH(lines) = 2",
        "SUBSTRING(key, 1, 2) = 'eu' AND SUBSTRING(key, 4) = '17' AND SUBSTRING(key, -2) = '17'",
        "CAST(SUBSTRING(key, 4) AS INT) = rowoffset",
        "COALESCE(none, 'x') = 'x' AND IFNULL(missing, 3) = 3",
        "CONCAT(topic, '-', key) = 'orders-eu-17' AND topic || '!' = 'orders!'",
        "count / 2 = 3 AND -count / 2 = -3 AND count % 4 = 3 AND count * 2 - 4 = 10",
        "1 + 2 * 3 = 7 AND (1 + 2) * 3 = 9",
        "rowtime > 1600000000000 AND ROWPARTITION = 3",
        "FALSE OR NOT FALSE AND TRUE",
        "none IS NOT DISTINCT FROM missing AND amount IS DISTINCT FROM none",
        "INSTR(key, '17') = 4 AND REPLACE(key, 'eu', 'us') = 'us-17' AND TRIM(' a ') = 'a'",
        "ARRAY_CONTAINS(lines, lines[1])",
        "ROUND(amount) = 13 AND FLOOR(amount) = 12 AND CEIL(amount) = 13 AND ABS(-3) = 3",
    ],
)
def test_true_of_the_message(text: str) -> None:
    assert compile_sql(text)(MESSAGE)


@pytest.mark.parametrize(
    "text",
    [
        "none = NULL",
        "none <> 1",
        "NOT (none = 1)",  # the negation is unknown as well
        "none NOT IN (1, 2)",
        "amount NOT IN (1, none)",
        "amount > 'x'",
        "NOT (amount > 'x')",
        "paid = 1",
        "amount / 0 = 1",
        "lines > 3",
        "lines[0]->sku = 'a'",
        "lines[9]->sku = 'a'",
        "key LIKE 'eu'",
        "key LIKE '%-1'",
        "key LIKE '___'",
        "amount LIKE '1%'",
        "CAST(key AS INT) = 17",
        'value->"NAME" IS NOT NULL',
        "none OR FALSE",
        "count",
    ],
)
def test_what_is_false_or_unknown_is_not_found(text: str) -> None:
    assert not compile_sql(text)(MESSAGE)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "it is not complete"),
        ("amount >", "it is not complete"),
        ("amount > > 3", "'>' was not expected"),
        ("SELECT * FROM x", "Only a condition goes here"),
        ("amount > 3 GROUP BY x", "'GROUP' was not expected"),
        ("key = 'open", "cannot be read at"),
        ("key = #", "cannot be read at"),
        ("(amount > 3", "a ')' is missing"),
        ("SLEEP(3)", "There is no function SLEEP"),
        ("LOWER()", "LOWER does not take 0 arguments"),
        ("CAST(key AS FISH)", "CAST knows the types"),
        ("key IN ()", "IN needs at least one value"),
        ("amount BETWEEN 1", "BETWEEN needs an AND"),
        ("key NOT 3", "behind NOT there is"),
        ("key IS 3", "behind IS there is"),
        ("key LIKE 'a' ESCAPE 'xx'", "ESCAPE takes one character"),
        ("value->3 = 1", "the name of a field"),
        ("(" * 100 + "1" + ")" * 100, "too many parentheses"),
        ("1 + " * 300 + "1", "too long"),
        ("9" * 5000 + " > 1", "a hundred digits"),
    ],
)
def test_what_is_no_condition_is_said_in_a_sentence(text: str, sentence: str) -> None:
    with pytest.raises(BadExpression) as found:
        compile_sql(text)
    assert sentence in str(found.value)


def test_a_pattern_with_many_percent_signs_takes_no_time() -> None:
    """Each percent sign is tried once. A regular expression would try every split of the text among them."""
    message = {**MESSAGE, "key": "a" * 50_000}
    assert not compile_sql("key LIKE '" + "%a" * 60 + "%b'")(message)
    assert compile_sql("key LIKE '" + "%a" * 60 + "%'")(message)
