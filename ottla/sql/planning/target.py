"""Target stream or table of a query."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from ottla.sql.errors import Position, SqlError
from ottla.sql.parsing.definition_parser import check_new_name
from ottla.sql.parsing.statements import ColumnDefinition, CreateAsSelect
from ottla.sql.planning.functions.rules import NUMBERS
from ottla.sql.planning.plan import Plan, inherited_formats
from ottla.sql.sources import Source, check, described, shape, topic_of
from ottla.sql.sql_types import SqlType, from_spark

if TYPE_CHECKING:
    from pyspark.sql.types import StructType


def definition(
    statement: CreateAsSelect,
    plan: Plan,
    schema: StructType,
    *,
    topic_prefix: str = "",
    wraps: bool | None = None,
) -> Source:
    if plan.result != statement.kind:
        raise SqlError(
            f"Invalid result type. Your SELECT query produces a {plan.result}. "
            f"Please use CREATE {plan.result} AS SELECT statement instead.",
            statement.position,
        )
    if plan.missing_key is not None:
        raise SqlError(
            f"The key is missing from the SELECT. The query used to build `{statement.name}` {plan.missing_key}",
            statement.position,
        )
    if statement.select.limit is not None:
        raise SqlError(
            "LIMIT is for queries that somebody reads: CREATE … AS SELECT goes on.", statement.position
        )
    columns = _columns(plan, schema)
    if all(column.is_key for column in columns):
        raise SqlError("The projection contains no value columns.", statement.position)
    asked = statement.properties.get("key_format")
    if asked is not None and str(asked.value).upper() != "NONE" and not any(each.is_key for each in columns):
        raise SqlError("Key format specified for stream without key columns.", asked.position)
    shape(statement.properties)  # refuses unknown names
    source = Source(
        statement.kind,
        statement.name,
        topic_of(statement.properties, topic_prefix + statement.name),
        columns,
        statement=statement.text,
        **described(statement.properties, columns, inherited_formats(plan, columns), wraps=wraps),
    )
    if plan.window is not None:
        size = None if plan.window.kind == "SESSION" else plan.window.size_ms
        source = replace(source, window=plan.window.kind, window_size_ms=size)
    elif plan.windowed_like is not None:
        like = plan.windowed_like
        source = replace(source, window=like.window, window_size_ms=like.window_size_ms)
    check(source, statement.properties, statement.position)
    return source


def _columns(plan: Plan, schema: StructType) -> tuple[ColumnDefinition, ...]:
    columns = []
    for output, field in zip(plan.outputs, schema.fields, strict=True):
        kind = from_spark(field.dataType)
        if kind is None:
            raise SqlError(
                f"{output.name} is {field.dataType.simpleString()}, which no column can be; CAST it.",
                output.position,
            )
        if not output.is_made:
            check_new_name(output.name, output.position)
        columns.append(ColumnDefinition(output.name, output.name, kind, output.is_key))
    return tuple(sorted(columns, key=lambda column: not column.is_key))  # key first, as in DESCRIBE


def check_target(plan: Plan, target: Source, schema: StructType, position: Position) -> None:
    """Check that the query has the target's columns, because INSERT INTO matches columns by name."""
    if target.kind == "TABLE":
        raise SqlError(
            f"INSERT INTO can only be used to insert into a stream. {target.name} is a table.", position
        )
    if plan.result != target.kind:
        raise SqlError(
            f"{target.name} is a {target.kind.lower()}, the query makes a {plan.result.lower()}.", position
        )
    if target.headers:
        raise SqlError(
            f"Cannot insert into {target.name} because it has header columns: "
            f"{', '.join(column.name for column in target.headers)}.",
            position,
        )
    if target.window is not None or plan.window is not None:
        raise SqlError("INSERT INTO with windows is not supported; CREATE TABLE … AS SELECT.", position)
    columns = [column.name for column in target.columns if not column.is_headers]
    names = [field.name for field in schema.fields]
    missing = [name for name in columns if name not in names]
    more = [name for name in names if name not in columns]
    different = "Incompatible schema between results and sink"
    if missing:
        raise SqlError(f"{different}: the query lacks {', '.join(missing)}.", position)
    if more:
        raise SqlError(
            f"{different}: the query has {', '.join(more)}, which {target.name} has not.", position
        )
    kinds = {field.name: from_spark(field.dataType) for field in schema.fields}
    for column in target.columns:
        output = next((each for each in plan.outputs if each.name == column.name), None)
        kind = kinds.get(column.name)
        if output is not None and kind is not None and not _becomes(kind, column.type):
            raise SqlError(
                f"{different}: {column.name} is {kind}, and in {target.name} {column.type}.", output.position
            )
        if output is not None and output.is_key and not column.is_key:
            raise SqlError(
                f"{column.name} is the key of the query, but not of {target.name}.", output.position
            )


def _becomes(kind: SqlType, target: SqlType) -> bool:
    if kind.name in NUMBERS and target.name in NUMBERS:
        return NUMBERS.index(kind.name) <= NUMBERS.index(target.name)
    if kind.element is not None and target.element is not None:
        return kind.name == target.name and _becomes(kind.element, target.element)
    return kind.name == target.name


def same_statement(one: str, other: str) -> bool:
    return one.split() == other.split()
