"""Aggregate functions. `{order}` is the expression that orders the rows of a group."""

from __future__ import annotations

from collections.abc import Callable

from ottla.sql.planning.functions.collections import distinct
from ottla.sql.planning.functions.rules import (
    BIGINT,
    BOOLEAN,
    DOUBLE,
    Argument,
    Arguments,
    Form,
    Function,
    Types,
    WrongArguments,
    array_of,
    element,
    first,
    let,
)
from ottla.sql.sql_types import Field, SqlType, overflow

_BY_ORDER = "(l, r) -> CASE WHEN l.o < r.o THEN -1 WHEN l.o > r.o THEN 1 ELSE 0 END"
_HISTOGRAM_LIMIT = 1000


def listed(value: str, where: str = "") -> str:
    """Collect values in arrival order, including nulls."""
    return f"transform(array_sort(collect_list(struct({{order}} AS o, {value} AS v)){where}, {_BY_ORDER}), e -> e.v)"


def _by_offset(chosen: str, last: bool) -> Form:
    """(value[, ignore nulls]) returns one value; (value, count[, ignore nulls]) returns an array."""

    def form(arguments: Arguments) -> str:
        value, *options = arguments
        ignores = options[-1].sql.upper() if options and options[-1].is_a("BOOLEAN") else "TRUE"
        where = "" if ignores == "FALSE" else f" FILTER (WHERE {value.sql} IS NOT NULL)"
        if not options or options[0].is_a("BOOLEAN"):
            return f"{chosen}({value.sql}, {{order}}){where}"
        count = options[0].sql
        found = listed(value.sql, where)
        if last:
            return f"reverse(slice(reverse({found}), 1, {count}))"
        return f"slice({found}, 1, {count})"

    return form


def _by_offset_type(types: Types) -> SqlType | None:
    return array_of(types[0]) if len(types) > 1 and types[1] != BOOLEAN else types[0]


def _topk(arguments: Arguments) -> str:
    """Render TOPK. With other columns, the result is an array of structs."""
    if len(arguments) < 2:
        raise WrongArguments(f"TOPK takes a column and how many, not {len(arguments)} argument")
    value, *others, count = arguments
    if not others:
        return f"slice(sort_array(collect_list({value.sql}), false), 1, {count.sql})"
    fields = [("sort_col", value), *((f"col{i}", each) for i, each in enumerate(others))]
    row = ", ".join(f"'{name}', {each.sql}" for name, each in fields)
    order = (
        "(l, r) -> CASE WHEN l.sort_col > r.sort_col THEN -1 WHEN l.sort_col < r.sort_col THEN 1 ELSE 0 END"
    )
    rows = f"collect_list(named_struct({row})) FILTER (WHERE {value.sql} IS NOT NULL)"
    return f"slice(array_sort({rows}, {order}), 1, {count.sql})"


def _topk_type(types: Types) -> SqlType | None:
    if len(types) == 2:
        return array_of(types[0])
    if any(each is None for each in types):
        return None
    names = ["sort_col", *(f"col{i}" for i in range(len(types) - 2))]
    fields = (Field(name, name, kind) for name, kind in zip(names, types, strict=False) if kind is not None)
    return array_of(SqlType("STRUCT", fields=tuple(fields)))


def _has_map(kind: SqlType | None) -> bool:
    if kind is None:
        return False
    inner = [kind.element, *(field.type for field in kind.fields)]
    return kind.name == "MAP" or any(_has_map(each) for each in inner)


def _collect_set(arguments: Arguments) -> str:
    [value] = arguments
    if _has_map(value.type):
        return distinct(listed(value.sql), value.type)
    return f"array_distinct({listed(value.sql)})"


def _sum(arguments: Arguments) -> str:
    """Keep the argument's type, and return 0 for no values. A DECIMAL that overflows ends the query, as in ksqlDB."""
    [value] = arguments
    if value.type is None or (value.is_a("DECIMAL") and not value.type.precision):
        return f"sum({value.sql})"
    if not value.is_a("DECIMAL"):
        return f"CAST(coalesce(sum({value.sql}), 0) AS {value.type.ddl})"
    # Spark's sum has ten more digits, but at most 38.
    total = f"coalesce(sum({value.sql}), CASE WHEN count({value.sql}) = 0 THEN 0 END)"
    fits = f"try_cast(v.a AS {value.type.ddl})"
    return let(f"coalesce({fits}, raise_error('{overflow(value.type)}'))", Argument(total))


def _sum_list(arguments: Arguments) -> str:
    """Sum the elements of arrays, skipping nulls."""
    [array] = arguments
    kind = element([array.type])
    if kind is None:
        raise WrongArguments("Function 'SUM_LIST' takes an array of numbers")
    zero = f"CAST(0 AS {kind.ddl})"
    total = f"aggregate(filter({array.sql}, x -> x IS NOT NULL), {zero}, (s, x) -> s + x)"
    return f"CAST(coalesce(sum({total}), 0) AS {kind.ddl})"


_ATTR = "CASE WHEN count({0}) = count(1) AND min({0}) = max({0}) THEN max({0}) END"
_COUNTED = "transform(array_distinct(v), k -> struct(k, CAST(size(filter(v, x -> x = k)) AS BIGINT)))"
_HISTOGRAM = (
    "transform(array(filter({0}, x -> x IS NOT NULL)), "
    f"v -> map_from_entries(slice({_COUNTED}, 1, {_HISTOGRAM_LIMIT})))[0]"
).replace("{0}", listed("CAST({0} AS STRING)"))

_LIST_TYPE: Callable[[Types], SqlType | None] = lambda types: array_of(types[0])  # noqa: E731

_LATEST, _EARLIEST = _by_offset("max_by", last=True), _by_offset("min_by", last=False)

FUNCTIONS: dict[str, Function] = {
    "LATEST_BY_OFFSET": Function(dict.fromkeys((1, 2, 3), _LATEST), _by_offset_type),
    "EARLIEST_BY_OFFSET": Function(dict.fromkeys((1, 2, 3), _EARLIEST), _by_offset_type),
    "COUNT": Function({0: "count(1)", 1: "count({0})"}, BIGINT),
    "COUNT_DISTINCT": Function({1: "CAST(size(collect_set({0})) AS BIGINT)"}, BIGINT),
    "TOPK": Function({None: _topk}, _topk_type),
    "TOPKDISTINCT": Function({2: "slice(sort_array(collect_set({0}), false), 1, {1})"}, _LIST_TYPE),
    # In ksqlDB this returns the variance; STDDEV_SAMPLE returns the standard deviation.
    "STDDEV_SAMP": Function({1: "coalesce(var_samp({0}), 0D)"}, DOUBLE),
    "STDDEV_SAMPLE": Function({1: "coalesce(stddev_samp({0}), 0D)"}, DOUBLE),
    "CORRELATION": Function({2: "coalesce(corr({0}, {1}), CAST('NaN' AS DOUBLE))"}, DOUBLE),
    "SUM": Function({1: _sum}, first),
    "SUM_LIST": Function({1: _sum_list}, element),
    "AVG": Function({1: "coalesce(avg(CAST({0} AS DOUBLE)), 0D)"}, DOUBLE),
    "MIN": Function({1: "min({0})"}, first),
    "MAX": Function({1: "max({0})"}, first),
    "COLLECT_LIST": Function({1: listed("{0}")}, _LIST_TYPE),
    "COLLECT_SET": Function({1: _collect_set}, _LIST_TYPE),
    "HISTOGRAM": Function({1: _HISTOGRAM}, SqlType("MAP", element=BIGINT)),
    "ATTR": Function({1: _ATTR}, first),
}
