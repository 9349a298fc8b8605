"""SELECT … FROM … JOIN … WINDOW … WHERE … GROUP BY … PARTITION BY … HAVING … EMIT … LIMIT …"""

from __future__ import annotations

from typing import Literal

from sqlglot import exp
from sqlglot.tokens import Token, TokenType

from ottla.sql.errors import SqlError
from ottla.sql.parsing.dialect import Text, parse_expression
from ottla.sql.parsing.statements import Join, Relation, Select, SelectItem, Window
from ottla.sql.parsing.words import Words, split_at_commas

_CLAUSES = {"WINDOW", "WHERE", "GROUP", "PARTITION", "HAVING", "EMIT", "LIMIT", "ORDER", "UNION"}
_JoinKind = Literal["INNER", "LEFT", "RIGHT", "FULL"]
_JOINS: dict[str, _JoinKind] = {
    "JOIN": "INNER", "INNER": "INNER", "LEFT": "LEFT", "RIGHT": "RIGHT", "FULL": "FULL", "OUTER": "FULL",
}  # fmt: skip
_AFTER_A_RELATION = {*_CLAUSES, *_JOINS, "CROSS", "ON", "WITHIN"}
_NAMES = {TokenType.VAR, TokenType.IDENTIFIER}
_ENDS_AN_EXPRESSION = _NAMES | {
    TokenType.R_PAREN,
    TokenType.R_BRACKET,
    TokenType.STRING,
    TokenType.NUMBER,
    TokenType.END,
    TokenType.TRUE,
    TokenType.FALSE,
    TokenType.NULL,
}


def parse_select(words: Words) -> Select:
    position = words.position
    words.expect("SELECT")
    if words.word() == "DISTINCT":
        raise words.fail("SELECT DISTINCT is not supported; GROUP BY the columns instead.")
    listed = split_at_commas(words.until(_is_from))
    if not words.accept("FROM"):
        raise words.fail("Expected FROM and the name of a stream or table.")
    if not all(listed):
        raise words.fail("A column is missing before FROM.")
    items = tuple(_item(words.text, part) for part in listed)
    if words.word() == "(":
        raise words.fail("A SELECT in FROM is not supported; CREATE STREAM … AS SELECT gives it a name.")
    source = _relation(words)
    joins = []
    while (join := _join(words)) is not None:
        joins.append(join)
    window = _window(words) if words.accept("WINDOW") else None
    where = _expression(words, "WHERE") if words.accept("WHERE") else None
    group_by: tuple[exp.Expr, ...] = ()
    partition_by: tuple[exp.Expr, ...] = ()
    having = None
    while True:
        if words.accept("GROUP", "BY"):
            group_by = _expressions(words)
        elif words.accept("PARTITION", "BY"):
            partition_by = _expressions(words)
        elif words.accept("HAVING"):
            having = _expression(words, "HAVING")
        else:
            break
    emit: Literal["CHANGES", "FINAL"] | None = None
    if words.accept("EMIT"):
        emit = "FINAL" if words.expect_one_of(("CHANGES", "FINAL")) == "FINAL" else "CHANGES"
    limit = words.number("how many rows") if words.accept("LIMIT") else None
    if words.word() in ("ORDER", "UNION"):
        raise words.fail(f"{words.word()} is not supported.")
    return Select(
        items, source, position, tuple(joins), window, where, group_by, partition_by, having, emit, limit
    )


def _is_from(words: Words) -> bool:
    """Tell FROM apart from IS DISTINCT FROM, which is part of an expression."""
    return words.word() == "FROM" and words.word(-1) != "DISTINCT"


def _item(text: Text, tokens: list[Token]) -> SelectItem:
    position = text.position(tokens[0].start)
    if len(tokens) == 1 and tokens[0].token_type == TokenType.STAR:
        return SelectItem(None, None, None, position)
    if len(tokens) == 3 and tokens[1].token_type == TokenType.DOT and tokens[2].token_type == TokenType.STAR:
        return SelectItem(None, None, _name_of(tokens[0]), position)
    if (
        len(tokens) > 2
        and tokens[-2].token_type == TokenType.ARROW
        and tokens[-1].token_type == TokenType.STAR
    ):
        return SelectItem(parse_expression(text, tokens[:-2]), None, None, position, all_fields=True)
    alias: str | None = None
    if len(tokens) > 2 and tokens[-2].token_type == TokenType.ALIAS:
        alias, tokens = _name_of(tokens[-1]), tokens[:-2]
    elif len(tokens) > 1 and tokens[-1].token_type in _NAMES and tokens[-2].token_type in _ENDS_AN_EXPRESSION:
        alias, tokens = _name_of(tokens[-1]), tokens[:-1]
    return SelectItem(parse_expression(text, tokens), alias, None, position)


def _name_of(token: Token) -> str:
    written: str = token.text
    return written if token.token_type == TokenType.IDENTIFIER else written.upper()


def _relation(words: Words) -> Relation:
    position = words.position
    name, _ = words.name("the name of a stream or table")
    alias = name
    if words.accept("AS") or (words.kind in _NAMES and words.word() not in _AFTER_A_RELATION):
        alias, _ = words.name("an alias")
    return Relation(name, alias, position)


def _starts_join(words: Words) -> bool:
    word, following = words.word(), words.word(1)
    if word in ("LEFT", "RIGHT", "FULL"):  # LEFT( is a function
        return following in ("JOIN", "OUTER")
    return word == "JOIN" or (word in ("INNER", "CROSS", "OUTER") and following == "JOIN")


def _join(words: Words) -> Join | None:
    if words.accept(","):
        raise words.fail("Name one source after FROM, and the others with JOIN … ON.")
    if not _starts_join(words):
        return None
    position = words.position
    if words.word() == "CROSS":
        raise words.fail("CROSS JOIN is not supported; JOIN needs ON with an equality.")
    kind = _JOINS[words.word()]
    if words.word() != "JOIN":
        words.take()
        words.accept("OUTER")
    words.expect("JOIN")
    right = _relation(words)
    before = after = grace = None
    if words.accept("WITHIN"):
        if words.accept("("):
            before = words.duration_ms()
            words.expect(",")
            after = words.duration_ms()
            words.expect(")")
        else:
            before = after = words.duration_ms()
        if words.accept("GRACE", "PERIOD"):
            grace = words.duration_ms()
    words.expect("ON")
    on = _expression(words, "ON")
    return Join(kind, right, on, position, before, after, grace)


def _window(words: Words) -> Window:
    kind = words.expect_one_of(("TUMBLING", "HOPPING", "SESSION"))
    words.expect("(")
    advance = grace = retention = None
    position = words.position
    if kind != "SESSION":
        words.expect("SIZE")
    size = words.duration_ms()
    while words.accept(","):
        if kind == "HOPPING" and words.accept("ADVANCE", "BY"):
            advance = words.duration_ms()
        elif words.accept("GRACE", "PERIOD"):
            grace = words.duration_ms()
        elif words.accept("RETENTION"):
            retention = words.duration_ms()
        else:
            raise words.fail(f"Expected GRACE PERIOD or RETENTION, found {words.shown()}.")
    if kind == "HOPPING" and advance is None:
        raise words.fail("A HOPPING window needs ADVANCE BY.")
    words.expect(")")
    if size == 0 or advance == 0:
        raise SqlError("The size of a window and its advance are more than 0.", position)
    if advance is not None and advance > size:
        raise SqlError("A HOPPING window advances by its size at most.", position)
    if retention is not None and retention < size + (grace or 0):
        raise SqlError("RETENTION is at least the size of the window and its GRACE PERIOD.", position)
    return Window(kind, size, advance, grace, retention)  # type: ignore[arg-type]


def _expression(words: Words, clause: str) -> exp.Expr:
    tokens = words.until(lambda at: at.word() in _CLAUSES or _starts_join(at))
    if not tokens:
        raise words.fail(f"An expression is missing after {clause}.")
    return parse_expression(words.text, tokens)


def _expressions(words: Words) -> tuple[exp.Expr, ...]:
    tokens = words.until(lambda at: at.word() in _CLAUSES)
    if (
        len(tokens) > 2
        and tokens[0].token_type == TokenType.L_PAREN
        and tokens[-1].token_type == TokenType.R_PAREN
        and len(split_at_commas(tokens[1:-1])) > 1
    ):
        tokens = tokens[1:-1]  # GROUP BY (a, b)
    parts = split_at_commas(tokens)
    if not all(parts):
        raise SqlError("An expression is missing here.", words.position)
    return tuple(_bare(parse_expression(words.text, part)) for part in parts)


def _bare(tree: exp.Expr) -> exp.Expr:
    """Remove outer parentheses, so that the expression matches the same one in SELECT."""
    return tree.unnest() if isinstance(tree, exp.Paren) else tree
