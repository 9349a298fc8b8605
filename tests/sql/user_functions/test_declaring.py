"""Python functions without Spark: signatures, files, refusals, listings."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("sqlglot")
pytest.importorskip("pyspark")

from ottla.sql import SqlError, udaf, udf, udtf
from ottla.sql.planning.functions import names
from ottla.sql.sql_types import SqlType
from ottla.sql.user_functions import UserFunctions
from ottla.sql.user_functions.catalogue import chosen, description, refusal, signature
from ottla.sql.user_functions.loading import load
from ottla.sql.user_functions.python_types import written_type
from tests.sql.conftest import Sql

FILE = Path(__file__).with_name("shop_functions.py")


@pytest.fixture(scope="module")
def functions() -> UserFunctions:
    return UserFunctions(load([FILE]), reserved=names())


def _types(*written: str) -> list[SqlType | None]:
    return [written_type(each) for each in written]


@pytest.mark.parametrize(
    ("name", "signatures"),
    [
        ("SHOUT", ["SHOUT(text VARCHAR)", "SHOUT(text VARCHAR, times BIGINT)"]),
        ("DIVIDED", ["DIVIDED(one INT, other INT)"]),
        ("PRICE", ["PRICE(amount DECIMAL(6, 2), times BIGINT)"]),
        ("TOTAL", ["TOTAL(numbers BIGINT[])"]),
        ("ANSWER", ["ANSWER()"]),
        ("COUNTED", ["COUNTED(words ARRAY<VARCHAR>)"]),
        ("OLDER", ["OLDER(person STRUCT<NAME VARCHAR, AGE INT>)"]),
        ("NEXT_DAY", ["NEXT_DAY(when TIMESTAMP, day DATE)"]),
        ("WORDS", ["WORDS(text VARCHAR)"]),
        ("WEIGHTED", ["WEIGHTED(value DOUBLE, weight DOUBLE, digits BIGINT)"]),
    ],
)
def test_types_come_from_annotations_and_texts(
    functions: UserFunctions, name: str, signatures: list[str]
) -> None:
    function = functions.get(name)
    assert function is not None
    assert [signature(function, each) for each in function.overloads] == signatures


@pytest.mark.parametrize(
    ("name", "given", "number"),
    [
        ("SHOUT", ["STRING"], 0),
        ("SHOUT", ["STRING", "INT"], 1),  # INT is widened to BIGINT
        ("SHOUT", ["INT"], None),
        ("SHOUT", ["STRING", "DOUBLE"], None),
        ("TOTAL", [], 0),
        ("TOTAL", ["INT", "BIGINT", "INT"], 0),
        ("TOTAL", ["INT", "STRING"], None),
        ("WEIGHTED", ["INT", "DOUBLE", "INT"], 0),
        ("WEIGHTED", ["INT", "DOUBLE"], None),
    ],
)
def test_the_signature_that_takes_the_arguments_is_called(
    functions: UserFunctions, name: str, given: list[str], number: int | None
) -> None:
    function = functions.get(name)
    assert function is not None
    assert chosen(function, _types(*given)) == number


def test_arguments_that_no_signature_takes_are_refused_with_what_there_is(functions: UserFunctions) -> None:
    function = functions.get("SHOUT")
    assert function is not None
    assert refusal(function, _types("INT")) == (
        "Function 'SHOUT' does not accept parameters (INTEGER). "
        "Valid alternatives are: SHOUT(text VARCHAR) or SHOUT(text VARCHAR, times BIGINT)."
    )


def test_a_function_is_described_as_ksqldb_does(functions: UserFunctions) -> None:
    function = functions.get("SHOUT")
    assert function is not None
    assert description(function).splitlines() == [
        "Name        : SHOUT",
        "Author      : The shop",
        "Version     : 1.2",
        "Overview    : The text in upper case, with exclamation marks",
        "Type        : SCALAR",
        f"Jar         : {FILE}",
        "Variations  :",
        "",
        "\tVariation   : SHOUT(text VARCHAR)",
        "\tReturns     : VARCHAR",
        "\tDescription : The text in upper case, with exclamation marks",
        "",
        "\tVariation   : SHOUT(text VARCHAR, times BIGINT)",
        "\tReturns     : VARCHAR",
        "\tDescription : With so many exclamation marks",
    ]


def test_a_decorated_function_can_still_be_called() -> None:
    @udf
    def shout(text: str) -> str:
        return text.upper()

    assert shout("a") == "A"


def _no_type() -> Any:
    @udf
    def unknown(a: object) -> int:
        return 1

    return unknown


def _no_return() -> Any:
    @udtf
    def rows(a: int) -> int:
        return a

    return rows


def _wrong_text() -> Any:
    @udf(params=["TEXT"], returns="INT")
    def wrong(a: str) -> int:
        return 1

    return wrong


def _no_class() -> Any:
    @udaf
    def summed(a: int) -> int:
        return a

    return summed


def _keywords() -> Any:
    @udf
    def keyed(a: int, *, b: int) -> int:
        return a

    return keyed


@pytest.mark.parametrize(
    ("declare", "message"),
    [
        (_no_type, "UNKNOWN: the type of a is not known"),
        (_no_return, "ROWS: the return type is missing"),
        (_wrong_text, "WRONG: 'TEXT' is not a type"),
        (_no_class, "SUMMED: an aggregate is a class"),
        (_keywords, "KEYED: SQL has no keyword arguments"),
    ],
)
def test_what_cannot_be_declared_is_refused_in_python(declare: Any, message: str) -> None:
    with pytest.raises(TypeError, match=message):
        declare()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, "does not exist"),
        ("x = 1", "There are no functions in"),
        ("def f(:", "line 1: SyntaxError"),
        ("1 / 0", "line 1 of functions.py: ZeroDivisionError: division by zero"),
        ("import nosuchmodule", "There is no module nosuchmodule, which"),
        (
            "from ottla.sql import udf\n@udf\ndef f(a: object) -> int: ...",
            "F: the type of a is not known",
        ),
    ],
)
def test_a_file_that_cannot_be_loaded_is_one_sentence(tmp_path: Path, text: str | None, message: str) -> None:
    file = tmp_path / "functions.py"
    if text is not None:
        file.write_text(text)
    with pytest.raises(SqlError) as caught:
        load([file])
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_module_that_does_not_exist_is_one_sentence() -> None:
    with pytest.raises(SqlError, match=r"^There is no module no_such_functions\.$"):
        load(["no_such_functions"])


def test_a_function_of_ksqldb_cannot_be_replaced() -> None:
    @udf
    def ucase(text: str) -> str:
        return text

    with pytest.raises(SqlError, match="UCASE"):
        UserFunctions([ucase], reserved=names())


def test_functions_are_listed_and_described_without_spark(statements: Sql) -> None:
    statements.session.functions = UserFunctions(load([FILE]))
    listed = statements("SHOW FUNCTIONS;")
    assert [row for row in listed if row[0] in ("SHOUT", "WORDS", "LONGEST", "EXPLODE", "SUM", "UCASE")] == [
        ("EXPLODE", "table"),
        ("LONGEST", "aggregate"),
        ("SHOUT", "scalar"),
        ("SUM", "aggregate"),
        ("UCASE", "scalar"),
        ("WORDS", "table"),
    ]
    [described] = statements.session.execute("DESCRIBE FUNCTION longest;")
    assert described.message is not None
    assert "Type        : AGGREGATE" in described.message
    [described] = statements.session.execute("DESCRIBE FUNCTION UCASE;")
    assert described.message == "Name        : UCASE\nType        : SCALAR\nJar         : internal"
    assert "Can't find any functions with the name 'NOSUCH'" in statements.refused(
        "DESCRIBE FUNCTION nosuch;"
    )
