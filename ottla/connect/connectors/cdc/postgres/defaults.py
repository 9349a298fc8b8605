"""Constant column defaults, which Debezium includes in the schema."""

from __future__ import annotations

import re
from typing import Any

from ottla.connect.connectors.cdc.postgres.types import ColumnType

_QUOTED = re.compile(r"'((?:[^']|'')*)'(?:::.*)?", re.DOTALL)
_NUMBER = re.compile(r"\(?(-?[0-9.]+)\)?(?:::.*)?")


def default_value(expression: str, column: ColumnType, required: bool) -> Any:
    """Parse a column default. Return None if it is computed for each row."""
    if expression in ("true", "false"):
        return expression == "true"
    matched = _QUOTED.fullmatch(expression) or _NUMBER.fullmatch(expression)
    if matched is None:
        # A required column falls back to its substitute for missing values.
        return column.missing if required else None
    try:
        return column.read(matched.group(1).replace("''", "'").encode())
    except Exception:  # For example 'now'::text, which is not a constant of the column's type.
        return column.missing if required else None
