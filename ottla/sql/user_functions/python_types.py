"""ksqlDB types from Python annotations and from type texts."""

from __future__ import annotations

import collections.abc
import datetime
import types
import typing
from typing import Annotated, Any, Union, get_args, get_origin

from ottla.sql.errors import SqlError
from ottla.sql.parsing.dialect import Text
from ottla.sql.parsing.type_parser import parse_type
from ottla.sql.parsing.words import Words
from ottla.sql.sql_types import SqlType

_PLAIN: dict[Any, str] = {
    bool: "BOOLEAN",
    int: "BIGINT",
    float: "DOUBLE",
    str: "STRING",
    bytes: "BYTES",
    datetime.date: "DATE",
    datetime.time: "TIME",
    datetime.datetime: "TIMESTAMP",
}
_SERIES = (
    list, collections.abc.Iterable, collections.abc.Iterator, collections.abc.Sequence, collections.abc.Generator,
)  # fmt: skip


def written_type(text: str) -> SqlType:
    words = Words(Text(text), Text(text).tokens())
    if words.at_end:
        raise SqlError("a type is missing")
    kind = parse_type(words)
    if not words.at_end:
        raise SqlError(f"{words.shown()} is too much in the type {text}")
    return kind


def allows_none(annotation: Any) -> bool:
    """Return True if null is allowed, which is the default without an annotation."""
    if annotation is None or annotation is Any:
        return True
    if get_origin(annotation) is Annotated:
        return allows_none(get_args(annotation)[0])
    return get_origin(annotation) in (Union, types.UnionType) and type(None) in get_args(annotation)


def annotated_type(annotation: Any) -> SqlType | None:
    """Return the ksqlDB type, or None for unknown types and for types with parameters, such as DECIMAL and STRUCT."""
    if isinstance(annotation, str):
        return written_type(annotation)
    if annotation in _PLAIN:
        return SqlType(_PLAIN[annotation])
    origin, inner = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        said = next((each for each in inner[1:] if isinstance(each, str)), None)
        return annotated_type(inner[0]) if said is None else written_type(said)
    if origin in (Union, types.UnionType):
        known = [each for each in inner if each is not type(None)]
        return annotated_type(known[0]) if len(known) == 1 else None
    if origin in _SERIES and inner:
        element = annotated_type(inner[0])
        return None if element is None else SqlType("ARRAY", element=element)
    if origin in (dict, collections.abc.Mapping) and len(inner) == 2 and inner[0] is str:
        element = annotated_type(inner[1])
        return None if element is None else SqlType("MAP", element=element)
    return None


def annotations_of(function: Any) -> dict[str, Any]:
    try:
        return typing.get_type_hints(function, include_extras=True)
    except (NameError, TypeError):
        # The name is imported only for type checkers.
        return dict(getattr(function, "__annotations__", {}))
