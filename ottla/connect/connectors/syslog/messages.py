"""Parses syslog messages (RFC 5424 and RFC 3164). Other messages stay plain text."""

from __future__ import annotations

import datetime as dt
import re
from typing import Any

from ottla.connect.data.schema import (
    INT32,
    OPTIONAL_INT32,
    OPTIONAL_STRING,
    STRING,
    Schema,
    SchemaBuilder,
    SchemaType,
    mapping,
)
from ottla.connect.data.struct import Struct

_WHEN = Schema(SchemaType.INT64, True, name="org.apache.kafka.connect.data.Timestamp", version=1)
_ELEMENT = mapping(STRING, STRING)

KEY = SchemaBuilder("io.confluent.syslog.SyslogKey").field("remoteAddress", STRING).build()
VALUE = (
    SchemaBuilder("io.confluent.syslog.SyslogValue")
    .field("type", STRING)
    .field("date", _WHEN)
    .field("facility", OPTIONAL_INT32)
    .field("severity", OPTIONAL_INT32)
    .field("host", OPTIONAL_STRING)
    .field("version", OPTIONAL_INT32)
    .field("appName", OPTIONAL_STRING)
    .field("processId", OPTIONAL_STRING)
    .field("messageId", OPTIONAL_STRING)
    .field("structuredData", mapping(STRING, _ELEMENT, optional=True))
    .field("tag", OPTIONAL_STRING)
    .field("message", OPTIONAL_STRING)
    .field("rawMessage", STRING)
    .field("remoteAddress", STRING)
    .field("remotePort", INT32)
    .build()
)

_RFC5424 = re.compile(
    r"<(?P<priority>\d{1,3})>(?P<version>[1-9]\d?) (?P<date>\S+) (?P<host>\S+) (?P<app>\S+) (?P<process>\S+) "
    r"(?P<id>\S+) (?P<data>-|(?:\[(?:[^\"\]]|\"(?:[^\"\\]|\\.)*\")*\])+)(?: (?P<message>.*))?",
    re.DOTALL,
)
_RFC3164 = re.compile(
    r"<(?P<priority>\d{1,3})>(?P<date>[A-Z][a-z]{2} [ \d]\d \d{2}:\d{2}:\d{2}) (?P<host>\S+) "
    r"(?:(?P<tag>[^\s:\[]{1,48})(?:\[(?P<process>[^\]]*)\])?:? ?)?(?P<message>.*)",
    re.DOTALL,
)
_PRIORITY = re.compile(r"<(\d{1,3})>")
_ELEMENTS = re.compile(r"\[([^ \]\"=]+)((?: [^ =\"\]]+=\"(?:[^\"\\]|\\.)*\")*)\]")
_PARAMETERS = re.compile(r"([^ =\"\]]+)=\"((?:[^\"\\]|\\.)*)\"")
_LARGEST_PRIORITY = 191


def parse(raw: str, address: str, port: int, now: dt.datetime) -> Struct:
    found: dict[str, Any] = {"rawMessage": raw, "remoteAddress": address, "remotePort": port}
    match = _RFC5424.fullmatch(raw)
    if match and int(match["priority"]) <= _LARGEST_PRIORITY:
        found |= _rfc5424(match)
    elif (match := _RFC3164.fullmatch(raw)) and int(match["priority"]) <= _LARGEST_PRIORITY:
        found |= _rfc3164(match, now)
    else:
        found |= _neither(raw)
    return Struct(VALUE, found)


def _rfc5424(match: re.Match[str]) -> dict[str, Any]:
    facility, severity = divmod(int(match["priority"]), 8)
    try:
        when = None if match["date"] == "-" else dt.datetime.fromisoformat(match["date"])
    except ValueError:
        when = None
    if when is not None:
        when = (when if when.tzinfo is not None else when.replace(tzinfo=dt.UTC)).astimezone(dt.UTC)
    message = match["message"]
    return {
        "type": "RFC5424",
        "date": when,
        "facility": facility,
        "severity": severity,
        "version": int(match["version"]),
        "host": _given(match["host"]),
        "appName": _given(match["app"]),
        "processId": _given(match["process"]),
        "messageId": _given(match["id"]),
        "structuredData": None if match["data"] == "-" else _structured(match["data"]),
        "message": None if message is None else message.removeprefix("\ufeff"),
    }


def _given(text: str) -> str | None:
    return None if text == "-" else text


def _structured(text: str) -> dict[str, dict[str, str]]:
    found: dict[str, dict[str, str]] = {}
    for name, parameters in _ELEMENTS.findall(text):
        values = found.setdefault(name, {})
        for key, value in _PARAMETERS.findall(parameters):
            values[key] = re.sub(r"\\([\"\\\]])", r"\1", value)
    return found


def _rfc3164(match: re.Match[str], now: dt.datetime) -> dict[str, Any]:
    facility, severity = divmod(int(match["priority"]), 8)
    return {
        "type": "RFC3164",
        "date": _without_year(match["date"], now),
        "facility": facility,
        "severity": severity,
        "host": match["host"],
        "tag": match["tag"],
        "processId": match["process"],
        "message": match["message"],
    }


def _without_year(text: str, now: dt.datetime) -> dt.datetime | None:
    """Choose the year closest to now, so that messages from December belong to last year at New Year."""
    for year in (now.year, now.year - 1, now.year + 1):
        try:
            found = dt.datetime.strptime(f"{year} {text}", "%Y %b %d %H:%M:%S").replace(tzinfo=dt.UTC)
        except ValueError:
            continue
        if abs(found - now) < dt.timedelta(days=183):
            return found
    return None


def _neither(raw: str) -> dict[str, Any]:
    match = _PRIORITY.match(raw)
    if match is None or int(match[1]) > _LARGEST_PRIORITY:
        return {"type": "UNKNOWN", "message": raw}
    facility, severity = divmod(int(match[1]), 8)
    return {"type": "UNKNOWN", "facility": facility, "severity": severity, "message": raw[match.end() :]}
