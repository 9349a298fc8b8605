"""Functions for dates and times."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from ottla.sql.planning.functions.rules import (
    BIGINT,
    DATE,
    INTEGER,
    INTEGERS,
    STRING,
    TIME,
    TIMESTAMP,
    Argument,
    Arguments,
    Form,
    Function,
    WrongArguments,
    let,
)
from ottla.sql.sql_types import SqlType

_DAY_MS = 86_400_000
_MOST_MS = (1 << 63) // 1000 - 1
_UNIT_MS = {"MILLISECOND": 1, "SECOND": 1000, "MINUTE": 60_000, "HOUR": 3_600_000, "DAY": _DAY_MS}

_UNITS = ("YEAR", "QUARTER", "MONTH", "WEEK", *reversed(_UNIT_MS), "MICROSECOND", "NANOSECOND")

#: The first argument of these functions is a unit.
UNITS_FIRST = frozenset({"TIMESTAMPADD", "TIMESTAMPSUB", "DATEADD", "DATESUB", "TIMEADD", "TIMESUB"})


def _moment(arguments: Arguments) -> str:
    """Return null for milliseconds that overflow Spark's microseconds, which would end the query."""
    [millis] = arguments
    if millis.sql.isdigit() or millis.sql.endswith("`ROWTIME`"):
        return f"timestamp_millis({millis.sql})"
    return f"CASE WHEN abs({millis.sql}) <= {_MOST_MS} THEN timestamp_millis({millis.sql}) END"


def _format(arguments: Arguments) -> str:
    """Format a time. With a zone, both the time and the zone letters of the pattern use that zone."""
    moment, pattern = arguments[0].sql, arguments[1].sql
    if len(arguments) == 2:
        return f"date_format({moment}, {pattern})"
    zone = arguments[2].sql
    there = f"from_utc_timestamp({moment}, {zone})"
    if not pattern.startswith("'"):
        return f"date_format({there}, {pattern})"
    parts = []
    for written, is_zone in _pieces(pattern[1:-1].replace("\\'", "'")):
        escaped = written.replace("'", "\\'")
        parts.append(_zone(written, moment, there, zone) if is_zone else f"date_format({there}, '{escaped}')")
    return parts[0] if len(parts) == 1 else f"concat({', '.join(parts)})"


def _pieces(pattern: str) -> list[tuple[str, bool]]:
    pieces: list[tuple[str, bool]] = []
    quoted = False
    for letter in pattern:
        quoted ^= letter == "'"
        is_zone = letter in "XxZVz" and not quoted
        if pieces and pieces[-1][1] == is_zone and (not is_zone or pieces[-1][0][-1] == letter):
            pieces[-1] = (pieces[-1][0] + letter, is_zone)
        else:
            pieces.append((letter, is_zone))
    return pieces or [("", False)]


def _zone(letters: str, moment: str, there: str, zone: str) -> str:
    if letters[0] == "V":
        return zone
    if letters[0] == "z":
        return _zone_name(moment, there, zone)
    minutes = f"CAST((unix_millis({there}) - unix_millis({moment})) / 60000 AS INT)"
    colon = ":" if len(letters) in (3, 5) else ""
    if letters[0] == "Z":
        colon = ":" if len(letters) == 5 else ""
    shown = f"format_string('%s%02d{colon}%02d', IF(v.a < 0, '-', '+'), abs(v.a) div 60, abs(v.a) % 60)"
    if len(letters) == 1 and letters != "Z":
        shown = f"IF(v.a % 60 = 0, format_string('%s%02d', IF(v.a < 0, '-', '+'), abs(v.a) div 60), {shown})"
    if letters[0] == "X" or letters == "ZZZZZ":
        shown = f"IF(v.a = 0, 'Z', {shown})"
    return let(shown, Argument(minutes))


def _zone_name(moment: str, there: str, zone: str) -> str:
    """Return the short name of a zone, such as CET, or CEST in summer."""
    if not zone.startswith("'"):
        return zone
    try:
        found = ZoneInfo(zone.strip("'"))
    except (ZoneInfoNotFoundError, ValueError):
        return zone
    names = {}
    for month in (1, 7):
        day = datetime(2021, month, 1, tzinfo=found)
        names[day.utcoffset()] = day.tzname()
    cases = " ".join(
        f"WHEN {int(offset.total_seconds()) * 1000} THEN '{name}'"
        for offset, name in names.items()
        if offset is not None
    )
    return f"CASE unix_millis({there}) - unix_millis({moment}) {cases} ELSE {zone} END"


def _date(arguments: Arguments) -> str:
    """Parse a date like Java's SimpleDateFormat, which ignores trailing text. Patterns with a time of day give null."""
    text, pattern = arguments
    moment = f"try_to_timestamp({text.sql}, {pattern.sql})"
    if pattern.sql.startswith("'"):
        width = len(pattern.sql[1:-1].replace("\\'", ""))
        moment = f"coalesce({moment}, try_to_timestamp(substring({text.sql}, 1, {width}), {pattern.sql}))"
    return let("CASE WHEN v.a = date_trunc('DAY', v.a) THEN CAST(v.a AS DATE) END", Argument(moment))


def _parsed(arguments: Arguments) -> str:
    moment = f"try_to_timestamp({arguments[0].sql}, {arguments[1].sql})"
    return moment if len(arguments) == 2 else f"to_utc_timestamp({moment}, {arguments[2].sql})"


def _millis(form: Form, is_result: bool) -> Form:
    def changed(arguments: Arguments) -> str:
        assert not isinstance(form, str)
        if is_result:
            return f"unix_millis({form(arguments)})"
        return form([Argument(_moment(arguments[:1])), *arguments[1:]])

    return changed


def _moved(name: str, kind: SqlType, form: str | Callable[[Arguments], str]) -> Form:
    """Check the arguments: a unit, a whole number, and a time or a literal of it."""

    def checked(arguments: Arguments) -> str:
        unit, amount, moment = arguments
        is_text = moment.is_a("STRING") and moment.sql.startswith("'")
        fits = moment.type is None or moment.type == kind or is_text
        if unit.sql not in _UNITS or not fits or not (amount.type is None or amount.is_a(*INTEGERS)):
            types = ", ".join("any" if each.type is None else str(each.type) for each in (amount, moment))
            raise WrongArguments(
                f"Function '{name}' does not accept parameters ({unit.sql}, {types}). It takes a unit, such as DAYS, "
                f"an INTEGER and a {kind}"
            )
        if is_text:
            moment = Argument(f"try_cast({moment.sql} AS {kind.ddl})", kind)
        if isinstance(form, str):
            return form.format(unit.sql, amount.sql, moment.sql)
        return form([unit, amount, moment])

    return checked


def _time_moved(sign: str) -> Callable[[Arguments], str]:
    """Wrap around midnight."""

    def form(arguments: Arguments) -> str:
        unit, amount, time = (each.sql for each in arguments)
        each = _UNIT_MS.get(unit, _DAY_MS)
        moved = f"time_to_millis({time}) {sign} CAST({amount} AS BIGINT) * {each}"
        return f"time_from_millis(pmod({moved}, {_DAY_MS}))"

    return form


_PARSED_DATE = "CAST(try_to_timestamp({0}, {1}) AS DATE)"

FUNCTIONS: dict[str, Function] = {
    "FORMAT_TIMESTAMP": Function({2: _format, 3: _format}, STRING),
    "TIMESTAMPTOSTRING": Function(dict.fromkeys((2, 3), _millis(_format, False)), STRING),
    "PARSE_TIMESTAMP": Function({2: _parsed, 3: _parsed}, TIMESTAMP),
    "STRINGTOTIMESTAMP": Function(dict.fromkeys((2, 3), _millis(_parsed, True)), BIGINT),
    "FORMAT_DATE": Function({2: "date_format({0}, {1})"}, STRING),
    "PARSE_DATE": Function({2: _date}, DATE),
    "DATETOSTRING": Function({2: "date_format(date_from_unix_date({0}), {1})"}, STRING),
    "STRINGTODATE": Function({2: f"unix_date({_PARSED_DATE})"}, INTEGER),
    "FORMAT_TIME": Function({2: "date_format({0}, {1})"}, STRING),
    "PARSE_TIME": Function({2: "try_to_time({0}, {1})"}, TIME),
    "FROM_UNIXTIME": Function({1: _moment}, TIMESTAMP),
    "FROM_DAYS": Function({1: "date_from_unix_date({0})"}, DATE),
    "UNIX_TIMESTAMP": Function({0: "unix_millis(current_timestamp())", 1: "unix_millis({0})"}, BIGINT),
    "UNIX_DATE": Function({0: "unix_date(current_date())", 1: "unix_date({0})"}, INTEGER),
    "CONVERT_TZ": Function({3: "from_utc_timestamp(to_utc_timestamp({0}, {1}), {2})"}, TIMESTAMP),
    **{
        name: Function({3: _moved(name, kind, form)}, kind)
        for name, kind, form in (
            ("TIMESTAMPADD", TIMESTAMP, "timestampadd({0}, {1}, {2})"),
            ("TIMESTAMPSUB", TIMESTAMP, "timestampadd({0}, -({1}), {2})"),
            ("DATEADD", DATE, "CAST(timestampadd({0}, {1}, {2}) AS DATE)"),
            ("DATESUB", DATE, "CAST(timestampadd({0}, -({1}), {2}) AS DATE)"),
            ("TIMEADD", TIME, _time_moved("+")),
            ("TIMESUB", TIME, _time_moved("-")),
        )
    },
}
