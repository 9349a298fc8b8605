"""SHOW and DESCRIBE."""

from __future__ import annotations

from collections.abc import Mapping

from ottla.sql.brokers import Brokers
from ottla.sql.catalogue import Catalogue
from ottla.sql.executing.results import Result
from ottla.sql.executing.running_queries import RunningQueries
from ottla.sql.parsing.statements import ColumnDefinition, Describe, Show, SourceKind
from ottla.sql.properties import SessionProperties
from ottla.sql.sources import Source


def show(
    statement: Show,
    catalogue: Catalogue,
    brokers: Brokers,
    queries: RunningQueries,
    properties: SessionProperties,
    variables: Mapping[str, str],
) -> Result:
    if statement.what in ("STREAMS", "TABLES"):
        return _sources(statement, catalogue, "STREAM" if statement.what == "STREAMS" else "TABLE")
    if statement.what == "TOPICS":
        shown = [
            each
            for each in brokers.topics()
            if statement.with_internal or not (each.internal or each.name.startswith("__"))
        ]
        rows = [(each.name, each.partitions, each.replication_factor) for each in shown]
        return Result(statement, None, ("TOPIC", "PARTITIONS", "REPLICAS"), rows)
    if statement.what == "TYPES":
        types = [(name, str(kind)) for name, kind in catalogue.types()]
        return Result(statement, None, ("TYPE", "SCHEMA"), types)
    if statement.what == "QUERIES":
        return _queries(statement, catalogue, queries)
    if statement.what == "PROPERTIES":
        return Result(statement, None, ("PROPERTY", "DEFAULT", "VALUE"), properties.rows())
    return Result(statement, None, ("VARIABLE", "VALUE"), sorted(variables.items()))


def _sources(statement: Show, catalogue: Catalogue, kind: SourceKind) -> Result:
    rows = [
        (each.name, each.topic, each.key_format, each.value_format, "yes" if each.window else "no")
        for each in catalogue.all()
        if each.kind == kind
    ]
    return Result(statement, None, ("NAME", "TOPIC", "KEY_FORMAT", "VALUE_FORMAT", "WINDOWED"), rows)


def _queries(statement: Show, catalogue: Catalogue, queries: RunningQueries) -> Result:
    rows = [(each.query_id, each.state, each.sink, each.statement) for each in queries.all()]
    here = {row[0] for row in rows}
    # Other processes may run these queries; this process cannot know.
    rows += [
        (each.query_id, "NOT HERE", each.name, each.statement)
        for each in catalogue.all()
        if each.query_id is not None and each.query_id not in here and not each.is_terminated
    ]
    return Result(statement, None, ("QUERY", "STATE", "SINK", "STATEMENT"), rows)


def describe(statement: Describe, catalogue: Catalogue, brokers: Brokers, queries: RunningQueries) -> Result:
    source = catalogue.find(statement.name, statement.position)
    rows = [(column.name, str(column.type), _role(source, column)) for column in source.columns]
    message = _facts(source, brokers, queries) if statement.extended else None
    return Result(statement, message, ("FIELD", "TYPE", "ROLE"), rows)


def _role(source: Source, column: ColumnDefinition) -> str:
    if column.is_headers:
        return "headers" if column.header is None else f"header('{column.header}')"
    if not column.is_key:
        return ""
    role = "primary key" if source.kind == "TABLE" else "key"
    return f"{role} (with {source.window.lower()} window)" if source.window else role


def _facts(source: Source, brokers: Brokers, queries: RunningQueries) -> str:
    topic = brokers.topic(source.topic)
    shape = "does not exist"
    if topic is not None:
        shape = f"partitions {topic.partitions}, replicas {topic.replication_factor}"
    facts = [
        ("Name", source.name),
        ("Kind", source.kind),
        ("Topic", f"{source.topic} ({shape})"),
        ("Key format", source.key_format),
        ("Value format", source.value_format),
        ("Timestamp", source.timestamp or "of the record"),
        ("Statement", source.statement),
    ]
    facts += [("Written by", f"{each.query_id} ({each.state})") for each in queries.writing_to(source.name)]
    facts += [("Read by", each.query_id) for each in queries.reading_from(source.name)]
    return "\n".join(f"{name}: {value}" for name, value in facts)
