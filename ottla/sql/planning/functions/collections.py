"""Functions for arrays and maps, and for their elements."""

from __future__ import annotations

from collections.abc import Callable

from ottla.sql.planning.functions.rules import (
    BOOLEAN,
    INTEGER,
    STRING,
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
from ottla.sql.sql_types import Field, SqlType, has_map


def _either(both: str) -> str:
    """If one argument is null, return the other."""
    return f"CASE WHEN {{0}} IS NULL THEN {{1}} WHEN {{1}} IS NULL THEN {{0}} ELSE {both} END"


def _no_arguments(arguments: Arguments) -> str:
    raise WrongArguments("Function 'COALESCE' does not accept parameters ()")


def _join(arguments: Arguments) -> str:
    delimiter = arguments[1].sql if len(arguments) > 1 else "','"
    shown = f"transform({arguments[0].sql}, x -> coalesce(CAST(x AS STRING), 'null'))"
    return f"array_join({shown}, coalesce({delimiter}, ''))"


def _series(arguments: Arguments) -> str:
    """Count up or down without a step. A step in the wrong direction gives null, where Spark would fail."""
    if len(arguments) == 2:
        return let("sequence(v.a, v.b)", *arguments)
    step = arguments[2]
    body = "CASE WHEN (v.c > 0 AND v.b >= v.a) OR (v.c < 0 AND v.b <= v.a) THEN sequence(v.a, v.b, v.c) END"
    return let(body, *arguments[:2], step)


def _slice(arguments: Arguments) -> str:
    body = "CASE WHEN v.b >= 1 AND v.c <= array_size(v.a) AND v.b <= v.c + 1 THEN slice(v.a, v.b, v.c - v.b + 1) END"
    array, start, end = arguments
    to = end.sql if end.sql.isdigit() else f"coalesce({end.sql}, array_size({array.sql}))"
    return let(body, array, Argument(f"coalesce({start.sql}, 1)"), Argument(to))


def _cube(arguments: Arguments) -> str:
    """Return every row in which each column is its value or null. A null column occurs once."""
    [columns] = arguments
    without = "concat(p, array(NULL))"
    more = f"IF(x IS NULL, array({without}), array({without}, concat(p, array(x))))"
    return (
        f"aggregate({columns.sql}, array(slice({columns.sql}, 1, 0)), "
        f"(s, x) -> flatten(transform(s, p -> {more})))"
    )


def identity(value: str, kind: SqlType | None) -> str:
    """Return an expression that is equal for equal values. Spark has no equality for maps."""
    if kind is None or not has_map(kind):
        return value
    if kind.name == "MAP" and kind.element is not None and not has_map(kind.element):
        return f"array_sort(map_entries({value}))"
    return f"to_json(struct({value}))"


def distinct(array: str, kind: SqlType | None) -> str:
    seen = f"exists(slice(v.a, 1, i), y -> {identity('y', kind)} <=> {identity('x', kind)})"
    return let(f"filter(v.a, (x, i) -> NOT {seen})", Argument(array))


def _by_identity(plain: str, of_maps: Callable[[str, str, SqlType | None], str]) -> Form:
    """Use Spark's function of two arrays, unless the elements are or contain maps."""

    def form(arguments: Arguments) -> str:
        one, other = arguments
        kind = element([one.type])
        if kind is None or not has_map(kind):
            return plain.format(one.sql, other.sql)
        return of_maps(one.sql, other.sql, kind)

    return form


def _among(array: str, value: str, kind: SqlType | None) -> str:
    return f"exists({array}, y -> {identity('y', kind)} <=> {identity(value, kind)})"


def _array_distinct(arguments: Arguments) -> str:
    [array] = arguments
    kind = element([array.type])
    return f"array_distinct({array.sql})" if kind is None or not has_map(kind) else distinct(array.sql, kind)


def _entries_type(types: Types) -> SqlType | None:
    value = element(types)
    if value is None:
        return None
    return array_of(SqlType("STRUCT", fields=(Field("K", "K", STRING), Field("V", "V", value))))


_ENTRIES = "transform(map_entries({0}), e -> named_struct('K', e.key, 'V', e.value))"
_SORTED_ENTRIES = (
    f"CASE WHEN {{1}} THEN array_sort({_ENTRIES}, "
    f"(l, r) -> CASE WHEN l.K < r.K THEN -1 WHEN l.K > r.K THEN 1 ELSE 0 END) ELSE {_ENTRIES} END"
)
_SORT: Form = "CASE WHEN upper({1}) LIKE 'DESC%' THEN sort_array({0}, false) ELSE array_sort({0}) END"


def _keys(types: Types) -> SqlType | None:
    return array_of(STRING)


def _map_of_arrays(types: Types) -> SqlType | None:
    value = types[1].element if types[1] is not None else None
    return None if value is None else SqlType("MAP", element=value)


FUNCTIONS: dict[str, Function] = {
    "ARRAY_LENGTH": Function({1: "array_size({0})"}, INTEGER),
    "ARRAY_CONCAT": Function({2: _either("concat({0}, {1})")}, first),
    "ARRAY_CONTAINS": Function(
        {
            2: _by_identity(
                "coalesce(exists({0}, x -> x <=> {1}), false)",
                lambda array, value, kind: f"coalesce({_among(array, value, kind)}, false)",
            )
        },
        BOOLEAN,
    ),
    "ARRAY_DISTINCT": Function({1: _array_distinct}, first),
    "ARRAY_EXCEPT": Function(
        {
            2: _by_identity(
                "array_except({0}, {1})",
                lambda one, other, kind: distinct(
                    f"filter({one}, z -> NOT {_among(other, 'z', kind)})", kind
                ),
            )
        },
        first,
    ),
    "ARRAY_INTERSECT": Function(
        {
            2: _by_identity(
                "array_intersect({0}, {1})",
                lambda one, other, kind: distinct(f"filter({one}, z -> {_among(other, 'z', kind)})", kind),
            )
        },
        first,
    ),
    "ARRAY_UNION": Function(
        {
            2: _by_identity(
                "array_union({0}, {1})",
                lambda one, other, kind: distinct(f"concat({one}, {other})", kind),
            )
        },
        first,
    ),
    "ARRAY_JOIN": Function({1: _join, 2: _join}, STRING),
    "ARRAY_MAX": Function({}, element),
    "ARRAY_MIN": Function({}, element),
    "ARRAY_REMOVE": Function(
        {
            2: _by_identity(
                "filter({0}, x -> NOT (x <=> {1}))",
                lambda array, value, kind: (
                    f"filter({array}, z -> NOT ({identity('z', kind)} <=> {identity(value, kind)}))"
                ),
            )
        },
        first,
    ),
    "ARRAY_SORT": Function({1: "array_sort({0})", 2: _SORT}, first),
    "SLICE": Function({3: _slice}, first),
    "GENERATE_SERIES": Function({2: _series, 3: _series}, lambda types: array_of(types[0])),
    "CUBE_EXPLODE": Function({1: _cube}, lambda types: array_of(types[0])),
    "MAP_KEYS": Function({}, _keys),
    "MAP_VALUES": Function({}, lambda types: array_of(element(types))),
    "MAP_UNION": Function({2: _either("map_concat({0}, {1})")}, first),
    "AS_MAP": Function(
        {
            # The shorter array sets the length. Entries with a null key are dropped.
            2: "map_from_entries(filter(slice(transform({0}, (k, i) -> struct(k AS k, get({1}, i) AS v)), 1, "
            "array_size({1})), e -> e.k IS NOT NULL))"
        },
        _map_of_arrays,
    ),
    "ENTRIES": Function({1: _ENTRIES, 2: _SORTED_ENTRIES}, _entries_type),
    "COALESCE": Function({0: _no_arguments, None: "coalesce({all})"}, first),
    "IFNULL": Function({2: "coalesce({0}, {1})"}, first),
    "NULLIF": Function({}, first),
    "AS_VALUE": Function({1: "{0}"}, first),
}
