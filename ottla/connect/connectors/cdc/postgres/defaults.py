"""Constant column defaults, which Debezium includes in the schema."""

from __future__ import annotations

import re
from typing import Any

from ottla.connect.connectors.cdc.postgres.types import ColumnType
from ottla.connect.data.struct import Struct

_QUOTED = re.compile(r"'((?:[^']|'')*)'(?:::.*)?", re.DOTALL)
_GENERATED = {
    "io.debezium.data.Json": "{}",
    "io.debezium.data.Uuid": "00000000-0000-0000-0000-000000000000",
}
_CALL = re.compile(r"\(?[A-Za-z0-9_]+\(.*\).*", re.DOTALL)
_NUMBER = re.compile(r"\(?(-?[0-9.]+)\)?(?:::.*)?")


def default_value(expression: str, column: ColumnType, required: bool) -> Any:
    """Parse a column default. Return None if an expression computes it for each row."""
    if expression in ("true", "false"):
        return expression == "true"
    if _CALL.fullmatch(expression):
        # Debezium declares a placeholder for the result of a function such as now(), even for an optional column.
        placeholder = _GENERATED.get(column.schema.name or "", column.missing)
        return None if isinstance(placeholder, Struct) else placeholder
    matched = _QUOTED.fullmatch(expression) or _NUMBER.fullmatch(expression)
    if matched is None:
        # A required column falls back to its substitute for missing values.
        return column.missing if required else None
    try:
        return column.read(matched.group(1).replace("''", "'").encode())
    except Exception:  # For example 'now'::text, which is not a constant of the column's type.
        return column.missing if required else None
