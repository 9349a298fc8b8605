"""Statements that change definitions without starting a query: CREATE TYPE, ALTER and ASSERT."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable

from ottla.sql.brokers import Brokers
from ottla.sql.catalogue import Catalogue
from ottla.sql.errors import SqlError
from ottla.sql.executing.results import Result
from ottla.sql.parsing import statements as s
from ottla.sql.parsing.statements import ColumnDefinition
from ottla.sql.registered.schemas import Schemas
from ottla.sql.sources import Source, check, shape


def create_type(statement: s.CreateType, catalogue: Catalogue) -> Result:
    there = dict(catalogue.types()).get(statement.name)
    if there is not None:
        if statement.if_not_exists:
            return Result(statement, f"Type {statement.name} exists already.")
        raise SqlError(
            f"Type {statement.name} exists already, as {there}; DROP it first.", statement.position
        )
    catalogue.put_type(statement.name, statement.type)
    return Result(statement, f"Created type {statement.name} as {statement.type}.")


def drop_type(statement: s.DropType, catalogue: Catalogue) -> Result:
    if statement.name not in dict(catalogue.types()):
        message = f"There is no type {statement.name}."
        if statement.if_exists:
            return Result(statement, message)
        raise SqlError(message, statement.position)
    catalogue.remove_type(statement.name)
    return Result(statement, f"Dropped type {statement.name}.")


def alter(statement: s.Alter, catalogue: Catalogue, schemas: Schemas) -> Result:
    """Add columns. New records are read with them; running queries keep their original columns."""
    position = statement.position
    source = catalogue.find(statement.name, position)
    if source.kind != statement.kind:
        raise SqlError(f"{source.name} is a {source.kind.lower()}: ALTER {source.kind}.", position)
    if source.query_id is not None:
        raise SqlError(
            "ALTER command is not supported for CREATE ... AS statements. "
            f"{source.name} was made by a query; use CREATE OR REPLACE.",
            position,
        )
    if source.is_read_only:
        raise SqlError(f"{source.name} is read only, because CREATE SOURCE made it.", position)
    if source.value_is_inferred:
        raise SqlError(
            f"{source.name} has the columns of its schema: register a new version, and CREATE OR REPLACE it.",
            position,
        )
    columns = list(source.columns)
    for column in statement.columns:
        if any(each.name == column.name for each in columns):
            raise SqlError(f"{source.name} has a column {column.name} already.", position)
        columns.append(column)
    altered = dataclasses.replace(source, columns=tuple(columns), value_schema_id=None)
    check(altered, {}, position)
    catalogue.put(schemas.registered(altered, position, always=source.value_schema_id is not None))
    plural = "" if len(statement.columns) == 1 else "s"
    added = ", ".join(column.name for column in statement.columns)
    return Result(statement, f"Added column{plural} {added} to {source.name}.")


def check_replacement(before: Source, after: Source, statement: s.Create) -> None:
    """Allow CREATE OR REPLACE only to add value columns at the end, because the topic's records stay."""

    def refusal(reason: str) -> SqlError:
        return SqlError(f"{before.name} cannot be replaced: {reason}; DROP it first.", statement.position)

    if before.is_read_only != after.is_read_only:
        raise refusal("it is read only" if before.is_read_only else "it is not read only")
    for name, one, other in (
        ("topic", before.topic, after.topic),
        ("key format", before.key_format, after.key_format),
        ("value format", before.value_format, after.value_format),
        ("window", before.window, after.window),
    ):
        if one != other:
            raise refusal(f"its {name} is {one or 'none'}, not {other or 'none'}")
    if _plain(before.keys) != _plain(after.keys):
        raise refusal("its key must stay the same")
    kept = _plain(after.values)[: len(before.values)]
    changed = [
        f"{name} {kind}"
        for place, (name, kind) in enumerate(_plain(before.values))
        if place >= len(kept) or kept[place] != (name, kind)
    ]
    if changed:
        raise refusal(f"columns are changed, missing or reordered: {', '.join(changed)}")


def _plain(columns: tuple[ColumnDefinition, ...]) -> list[tuple[str, str]]:
    return [(column.name, str(column.type)) for column in columns]


def assert_topic(statement: s.AssertTopic, brokers: Brokers) -> Result:
    """Wait until the assertion holds, at most for its TIMEOUT."""
    _wait(statement, lambda: _difference(statement, brokers))
    there = "exists" if statement.exists else "does not exist"
    return Result(statement, f"Topic '{statement.topic}' {there}.")


def assert_schema(statement: s.AssertSchema, schemas: Schemas) -> Result:
    what = "Schema"
    if statement.subject is not None:
        what += f" with subject name {statement.subject}"
    if statement.id is not None:
        what += f" id {statement.id}" if statement.subject is not None else f" with id {statement.id}"

    def difference() -> str | None:
        there = schemas.has(statement.subject, statement.id)
        return None if there == statement.exists else f"{what} {'exists' if there else 'does not exist'}."

    _wait(statement, difference)
    return Result(statement, f"{what} {'exists' if statement.exists else 'does not exist'}.")


def _wait(statement: s.AssertTopic | s.AssertSchema, difference: Callable[[], str | None]) -> None:
    deadline = time.monotonic() + statement.timeout_ms / 1000
    while (reason := difference()) is not None:
        if time.monotonic() >= deadline:
            raise SqlError(reason, statement.position)
        time.sleep(0.05)


def _difference(statement: s.AssertTopic, brokers: Brokers) -> str | None:
    topic = brokers.topic(statement.topic)
    if not statement.exists:
        return None if topic is None else f"Topic '{statement.topic}' exists."
    if topic is None:
        return f"Topic '{statement.topic}' does not exist."
    wanted = shape(statement.properties)
    for name, number, there in (
        ("partitions", wanted.partitions, topic.partitions),
        ("replicas", wanted.replicas, topic.replication_factor),
    ):
        if number not in (None, there):
            return f"Topic '{statement.topic}' has {there} {name}, not {number}."
    return None
