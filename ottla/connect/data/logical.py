"""Connect's logical types Decimal, Date, Time and Timestamp, with Kafka's names.

In Python they are `decimal.Decimal`, `datetime.date`, `datetime.time` and `datetime.datetime` in UTC. Naive datetimes
count as UTC. On the wire they are bytes, days, milliseconds of the day, and milliseconds since 1970.
"""

from __future__ import annotations

import datetime as dt
import decimal
from typing import Any

from ottla.connect.data.schema import Schema, SchemaType
from ottla.connect.errors import DataError

DECIMAL = "org.apache.kafka.connect.data.Decimal"
DATE = "org.apache.kafka.connect.data.Date"
TIME = "org.apache.kafka.connect.data.Time"
TIMESTAMP = "org.apache.kafka.connect.data.Timestamp"
NAMES = frozenset({DECIMAL, DATE, TIME, TIMESTAMP})

SCALE = "scale"
DAY_MS = 86_400_000
_EPOCH_DAY = dt.date(1970, 1, 1).toordinal()
_EPOCH = dt.datetime(1970, 1, 1)
_MILLISECOND = dt.timedelta(milliseconds=1)

#: Schemas for required values. `.as_optional()` returns the optional variant.
DATE_SCHEMA = Schema(SchemaType.INT32, name=DATE, version=1)
TIME_SCHEMA = Schema(SchemaType.INT32, name=TIME, version=1)
TIMESTAMP_SCHEMA = Schema(SchemaType.INT64, name=TIMESTAMP, version=1)


def decimal_schema(scale: int, *, optional: bool = False, default: Any = None) -> Schema:
    return Schema(
        SchemaType.BYTES, optional, default, name=DECIMAL, version=1, parameters={SCALE: str(scale)}
    )


def scale_of(schema: Schema) -> int:
    text = (schema.parameters or {}).get(SCALE)
    if text is None:
        raise DataError("Invalid Decimal schema: scale parameter not found.")
    try:
        return int(text)
    except ValueError:
        raise DataError("Invalid scale parameter found in Decimal schema: ") from None


def decimal_to_bytes(schema: Schema, value: decimal.Decimal) -> bytes:
    """Return the unscaled number, big-endian, in the fewest bytes."""
    sign, digits, exponent = value.as_tuple()
    if not isinstance(exponent, int):
        raise DataError(f"{value} is not a number that a Decimal can be.")
    wanted = scale_of(schema)
    if -exponent != wanted:
        raise DataError(
            "Decimal value has mismatching scale for given Decimal schema. "
            f"Schema has scale {wanted}, value has scale {-exponent}."
        )
    number = int("".join(map(str, digits)) or "0")
    return unscaled_to_bytes(-number if sign else number)


def unscaled_to_bytes(number: int) -> bytes:
    size = ((number if number >= 0 else ~number).bit_length() >> 3) + 1
    return number.to_bytes(size, "big", signed=True)


def decimal_from_bytes(schema: Schema, data: bytes) -> decimal.Decimal:
    return decimal_of(int.from_bytes(data, "big", signed=True), scale_of(schema))


def decimal_of(unscaled: int, scale: int) -> decimal.Decimal:
    """Build a decimal exactly, with any number of digits."""
    digits = tuple(map(int, str(abs(unscaled))))
    return decimal.Decimal((1 if unscaled < 0 else 0, digits, -scale))


def date_to_days(value: dt.date) -> int:
    if isinstance(value, dt.datetime):
        value = in_utc(value)
        if value.time() != dt.time():
            raise DataError("Kafka Connect Date type should not have any time fields set to non-zero values.")
    return value.toordinal() - _EPOCH_DAY


def date_from_days(days: int) -> dt.date:
    try:
        return dt.date.fromordinal(days + _EPOCH_DAY)
    except (ValueError, OverflowError):
        raise DataError(f"{days} days from 1970 is not a date between the years 1 and 9999.") from None


def time_to_millis(value: dt.time | dt.datetime) -> int:
    if isinstance(value, dt.datetime):
        value = in_utc(value)
        if value.date() != _EPOCH.date():
            raise DataError("Kafka Connect Time type should not have any date fields set to non-zero values.")
    seconds = (value.hour * 60 + value.minute) * 60 + value.second
    return seconds * 1000 + value.microsecond // 1000


def time_from_millis(millis: int) -> dt.time:
    if not 0 <= millis <= DAY_MS:
        raise DataError("Time values must use number of milliseconds greater than 0 and less than 86400000")
    seconds, rest = divmod(millis % DAY_MS, 1000)
    minutes, second = divmod(seconds, 60)
    hour, minute = divmod(minutes, 60)
    return dt.time(hour, minute, second, rest * 1000)


def timestamp_to_millis(value: dt.datetime) -> int:
    return (in_utc(value) - _EPOCH) // _MILLISECOND


def timestamp_from_millis(millis: int) -> dt.datetime:
    try:
        return (_EPOCH + dt.timedelta(milliseconds=millis)).replace(tzinfo=dt.UTC)
    except OverflowError:
        raise DataError(
            f"{millis} milliseconds from 1970 is not a time between the years 1 and 9999."
        ) from None


def in_utc(value: dt.datetime) -> dt.datetime:
    """Convert to a naive UTC time, which makes arithmetic cheap."""
    if value.tzinfo is None:
        return value
    if value.tzinfo is not dt.UTC:
        value = value.astimezone(dt.UTC)
    return value.replace(tzinfo=None)


def millis_of(value: dt.datetime | dt.date | dt.time) -> int:
    """Return the equivalent of `java.util.Date.getTime` for any of the three types."""
    if isinstance(value, dt.datetime):
        return timestamp_to_millis(value)
    if isinstance(value, dt.date):
        return date_to_days(value) * DAY_MS
    return time_to_millis(value)
