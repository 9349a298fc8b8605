"""Encoder from a column to JSON, each value after a prefix with its schema id. Row by row, in Python."""

from __future__ import annotations

import base64
import json
import math
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa

from ottla.spark.formats.registered.writing import UnwritableRow


class JsonSchemaEncoder:
    def __init__(self, columns: pa.DataType) -> None:
        self._type = columns

    def encode(self, column: pa.Array, frame: bytes) -> pa.BinaryArray:
        rows: list[bytes | None] = []
        for row, value in enumerate(column.to_pylist()):
            try:
                rows.append(None if value is None else frame + _text(_plain(value, self._type)))
            except ValueError:
                raise UnwritableRow(row, "there is a number that JSON does not have") from None
        return pa.array(rows, pa.binary())


def _text(value: Any) -> bytes:
    return json.dumps(
        value, ensure_ascii=False, allow_nan=False, separators=(",", ":"), default=_number
    ).encode("utf-8", "replace")


def _number(value: Any) -> Any:
    if isinstance(value, Decimal):
        return int(value) if value == value.to_integral_value() else float(value)
    raise TypeError(value)


def _plain(value: Any, kind: pa.DataType) -> Any:
    if value is None:
        return None
    if pa.types.is_struct(kind):
        return {each.name: _plain(value[each.name], each.type) for each in kind}
    if pa.types.is_map(kind):
        return {str(key): _plain(each, kind.item_type) for key, each in value}
    if pa.types.is_list(kind):
        return [_plain(each, kind.value_type) for each in value]
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, datetime):
        return value.isoformat().replace("+00:00", "Z")
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError(value)
    return value
