"""Java's SimpleDateFormat in UTC and English, between milliseconds since 1970 and text.

Parsing is lenient, like Java's default: the 32nd of January is the 1st of February, and trailing text is ignored. Weeks
and day-of-week numbers (w, W, F, u) are formatted, but ignored in parsing.
"""

from __future__ import annotations

import re
import time
from functools import lru_cache

from ottla.connect.data.java_values import wrapped

_MONTHS = (
    "January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November",
    "December",
)  # fmt: skip
_DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_LETTERS = "GyMwWDdFEaHkKhmsSzZYuXL"
_NUMBERS = "yMwWDdFHkKhmsSYuL"
_DAY_MS = 86_400_000


class BadPattern(ValueError):
    """A pattern that Java rejects."""


class BadDate(ValueError):
    """A text that does not match the pattern."""


@lru_cache(maxsize=64)
def date_format(pattern: str) -> DateFormat:
    return DateFormat(pattern)


class DateFormat:
    """Raises BadPattern."""

    def __init__(self, pattern: str) -> None:
        self.pattern = pattern
        #: A letter with its count, or None with a literal.
        self._parts = _compiled(pattern)

    def format(self, millis: int) -> str:
        days, of_day = divmod(millis, _DAY_MS)
        fields = _Fields(days, of_day)
        return "".join(
            text if letter is None else fields.text(letter, count) for letter, count, text in self._parts
        )

    def parse(self, text: str) -> int:
        """Return milliseconds. Raises BadDate."""
        return _Parsing(text, self._parts).millis()


def _compiled(pattern: str) -> list[tuple[str | None, int, str]]:
    parts: list[tuple[str | None, int, str]] = []
    literal: list[str] = []

    def end_literal() -> None:
        if literal:
            parts.append((None, 0, "".join(literal)))
            literal.clear()

    at, quoted = 0, False
    while at < len(pattern):
        letter = pattern[at]
        if letter == "'":
            if pattern.startswith("''", at):
                literal.append("'")
                at += 2
                continue
            quoted = not quoted
            at += 1
        elif quoted or not (letter.isascii() and letter.isalpha()):
            literal.append(letter)
            at += 1
        elif letter not in _LETTERS:
            raise BadPattern(f"Illegal pattern character '{letter}'")
        else:
            end_literal()
            count = len(pattern) - at - len(pattern[at:].lstrip(letter))
            if letter == "X" and count > 3:
                raise BadPattern(f"invalid ISO 8601 format: length={count}")
            parts.append((letter, count, ""))
            at += count
    if quoted:
        raise BadPattern("Unterminated quote")
    end_literal()
    return parts


#: The 15th of October 1582. Earlier dates use the Julian calendar, as in Java's GregorianCalendar.
_CUTOVER = -141_427


def _days_of(year: int, month: int, day: int) -> int:
    """Return days since 1970. Month and day may be out of range."""
    year += (month - 1) // 12
    month = (month - 1) % 12 + 1
    shifted = year - (month <= 2)
    of_year = (153 * (month + (-3 if month > 2 else 9)) + 2) // 5 + day - 1
    era, of_era = divmod(shifted, 400)
    days = era * 146_097 + of_era * 365 + of_era // 4 - of_era // 100 + of_year - 719_468
    if days >= _CUTOVER:
        return days
    era, of_era = divmod(shifted, 4)
    return era * 1461 + of_era * 365 + of_year - 719_470


def _date_of(days: int) -> tuple[int, int, int]:
    if days >= _CUTOVER:
        era, of_era = divmod(days + 719_468, 146_097)
        year_of_era = (of_era - of_era // 1460 + of_era // 36_524 - of_era // 146_096) // 365
        of_year = of_era - (365 * year_of_era + year_of_era // 4 - year_of_era // 100)
        year = year_of_era + era * 400
    else:
        era, of_era = divmod(days + 719_470, 1461)
        year_of_era = (of_era - of_era // 1460) // 365
        of_year = of_era - 365 * year_of_era
        year = year_of_era + era * 4
    shifted = (5 * of_year + 2) // 153
    day = of_year - (153 * shifted + 2) // 5 + 1
    month = shifted + (3 if shifted < 10 else -9)
    return year + (month <= 2), month, day


class _Fields:
    def __init__(self, days: int, of_day: int) -> None:
        self._days = days
        self._year, self._month, self._day = _date_of(days)
        self._weekday = (days + 3) % 7  # Monday is 0
        self._hour, rest = divmod(of_day, 3_600_000)
        self._minute, rest = divmod(rest, 60_000)
        self._second, self._milli = divmod(rest, 1000)

    def text(self, letter: str, count: int) -> str:
        if letter in "yY":
            year = self._week_year() if letter == "Y" else self._year
            if year <= 0:
                year = 1 - year
            return f"{year % 100:02}" if count == 2 else f"{year:0{count}}"
        if letter in "ML" and count >= 3:
            return _MONTHS[self._month - 1] if count >= 4 else _MONTHS[self._month - 1][:3]
        if letter == "E":
            return _DAYS[self._weekday] if count >= 4 else _DAYS[self._weekday][:3]
        if letter == "a":
            return "AM" if self._hour < 12 else "PM"
        if letter == "G":
            return "AD" if self._year > 0 else "BC"
        if letter == "z":
            return "Coordinated Universal Time" if count >= 4 else "UTC"
        if letter == "Z":
            return "+0000"
        if letter == "X":
            return "Z"
        return f"{self._number(letter):0{count}}"

    def _number(self, letter: str) -> int:
        first = _days_of(self._year, 1, 1)
        if letter in "ML":
            return self._month
        if letter == "d":
            return self._day
        if letter == "D":
            return self._days - first + 1
        if letter == "F":
            return (self._day - 1) // 7 + 1
        if letter == "u":
            return self._weekday + 1
        if letter == "W":  # weeks begin on Sunday
            of_first = (self._weekday + 1 - (self._day - 1)) % 7
            return (self._day - 1 + of_first) // 7 + 1
        if letter == "w":
            return self._week()
        hours = {"H": self._hour, "k": self._hour or 24, "K": self._hour % 12, "h": self._hour % 12 or 12}
        return hours.get(letter, {"m": self._minute, "s": self._second, "S": self._milli}.get(letter, 0))

    def _week(self) -> int:
        begin = _week_year_begin(self._week_year())
        return (self._days - begin) // 7 + 1

    def _week_year(self) -> int:
        return self._year + 1 if self._days >= _week_year_begin(self._year + 1) else self._year


def _week_year_begin(year: int) -> int:
    first = _days_of(year, 1, 1)
    return first - (first + 4) % 7


_NUMBER = re.compile(r"[ \t]*(-?[0-9]+)")
_ZONE_OFFSET = re.compile(r"([+-])(\d\d)(\d\d)")
_GMT = re.compile(r"GMT(?:([+-])(\d{1,2}):(\d{2}))?", re.IGNORECASE)
_ISO = {
    1: re.compile(r"Z|([+-])(\d\d)"),
    2: re.compile(r"Z|([+-])(\d\d)(\d\d)"),
    3: re.compile(r"Z|([+-])(\d\d):(\d\d)"),
}
#: Common zone names, with their offset from UTC in hours.
_ZONES = {
    "UTC": 0, "UT": 0, "WET": 0, "WEST": 1, "BST": 1, "CET": 1, "CEST": 2, "EET": 2, "EEST": 3, "MSK": 3, "IST": 5.5,
    "JST": 9, "EST": -5, "EDT": -4, "CST": -6, "CDT": -5, "MST": -7, "MDT": -6, "PST": -8, "PDT": -7,
}  # fmt: skip
_ZONE_NAME = re.compile(rf"({'|'.join(_ZONES)})(?![A-Za-z])", re.IGNORECASE)


class _Parsing:
    def __init__(self, text: str, parts: list[tuple[str | None, int, str]]) -> None:
        self._text = text
        self._parts = parts
        self._at = 0
        self._found: dict[str, int] = {}
        #: Minutes from UTC.
        self._zone = 0

    def millis(self) -> int:
        for index, (letter, count, literal) in enumerate(self._parts):
            if letter is None:
                self._literal(literal)
            elif letter in _NUMBERS and not (letter in "ML" and count >= 3):
                after = self._parts[index + 1] if index + 1 < len(self._parts) else None
                fixed = after is not None and after[0] is not None and after[0] in _NUMBERS
                self._number(letter, count, fixed=fixed)
            else:
                self._word(letter, count)
        return self._result()

    def _literal(self, literal: str) -> None:
        if not self._text.startswith(literal, self._at):
            raise BadDate
        self._at += len(literal)

    def _number(self, letter: str, count: int, *, fixed: bool) -> None:
        """`fixed` means that another number follows directly: at most `count` characters are read, including spaces."""
        end = self._at + count if fixed else len(self._text)
        if end > len(self._text):
            raise BadDate
        number = _NUMBER.match(self._text, self._at, end)
        if number is None:
            raise BadDate
        self._at = number.end()
        written = number[1]
        value = wrapped(int(written), 32)
        if letter in "yY" and count <= 2 and len(written) == 2 and written.isdecimal():
            value = _century(value)
        self._found[letter] = value

    def _word(self, letter: str, count: int) -> None:
        if letter in "ML":
            self._found["M"] = self._one_of(_MONTHS) + 1
        elif letter == "E":
            self._found["E"] = self._one_of(_DAYS)
        elif letter == "a":
            self._found["a"] = self._one_of(("AM", "PM"), shortened=False)
        elif letter == "G":
            self._found["G"] = self._one_of(("BC", "AD"), shortened=False)
        elif letter == "X":
            found = _ISO[count].match(self._text, self._at)
            if found is None:
                raise BadDate
            self._at = found.end()
            if found[0] != "Z":
                self._zone = _minutes(found[1], found[2], found[3] if count > 1 else "0")
        else:
            self._general_zone()

    def _one_of(self, names: tuple[str, ...], *, shortened: bool = True) -> int:
        rest = self._text[self._at :].lower()
        for letters in (None, 3) if shortened else (None,):
            for index, name in enumerate(names):
                if rest.startswith(name[:letters].lower()):
                    self._at += len(name[:letters])
                    return index
        raise BadDate

    def _general_zone(self) -> None:
        found = _ZONE_OFFSET.match(self._text, self._at) or _GMT.match(self._text, self._at)
        if found is not None:
            self._at = found.end()
            self._zone = _minutes(found[1], found[2], found[3]) if found[1] else 0
            return
        named = _ZONE_NAME.match(self._text, self._at)
        if named is None:
            raise BadDate
        self._zone = int(_ZONES[named[1].upper()] * 60)
        self._at = named.end()

    def _result(self) -> int:
        found = self._found
        year = found.get("y", found.get("Y", 1970))
        if found.get("G") == 0:
            year = 1 - year
        month = found.get("M", found.get("L", 1))
        if "D" in found and "d" not in found and "M" not in found:
            days = _days_of(year, 1, 1) + found["D"] - 1
        else:
            days = _days_of(year, month, found.get("d", 1))
            if "d" not in found and "E" in found and "M" not in found and "y" not in found:
                wanted = found["E"]
                days = -4 + (wanted + 1) % 7  # the week of the 1st of January 1970 begins on a Sunday
        minutes = self._hour() * 60 + found.get("m", 0)
        millis = days * _DAY_MS + minutes * 60_000 + found.get("s", 0) * 1000 + found.get("S", 0)
        return millis - self._zone * 60_000

    def _hour(self) -> int:
        found = self._found
        if "H" in found:
            return found["H"]
        if "k" in found:
            return 0 if found["k"] == 24 else found["k"]
        half = found.get("a", 0) * 12
        if "h" in found:
            return (0 if found["h"] == 12 else found["h"]) + half
        return found.get("K", 0) + half


def _minutes(sign: str, hours: str, minutes: str) -> int:
    total = int(hours) * 60 + int(minutes)
    if int(hours) > 23 or int(minutes) > 59:
        raise BadDate
    return -total if sign == "-" else total


def _century(two_digits: int) -> int:
    """Return the year within 80 years before and 20 years after today."""
    first = time.gmtime().tm_year - 80
    year = first - first % 100 + two_digits
    return year + 100 if year < first else year
