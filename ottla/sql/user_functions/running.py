"""Python functions in Spark's workers, over Arrow batches. A failing row becomes null."""

from __future__ import annotations

import datetime
import logging
from collections.abc import Callable, Sequence
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ottla.sql.sql_types import SqlType
from ottla.sql.user_functions.catalogue import wanted
from ottla.sql.user_functions.declaring import Kind, Overload, UserFunction

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

_logger = logging.getLogger(__name__)
_complained: set[str] = set()


def spark_name(name: str, number: int, kind: Kind) -> str:
    """Return the Spark name of a signature. An aggregate is folded over the list of its rows."""
    return f"ottla_{kind.lower()}_{name.lower()}_{number}"


def register(spark: SparkSession, functions: Sequence[UserFunction]) -> None:
    from pyspark.sql.functions import arrow_udf

    for function in functions:
        for number, overload in enumerate(function.overloads):
            returns = overload.returns
            if function.kind == "TABLE":
                returns = SqlType("ARRAY", element=returns)
            run = _scalar if function.kind == "SCALAR" else _table if function.kind == "TABLE" else _folded
            batches = run(function.name, overload, _arrow_type(returns), returns)
            # Spark would use annotations to choose the kind of function.
            batches.__annotations__.clear()
            registered = arrow_udf(batches, returns.ddl)
            spark.udf.register(spark_name(function.name, number, function.kind), registered)


def _arrow_type(kind: SqlType) -> pa.DataType:
    from pyspark.sql.pandas.types import to_arrow_type
    from pyspark.sql.types import DataType

    return to_arrow_type(DataType.fromDDL(kind.ddl), timezone="UTC")


Batches = Callable[..., Any]


def _scalar(name: str, overload: Overload, arrow: pa.DataType, returns: SqlType) -> Batches:
    if overload.arrow:
        return _arrow_function(name, overload, arrow)

    def run(*columns: pa.Array) -> pa.Array:
        return to_arrow(
            name, [_called(name, overload, row) for row in _rows(overload, columns)], arrow, returns
        )

    return run


def _table(name: str, overload: Overload, arrow: pa.DataType, returns: SqlType) -> Batches:
    def run(*columns: pa.Array) -> pa.Array:
        lists = [_called(name, overload, row, many=True) for row in _rows(overload, columns)]
        return to_arrow(name, lists, arrow, returns)

    return run


def _folded(name: str, overload: Overload, arrow: pa.DataType, returns: SqlType) -> Batches:
    """Fold an aggregate over groups. Rows arrive as an ordered list of structs, followed by the literals."""

    def run(rows: pa.Array, *settings: pa.Array) -> pa.Array:
        made = [each[0].as_py() for each in settings] if len(rows) else []
        results = []
        for group in rows.to_pylist():
            accumulator = UserAggregate(name, overload, made)
            state = accumulator.initial()
            for row in group or ():
                types = wanted(overload, len(row) + len(made))
                pairs = zip(row.values(), types, strict=False)
                state = accumulator.add(state, [_from_arrow(each, kind.type) for each, kind in pairs])
            results.append(accumulator.result(state))
        return to_arrow(name, results, arrow, returns)

    return run


def _arrow_function(name: str, overload: Overload, arrow: pa.DataType) -> Batches:
    def run(*columns: pa.Array) -> pa.Array:
        import pyarrow as pa

        given = columns if overload.parameters else ()
        try:
            found = overload.run(*given)
            found = found.combine_chunks() if isinstance(found, pa.ChunkedArray) else found
            if not isinstance(found, pa.Array):
                found = pa.array(found, type=arrow)
            if len(found) != len(columns[0]):
                raise ValueError(f"it returned {len(found)} values for {len(columns[0])} rows")
            return found if found.type == arrow else found.cast(arrow)
        except Exception as error:
            complain(name, error)
            return pa.nulls(len(columns[0]), arrow)

    return run


class UserAggregate:
    """Wraps a Python aggregate. Failures leave the state unchanged."""

    def __init__(self, name: str, overload: Overload, settings: Sequence[Any]) -> None:
        self._name = name
        self._skips = [each.takes_null is False for each in overload.parameters]
        self._variadic = overload.is_variadic
        self._object = overload.run(*settings)

    def initial(self) -> Any:
        try:
            return self._object.initialize()
        except Exception as error:
            complain(self._name, error)
            return None

    def add(self, state: Any, values: Sequence[Any]) -> Any:
        return self._change(self._object.aggregate, state, values)

    def undo(self, state: Any, values: Sequence[Any]) -> Any:
        return self._change(self._object.undo, state, values)

    def _change(self, change: Callable[..., Any], state: Any, values: Sequence[Any]) -> Any:
        for number, value in enumerate(values):
            if value is None and self._skips[min(number, len(self._skips) - 1)]:
                return state
        try:
            return change(*values, state)
        except Exception as error:
            complain(self._name, error)
            return state

    def merge(self, one: Any, other: Any) -> Any:
        try:
            return self._object.merge(one, other)
        except Exception as error:
            complain(self._name, error)
            return one

    def result(self, state: Any) -> Any:
        try:
            return self._object.map(state) if hasattr(self._object, "map") else state
        except Exception as error:
            complain(self._name, error)
            return None


def _rows(overload: Overload, columns: Sequence[pa.Array]) -> Any:
    if not overload.parameters:  # Spark needs a column for the row count
        return [()] * len(columns[0])
    types = [each.type for each in wanted(overload, len(columns))]
    return zip(*(_column(each, kind) for each, kind in zip(columns, types, strict=True)), strict=True)


def _column(column: pa.Array, kind: SqlType) -> list[Any]:
    values: list[Any] = column.to_pylist()
    if kind.element is not None or kind.fields:
        return [_from_arrow(each, kind) for each in values]
    return values


def _called(name: str, overload: Overload, row: Sequence[Any], many: bool = False) -> Any:
    if None in row:
        for parameter, value in zip(wanted(overload, len(row)), row, strict=False):
            if value is None and not parameter.takes_null:
                return None
    try:
        found = overload.run(*row)
        return list(found) if many and found is not None else found
    except Exception as error:
        complain(name, error)
        return None


def complain(name: str, error: Exception) -> None:
    """Log the first error of each function in the worker's log."""
    if name in _complained:
        return
    _complained.add(name)
    frame = error.__traceback__
    while frame is not None and frame.tb_next is not None:
        frame = frame.tb_next
    where = (
        "" if frame is None else f" ({Path(frame.tb_frame.f_code.co_filename).name}, line {frame.tb_lineno})"
    )
    _logger.warning(
        "The function %s failed, and its result is null: %s: %s%s. Further failures of it are not logged.",
        name, type(error).__name__, error, where,
    )  # fmt: skip


def _from_arrow(value: Any, kind: SqlType) -> Any:
    """Convert Arrow maps, which are lists of pairs, to dictionaries."""
    if value is None:
        return None
    if kind.name == "MAP" and kind.element is not None:
        return {key: _from_arrow(each, kind.element) for key, each in dict(value).items()}
    if kind.name == "ARRAY" and kind.element is not None:
        return [_from_arrow(each, kind.element) for each in value]
    if kind.name == "STRUCT":
        return {each.name: _from_arrow(value.get(each.name), each.type) for each in kind.fields}
    return value


def _to_plain(value: Any, kind: SqlType) -> Any:
    if value is None:
        return None
    if kind.name == "MAP" and kind.element is not None:
        return [(str(key), _to_plain(each, kind.element)) for key, each in dict(value).items()]
    if kind.name == "ARRAY" and kind.element is not None:
        return [_to_plain(each, kind.element) for each in value]
    if kind.name == "STRUCT":
        return {
            each.name: _to_plain(
                value[each.name] if each.name in value else value.get(each.written), each.type
            )
            for each in kind.fields
        }
    if kind.name == "TIMESTAMP" and isinstance(value, datetime.datetime) and value.tzinfo is None:
        return value.replace(tzinfo=datetime.UTC)
    return value


def to_arrow(name: str, values: list[Any], arrow: pa.DataType, kind: SqlType) -> pa.Array:
    """Convert values to Arrow, with null for values of the wrong type."""
    import pyarrow as pa

    nested = kind.element is not None or kind.fields or kind.name == "TIMESTAMP"
    try:
        return pa.array([_to_plain(each, kind) for each in values] if nested else values, type=arrow)
    except Exception:
        kept = []
        for value in values:
            try:
                kept.append(pa.array([_to_plain(value, kind)], type=arrow)[0].as_py())
            except Exception as error:
                complain(name, error)
                kept.append(None)
        return pa.array(kept, type=arrow)


_CLASSES: dict[str, tuple[type, ...]] = {
    "BOOLEAN": (bool,),
    "INTEGER": (int,),
    "BIGINT": (int,),
    "DOUBLE": (float, int),
    "DECIMAL": (Decimal, int),
    "STRING": (str,),
    "BYTES": (bytes, bytearray),
    "DATE": (datetime.date,),
    "TIME": (datetime.time,),
    "TIMESTAMP": (datetime.datetime,),
    "ARRAY": (list, tuple),
    "MAP": (dict,),
    "STRUCT": (dict,),
}


def fits(name: str, value: Any, kind: SqlType) -> bool:
    """Return True if a result has the declared type. Log a complaint otherwise."""
    if value is None:
        return True
    problem = _problem(value, kind)
    if problem:
        complain(name, TypeError(problem))
    return not problem


def _problem(value: Any, kind: SqlType) -> str:
    expected: Any = _CLASSES[kind.name]
    if not isinstance(value, expected) or (isinstance(value, bool) and kind.name != "BOOLEAN"):
        return f"{value!r} is no {kind}"
    bits = {"INTEGER": 31, "BIGINT": 63}.get(kind.name)
    if bits is not None and not -(1 << bits) <= value < 1 << bits:
        return f"{value} is too large for {kind}"
    inner: list[tuple[Any, SqlType]] = []
    if kind.element is not None:
        inner = [(each, kind.element) for each in (value.values() if kind.name == "MAP" else value)]
    elif kind.fields:
        inner = [(value.get(each.name), each.type) for each in kind.fields]
    return next((found for each, of in inner if each is not None and (found := _problem(each, of))), "")
