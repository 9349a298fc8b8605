"""Functions for JSON texts, which are parsed to Spark's VARIANT."""

from __future__ import annotations

from ottla.sql.planning.functions.rules import (
    BOOLEAN,
    INTEGER,
    NUMBERS,
    STRING,
    Argument,
    Arguments,
    Function,
    let,
)
from ottla.sql.sql_types import SqlType

_ITEMS = "try_variant_get(try_parse_json({}), '$', 'array<variant>')"
_MEMBERS = "try_variant_get(try_parse_json({}), '$', 'map<string,variant>')"
_OPTIONS = "map('ignoreNullFields', 'false', 'timestampFormat', 'yyyy-MM-dd\\'T\\'HH:mm:ss.SSS')"


def to_json(value: str) -> str:
    """Convert a value of any type. Spark's `to_json` rejects scalars, so wrap the value in an array and strip it."""
    return let("substring(v.a, 2, length(v.a) - 2)", Argument(f"to_json(array({value}), {_OPTIONS})"))


def _concat(arguments: Arguments) -> str:
    """Merge objects into one object, and everything else into one array."""
    texts = f"array({', '.join(each.sql for each in arguments)})"
    members = f"transform(v.a, x -> {_MEMBERS.format('x')})"
    merged = f"map_from_entries(flatten(transform({members}, m -> map_entries(m))))"
    items = f"flatten(transform(v.a, x -> coalesce({_ITEMS.format('x')}, array(try_parse_json(x)))))"
    body = (
        "CASE WHEN exists(v.a, x -> try_parse_json(x) IS NULL) THEN NULL "
        f"WHEN forall({members}, m -> m IS NOT NULL) THEN to_json({merged}, {_OPTIONS}) "
        f"ELSE to_json({items}, {_OPTIONS}) END"
    )
    return let(body, Argument(texts))


def _contains(arguments: Arguments) -> str:
    array, searched = arguments
    if searched.is_a(*NUMBERS):
        # Exclude strings and booleans, which Spark would cast.
        number = "try_variant_get(x, '$', 'double')"
        same = f"schema_of_variant(x) NOT IN ('STRING', 'BOOLEAN') AND {number} = {searched.sql}"
    else:
        same = f"to_json(x) = {to_json(searched.sql)}"
    return f"coalesce(exists({_ITEMS.format(array.sql)}, x -> {same}), false)"


def _items(arguments: Arguments) -> str:
    """Return the items as JSON. A VARIANT sorts the names of an object, so objects are copied as text."""
    [text] = arguments
    nested = "schema_of_variant(x) LIKE 'OBJECT%' OR schema_of_variant(x) LIKE 'ARRAY%'"
    return let(
        f"transform({_ITEMS.format('v.a')}, (x, i) -> CASE WHEN {nested} "
        "THEN get(from_json(v.a, 'ARRAY<STRING>'), i) ELSE to_json(x) END)",
        text,
    )


def _records(arguments: Arguments) -> str:
    """Return the members of an object, strings without quotes and everything else as JSON."""
    [text] = arguments
    members = _MEMBERS.format("v.a")
    return let(
        f"transform_values({members}, (k, x) -> CASE WHEN schema_of_variant(x) = 'STRING' THEN "
        "try_variant_get(x, '$', 'string') ELSE coalesce(from_json(v.a, 'MAP<STRING, STRING>')[k], to_json(x)) END)",
        text,
    )


FUNCTIONS: dict[str, Function] = {
    "EXTRACTJSONFIELD": Function({2: "get_json_object({0}, {1})"}, STRING),
    "IS_JSON_STRING": Function({1: "(try_parse_json({0}) IS NOT NULL)"}, BOOLEAN),
    "JSON_ARRAY_CONTAINS": Function({2: _contains}, BOOLEAN),
    "JSON_ARRAY_LENGTH": Function({1: "json_array_length({0})"}, INTEGER),
    "JSON_CONCAT": Function({None: _concat}, STRING),
    "JSON_ITEMS": Function({1: _items}, SqlType("ARRAY", element=STRING)),
    "JSON_KEYS": Function({1: "json_object_keys({0})"}, SqlType("ARRAY", element=STRING)),
    "JSON_RECORDS": Function({1: _records}, SqlType("MAP", element=STRING)),
    "TO_JSON_STRING": Function({1: lambda given: to_json(given[0].sql)}, STRING),
}
