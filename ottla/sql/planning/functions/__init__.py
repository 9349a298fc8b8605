"""ksqlDB's functions as Spark SQL. Functions with the same name and meaning in Spark pass through."""

from __future__ import annotations

from collections.abc import Sequence

from ottla.sql.planning.functions import aggregates, collections, json_texts, numbers, strings, times
from ottla.sql.planning.functions.rules import Argument, Types, WrongArguments
from ottla.sql.planning.functions.times import UNITS_FIRST
from ottla.sql.sql_types import SqlType

__all__ = ["AGGREGATES", "UNITS_FIRST", "WrongArguments", "names", "render", "result_type"]

SCALAR = {
    **strings.FUNCTIONS,
    **numbers.FUNCTIONS,
    **times.FUNCTIONS,
    **collections.FUNCTIONS,
    **json_texts.FUNCTIONS,
}
AGGREGATES = aggregates.FUNCTIONS

#: Functions that the planner renders itself or passes through, listed for SHOW FUNCTIONS and completion.
_OTHERS = ("CAST", "EXPLODE", "FILTER", "REDUCE", "TRANSFORM")


def names() -> list[str]:
    return sorted({*SCALAR, *AGGREGATES, *_OTHERS})


def render(name: str, arguments: Sequence[Argument], order: str) -> str | None:
    """Render the call for Spark, or return None if Spark uses the same form."""
    function = SCALAR.get(name) or AGGREGATES.get(name)
    if function is None or not function.forms:
        return None
    form = function.forms.get(len(arguments), function.forms.get(None))
    if form is None:
        wanted = " or ".join(str(count) for count in function.forms)
        types = ", ".join("any" if each.type is None else each.type.name for each in arguments)
        raise WrongArguments(
            f"Function '{name}' does not accept parameters ({types}): "
            f"it takes {wanted} argument{'s' if wanted != '1' else ''}, not {len(arguments)}"
        )
    if not isinstance(form, str):
        return form(arguments).replace("{order}", order)
    written = [each.sql for each in arguments]
    return form.format(*written, all=", ".join(written), rest=", ".join(written[1:]), order=order)


def result_type(name: str, types: Types) -> SqlType | None:
    """Return the type of a call, or None if only Spark knows it."""
    function = SCALAR.get(name) or AGGREGATES.get(name)
    if function is None or function.result is None:
        return None
    if isinstance(function.result, SqlType):
        return function.result
    return function.result(types) if types else None
