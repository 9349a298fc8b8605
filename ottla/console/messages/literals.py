"""Bytes that a record must have if a search is to find it. A batch without them need not be decoded.

Only such parts of a text count as are written in one way only: JSON may have spaces or none around its signs, and
writes quotes, slashes and what is not ASCII now like this and now like that.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

_PIECES = re.compile(
    r"""[^\s"\\,:{}\[\]<>&'/\x00-\x1f\x7f-\U0010ffff]+(?:\ [^\s"\\,:{}\[\]<>&'/\x00-\x1f\x7f-\U0010ffff]+)*"""
)
_MOST_PIECES = 4
_MEMBERS = frozenset({"key", "value", "headers"})


class Literal(NamedTuple):
    pieces: tuple[bytes, ...]  # the longest first, in lower case if the case does not matter
    ignore_case: bool

    def is_in(self, data: bytes) -> bool:
        """All of them, in whatever order."""
        among = data.lower() if self.ignore_case else data
        return all(piece in among for piece in self.pieces)


def of_text(text: str, ignore_case: bool) -> Literal | None:
    """Those parts of a text that are written in one way only."""
    found = sorted(
        dict.fromkeys(_PIECES.findall(text.lower() if ignore_case else text)), key=len, reverse=True
    )
    return Literal(tuple(piece.encode() for piece in found[:_MOST_PIECES]), ignore_case) if found else None


def is_whole(text: str) -> bool:
    """Whether all of a text is written in one way only, so that the bytes decide."""
    return _PIECES.fullmatch(text) is not None


def of_pattern(pattern: re.Pattern[str]) -> Literal | None:
    """Runs of letters that whatever a regular expression finds has in it."""
    from re import _constants as signs  # type: ignore[attr-defined]
    from re import _parser as parser  # type: ignore[attr-defined]

    if pattern.flags & re.VERBOSE:
        return None
    runs = "".join(_letters(parser.parse(pattern.pattern, pattern.flags & ~re.UNICODE), signs))
    return of_text(runs, bool(pattern.flags & re.IGNORECASE))


def _letters(parsed: Any, signs: Any) -> Iterator[str]:
    """What must be there, in order; a line break where something else may stand between."""
    for sign, argument in parsed:
        if sign is signs.LITERAL:
            yield chr(argument)
        elif sign is signs.SUBPATTERN and not argument[1] and not argument[2]:
            yield from _letters(argument[3], signs)
        elif sign in (signs.MAX_REPEAT, signs.MIN_REPEAT) and argument[0] > 0:
            yield "\n"
            yield from _letters(argument[2], signs)
            yield "\n"
        elif sign is not signs.AT:  # anchors take no room
            yield "\n"


def of_expression(text: str) -> Literal | None:
    """Of `key == "…"`, of a field of the value or of a header, or of several such with `and` between them."""
    body = ast.parse(text.strip(), mode="eval").body
    parts = body.values if isinstance(body, ast.BoolOp) and isinstance(body.op, ast.And) else [body]
    return of_text("\n".join(filter(None, map(_equal_to, parts))), False)


def _equal_to(node: ast.expr) -> str | None:
    if not isinstance(node, ast.Compare) or len(node.ops) != 1 or not isinstance(node.ops[0], ast.Eq):
        return None
    for side, other in ((node.left, node.comparators[0]), (node.comparators[0], node.left)):
        if isinstance(other, ast.Constant) and isinstance(other.value, str) and _is_member(side):
            return other.value
    return None


def _is_member(node: ast.expr) -> bool:
    while isinstance(node, (ast.Attribute, ast.Subscript)):
        node = node.value
    return isinstance(node, ast.Name) and node.id in _MEMBERS
