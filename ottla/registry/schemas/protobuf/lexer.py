"""Tokens of a .proto file."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from ottla.registry.schemas.parsed import InvalidSchema

_TOKEN = re.compile(
    r"""
    (?P<skip>\s+|//[^\n]*|/\*.*?\*/)
  | (?P<float>(?:\d+\.\d*(?:[eE][+-]?\d+)?|\.\d+(?:[eE][+-]?\d+)?|\d+[eE][+-]?\d+)(?![A-Za-z_0-9.]))
  | (?P<int>(?:0[xX][0-9a-fA-F]+|\d+)(?![A-Za-z_0-9.]))
  | (?P<name>[A-Za-z_][A-Za-z0-9_]*)
  | (?P<text>"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*')
  | (?P<sign>[{}\[\]()<>;=,.:+\-/])
    """,
    re.VERBOSE | re.DOTALL,
)


class Token(NamedTuple):
    kind: str
    """`float`, `int`, `name`, `text`, `sign`, or `end`."""
    text: str
    position: int


def tokens(source: str) -> Iterator[Token]:
    position = 0
    length = len(source)
    match = _TOKEN.match
    while position < length:
        hit = match(source, position)
        if hit is None:
            raise error_at(source, position, f"unexpected character {source[position]!r}")
        kind = hit.lastgroup
        if kind != "skip":
            if hit[0] == "/" and source.startswith("/*", position):
                raise error_at(source, position, "the comment has no end")
            yield Token(str(kind), hit[0], position)
        position = hit.end()
    yield Token("end", "", length)


def error_at(source: str, position: int, message: str) -> InvalidSchema:
    line = source.count("\n", 0, position) + 1
    column = position - (source.rfind("\n", 0, position) + 1) + 1
    return InvalidSchema(f"line {line}, column {column}: {message}")


_ESCAPE = re.compile(
    rb"\\(?:([abfnrtv\\'\"?])|([0-7]{1,3})|[xX]([0-9a-fA-F]{1,2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8}))"
)
_SIMPLE = {
    b"a": b"\a", b"b": b"\b", b"f": b"\f", b"n": b"\n", b"r": b"\r", b"t": b"\t", b"v": b"\v",
    b"\\": b"\\", b"'": b"'", b'"': b'"', b"?": b"?",
}  # fmt: skip


def unquoted(literal: str) -> bytes:

    def plain(match: re.Match[bytes]) -> bytes:
        simple, octal, hexadecimal, short, long = match.groups()
        if simple:
            return _SIMPLE[simple]
        if octal:
            return bytes([int(octal, 8) & 0xFF])
        if hexadecimal:
            return bytes([int(hexadecimal, 16)])
        code = int(short or long, 16)
        return chr(code).encode("utf-8", "surrogatepass") if code < 0x110000 else b"?"

    return _ESCAPE.sub(plain, literal[1:-1].encode("utf-8", "surrogatepass"))


def escaped(data: bytes) -> str:
    """Escape like C, as in descriptors for defaults of bytes fields."""
    out = []
    for byte in data:
        if byte in b"\n\r\t\"'\\":
            out.append({10: "\\n", 13: "\\r", 9: "\\t", 34: '\\"', 39: "\\'", 92: "\\\\"}[byte])
        elif 32 <= byte < 127:
            out.append(chr(byte))
        else:
            out.append(f"\\{byte:03o}")
    return "".join(out)


def quoted(text: str) -> str:
    """Return a string literal; non-ASCII characters stay."""
    out = []
    for character in text:
        if character in '"\\':
            out.append("\\" + character)
        elif character == "\n":
            out.append("\\n")
        elif character == "\r":
            out.append("\\r")
        elif character == "\t":
            out.append("\\t")
        elif ord(character) < 32 or ord(character) == 127:
            out.append(f"\\{ord(character):03o}")
        else:
            out.append(character)
    return '"' + "".join(out) + '"'
