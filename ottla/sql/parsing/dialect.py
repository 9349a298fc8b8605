"""Tokens and expressions by sqlglot, from ksqlDB's syntax to sqlglot's tree.

Function names stay as written (see `functions.py`), because other dialects give the same names other meanings.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import Any

from sqlglot import exp, tokens
from sqlglot.dialects.dialect import Dialect
from sqlglot.dialects.spark import Spark
from sqlglot.errors import ErrorLevel, ParseError, TokenError
from sqlglot.tokens import Token, TokenType

from ottla.sql.errors import Position, SqlError

#: ksqlDB's `a->b` (field) and `x => x + 1` (lambda) are `a.b` and `x -> x + 1` for sqlglot.
_ADAPTED = {TokenType.ARROW: (TokenType.DOT, "."), TokenType.FARROW: (TokenType.ARROW, "->")}


class KsqlDB(Dialect):
    IDENTIFIERS_CAN_START_WITH_DIGIT = True

    class Tokenizer(tokens.Tokenizer):
        IDENTIFIERS = ["`", '"']
        QUOTES = ["'"]
        STRING_ESCAPES = ["'"]
        COMMANDS: set[TokenType] = set()  # split SHOW and similar commands into words too
        KEYWORDS = {**tokens.Tokenizer.KEYWORDS, "BYTES": TokenType.VARBINARY}


class _Parser(Spark.Parser):
    FUNCTIONS: dict[str, Any] = {}
    FUNCTION_PARSERS: dict[str, Any] = {"CAST": Spark.Parser.FUNCTION_PARSERS["CAST"]}
    NO_PAREN_FUNCTION_PARSERS = {
        name: parser for name, parser in Spark.Parser.NO_PAREN_FUNCTION_PARSERS.items() if name != "TRANSFORM"
    }


class Text:
    """A script and the positions in it."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._lines = [0] + [i + 1 for i, letter in enumerate(text) if letter == "\n"]

    def position(self, offset: int) -> Position:
        line = bisect_right(self._lines, offset)
        return Position(line, offset - self._lines[line - 1] + 1)

    def tokens(self) -> list[Token]:
        try:
            return list(KsqlDB().tokenize(self.text))
        except TokenError as error:
            raise SqlError(
                f"A quotation mark or a comment is not closed ({error})."
                if "Missing" in str(error)
                else f"This cannot be read: {error}.",
                self.position(max(len(self.text) - 1, 0)),
            ) from None


def parse_expression(text: Text, given: Sequence[Token]) -> exp.Expr:
    adapted = _adapted(given)
    start = text.position(given[0].start)
    try:
        [tree] = _Parser(dialect=Spark(), error_level=ErrorLevel.RAISE).parse_into(
            exp.Condition, adapted, text.text
        )
    except ParseError as error:
        found = error.errors[0] if error.errors else {}
        line, column = found.get("line"), found.get("col")
        highlight = found.get("highlight") or ""
        where = (
            start if line is None or column is None else Position(line, max(column - len(highlight) + 1, 1))
        )
        near = f" near '{highlight}'" if highlight else ""
        description = (found.get("description") or "it does not parse").rstrip(".")
        raise SqlError(f"This is not an expression{near}: {description}.", where) from None
    except (IndexError, ValueError, TypeError):
        raise SqlError("This is not an expression.", start) from None
    if tree is None:
        raise SqlError("An expression is missing here.", start)
    return tree


def _adapted(given: Sequence[Token]) -> list[Token]:
    changed = []
    for token in given:
        kind, written = _ADAPTED.get(token.token_type, (token.token_type, token.text))
        changed.append(Token(kind, written, token.line, token.col, token.start, token.end))
    return changed


def identifier_name(identifier: exp.Expr) -> str:
    """Return the name in upper case unless it is quoted, as in ksqlDB."""
    name: str = identifier.name
    return name if identifier.args.get("quoted") else name.upper()
