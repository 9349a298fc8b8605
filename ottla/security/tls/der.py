"""A minimal DER parser for names and key stores."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

SEQUENCE, SET, OBJECT_IDENTIFIER, OCTET_STRING = 0x30, 0x31, 0x06, 0x04


class BadDer(ValueError):
    """Truncated or malformed DER."""


class Element(NamedTuple):
    tag: int
    content: bytes
    encoded: bytes  # including tag and length

    def children(self) -> Iterator[Element]:
        return elements(self.content)

    def expect(self, tag: int) -> Element:
        if self.tag != tag:
            raise BadDer(f"tag {self.tag:#x} where {tag:#x} was expected")
        return self


def elements(data: bytes) -> Iterator[Element]:
    position = 0
    while position < len(data):
        start = position
        if len(data) - position < 2:
            raise BadDer("an element ends early")
        tag, length = data[position], data[position + 1]
        position += 2
        if length & 0x80:
            count = length & 0x7F
            if not 1 <= count <= 4 or len(data) - position < count:
                raise BadDer("a length cannot be read")
            length = int.from_bytes(data[position : position + count])
            position += count
        end = position + length
        if end > len(data):
            raise BadDer("an element ends early")
        yield Element(tag, data[position:end], data[start:end])
        position = end


def element(data: bytes) -> Element:
    """Return the first element. Raises BadDer without one."""
    for found in elements(data):
        return found
    raise BadDer("nothing is there")


def object_identifier(content: bytes) -> str:
    numbers: list[int] = []
    number = 0
    for byte in content:
        number = number << 7 | byte & 0x7F
        if not byte & 0x80:
            numbers.append(number)
            number = 0
    if not numbers or content[-1] & 0x80:
        raise BadDer("an object identifier cannot be read")
    first = min(numbers[0] // 40, 2)
    return ".".join(map(str, (first, numbers[0] - 40 * first, *numbers[1:])))
