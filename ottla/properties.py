"""Java's properties files: comments, continued lines, separators and escapes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

_BLANKS = " \t\f"
_LINE_END = re.compile(r"\r\n|\r|\n")
_ESCAPE = re.compile(r"\\(u([0-9a-fA-F]{4})|(?s:.)|$)")
_ESCAPED = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_SURROGATE_PAIR = re.compile("[\ud800-\udbff][\udc00-\udfff]")


class Property(NamedTuple):
    key: str
    value: str
    line: int


class PropertiesError(ValueError):
    def __init__(self, line: int, reason: str) -> None:
        super().__init__(f"line {line}: {reason}")
        self.line = line
        self.reason = reason


def decode_properties(data: bytes) -> str:
    """UTF-8, or Latin-1 as Java's files were once written."""
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        return data.decode("latin-1")


def parse_properties(text: str) -> list[Property]:
    """Every property in order; a key may come again, and then the last one counts."""
    return [_property(line, number) for line, number in _logical_lines(text)]


def _logical_lines(text: str) -> Iterator[tuple[str, int]]:
    """Lines that say something, with continued ones joined; each with the number it starts at."""
    joined, start = "", 0
    for number, natural in enumerate(_LINE_END.split(text), 1):
        line = natural.lstrip(_BLANKS)
        if not joined:
            if not line or line[0] in "#!":
                continue
            start = number
        joined += line
        if _ends_open(line):
            joined = joined[:-1]
            continue
        yield joined, start
        joined = ""
    if joined:
        yield joined, start


def _ends_open(line: str) -> bool:
    """Whether the last backslash of the line is not itself escaped."""
    return (len(line) - len(line.rstrip("\\"))) % 2 == 1


def _property(line: str, number: int) -> Property:
    end = 0
    while end < len(line) and line[end] not in "=:" + _BLANKS:
        end += 2 if line[end] == "\\" else 1
    rest = line[end:].lstrip(_BLANKS)
    if rest[:1] in ("=", ":"):
        rest = rest[1:].lstrip(_BLANKS)
    return Property(_unescape(line[:end], number), _unescape(rest, number), number)


def _unescape(text: str, number: int) -> str:
    if "\\" not in text:
        return text

    def replacement(escape: re.Match[str]) -> str:
        if escape[2] is not None:
            return chr(int(escape[2], 16))
        if escape[1] == "u":
            raise PropertiesError(number, "\\u needs four hexadecimal digits")
        return _ESCAPED.get(escape[1], escape[1])

    unescaped = _ESCAPE.sub(replacement, text)
    # Java writes characters beyond the first plane as two escapes.
    return _SURROGATE_PAIR.sub(
        lambda pair: pair[0].encode("utf-16", "surrogatepass").decode("utf-16"), unescaped
    )
