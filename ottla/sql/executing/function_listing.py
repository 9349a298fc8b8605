"""SHOW FUNCTIONS and DESCRIBE FUNCTION."""

from __future__ import annotations

from ottla.sql.errors import SqlError
from ottla.sql.executing.results import Result
from ottla.sql.parsing.statements import DescribeFunction, Show
from ottla.sql.planning import functions
from ottla.sql.user_functions import UserFunctions
from ottla.sql.user_functions.catalogue import description

_TABLE_FUNCTIONS = ("CUBE_EXPLODE", "EXPLODE")


def show_functions(statement: Show, user: UserFunctions) -> Result:
    rows = [(name, _kind(name)) for name in functions.names()]
    rows += [(each.name, each.kind.lower()) for each in user.all()]
    return Result(statement, "Functions of Spark SQL work too.", ("FUNCTION", "KIND"), sorted(rows))


def _kind(name: str) -> str:
    if name in _TABLE_FUNCTIONS:
        return "table"
    return "aggregate" if name in functions.AGGREGATES else "scalar"


def describe_function(statement: DescribeFunction, user: UserFunctions) -> Result:
    name = statement.name.upper()
    found = user.get(name)
    if found is not None:
        return Result(statement, description(found))
    if name not in functions.names():
        raise SqlError(f"Can't find any functions with the name '{statement.name}'", statement.position)
    facts = (("Name", name), ("Type", _kind(name).upper()), ("Jar", "internal"))
    return Result(statement, "\n".join(f"{fact:<11} : {value}" for fact, value in facts))
