"""A common form for columns from the data dictionary and from the binary log."""

from __future__ import annotations

import re
from typing import Any, NamedTuple

from pymysqlreplication.constants import FIELD_TYPE

_LABEL = re.compile(r"'((?:[^']|'')*)'")


class ColumnForm(NamedTuple):
    """`kind` is the SQL type name without length and sign."""

    name: str
    kind: str
    unsigned: bool = False
    #: Precision of a decimal, number of bits, fractional digits of a time, or length of a binary.
    size: int = 0
    scale: int = 0
    labels: tuple[str, ...] = ()


_BY_CODE = {
    FIELD_TYPE.TINY: "tinyint",
    FIELD_TYPE.SHORT: "smallint",
    FIELD_TYPE.INT24: "mediumint",
    FIELD_TYPE.LONG: "int",
    FIELD_TYPE.LONGLONG: "bigint",
    FIELD_TYPE.FLOAT: "float",
    FIELD_TYPE.DOUBLE: "double",
    FIELD_TYPE.NEWDECIMAL: "decimal",
    FIELD_TYPE.DATE: "date",
    FIELD_TYPE.NEWDATE: "date",
    FIELD_TYPE.TIME: "time",
    FIELD_TYPE.TIME2: "time",
    FIELD_TYPE.DATETIME: "datetime",
    FIELD_TYPE.DATETIME2: "datetime",
    FIELD_TYPE.TIMESTAMP: "timestamp",
    FIELD_TYPE.TIMESTAMP2: "timestamp",
    FIELD_TYPE.YEAR: "year",
    FIELD_TYPE.ENUM: "enum",
    FIELD_TYPE.SET: "set",
    FIELD_TYPE.BIT: "bit",
    FIELD_TYPE.JSON: "json",
    FIELD_TYPE.GEOMETRY: "geometry",
}


def from_log(column: Any) -> ColumnForm:
    """`column` comes from a table-map event."""
    code = column.type
    kind = _BY_CODE.get(code)
    if kind is None:
        binary = column.character_set_name == "binary"
        fixed = code == FIELD_TYPE.STRING
        kind = ("binary" if fixed else "varbinary") if binary else "varchar"
    size = scale = 0
    labels: tuple[str, ...] = ()
    if kind == "decimal":
        size, scale = column.precision, column.decimals
    elif kind == "bit":
        size = column.bits
    elif kind == "binary":
        size = column.max_length
    elif kind in ("time", "datetime", "timestamp"):
        size = getattr(column, "fsp", 0)
    elif kind in ("enum", "set"):
        # An enum has an empty label for invalid values.
        labels = tuple(each for each in (column.enum_values or column.set_values or ()) if each != "")
    return ColumnForm(column.name, kind, bool(column.unsigned), size, scale, labels)


_KINDS = {
    "integer": "int",
    "numeric": "decimal",
    "char": "varchar",
    "tinytext": "varchar",
    "text": "varchar",
    "mediumtext": "varchar",
    "longtext": "varchar",
    "uuid": "varchar",
    "inet4": "varchar",
    "inet6": "varchar",
    "tinyblob": "varbinary",
    "blob": "varbinary",
    "mediumblob": "varbinary",
    "longblob": "varbinary",
    **dict.fromkeys(
        (
            "point",
            "linestring",
            "polygon",
            "multipoint",
            "multilinestring",
            "multipolygon",
            "geometrycollection",
        ),
        "geometry",
    ),
}


def from_dictionary(
    name: str,
    data_type: str,
    column_type: str,
    precision: int | None,
    scale: int | None,
    digits: int | None,
    length: int | None,
) -> ColumnForm:
    """The arguments are a row of information_schema.columns."""
    kind = _KINDS.get(data_type.lower(), data_type.lower())
    labels: tuple[str, ...] = ()
    size = 0
    if kind == "decimal":
        size = precision or 0
    elif kind == "bit":
        size = precision or 1
    elif kind == "binary":
        size = length or 0
    elif kind in ("time", "datetime", "timestamp"):
        size = digits or 0
    elif kind in ("enum", "set"):
        labels = tuple(each.replace("''", "'") for each in _LABEL.findall(column_type))
    unsigned = "unsigned" in column_type.lower()
    return ColumnForm(name, kind, unsigned, size, (scale or 0) if kind == "decimal" else 0, labels)
