"""Decimal numbers, represented according to `decimal.handling.mode`."""

from __future__ import annotations

import decimal
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from ottla.connect.data import logical
from ottla.connect.data.schema import BYTES, FLOAT64, INT32, STRING, Schema, SchemaBuilder, SchemaType
from ottla.connect.data.struct import Struct
from ottla.connect.errors import DataError

MODES = ("precise", "double", "string")

VARIABLE_SCALE = replace(
    SchemaBuilder("io.debezium.data.VariableScaleDecimal", version=1)
    .field("scale", INT32)
    .field("value", BYTES)
    .build(),
    doc="Variable scaled decimal",
)


def decimal_type(
    mode: str, precision: int | None, scale: int | None, column: str
) -> tuple[Schema, Callable[[str], Any], Any]:
    """Return the schema, a parser for the text form, and the substitute for a missing value."""
    if mode == "double":
        return FLOAT64, float, 0.0
    if mode == "string":
        return STRING, _plain, ""
    if scale is None:
        return VARIABLE_SCALE, lambda text: _with_scale(text, column), _with_scale("0", column)
    parameters = {"scale": str(scale)}
    if precision is not None:
        parameters["connect.decimal.precision"] = str(precision)
    schema = Schema(SchemaType.BYTES, name=logical.DECIMAL, version=1, parameters=parameters)
    return schema, lambda text: _finite(text, column), decimal.Decimal((0, (0,), -scale))


def _plain(text: str) -> str:
    return text


def _finite(text: str, column: str) -> decimal.Decimal:
    number = decimal.Decimal(text)
    if not number.is_finite():
        raise DataError(
            f"Column {column} holds {text}, which a Decimal cannot be: set decimal.handling.mode to double or string."
        )
    return number


def _with_scale(text: str, column: str) -> Struct:
    number = _finite(text, column)
    sign, digits, exponent = number.as_tuple()
    assert isinstance(exponent, int)
    unscaled = int("".join(map(str, digits)))
    made = Struct(VARIABLE_SCALE)
    made.values = [-exponent, logical.unscaled_to_bytes(-unscaled if sign else unscaled)]
    return made
