"""Promise: an error shows the line and marks the word. No Spark."""

from __future__ import annotations

import pytest

from ottla.sql.errors import Position, SqlError, _place
from ottla.sql.parsing.statements import Statement


@pytest.mark.parametrize(
    ("script", "position", "shown"),
    [
        ("SELECT nam FROM t;", (1, 8), ["  SELECT nam FROM t;", "         ^^^"]),
        ("SELECT 1;\n\tSELECT x;", (2, 9), ["  \tSELECT x;", "  \t       ^"]),
        ("SELECT 'a b' + 1;", (1, 8), ["  SELECT 'a b' + 1;", "         ^^^^^"]),
        ("SELECT", (1, 7), ["  SELECT", "        ^"]),
    ],
)
def test_the_word_is_marked(script: str, position: tuple[int, int], shown: list[str]) -> None:
    error = SqlError("No.", Position(*position))
    assert error.pointed(script).split("\n") == [f"line {position[0]}, column {position[1]}: No.", *shown]


def test_a_long_line_is_cut_around_the_word() -> None:
    script = f"SELECT {', '.join(f'column_{number}' for number in range(200))}, wrong FROM t;"
    column = script.index("wrong") + 1
    _, line, marks = SqlError("No.", Position(1, column)).pointed(script).split("\n")
    assert len(line) < 150
    assert line[marks.index("^") :].startswith("wrong FROM")
    assert marks.count("^") == 5


def test_a_place_that_is_not_in_the_script_is_only_named() -> None:
    assert SqlError("No.", Position(9, 1)).pointed("SELECT 1;") == "line 9, column 1: No."
    assert SqlError("No.").pointed("SELECT 1;") == "No."


class SparkError(Exception):
    def __init__(self, fragment: str) -> None:
        super().__init__("[DATATYPE_MISMATCH] …")
        self._fragment = fragment

    def getQueryContext(self) -> list[SparkError]:
        return [self]

    def fragment(self) -> str:
        return self._fragment


@pytest.mark.parametrize(
    ("fragment", "word"),
    [
        ("`T`.`AGE` > `T`.`NAME`", "name"),
        ("abs(`__time`)", "ABS"),
        ("something else", "SELECT"),
    ],
)
def test_an_error_of_spark_is_at_the_word_that_it_is_about(fragment: str, word: str) -> None:
    text = "SELECT ABS(x)\nFROM t WHERE age > name;"
    place = _place(SparkError(fragment), Statement(text=text, position=Position(3, 5)))
    assert place is not None
    line, column = place
    written = ([""] * 2 + ("    " + text).split("\n"))[line - 1]
    assert written[column - 1 :].startswith(word)
