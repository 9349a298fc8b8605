"""Dates and times in Debezium's formats, according to `time.precision.mode`."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from typing import Any

from ottla.connect.data import logical
from ottla.connect.data.schema import Schema, SchemaType

DATE = Schema(SchemaType.INT32, name="io.debezium.time.Date", version=1)
TIME = Schema(SchemaType.INT32, name="io.debezium.time.Time", version=1)
MICRO_TIME = Schema(SchemaType.INT64, name="io.debezium.time.MicroTime", version=1)
TIMESTAMP = Schema(SchemaType.INT64, name="io.debezium.time.Timestamp", version=1)
MICRO_TIMESTAMP = Schema(SchemaType.INT64, name="io.debezium.time.MicroTimestamp", version=1)
ZONED_TIMESTAMP = Schema(SchemaType.STRING, name="io.debezium.time.ZonedTimestamp", version=1)
ZONED_TIME = Schema(SchemaType.STRING, name="io.debezium.time.ZonedTime", version=1)
MICRO_DURATION = Schema(SchemaType.INT64, name="io.debezium.time.MicroDuration", version=1)
INTERVAL = Schema(SchemaType.STRING, name="io.debezium.time.Interval", version=1)
YEAR = Schema(SchemaType.INT32, name="io.debezium.time.Year", version=1)

MODES = ("adaptive", "adaptive_time_microseconds", "connect")

_EPOCH = dt.datetime(1970, 1, 1)
_EPOCH_DAY = _EPOCH.toordinal()
_DAY = 86_400_000_000


def micros_of(moment: dt.datetime) -> int:
    """Convert a naive datetime to microseconds since 1970."""
    seconds = (moment.hour * 60 + moment.minute) * 60 + moment.second
    return (moment.toordinal() - _EPOCH_DAY) * _DAY + seconds * 1_000_000 + moment.microsecond


def micros_of_day(time: dt.time) -> int:
    return ((time.hour * 60 + time.minute) * 60 + time.second) * 1_000_000 + time.microsecond


def days_of(day: dt.date) -> int:
    return day.toordinal() - _EPOCH_DAY


def date_type(mode: str) -> tuple[Schema, Callable[[dt.date], Any], Any]:
    """Return the schema, the conversion of a date, and the substitute for a missing value."""
    if mode == "connect":
        return logical.DATE_SCHEMA, lambda day: day, _EPOCH.date()
    return DATE, days_of, 0


def time_type(mode: str, digits: int) -> tuple[Schema, Callable[[int], Any], Any]:
    """Convert from microseconds of the day. `digits` is the column's number of fractional digits."""
    if mode == "connect":
        return logical.TIME_SCHEMA, lambda micros: logical.time_from_millis(micros // 1000), dt.time()
    if mode == "adaptive" and digits <= 3:
        return TIME, lambda micros: micros // 1000, 0
    return MICRO_TIME, lambda micros: micros, 0


def timestamp_type(mode: str, digits: int) -> tuple[Schema, Callable[[int], Any], Any]:
    """Convert from microseconds since 1970."""
    if mode == "connect":
        missing = _EPOCH.replace(tzinfo=dt.UTC)
        return (
            logical.TIMESTAMP_SCHEMA,
            lambda micros: logical.timestamp_from_millis(micros // 1000),
            missing,
        )
    if digits <= 3:
        return TIMESTAMP, lambda micros: micros // 1000, 0
    return MICRO_TIMESTAMP, lambda micros: micros, 0
