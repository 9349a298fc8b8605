"""Partitioners choose the directory of a record, with Confluent's class names."""

from __future__ import annotations

import calendar
import datetime as dt
import re
import time
import zoneinfo
from collections.abc import Callable, Mapping
from typing import Any

from ottla.connect.connectors.values.plain import field_value, milliseconds
from ottla.connect.data.record import SinkRecord
from ottla.connect.errors import ConnectError, DataError

_DAY = "'year'=YYYY/'month'=MM/'day'=dd"
_HOUR = f"{_DAY}/'hour'=HH"
_HOUR_MS, _DAY_MS = 3_600_000, 86_400_000

#: Returns milliseconds since 1970.
Extractor = Callable[[SinkRecord], int]


class Partitioner:
    """Time-based partitioners set `timestamp`, which also drives file rotation."""

    timestamp: Extractor | None = None
    #: Whether a record always goes to the same directory.
    is_deterministic = True

    def directory(self, record: SinkRecord) -> str:
        return f"partition={record.original_partition}"


class FieldPartitioner(Partitioner):
    def __init__(self, fields: list[str], delimiter: str) -> None:
        if not fields:
            raise ConnectError("FieldPartitioner needs partition.field.name.")
        self._fields, self._delimiter = fields, delimiter

    def directory(self, record: SinkRecord) -> str:
        parts = []
        for name in self._fields:
            try:
                value = field_value(record.value, name)
            except KeyError:
                raise DataError(
                    f"The value has no field {name!r}, which partition.field.name names."
                ) from None
            text = str(value).lower() if isinstance(value, bool) else str(value)
            # A field value must not add directory levels.
            parts.append(f"{name}={text.replace('/', '_')}")
        return self._delimiter.join(parts)


class TimePartitioner(Partitioner):
    def __init__(
        self, format: str, duration_ms: int, timezone: str, timestamp: Extractor, delimiter: str
    ) -> None:
        if not format:
            raise ConnectError("TimeBasedPartitioner needs path.format.")
        if duration_ms <= 0:
            raise ConnectError("TimeBasedPartitioner needs partition.duration.ms above 0.")
        try:
            self._zone = zoneinfo.ZoneInfo(timezone)
        except (zoneinfo.ZoneInfoNotFoundError, ValueError):
            raise ConnectError(
                f"There is no time zone {timezone!r}. Set timezone to one such as Europe/Berlin."
            ) from None
        self._format = _compiled(format)
        self._duration = duration_ms
        self.timestamp = timestamp
        self._last: tuple[int, str] | None = None

    def directory(self, record: SinkRecord) -> str:
        assert self.timestamp is not None
        begin = self._begin(self.timestamp(record))
        if self._last is None or self._last[0] != begin:
            local = dt.datetime.fromtimestamp(begin / 1000, self._zone)
            self._last = begin, "".join(part(local) for part in self._format)
        return self._last[1]

    def _begin(self, when: int) -> int:
        """Return the start of the period. Periods follow local time, so days begin at midnight."""
        offset = dt.datetime.fromtimestamp(when / 1000, self._zone).utcoffset() or dt.timedelta()
        shift = offset // dt.timedelta(milliseconds=1)
        return (when + shift) // self._duration * self._duration - shift


def open_partitioner(settings: Mapping[str, Any]) -> Partitioner:
    name = str(settings["partitioner.class"]).rpartition(".")[2]
    delimiter: str = settings["directory.delim"]
    if name == "DefaultPartitioner":
        return Partitioner()
    if name == "FieldPartitioner":
        return FieldPartitioner(settings["partition.field.name"], delimiter)
    if name not in ("TimeBasedPartitioner", "DailyPartitioner", "HourlyPartitioner"):
        raise ConnectError(
            f"There is no partitioner.class {settings['partitioner.class']!r}. There are: DefaultPartitioner, "
            "FieldPartitioner, TimeBasedPartitioner, DailyPartitioner, HourlyPartitioner."
        )
    format, duration = settings["path.format"], settings["partition.duration.ms"]
    if name == "DailyPartitioner":
        format, duration = _DAY, _DAY_MS
    elif name == "HourlyPartitioner":
        format, duration = _HOUR, _HOUR_MS
    found = TimePartitioner(
        format, duration, settings["timezone"] or "UTC", open_extractor(settings), delimiter
    )
    found.is_deterministic = not _is_wall_clock(settings)
    return found


def _is_wall_clock(settings: Mapping[str, Any]) -> bool:
    return str(settings["timestamp.extractor"]).rpartition(".")[2].startswith("Wallclock")


def open_extractor(settings: Mapping[str, Any]) -> Extractor:
    name = str(settings["timestamp.extractor"]).rpartition(".")[2]
    if name in ("Wallclock", "WallclockTimestampExtractor"):
        return lambda _: int(time.time() * 1000)
    if name in ("Record", "RecordTimestampExtractor"):
        return _of_record
    if name in ("RecordField", "RecordFieldTimestampExtractor"):
        field = settings["timestamp.field"]
        return lambda record: _of_field(record, field)
    raise ConnectError(
        f"There is no timestamp.extractor {settings['timestamp.extractor']!r}. "
        "There are: Wallclock, Record, RecordField."
    )


def _of_record(record: SinkRecord) -> int:
    if record.timestamp is None or record.timestamp < 0:
        raise DataError("The record has no timestamp, which timestamp.extractor Record wants.")
    return record.timestamp


def _of_field(record: SinkRecord, field: str) -> int:
    try:
        value = field_value(record.value, field)
    except KeyError:
        raise DataError(f"The value has no field {field!r}, which timestamp.field names.") from None
    if isinstance(value, dt.datetime):
        return milliseconds(value)
    if isinstance(value, dt.date):
        return milliseconds(dt.datetime(value.year, value.month, value.day))
    if isinstance(value, int | float) and not isinstance(value, bool):
        return int(value)
    if isinstance(value, str):
        try:
            return milliseconds(dt.datetime.fromisoformat(value))
        except ValueError:
            pass
    raise DataError(f"The field {field!r} is no time: {value!r}.")


_TOKEN = re.compile(r"'(?P<quoted>[^']*)'|(?P<letters>([A-Za-z])\3*)|(?P<other>.)", re.DOTALL)
_Part = Callable[[dt.datetime], str]


def _compiled(format: str) -> list[_Part]:
    """Compile a pattern of Joda letters, as Confluent documents them."""
    parts: list[_Part] = []
    for token in _TOKEN.finditer(format):
        letters = token["letters"]
        if letters is None:
            text = token["quoted"] if token["quoted"] is not None else token["other"]
            parts.append(lambda _, text=text: text)  # type: ignore[misc]
        else:
            parts.append(_letters(letters, format))
    return parts


_NUMBERS: dict[str, Callable[[dt.datetime], int]] = {
    "y": lambda when: when.year,
    "Y": lambda when: when.year,
    "x": lambda when: when.isocalendar().year,
    "M": lambda when: when.month,
    "w": lambda when: when.isocalendar().week,
    "D": lambda when: when.timetuple().tm_yday,
    "d": lambda when: when.day,
    "e": lambda when: when.isoweekday(),
    "H": lambda when: when.hour,
    "h": lambda when: (when.hour + 11) % 12 + 1,
    "m": lambda when: when.minute,
    "s": lambda when: when.second,
    "S": lambda when: when.microsecond // 1000,
}


def _letters(letters: str, format: str) -> _Part:
    width = len(letters)
    if letters in ("MMM", "MMMM"):
        names = calendar.month_abbr if width == 3 else calendar.month_name
        return lambda when: names[when.month]
    if set(letters) == {"E"}:
        days = calendar.day_abbr if width <= 3 else calendar.day_name
        return lambda when: days[when.weekday()]
    if letters == "a":
        return lambda when: "AM" if when.hour < 12 else "PM"
    number = _NUMBERS.get(letters[0])
    if number is None:
        raise ConnectError(f"path.format {format!r}: {letters!r} is not known. Put text into single quotes.")
    if letters in ("yy", "YY", "xx"):
        return lambda when: f"{number(when) % 100:02d}"
    return lambda when: f"{number(when):0{width}d}"
