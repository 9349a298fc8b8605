"""Parser for types such as `MAP<STRING, ARRAY<INT>>` and `STRUCT<a INT, b DECIMAL(4, 2)>`."""

from __future__ import annotations

from sqlglot.tokens import TokenType

from ottla.sql.errors import SqlError
from ottla.sql.parsing.words import Words
from ottla.sql.sql_types import PRIMITIVES, SYNONYMS, Field, SqlType


def parse_type(words: Words) -> SqlType:
    name = SYNONYMS.get(words.word(), words.word())
    known = (*PRIMITIVES, "DECIMAL", "ARRAY", "MAP", "STRUCT")
    if name not in known:
        return _made_by_create_type(words, known)
    words.take()
    if name in PRIMITIVES:
        if words.accept("("):  # VARCHAR(20): ignore the length, as ksqlDB does
            words.number()
            words.expect(")")
        return SqlType(name)
    if name == "DECIMAL":
        words.expect("(")
        precision = words.number("the precision")
        words.expect(",")
        scale = words.number("the scale")
        words.expect(")")
        return SqlType("DECIMAL", precision, scale)
    words.expect("<")
    if name == "STRUCT":
        fields: list[Field] = []
        while not fields or words.accept(","):
            field, written = words.name("the name of a field")
            fields.append(Field(field, written, parse_type(words)))
        words.expect(">")
        return SqlType("STRUCT", fields=tuple(fields))
    if name == "MAP":
        key_position = words.position
        if parse_type(words).name != "STRING":
            raise SqlError("The keys of a MAP must be STRING.", key_position)
        words.expect(",")
    element = parse_type(words)
    words.expect(">")
    return SqlType(name, element=element)


def _made_by_create_type(words: Words, known: tuple[str, ...]) -> SqlType:
    token = words.token()
    written = "" if token is None else str(token.text)
    is_quoted = token is not None and token.token_type == TokenType.IDENTIFIER
    found = words.find_type(written if is_quoted else written.upper())
    if found is None:
        raise words.fail(f"{words.shown()} is not a type; there are {', '.join(known)}.")
    words.take()
    return found
