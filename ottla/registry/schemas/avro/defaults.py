"""Check whether a JSON value is a valid default of an Avro type, like Java's parser."""

from __future__ import annotations

from typing import Any

from ottla.registry.schemas.avro.types import Array, AvroType, Map, Record, Union
from ottla.registry.schemas.recursion import Steps, run


def is_valid_default(type_: AvroType, value: Any) -> bool:
    return run(_valid(type_, value, set()))


def _valid(type_: AvroType, value: Any, open_records: set[tuple[int, int]]) -> Steps[bool]:
    match type_.type:
        case "string" | "bytes" | "fixed" | "enum":
            return isinstance(value, str)
        case "int":
            return _is_integer(value) and -(2**31) <= value < 2**31
        case "long":
            return _is_integer(value) and -(2**63) <= value < 2**63
        case "float" | "double":
            return isinstance(value, int | float) and not isinstance(value, bool)
        case "boolean":
            return isinstance(value, bool)
        case "null":
            return value is None
    if isinstance(type_, Array):
        if not isinstance(value, list):
            return False
        for item in value:
            if not (yield _valid(type_.items, item, open_records)):
                return False
        return True
    if isinstance(type_, Map):
        if not isinstance(value, dict):
            return False
        for item in value.values():
            if not (yield _valid(type_.values, item, open_records)):
                return False
        return True
    if isinstance(type_, Union):
        for branch in type_.branches:
            if (yield _valid(branch, value, open_records)):
                return True
        return False
    assert isinstance(type_, Record)
    if not isinstance(value, dict):
        return False
    # A field missing in the value gets its own default: a record whose default needs itself has none.
    here = (id(type_), id(value))
    if here in open_records:
        return False
    open_records.add(here)
    try:
        for field in type_.fields:
            if field.name in value:
                given = value[field.name]
            elif field.has_default:
                given = field.default
            else:
                return False
            if not (yield _valid(field.type, given, open_records)):
                return False
    finally:
        open_records.discard(here)
    return True


def _is_integer(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
