"""Parser from a script to statements. It needs neither Spark nor a broker."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from sqlglot import exp
from sqlglot.tokens import Token, TokenType

from ottla.sql.errors import TOO_DEEP, Position, SqlError
from ottla.sql.parsing import statements as s
from ottla.sql.parsing.definition_parser import (
    alter,
    assertion,
    columns_of,
    create_type,
    pause,
    properties_of,
    resume,
)
from ottla.sql.parsing.dialect import Text, parse_expression
from ottla.sql.parsing.select_parser import parse_select
from ottla.sql.parsing.words import FindType, Words, split_at_commas
from ottla.sql.registered.formats import REGISTERED

_SHOWN = ("STREAMS", "TABLES", "TOPICS", "QUERIES", "PROPERTIES", "FUNCTIONS", "VARIABLES", "TYPES")
_VARIABLE = re.compile(r"\$\{\s*(\w+)\s*\}")


def parse(script: str, variables: Mapping[str, str] | None = None) -> list[s.Statement]:
    return list(statements(script, dict(variables or {})))


def statements(
    script: str, variables: dict[str, str], types: FindType | None = None
) -> Iterator[s.Statement]:
    """Yield statements one by one, so that a DEFINE applies to later statements. `types` finds types of CREATE TYPE."""
    text = Text(script)
    for tokens in _split(text):
        written = _written(text, tokens)
        if not _VARIABLE.search(written):
            yield _statement(text, tokens, types)
            continue
        try:
            replaced = Text(_substituted(written, variables))
            yield _statement(replaced, replaced.tokens(), types)
        except SqlError as error:
            # Variable substitution shifts columns, so point to the statement instead.
            raise SqlError(error.message, text.position(tokens[0].start)) from None


def split(script: str) -> Iterator[tuple[Position, str]]:
    """Yield the text and position of each statement, for callers that forward them."""
    text = Text(script)
    for tokens in _split(text):
        yield text.position(tokens[0].start), _written(text, tokens)


def is_complete(script: str) -> bool:
    """Return True if a shell may run the input: it is empty or ends with a semicolon."""
    try:
        tokens = Text(script).tokens()
    except SqlError:
        return False
    return not tokens or tokens[-1].token_type == TokenType.SEMICOLON


def _split(text: Text) -> Iterator[list[Token]]:
    held: list[Token] = []
    for token in text.tokens():
        if token.token_type != TokenType.SEMICOLON:
            held.append(token)
        elif held:
            yield held
            held = []
    if held:
        yield held


def _written(text: Text, tokens: list[Token]) -> str:
    return text.text[tokens[0].start : tokens[-1].end + 1]


def _substituted(written: str, variables: Mapping[str, str]) -> str:
    def value(found: re.Match[str]) -> str:
        name = found[1]
        if name not in variables:
            raise SqlError(f"There is no variable {name}; DEFINE {name} = '…' makes it.")
        return variables[name]

    return _VARIABLE.sub(value, written)


def _statement(text: Text, tokens: list[Token], types: FindType | None) -> s.Statement:
    words = Words(text, tokens, types)
    where: dict[str, Any] = {"text": _written(text, tokens), "position": words.position}
    kind = words.word()
    parse_one = _STATEMENTS.get(kind)
    if parse_one is None:
        known = ", ".join(_STATEMENTS)
        raise words.fail(f"{words.shown()} does not begin a statement; there are {known}.")
    try:
        statement = parse_one(words, where)
    except RecursionError:
        raise SqlError(TOO_DEEP, where["position"]) from None
    words.end()
    return statement


# CREATE


def _create(words: Words, where: dict[str, Any]) -> s.Statement:
    words.expect("CREATE")
    or_replace = words.accept("OR", "REPLACE")
    if words.accept("TYPE"):
        return create_type(words, where)
    if words.word() in ("CONNECTOR", "SINK") or (words.word() == "SOURCE" and words.word(1) == "CONNECTOR"):
        raise words.fail(f"CREATE {words.word()} is not supported.")
    read_only = words.accept("SOURCE")
    kind: s.SourceKind = "TABLE" if words.expect_one_of(("STREAM", "TABLE")) == "TABLE" else "STREAM"
    if_not_exists = words.accept("IF", "NOT", "EXISTS")
    name, _ = words.name(f"the name of a {kind.lower()}")
    given: dict[str, Any] = {
        "kind": kind,
        "name": name,
        "or_replace": or_replace,
        "if_not_exists": if_not_exists,
        **where,
    }
    listed = words.position
    columns = columns_of(words, kind) if words.accept("(") else None
    properties = properties_of(words) if words.accept("WITH") else {}
    if words.accept("AS"):
        if columns is not None:
            raise SqlError("CREATE … AS SELECT takes its columns from the query: omit the list.", listed)
        if read_only:
            raise SqlError("The result of a query cannot be read-only. Omit SOURCE.", where["position"])
        return s.CreateAsSelect(select=parse_select(words), properties=properties, **given)
    if columns is None and not _may_be_inferred(properties):
        raise words.fail(f"No columns supplied: expected the columns of {name}, or AS SELECT.")
    return s.CreateSource(columns=columns or (), properties=properties, is_read_only=read_only, **given)


def _may_be_inferred(properties: s.Properties) -> bool:
    formats = [properties[name].value for name in ("format", "value_format") if name in properties]
    return any(str(each).upper() in REGISTERED for each in formats)


# INSERT


def _insert(words: Words, where: dict[str, Any]) -> s.Statement:
    words.expect("INSERT", "INTO")
    target, _ = words.name("the name of a stream or table")
    columns: list[str] = []
    if words.accept("("):
        while not columns or words.accept(","):
            columns.append(words.name("the name of a column")[0])
        words.expect(")")
    if words.word() == "SELECT":
        if columns:
            raise words.fail("INSERT INTO … SELECT takes columns by name: omit the list.")
        return s.InsertSelect(target=target, select=parse_select(words), **where)
    words.expect("VALUES")
    rows: list[tuple[exp.Expr, ...]] = []
    while not rows or words.accept(","):
        position = words.position
        words.expect("(")
        parts = split_at_commas(words.until(lambda at: at.word() == ")"))
        words.expect(")")
        if not all(parts):
            raise SqlError("A value is missing here.", position)
        rows.append(tuple(parse_expression(words.text, part) for part in parts))
    return s.InsertValues(target=target, columns=tuple(columns), rows=tuple(rows), **where)


def _query(words: Words, where: dict[str, Any]) -> s.Query:
    return s.Query(select=parse_select(words), **where)


# Inspection


def _show(words: Words, where: dict[str, Any]) -> s.Statement:
    words.take()
    everything = words.accept("ALL")
    if words.word() == "CONNECTORS":
        raise words.fail("SHOW CONNECTORS is not supported.")
    chosen = words.expect_one_of(_SHOWN)
    words.accept("EXTENDED")
    return s.Show(what=chosen, with_internal=everything, **where)  # type: ignore[arg-type]


def _describe(words: Words, where: dict[str, Any]) -> s.Statement:
    words.take()
    if words.word() == "CONNECTOR":
        raise words.fail("DESCRIBE CONNECTOR is not supported.")
    if words.accept("FUNCTION"):
        function, _ = words.name("the name of a function")
        return s.DescribeFunction(name=function, **where)
    before = words.accept("EXTENDED")
    name, _ = words.name("the name of a stream or table")
    return s.Describe(name=name, extended=words.accept("EXTENDED") or before, **where)


def _explain(words: Words, where: dict[str, Any]) -> s.Statement:
    words.expect("EXPLAIN")
    inner = {"text": where["text"], "position": words.position}
    if words.word() not in ("SELECT", "CREATE", "INSERT"):
        return s.Explain(query_id=words.name("the id of a query, or SELECT")[0], **where)
    query = _STATEMENTS[words.word()](words, inner)
    if not isinstance(query, s.Query | s.CreateAsSelect | s.InsertSelect):
        raise SqlError("Only statements with a SELECT can be explained.", query.position)
    return s.Explain(query=query, **where)


def _print(words: Words, where: dict[str, Any]) -> s.Statement:
    words.expect("PRINT")
    quoted = words.kind == TokenType.STRING
    topic = words.string() if quoted else words.name("the name of a topic, in quotes")[1]
    from_beginning = words.accept("FROM", "BEGINNING")
    interval = 1
    if words.accept("INTERVAL") or words.accept("SAMPLE"):
        at = words.position
        interval = words.number("a number of records")
        if interval < 1:
            raise SqlError("INTERVAL must be at least 1.", at)
    limit = words.number("a number of records") if words.accept("LIMIT") else None
    return s.Print(topic=topic, from_beginning=from_beginning, interval=interval, limit=limit, **where)


# Changes


def _terminate(words: Words, where: dict[str, Any]) -> s.Statement:
    words.expect("TERMINATE")
    words.accept("QUERY")
    name, _ = words.name("the id of a query, or ALL")
    return s.Terminate(query_id=None if name == "ALL" else name, **where)


def _drop(words: Words, where: dict[str, Any]) -> s.Statement:
    words.expect("DROP")
    if words.accept("TYPE"):
        if_type_exists = words.accept("IF", "EXISTS")
        return s.DropType(name=words.name("the name of a type")[0], if_exists=if_type_exists, **where)
    if words.word() == "CONNECTOR":
        raise words.fail("DROP CONNECTOR is not supported.")
    kind: s.SourceKind = "TABLE" if words.expect_one_of(("STREAM", "TABLE")) == "TABLE" else "STREAM"
    if_exists = words.accept("IF", "EXISTS")
    name, _ = words.name(f"the name of a {kind.lower()}")
    return s.Drop(
        kind=kind, name=name, if_exists=if_exists, delete_topic=words.accept("DELETE", "TOPIC"), **where
    )


def _set(words: Words, where: dict[str, Any]) -> s.Statement:
    words.expect("SET")
    name = words.string("the name of a property in quotes")
    words.expect("=")
    return s.SetProperty(name=name, value=words.string("its value in quotes"), **where)


def _unset(words: Words, where: dict[str, Any]) -> s.Statement:
    words.expect("UNSET")
    return s.UnsetProperty(name=words.string("the name of a property in quotes"), **where)


def _define(words: Words, where: dict[str, Any]) -> s.Statement:
    words.expect("DEFINE")
    _, name = words.name("the name of a variable")
    words.expect("=")
    return s.Define(name=name, value=words.string("its value in quotes"), **where)


def _undefine(words: Words, where: dict[str, Any]) -> s.Statement:
    words.expect("UNDEFINE")
    return s.Undefine(name=words.name("the name of a variable")[1], **where)


def _run(words: Words, where: dict[str, Any]) -> s.Statement:
    words.expect("RUN", "SCRIPT")
    return s.RunScript(path=words.string("the path of a script in quotes"), **where)


_STATEMENTS: dict[str, Callable[[Words, dict[str, Any]], s.Statement]] = {
    "CREATE": _create,
    "SELECT": _query,
    "INSERT": _insert,
    "SHOW": _show,
    "LIST": _show,
    "DESCRIBE": _describe,
    "EXPLAIN": _explain,
    "PRINT": _print,
    "TERMINATE": _terminate,
    "DROP": _drop,
    "SET": _set,
    "UNSET": _unset,
    "DEFINE": _define,
    "UNDEFINE": _undefine,
    "RUN": _run,
    "ALTER": alter,
    "PAUSE": pause,
    "RESUME": resume,
    "ASSERT": assertion,
}
