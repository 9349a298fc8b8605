"""Rows as JSON in ksqlDB's format."""

from __future__ import annotations

import base64
import json
import math
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any


def plain(value: Any) -> Any:
    """Convert a Spark value to JSON: times as text, bytes in base64, NaN and infinities by name."""
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        if math.isfinite(value):
            return value
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, Decimal):
        return (
            int(value)
            if value == value.to_integral_value() and value.as_tuple().exponent == 0
            else float(value)
        )
    if isinstance(value, datetime):
        moment = value.astimezone(UTC).replace(tzinfo=None) if value.tzinfo is not None else value
        return moment.isoformat(timespec="milliseconds")
    if isinstance(value, time):
        return value.isoformat(timespec="milliseconds" if value.microsecond else "seconds")
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, bytes | bytearray):
        return base64.b64encode(value).decode()
    if isinstance(value, dict):
        return {str(name): plain(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [plain(each) for each in value]
    return str(value)


def dumps(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def row_text(row: tuple[Any, ...]) -> str:
    return dumps([plain(value) for value in row])
