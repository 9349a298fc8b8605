"""Dates and timestamps in text, in the formats of Spark's CAST."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, timedelta, timezone, tzinfo
from zoneinfo import ZoneInfo

import pyarrow as pa
import pyarrow.compute as pc

from ottla.spark.formats.json_types import TIMESTAMP, TIMESTAMP_NTZ

_DATE = r"(\d{4})(?:-(\d{1,2})(?:-(\d{1,2}))?)?"
_ONLY_DATE = re.compile(_DATE + r"(?:(?:(?<=-\d)|(?<=-\d\d))[ T].*)?", re.ASCII)
_TIME = r"(\d{1,2})(?::(\d{1,2})(?::(\d{1,2})(?:\.(\d*))?\s*([A-Za-z+-].*)?)?)?"
_TIMESTAMP = re.compile(_DATE + r"(?:(?:(?<=-\d)|(?<=-\d\d))[ T]" + _TIME + ")?", re.ASCII)
_OFFSET = re.compile(r"(?:UTC|GMT|UT)?([+-])(\d{1,2})(?::?(\d{2}))?(?::?(\d{2}))?", re.ASCII)

#: Formats that Arrow and Spark read alike.
_PLAIN_DATE = r"^\d{4}-\d\d-\d\d$"
_PLAIN_LOCAL = r"^\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(\.\d{1,6})?$"
_PLAIN_ZONED = r"^\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(\.\d{1,6})?(Z|[+-](0\d|1[0-7]):[0-5]\d)$"

_EPOCH_DAY = date(1970, 1, 1).toordinal()
_EPOCH = datetime(1970, 1, 1)
_MICROSECOND = timedelta(microseconds=1)
_MOST_OFFSET = timedelta(hours=18)


def days(text: str) -> int:
    """Return the days since 1970-01-01. Raises ValueError if the text is not a date."""
    found = _ONLY_DATE.fullmatch(text.strip())
    if found is None:
        raise ValueError(text)
    year, month, day = (int(part or 1) for part in found.groups())
    return date(year, month, day).toordinal() - _EPOCH_DAY


def microseconds(text: str, zone: tzinfo | None) -> int:
    """Return microseconds since 1970-01-01 UTC. `zone` applies to text without a zone; None refuses text with one."""
    found = _TIMESTAMP.fullmatch(text.strip())
    if found is None:
        raise ValueError(text)
    year, month, day, hour, minute, second, fraction, name = found.groups()
    moment = datetime(
        int(year),
        int(month or 1),
        int(day or 1),
        int(hour or 0),
        int(minute or 0),
        int(second or 0),
        int((fraction or "").ljust(6, "0")[:6]),
    )
    if zone is None:
        if name:
            raise ValueError(text)
        return (moment - _EPOCH) // _MICROSECOND
    offset = (time_zone(name.strip()) if name else zone).utcoffset(moment) or timedelta()
    return (moment - offset - _EPOCH) // _MICROSECOND


def time_zone(name: str) -> tzinfo:
    """Return a zone by Spark's name. Raises ValueError for unknown zones."""
    if name in ("Z", "UTC", "GMT", "UT"):
        return UTC
    found = _OFFSET.fullmatch(name)
    if found is None:
        try:
            return ZoneInfo(name)
        except (KeyError, OSError):  # ZoneInfoNotFoundError is a KeyError
            raise ValueError(name) from None
    sign, hours, minutes, seconds = found.groups()
    offset = timedelta(hours=int(hours), minutes=int(minutes or 0), seconds=int(seconds or 0))
    if offset > _MOST_OFFSET:
        raise ValueError(name)
    return timezone(-offset if sign == "-" else offset)


# Whole columns: unusual formats raise ArrowInvalid and are read row by row.


def date_column(texts: pa.StringArray) -> pa.Array:
    _check(texts, _PLAIN_DATE)
    return pc.cast(texts, pa.date32())


def timestamp_column(texts: pa.StringArray, zone: str) -> pa.Array:
    if _all_match(texts, _PLAIN_ZONED):
        return pc.cast(texts, TIMESTAMP)
    _check(texts, _PLAIN_LOCAL)
    local = pc.cast(texts, TIMESTAMP_NTZ)
    # Skipped hours at daylight-saving changes raise, so that the row parser can follow Java's rules.
    moments = pc.assume_timezone(local, zone, ambiguous="earliest", nonexistent="raise")
    return moments.cast(TIMESTAMP)


def local_timestamp_column(texts: pa.StringArray) -> pa.Array:
    _check(texts, _PLAIN_LOCAL)
    return pc.cast(texts, TIMESTAMP_NTZ)


def _check(texts: pa.StringArray, pattern: str) -> None:
    if not _all_match(texts, pattern):
        raise pa.ArrowInvalid("not in the plain form")


def _all_match(texts: pa.StringArray, pattern: str) -> bool:
    return pc.all(pc.match_substring_regex(texts, pattern)).as_py() is not False
