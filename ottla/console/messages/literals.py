"""Bytes that every hit of a search must contain. Batches without them need not be decoded.

Only text with a unique spelling counts: JSON may have spaces around its signs, and alternative escapes for quotes,
slashes and non-ASCII characters.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from ottla.console.messages.sql_expression import COLUMNS, Token, text_of, tokens_of

_PIECES = re.compile(
    r"""[^\s"\\,:{}\[\]<>&'/\x00-\x1f\x7f-\U0010ffff]+(?:\ [^\s"\\,:{}\[\]<>&'/\x00-\x1f\x7f-\U0010ffff]+)*"""
)
_MOST_PIECES = 4
_MEMBERS = frozenset({"key", "value", "headers"})


class Literal(NamedTuple):
    pieces: tuple[bytes, ...]  # longest first; in lower case for case-insensitive searches
    ignore_case: bool

    def is_in(self, data: bytes) -> bool:
        """Return True if all pieces occur, in any order."""
        among = data.lower() if self.ignore_case else data
        return all(piece in among for piece in self.pieces)


def of_text(text: str, ignore_case: bool) -> Literal | None:
    found = sorted(
        dict.fromkeys(_PIECES.findall(text.lower() if ignore_case else text)), key=len, reverse=True
    )
    return Literal(tuple(piece.encode() for piece in found[:_MOST_PIECES]), ignore_case) if found else None


def is_whole(text: str) -> bool:
    """Return True if the whole text has a unique spelling, so that the bytes decide."""
    return _PIECES.fullmatch(text) is not None


def of_pattern(pattern: re.Pattern[str]) -> Literal | None:
    """Return runs of letters that every match of a regular expression contains."""
    from re import _constants as signs  # type: ignore[attr-defined]
    from re import _parser as parser  # type: ignore[attr-defined]

    if pattern.flags & re.VERBOSE:
        return None
    runs = "".join(_letters(parser.parse(pattern.pattern, pattern.flags & ~re.UNICODE), signs))
    return of_text(runs, bool(pattern.flags & re.IGNORECASE))


def _letters(parsed: Any, signs: Any) -> Iterator[str]:
    """Yield the required letters in order; a line break where other text may intervene."""
    for sign, argument in parsed:
        if sign is signs.LITERAL:
            yield chr(argument)
        elif sign is signs.SUBPATTERN and not argument[1] and not argument[2]:
            yield from _letters(argument[3], signs)
        elif sign in (signs.MAX_REPEAT, signs.MIN_REPEAT) and argument[0] > 0:
            yield "\n"
            yield from _letters(argument[2], signs)
            yield "\n"
        elif sign is not signs.AT:  # anchors match no text
            yield "\n"


def of_expression(text: str) -> Literal | None:
    """Extract literals from `key == "…"`, comparisons of fields or headers, and conjunctions of these."""
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


def of_sql(text: str) -> Literal | None:
    """Extract literals from `key = '…'` and `value->name LIKE '…%'`, and conjunctions of these."""
    found: list[str] = []
    parts: list[list[Token]] = [[]]
    depth = 0
    for token in tokens_of(text):
        before = parts[-1][-1] if parts[-1] else None
        if token.is_sign("("):
            is_call = before is not None and before.kind == "word"
            if not depth and not is_call:
                return None  # a parenthesized condition may be negated
            depth += 1
        elif token.is_sign(")"):
            depth -= 1
        elif not depth and token.is_word("OR", "NOT", "IS"):
            return None
        if not depth and token.is_word("AND", "WHERE"):
            parts.append([])
        else:
            parts[-1].append(token)
    for part in parts:
        found += _needed_by(part)
    return of_text("\n".join(found), False)


def _needed_by(part: list[Token]) -> list[str]:
    if len(part) < 3:
        return []
    *path, sign, literal = part
    if literal.kind != "text" or not _is_path(path):
        return []
    if sign.is_sign("=", "=="):
        return [text_of(literal.text)]
    return re.split("[%_]", text_of(literal.text)) if sign.is_word("LIKE") else []


def _is_path(tokens: list[Token]) -> bool:
    """Return True for `key`, and for fields of the value or headers, which appear literally in the record."""
    names, signs = tokens[::2], tokens[1::2]
    if len(names) != len(signs) + 1 or not all(each.is_sign("->", ".") for each in signs):
        return False
    if not all(each.kind in ("word", "quoted") for each in names):
        return False
    column = COLUMNS.get(names[0].text.lower()) if names[0].kind == "word" else None
    return column is None or column in _MEMBERS
