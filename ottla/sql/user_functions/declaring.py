"""`@udf`, `@udaf` and `@udtf`: decorators for Python functions that statements can call.

    @udf(description="The text in upper case, with an exclamation mark")
    def shout(text: str) -> str:
        return text.upper() + "!"

Types come from annotations, or from SQL types as text: `@udf(params=["DECIMAL(6, 2)"], returns="STRING")`, or
`Annotated[Decimal, "DECIMAL(6, 2)"]`. If null is passed for a parameter that may not be None, the result is null.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from ottla.sql.errors import SqlError
from ottla.sql.sql_types import SqlType
from ottla.sql.user_functions.python_types import (
    allows_none,
    annotated_type,
    annotations_of,
    written_type,
)

Kind = Literal["SCALAR", "AGGREGATE", "TABLE"]


@dataclass(frozen=True)
class Parameter:
    name: str
    type: SqlType
    takes_null: bool = True


@dataclass(frozen=True)
class Overload:
    """One signature. For an aggregate, `run` is the class, and `settings` are its constructor literals."""

    parameters: tuple[Parameter, ...]
    returns: SqlType
    run: Callable[..., Any]
    is_variadic: bool = False  # the last parameter may be repeated
    arrow: bool = False  # takes and returns Arrow arrays
    description: str = ""
    settings: tuple[Parameter, ...] = ()

    @property
    def can_undo(self) -> bool:
        return hasattr(self.run, "undo")

    @property
    def can_merge(self) -> bool:
        return hasattr(self.run, "merge")


@dataclass
class UserFunction:
    name: str
    kind: Kind
    description: str = ""
    author: str = ""
    version: str = ""
    overloads: list[Overload] = field(default_factory=list)
    run: Callable[..., Any] | None = None
    path: str = ""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        assert self.run is not None
        return self.run(*args, **kwargs)

    def overload(
        self,
        function: Callable[..., Any] | None = None,
        *,
        params: Sequence[str] | None = None,
        returns: str | None = None,
        arrow: bool = False,
        description: str = "",
    ) -> Any:
        """Add another signature to the function."""

        def declare(run: Callable[..., Any]) -> UserFunction:
            self.overloads.append(_signature(self.name, self.kind, run, params, returns, arrow, description))
            return self

        return declare if function is None else declare(function)


def udf(function: Callable[..., Any] | None = None, **options: Any) -> Any:
    """Declare a scalar function. With `arrow=True` it takes and returns Arrow arrays."""
    return _decorator("SCALAR", function, **options)


def udtf(function: Callable[..., Any] | None = None, **options: Any) -> Any:
    """Declare a table function that returns or yields values, one per row."""
    return _decorator("TABLE", function, **options)


def udaf(function: Callable[..., Any] | None = None, **options: Any) -> Any:
    """Declare an aggregate: a class with ksqlDB's methods initialize() and aggregate(value, aggregate).

    Optional methods are merge(one, other) for session windows, map(aggregate) for the result, and undo(value,
    aggregate) for tables.
    """
    return _decorator("AGGREGATE", function, **options)


def _decorator(
    kind: Kind,
    function: Callable[..., Any] | None,
    *,
    name: str | None = None,
    params: Sequence[str] | None = None,
    returns: str | None = None,
    arrow: bool = False,
    description: str = "",
    author: str = "",
    version: str = "",
) -> Any:
    def declare(run: Callable[..., Any]) -> UserFunction:
        called = (name or run.__name__).upper()
        # Use only the function's own docstring, because an inherited class docstring describes something else.
        doc = inspect.cleandoc(run.__doc__) if run.__doc__ else ""
        about = description or doc.split("\n\n")[0].replace("\n", " ")
        overload = _signature(called, kind, run, params, returns, arrow, about)
        return UserFunction(called, kind, about, author, version, [overload], run)

    return declare if function is None else declare(function)


def _signature(
    name: str,
    kind: Kind,
    run: Callable[..., Any],
    params: Sequence[str] | None,
    returns: str | None,
    arrow: bool,
    description: str,
) -> Overload:
    try:
        if kind == "AGGREGATE":
            return _aggregate_signature(name, run, params, returns, description)
        parameters, variadic = _parameters(name, run, params)
        result = written_type(returns) if returns else annotated_type(annotations_of(run).get("return"))
        if kind == "TABLE" and result is not None and not returns:
            result = result.element if result.name == "ARRAY" else None
    except SqlError as error:
        raise TypeError(f"{name}: {error.message}") from None
    if result is None:
        raise TypeError(f"{name}: the return type is missing. Pass returns='…' or annotate a SQL type.")
    return Overload(parameters, result, run, variadic, arrow, description)


def _aggregate_signature(
    name: str, run: Any, params: Sequence[str] | None, returns: str | None, description: str
) -> Overload:
    if not all(hasattr(run, each) for each in ("initialize", "aggregate")):
        raise TypeError(f"{name}: an aggregate is a class with the methods initialize and aggregate.")
    parameters, variadic = _parameters(name, run.aggregate, params, skip_last=True)
    settings: tuple[Parameter, ...] = ()
    if run.__init__ is not object.__init__:
        settings, _ = _parameters(name, run.__init__, None)
    method = run.map if hasattr(run, "map") else run.aggregate
    result = written_type(returns) if returns else annotated_type(annotations_of(method).get("return"))
    if result is None:
        raise TypeError(f"{name}: the return type is missing. Pass returns='…' or annotate map or aggregate.")
    return Overload(parameters, result, run, variadic, False, description, settings)


def _parameters(
    name: str, run: Callable[..., Any], params: Sequence[str] | None, *, skip_last: bool = False
) -> tuple[tuple[Parameter, ...], bool]:
    hints = annotations_of(run)
    declared = [each for each in inspect.signature(run).parameters.values() if each.name != "self"]
    if skip_last:
        declared = declared[:-1]
    variadic = bool(declared) and declared[-1].kind is inspect.Parameter.VAR_POSITIONAL
    if any(each.kind in (each.KEYWORD_ONLY, each.VAR_KEYWORD) for each in declared):
        raise TypeError(f"{name}: SQL has no keyword arguments.")
    if params is not None and len(params) != len(declared):
        raise TypeError(f"{name}: params names {len(params)} types, and it takes {len(declared)} arguments.")
    found = []
    for number, each in enumerate(declared):
        hint = hints.get(each.name)
        kind = written_type(params[number]) if params is not None else annotated_type(hint)
        if kind is None:
            raise TypeError(f"{name}: the type of {each.name} is not known; annotate it, or say params=[…].")
        found.append(Parameter(each.name, kind, allows_none(hint)))
    return tuple(found), variadic
