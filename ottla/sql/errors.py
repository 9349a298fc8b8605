"""Errors of statements and their positions. Spark failures become errors of a statement too."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from ottla.sql.parsing.statements import Statement

_ERROR_CLASS = re.compile(r"^\[[A-Z0-9_.]+\]\s*")
_SQLSTATE = re.compile(r"\s*SQLSTATE: \w+.*", re.DOTALL)
_PYTHON_ERROR = re.compile(r"^[\w.]*(?:Error|Exception|NoJava|Unreachable|SqlError): (.+)$", re.MULTILINE)
_QUERY_FAILED = re.compile(r"^Query \[id = .*?\] terminated with exception: ", re.DOTALL)
_WORD = re.compile(r"[\w$]+|`[^`]*`|'[^']*'|\"[^\"]*\"")
_MOST_SHOWN = 140
_NAMES = re.compile(r"`([^`]+)`|\b([A-Za-z_]\w*)\(")
_NO_FUNCTION = re.compile(r"Cannot resolve routine `?(\w+)`?")


TOO_DEEP = "The statement nests too deep: split it, or use fewer parentheses."


class Position(NamedTuple):
    """Line and column, counted from 1 as in editors."""

    line: int
    column: int

    def __str__(self) -> str:
        return f"line {self.line}, column {self.column}"


class SqlError(Exception):
    """Error of a statement, as one sentence for its author."""

    def __init__(self, message: str, position: Position | None = None) -> None:
        super().__init__(message if position is None else f"{position}: {message}")
        self.message = message
        self.position = position

    def pointed(self, script: str) -> str:
        """Return the message with the line of the script and a marker below the word."""
        lines = script.split("\n")
        if self.position is None or not 1 <= self.position.line <= len(lines):
            return str(self)
        line, column = lines[self.position.line - 1], self.position.column - 1
        if not 0 <= column <= len(line):
            return str(self)
        word = _WORD.match(line, column)
        marks = "^" * max(1, len(word[0]) if word else 1)
        # Truncate a long line at its end, and also at its start if the word is far to the right.
        first = max(0, column - _MOST_SHOWN // 2) if len(line) > _MOST_SHOWN else 0
        shown = line[first : first + _MOST_SHOWN]
        before = "".join("\t" if letter == "\t" else " " for letter in shown[: column - first])
        return f"{self}\n  {shown.rstrip()}\n  {before}{marks}"


def sentence(error: BaseException) -> str:
    written = str(error)
    from_python = _PYTHON_ERROR.findall(written)
    # Spark's traceback ends with the error of the data source.
    if from_python and "Traceback" in written:
        written = from_python[-1]
    written = _ERROR_CLASS.sub("", written.strip())
    written = _QUERY_FAILED.sub("", written)
    written = _ERROR_CLASS.sub("", written)
    missing = _NO_FUNCTION.search(written)
    if missing:
        return f"Can't find any functions with the name '{missing[1].upper()}'; SHOW FUNCTIONS lists what there is."
    written = _SQLSTATE.sub("", written).split("\n\n")[0]
    lines = [line.strip() for line in written.splitlines() if line.strip()]
    first = lines[0] if lines else type(error).__name__
    return first if first.endswith((".", "!", "?")) else f"{first}."


def _place(error: BaseException, statement: Statement | None) -> Position | None:
    """Return the position of the word that Spark rejects, or the start of the statement."""
    if statement is None:
        return None
    missing = _NO_FUNCTION.search(str(error))
    for name in [missing[1]] if missing else _named(error):
        found = re.search(rf"(?<![\w$]){re.escape(name)}(?![\w$])", statement.text, re.IGNORECASE)
        if found:
            line, column = statement.position
            *lines, last = statement.text[: found.start()].split("\n")
            return Position(line + len(lines), len(last) + 1 if lines else column + len(last))
    return statement.position


def _named(error: BaseException) -> list[str]:
    """Return the names in the SQL fragment of the error: columns from last to first, then functions."""
    contexts: list[Any] = getattr(error, "getQueryContext", list)() or []
    texts = [each.fragment() for each in contexts if hasattr(each, "fragment")]
    columns, functions = [], []
    for text in texts:
        for column, function in _NAMES.findall(text):
            if column and not column.startswith("__"):
                columns.append(column)
            elif function:
                functions.append(function)
    return [*reversed(columns), *functions]


@contextmanager
def spark_errors_at(statement: Statement | None = None) -> Iterator[None]:
    """Turn Spark failures and excessive nesting into an SqlError at the statement."""
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    from ottla.jvm.java import NoJava

    try:
        yield
    except NoJava as error:
        raise SqlError(str(error)) from None
    except RecursionError:
        raise SqlError(TOO_DEEP, None if statement is None else statement.position) from None
    except (PySparkException, Py4JError) as error:
        raise SqlError(sentence(error), _place(error, statement)) from error
