"""Columns inferred from JSON values: the types of all fields, with conflicts left to the first type."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pyarrow.json

from ottla.spark.formats.json_lines import lines

_SMALLEST, _LARGEST = -(1 << 63), (1 << 63) - 1


def has_only(texts: pa.BinaryArray, columns: pa.Schema) -> bool:
    """Return True if Arrow reads all values with these columns. False means that a closer look is needed."""
    text = lines(texts)
    if text is None:
        return False
    try:
        pa.json.read_json(
            pa.BufferReader(text),
            read_options=pa.json.ReadOptions(use_threads=False, block_size=text.size + 1),
            parse_options=pa.json.ParseOptions(explicit_schema=columns, unexpected_field_behavior="error"),
        )
    except (pa.ArrowInvalid, ValueError):
        return False
    return True


def infer(texts: pa.BinaryArray) -> pa.DataType:
    """Return the struct of all fields in JSON objects, and ignore other values."""
    tree: dict[str, Any] = {}
    for text in texts.to_pylist():
        if text is None:
            continue
        try:
            value = json.loads(text)
        except (ValueError, RecursionError):
            continue
        if isinstance(value, dict):
            _add_fields(tree, value)
    return _struct(tree)


def _add_fields(tree: dict[str, Any], value: dict[str, Any]) -> None:
    for name, each in value.items():
        kind = _kind(tree.get(name), each)
        if kind is not None:
            tree[name] = kind


def _kind(known: Any, value: Any) -> Any:
    """Merge a value into a kind: a name of a type, a dict of fields, a list with the kind of the elements."""
    match value:
        case None:
            return known
        case bool():
            return known or "bool"
        case int():
            if not _SMALLEST <= value <= _LARGEST:
                return known
            return known or "int"
        case float():
            return "float" if known in (None, "int") else known
        case str():
            return known or "str"
        case dict():
            if known is not None and not isinstance(known, dict):
                return known
            fields: dict[str, Any] = dict(known or {})
            _add_fields(fields, value)
            return fields
        case list():
            if known is not None and not isinstance(known, list):
                return known
            element = known[0] if known else None
            for each in value:
                element = _kind(element, each)
            return [element]
    return known


_SIMPLE = {"bool": pa.bool_(), "int": pa.int64(), "float": pa.float64(), "str": pa.string()}


def _struct(tree: dict[str, Any]) -> pa.DataType:
    return pa.struct([pa.field(name, _type(kind)) for name, kind in tree.items()])


def _type(kind: Any) -> pa.DataType:
    if isinstance(kind, dict):
        return _struct(kind)
    if isinstance(kind, list):
        return pa.list_(pa.field("element", _type(kind[0]) if kind[0] is not None else pa.null()))
    return _SIMPLE[kind]
