"""Arrays in text form: {1,NULL,"a \\"quoted\\" one"}."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def parse_array(text: str, read: Callable[[str], Any]) -> list[Any]:
    """Parse an array. Multidimensional arrays are flattened."""
    # Bounds other than 1 come first: [0:1]={1,2}
    text = text[text.index("{") :]
    values: list[Any] = []
    at, length = 0, len(text)
    while at < length:
        mark = text[at]
        if mark in "{},":
            at += 1
        elif mark == '"':
            at += 1
            parts = []
            while text[at] != '"':
                if text[at] == "\\":
                    at += 1
                parts.append(text[at])
                at += 1
            at += 1
            values.append(read("".join(parts)))
        else:
            end = at
            while text[end] not in ",}":
                end += 1
            element = text[at:end]
            values.append(None if element == "NULL" else read(element))
            at = end
    return values
