"""A case: an expression, and its value according to ksqlDB's documentation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

#: The row for column references, as `name type` → Spark literal.
ROW = {
    "i INT": "7",
    "l BIGINT": "7000000000L",
    "x DOUBLE": "2.5D",
    "d DECIMAL(6, 2)": "CAST(12.34 AS DECIMAL(6,2))",
    "s STRING": "'ksql'",
    "b BYTES": "X'6b73716c'",
    "flag BOOLEAN": "true",
    "dt DATE": "DATE'2021-10-11'",
    "t TIME": "TIME'13:25:30'",
    "ts TIMESTAMP": "TIMESTAMP'2021-06-30 12:18:39.446'",
    "a ARRAY<INT>": "array(1, NULL, 3)",
    "w ARRAY<STRING>": "array('one', NULL, 'three')",
    "m MAP<STRING, INT>": "map('a', 1, 'b', 2)",
    "st STRUCT<a INT, b STRING>": "named_struct('A', 1, 'B', 'x')",
    "mm MAP<STRING, ARRAY<INT>>": "map('p', array(1, 2), 'q', array(3))",
    "ni INT": "CAST(NULL AS INT)",
    "nx DOUBLE": "CAST(NULL AS DOUBLE)",
    "ns STRING": "CAST(NULL AS STRING)",
    "nb BYTES": "CAST(NULL AS BINARY)",
    "nt TIMESTAMP": "CAST(NULL AS TIMESTAMP)",
    "na ARRAY<INT>": "CAST(NULL AS ARRAY<INT>)",
    "nm MAP<STRING, INT>": "CAST(NULL AS MAP<STRING, INT>)",
    "nst STRUCT<a INT, b STRING>": "CAST(NULL AS STRUCT<A: INT, B: STRING>)",
}


@dataclass(frozen=True)
class Case:
    """An expression and its value. `different` explains a deviation from ksqlDB."""

    function: str
    expression: str
    result: Any
    different: str = ""


def cases(function: str, *pairs: tuple[str, Any]) -> list[Case]:
    return [Case(function, expression, result) for expression, result in pairs]
