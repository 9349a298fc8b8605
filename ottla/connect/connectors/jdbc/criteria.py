"""Query conditions for new rows, by incrementing column, timestamps or both, and the offset of each row.

Offsets use Confluent's fields: `incrementing`, and `timestamp` (milliseconds) with `timestamp_nanos`.
"""

from __future__ import annotations

import datetime as dt
import decimal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from ottla.connect.connectors.jdbc.dialects.dialect import Dialect
from ottla.connect.data.logical import timestamp_to_millis
from ottla.connect.errors import ConnectError

_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


class Position(NamedTuple):
    timestamp: dt.datetime | None = None
    incrementing: int | None = None

    def to_offset(self) -> dict[str, Any]:
        offset: dict[str, Any] = {}
        if self.incrementing is not None:
            offset["incrementing"] = self.incrementing
        if self.timestamp is not None:
            offset["timestamp"] = timestamp_to_millis(self.timestamp)
            offset["timestamp_nanos"] = self.timestamp.microsecond * 1000
        return offset

    @classmethod
    def from_offset(cls, offset: Mapping[str, Any] | None) -> Position:
        if not offset:
            return cls()
        millis, nanos = offset.get("timestamp"), offset.get("timestamp_nanos")
        moment = None
        if millis is not None:
            fraction = millis % 1000 * 1000 if nanos is None else nanos // 1000
            moment = _EPOCH + dt.timedelta(seconds=millis // 1000, microseconds=fraction)
        return cls(moment, offset.get("incrementing"))


@dataclass(frozen=True)
class Criteria:
    incrementing: str | None
    timestamps: Sequence[str]

    def query(
        self, dialect: Dialect, select: str, position: Position, until: dt.datetime | None, suffix: str
    ) -> tuple[str, list[Any]]:
        """`until` is the upper bound for timestamps. Later rows may still be incomplete."""
        mark = dialect.placeholder
        parameters: list[Any] = []
        number = dialect.quoted(self.incrementing) if self.incrementing else ""
        if not self.timestamps:
            if not number:
                return f"{select} {suffix}".rstrip(), []
            last = -1 if position.incrementing is None else position.incrementing
            return f"{select} WHERE {number} > {mark} ORDER BY {number} ASC {suffix}".rstrip(), [last]
        columns = [dialect.timestamp_column(name) for name in self.timestamps]
        moment = columns[0] if len(columns) == 1 else f"COALESCE({','.join(columns)})"
        assert until is not None
        begin = dialect.timestamp_parameter(position.timestamp or _EPOCH)
        end = dialect.timestamp_parameter(until)
        if not number:
            condition, order = f"{moment} > {mark} AND {moment} < {mark}", moment
            parameters = [begin, end]
        else:
            condition = (
                f"{moment} < {mark} AND (({moment} = {mark} AND {number} > {mark}) OR {moment} > {mark})"
            )
            order = f"{moment}, {number}"
            last = -1 if position.incrementing is None else position.incrementing
            parameters = [end, begin, last, begin]
        return f"{select} WHERE {condition} ORDER BY {order} ASC {suffix}".rstrip(), parameters

    def position_of(self, values: Mapping[str, Any]) -> Position:
        moment = next((values[name] for name in self.timestamps if values.get(name) is not None), None)
        if self.timestamps and moment is None:
            raise ConnectError(
                f"All of the timestamp columns {', '.join(self.timestamps)} are null in a row."
            )
        number = None
        if self.incrementing:
            number = _whole(self.incrementing, values.get(self.incrementing))
        return Position(moment, number)


def _whole(column: str, value: Any) -> int:
    if value is None:
        raise ConnectError(f"Null value for incrementing column {column}.")
    if isinstance(value, decimal.Decimal) and value != value.to_integral_value():
        raise ConnectError(f"Scale of Decimal value for incrementing column {column} must be 0.")
    if isinstance(value, bool) or not isinstance(value, int | decimal.Decimal):
        raise ConnectError(f"Invalid type for incrementing column {column}: {type(value).__name__}")
    return int(value)
