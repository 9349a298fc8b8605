"""Sizes, rates, points in time and durations as people write them."""

from __future__ import annotations

import re
from datetime import UTC, datetime, tzinfo

import click

# Sizes and rates as people write them: 500MB, 1.5GiB, 1Gbit.

_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([kKMGT]?)(i?)(B|bit)?(?:/s)?")
_POWERS = {"": 0, "k": 1, "K": 1, "M": 2, "G": 3, "T": 4}


def parse_size(text: str) -> float:
    """Return bytes. Raises ValueError for an invalid size."""
    found = _SIZE.fullmatch(text.strip())
    if found is None:
        raise ValueError(f"'{text}' is not a size. Use 500MB, 10GiB or 1Gbit")
    number, prefix, binary, unit = found.groups()
    size: float = float(number) * (1024 if binary else 1000) ** _POWERS[prefix]
    return size / 8 if unit == "bit" else size


def size_parameter(text: str) -> float:
    try:
        return parse_size(text)
    except ValueError as error:
        raise click.BadParameter(f"{error}.") from None


# Points in time and durations as people write them.

_UNITS_MS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 604_800_000}
_SHORT = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d|w)")
_ISO = re.compile(
    r"P(?:(?P<w>\d+)W)?(?:(?P<d>\d+)D)?(?:T(?:(?P<h>\d+)H)?(?:(?P<m>\d+)M)?(?:(?P<s>\d+(?:\.\d+)?)S)?)?",
    re.IGNORECASE,
)


def parse_duration_ms(text: str) -> int:
    """`90s`, `10m`, `1h30m`, `2d`, or ISO 8601 such as `P1DT2H`."""
    compact = text.strip()
    if len(compact) > 1 and compact[0] in "Pp" and (iso := _ISO.fullmatch(compact)):
        parts = {unit: value for unit, value in iso.groupdict().items() if value is not None}
        if parts:
            return round(sum(float(value) * _UNITS_MS[unit] for unit, value in parts.items()))
    pairs = _SHORT.findall(compact)
    if pairs and "".join(number + unit for number, unit in pairs) == compact:
        return round(sum(float(number) * _UNITS_MS[unit] for number, unit in pairs))
    raise ValueError(f"'{text}' is not a duration: write for example 90s, 10m, 1h30m, 2d or PT10M")


def parse_timestamp_ms(text: str, zone: tzinfo | None = None) -> int:
    """ISO 8601 (in `zone`, or local time, unless it names another), or milliseconds since 1970."""
    compact = text.strip()
    if re.fullmatch(r"\d+", compact) and len(compact) > 8:
        return int(compact)
    try:
        moment = datetime.fromisoformat(compact)
    except ValueError:
        raise ValueError(
            f"'{text}' is not a point in time: write for example 2026-01-31T14:00:00 or 2026-01-31T14:00:00Z"
        ) from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=zone)
    return round(moment.timestamp() * 1000)


def format_timestamp(timestamp_ms: int) -> str:
    moment = datetime.fromtimestamp(timestamp_ms / 1000, tz=UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
