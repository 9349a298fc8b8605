"""Types as they are written: `MAP<STRING, ARRAY<INT>>`, `STRUCT<a INT, b DECIMAL(4, 2)>`."""

from __future__ import annotations

from ottla.spark.sql.errors import SqlError
from ottla.spark.sql.parsing.words import Words
from ottla.spark.sql.sql_types import PRIMITIVES, SYNONYMS, Field, SqlType


def parse_type(words: Words) -> SqlType:
    position = words.position
    word = words.word()
    name = SYNONYMS.get(word, word)
    if name in PRIMITIVES:
        words.take()
        if words.accept("("):  # VARCHAR(20): the length is not kept, as in ksqlDB
            words.number()
            words.expect(")")
        return SqlType(name)
    if name == "DECIMAL":
        words.take()
        words.expect("(")
        precision = words.number("the precision")
        words.expect(",")
        scale = words.number("the scale")
        words.expect(")")
        return SqlType("DECIMAL", precision, scale)
    if name == "ARRAY":
        words.take()
        words.expect("<")
        element = parse_type(words)
        words.expect(">")
        return SqlType("ARRAY", element=element)
    if name == "MAP":
        words.take()
        words.expect("<")
        key_position = words.position
        if parse_type(words).name != "STRING":
            raise SqlError("The keys of a MAP must be STRING.", key_position)
        words.expect(",")
        element = parse_type(words)
        words.expect(">")
        return SqlType("MAP", element=element)
    if name == "STRUCT":
        words.take()
        words.expect("<")
        fields: list[Field] = []
        while not fields or words.accept(","):
            field, written = words.name("the name of a field")
            fields.append(Field(field, written, parse_type(words)))
        words.expect(">")
        return SqlType("STRUCT", fields=tuple(fields))
    known = ", ".join([*PRIMITIVES, "DECIMAL", "ARRAY", "MAP", "STRUCT"])
    raise SqlError(f"{words.shown()} is not a type; there are {known}.", position)
