"""What Spark says, as one sentence."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from ottla.spark.sql.errors import Position, SqlError
from ottla.spark.sql.parsing.statements import Statement

_CLASS = re.compile(r"^\[[A-Z0-9_.]+\]\s*")
_STATE = re.compile(r"\s*SQLSTATE: \w+.*", re.DOTALL)
_PYTHON_ERROR = re.compile(r"^[\w.]*(?:Error|Exception|NoJava|Unreachable|SqlError): (.+)$", re.MULTILINE)
_QUERY_FAILED = re.compile(r"^Query \[id = .*?\] terminated with exception: ", re.DOTALL)


_NO_FUNCTION = re.compile(r"Cannot resolve routine `?(\w+)`?")


def sentence(error: BaseException) -> str:
    """The first thing that a reader can use."""
    written = str(error)
    from_python = _PYTHON_ERROR.findall(written)
    # The error of a data source stands last in the traceback that Spark hands on.
    if from_python and "Traceback" in written:
        written = from_python[-1]
    written = _CLASS.sub("", written.strip())
    written = _QUERY_FAILED.sub("", written)
    written = _CLASS.sub("", written)
    missing = _NO_FUNCTION.search(written)
    if missing:
        return f"There is no function {missing[1].upper()}; SHOW FUNCTIONS lists what there is."
    written = _STATE.sub("", written).split("\n\n")[0]
    lines = [line.strip() for line in written.splitlines() if line.strip()]
    first = lines[0] if lines else type(error).__name__
    return first if first.endswith((".", "!", "?")) else f"{first}."


def _place(error: BaseException, statement: Statement | None) -> Position | None:
    """Of the function that Spark does not know; of the statement for everything else."""
    if statement is None:
        return None
    missing = _NO_FUNCTION.search(str(error))
    found = missing and re.search(rf"\b{missing[1]}\s*\(", statement.text, re.IGNORECASE)
    if not found:
        return statement.position
    line, column = statement.position
    *lines, last = statement.text[: found.start()].split("\n")
    return Position(line + len(lines), len(last) + 1 if lines else column + len(last))


@contextmanager
def told(statement: Statement | None = None) -> Iterator[None]:
    """Failures of Spark become errors of the statement."""
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    from ottla.jvm.java import NoJava

    try:
        yield
    except NoJava as error:
        raise SqlError(str(error)) from None
    except (PySparkException, Py4JError) as error:
        raise SqlError(sentence(error), _place(error, statement)) from error
