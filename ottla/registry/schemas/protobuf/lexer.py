"""Tokens of a .proto file, and the token stream for the parser."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator
from typing import NamedTuple

from ottla.registry.schemas.parsed import InvalidSchema

# Tokens of a .proto file.

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


# Token stream for the parser of .proto files.


class Words:
    def __init__(self, source: str) -> None:
        self._source = source
        self._tokens = tokens(source)
        # Lookahead tokens, read on demand: a file is refused at its first mistake.
        self._ahead = deque((next(self._tokens),))

    def at_end(self) -> bool:
        return self._ahead[0].kind == "end"

    def kind(self) -> str:
        return self._ahead[0].kind

    def at(self, text: str) -> bool:
        token = self._ahead[0]
        return token.text == text and token.kind != "text"

    def after(self, *expected: str) -> bool:
        """Return True if these tokens follow the next one: kinds, or literal signs and names."""
        for offset, wanted in enumerate(expected, 1):
            while len(self._ahead) <= offset:
                if self._ahead[-1].kind == "end":
                    return False
                self._ahead.append(next(self._tokens))
            token = self._ahead[offset]
            if wanted not in (token.kind, token.text):
                return False
        return True

    def take(self, text: str) -> bool:
        token = self._ahead[0]
        if token.text == text and token.kind != "text":
            self.next()
            return True
        return False

    def expect(self, text: str) -> None:
        if not self.take(text):
            raise self.error(f'expected "{text}", not {self.shown()}')

    def next(self) -> Token:
        token = self._ahead[0]
        if token.kind != "end":
            self._ahead.popleft()
            if not self._ahead:
                self._ahead.append(next(self._tokens))
        return token

    def shown(self) -> str:
        token = self._ahead[0]
        return "the end of the file" if token.kind == "end" else f'"{token.text[:60]}"'

    def error(self, message: str) -> InvalidSchema:
        return error_at(self._source, self._ahead[0].position, message)

    def name(self) -> str:
        if self.kind() != "name":
            raise self.error(f"expected a name, not {self.shown()}")
        return self.next().text

    def full_name(self) -> str:
        parts = [self.name()]
        while self.take("."):
            parts.append(self.name())
        return ".".join(parts)

    def type_name(self) -> str:
        dot = "." if self.take(".") else ""
        return dot + self.full_name()

    def string(self) -> bytes:
        """Read a string; adjacent literals are joined."""
        if self.kind() != "text":
            raise self.error(f"expected a string, not {self.shown()}")
        parts = []
        while self.kind() == "text":
            parts.append(unquoted(self.next().text))
        return b"".join(parts)

    def integer(self, lowest: int, highest: int, what: str) -> int:
        negative = self.take("-")
        if self.kind() != "int":
            raise self.error(f"{what} is an integer, not {self.shown()}")
        value = self.number()
        value = -value if negative else value
        if not lowest <= value <= highest:
            raise self.error(f"{what} is between {lowest} and {highest}, not {value}")
        return value

    def number(self) -> int:
        text = self._ahead[0].text
        if len(text) > 40:
            raise self.error("the number is too large")
        self.next()
        if text[:2] in ("0x", "0X"):
            return int(text, 16)
        if len(text) > 1 and text[0] == "0" and all(digit in "01234567" for digit in text):
            return int(text, 8)
        return int(text)

    def floating(self) -> str:
        sign = "-" if self.take("-") else ""
        if self.kind() == "name" and (self.at("inf") or self.at("nan")):
            return sign + self.next().text
        if self.kind() not in ("int", "float"):
            raise self.error(f"expected a number, not {self.shown()}")
        value = float(self.number()) if self.kind() == "int" else float(self.next().text)
        text = repr(value)
        return sign + (text.removesuffix(".0") if "e" not in text else text)

    def number_range(self, highest: int, *, lowest: int = 1) -> tuple[int, int]:
        first = self.integer(lowest, highest, "a number of a range")
        last = first
        if self.take("to"):
            last = highest if self.take("max") else self.integer(lowest, highest, "a number of a range")
        if last < first:
            raise self.error(f"the range {first} to {last} is empty")
        return first, last

    def reserved_names(self) -> list[str]:
        names = []
        while True:
            names.append(self.string().decode("utf-8", "replace") if self.kind() == "text" else self.name())
            if not self.take(","):
                return names
