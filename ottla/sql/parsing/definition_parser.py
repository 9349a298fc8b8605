"""Parser for columns and WITH (…), and for CREATE TYPE, ALTER, PAUSE, RESUME and ASSERT."""

from __future__ import annotations

from typing import Any

from sqlglot.tokens import TokenType

from ottla.sql.errors import Position, SqlError
from ottla.sql.parsing import statements as s
from ottla.sql.parsing.type_parser import parse_type
from ottla.sql.parsing.words import Words
from ottla.sql.sql_types import SqlType

#: Pseudo columns of every row, so no column may use these names.
RESERVED = ("ROWTIME", "ROWPARTITION", "ROWOFFSET", "WINDOWSTART", "WINDOWEND")

_HEADERS = "ARRAY<STRUCT<KEY STRING, VALUE BYTES>>"


def columns_of(words: Words, kind: s.SourceKind) -> tuple[s.ColumnDefinition, ...]:
    columns: list[s.ColumnDefinition] = []
    while not columns or words.accept(","):
        position = words.position
        name, written = words.name("the name of a column")
        check_new_name(name, position)
        if any(each.name == name for each in columns):
            raise SqlError(f"There are two columns {name}.", position)
        column_type = parse_type(words)
        is_key = _is_key(words, kind)
        is_headers, header = _headers(words, column_type, position)
        column = s.ColumnDefinition(name, written, column_type, is_key, is_headers, header)
        _check_headers(column, columns, position)
        columns.append(column)
    words.expect(")")
    return tuple(columns)


def check_new_name(name: str, position: Position) -> None:
    if name in RESERVED:
        raise SqlError(f"{name} is a reserved name: no column can have it.", position)


def _is_key(words: Words, kind: s.SourceKind) -> bool:
    at = words.position
    if words.accept("PRIMARY", "KEY"):
        if kind == "STREAM":
            raise SqlError("A stream has a KEY; only a table has a PRIMARY KEY.", at)
        return True
    if words.accept("KEY"):
        if kind == "TABLE":
            raise SqlError("A table needs PRIMARY KEY here, because the key says which row it is.", at)
        return True
    return False


def _headers(words: Words, kind: SqlType, position: Position) -> tuple[bool, str | None]:
    if words.accept("HEADERS"):
        if str(kind) != _HEADERS:
            raise SqlError("A column of HEADERS is ARRAY<STRUCT<key STRING, value BYTES>>.", position)
        return True, None
    if words.accept("HEADER"):
        words.expect("(")
        header = words.string("the key of a header in quotes")
        words.expect(")")
        if kind.name != "BYTES":
            raise SqlError(f"A column of HEADER('{header}') is BYTES.", position)
        return True, header
    return False, None


def _check_headers(column: s.ColumnDefinition, before: list[s.ColumnDefinition], position: Position) -> None:
    others = [each for each in before if each.is_headers]
    if not column.is_headers or not others:
        return
    if column.header is None or others[0].header is None:
        raise SqlError("There is one column of HEADERS, or several of HEADER('…'), not both.", position)
    if any(each.header == column.header for each in others):
        raise SqlError(f"There are two columns of HEADER('{column.header}').", position)


def properties_of(words: Words) -> s.Properties:
    words.expect("(")
    properties: s.Properties = {}
    while not words.accept(")"):
        position = words.position
        name = str(words.take().text).lower()
        words.expect("=")
        properties[name] = s.Property(_literal(words), position)
        if not words.accept(","):
            words.expect(")")
            break
    return properties


def _literal(words: Words) -> str | int | bool:
    if words.kind == TokenType.STRING:
        return words.string()
    if words.word() in ("TRUE", "FALSE"):
        return str(words.take().text).upper() == "TRUE"
    return words.number("a text in quotes, a number, TRUE or FALSE")


# Statements


def create_type(words: Words, where: dict[str, Any]) -> s.CreateType:
    if_not_exists = words.accept("IF", "NOT", "EXISTS")
    name, _ = words.name("the name of a type")
    words.expect("AS")
    return s.CreateType(name=name, type=parse_type(words), if_not_exists=if_not_exists, **where)


def alter(words: Words, where: dict[str, Any]) -> s.Statement:
    words.expect("ALTER")
    if words.word() == "SYSTEM":
        raise words.fail("ALTER SYSTEM is not supported; SET a property for this session.")
    kind: s.SourceKind = "TABLE" if words.expect_one_of(("STREAM", "TABLE")) == "TABLE" else "STREAM"
    name, _ = words.name(f"the name of a {kind.lower()}")
    columns: list[s.ColumnDefinition] = []
    while not columns or words.accept(","):
        words.expect("ADD")
        words.accept("COLUMN")
        position = words.position
        column, written = words.name("the name of a column")
        check_new_name(column, position)
        columns.append(s.ColumnDefinition(column, written, parse_type(words)))
        if words.word() in ("KEY", "PRIMARY", "HEADER", "HEADERS"):
            raise words.fail("ALTER adds columns to the value only.")
    return s.Alter(kind=kind, name=name, columns=tuple(columns), **where)


def _query_id(words: Words) -> str | None:
    words.accept("QUERY")
    name, _ = words.name("the id of a query, or ALL")
    return None if name == "ALL" else name


def pause(words: Words, where: dict[str, Any]) -> s.Statement:
    words.expect("PAUSE")
    return s.Pause(query_id=_query_id(words), **where)


def resume(words: Words, where: dict[str, Any]) -> s.Statement:
    words.expect("RESUME")
    return s.Resume(query_id=_query_id(words), **where)


def assertion(words: Words, where: dict[str, Any]) -> s.Statement:
    words.expect("ASSERT")
    exists = not words.accept("NOT", "EXISTS")
    if words.accept("SCHEMA"):
        return _schema_assertion(words, exists, where)
    if words.word() != "TOPIC":
        raise words.fail(f"Expected TOPIC or SCHEMA, found {words.shown()}.")
    words.take()
    quoted = words.kind == TokenType.STRING
    topic = words.string() if quoted else words.name("the name of a topic")[1]
    properties = properties_of(words) if words.accept("WITH") else {}
    for name, given in properties.items():
        if name not in ("partitions", "replicas"):
            raise SqlError(f"ASSERT TOPIC knows partitions and replicas, not {name}.", given.position)
    timeout = words.duration_ms() if words.accept("TIMEOUT") else 1000
    return s.AssertTopic(topic=topic, properties=properties, exists=exists, timeout_ms=timeout, **where)


def _schema_assertion(words: Words, exists: bool, where: dict[str, Any]) -> s.Statement:
    subject = number = None
    if words.accept("SUBJECT"):
        quoted = words.kind == TokenType.STRING
        subject = words.string() if quoted else words.name("the name of a subject")[1]
    if words.accept("ID"):
        number = words.number("the id of a schema")
    if subject is None and number is None:
        raise words.fail("ASSERT SCHEMA statements need at least one of SUBJECT and ID.")
    timeout = words.duration_ms() if words.accept("TIMEOUT") else 1000
    return s.AssertSchema(subject=subject, id=number, exists=exists, timeout_ms=timeout, **where)
