"""Response objects of /ksql, with ksqlDB's field names."""

from __future__ import annotations

from typing import Any

from ottla.sql.executing.results import Result
from ottla.sql.executing.running_queries import Running
from ottla.sql.parsing import statements as s
from ottla.sql.session import Conversation
from ottla.sql.sources import Source
from ottla.sql.sql_types import SqlType

Entity = dict[str, Any]


def entity(result: Result, session: Conversation, pushes: list[Entity]) -> Entity | None:
    """Return the response, or None for INSERT INTO … VALUES, SET and DEFINE."""
    match result.statement:
        case s.Show(what=what):
            return _show(what, result, session, pushes)
        case s.Describe(name=name, extended=extended):
            described = source_description(session.catalogue.find(name), session, extended)
            return {"@type": "sourceDescription", "sourceDescription": described}
        case s.DescribeFunction(name=name):
            return {
                "@type": "describe_function",
                "name": name.upper(),
                "description": result.message or "",
                "author": "",
                "version": "",
                "path": "internal",
                "functions": [],
                "type": "SCALAR",
            }
        case s.Explain():
            return {
                "@type": "queryDescription",
                "queryDescription": _explained(result.statement, result, session),
            }
        case s.AssertTopic(topic=topic, exists=exists):
            return {"@type": "assert_topic", "topicName": topic, "exists": exists}
        case s.AssertSchema(subject=subject, id=number, exists=exists):
            return {"@type": "assert_schema", "subject": subject, "id": number, "exists": exists}
        case s.InsertValues() | s.SetProperty() | s.UnsetProperty() | s.Define() | s.Undefine():
            return None
    return {"@type": "ottla_result", "message": result.message or ""}


def _show(what: str, result: Result, session: Conversation, pushes: list[Entity]) -> Entity | None:
    match what:
        case "STREAMS":
            listed = [_source(each) for each in session.catalogue.all() if each.kind == "STREAM"]
            return {"@type": "streams", "streams": listed}
        case "TABLES":
            listed = [_source(each) for each in session.catalogue.all() if each.kind == "TABLE"]
            return {"@type": "tables", "tables": listed}
        case "TOPICS":
            topics = [
                {"name": name, "replicaInfo": [replicas] * partitions}
                for name, partitions, replicas in result.rows
            ]
            return {"@type": "kafka_topics", "topics": topics}
        case "QUERIES":
            queries = [running_query(each, session) for each in session.queries.all()]
            return {"@type": "queries", "queries": queries + pushes}
        case "PROPERTIES":
            properties = [
                {"name": name, "scope": "KSQL", "value": value, "editable": True, "level": "QUERY"}
                for name, _, value in result.rows
            ]
            changed = [name for name, default, value in result.rows if value != default]
            return {
                "@type": "properties",
                "properties": properties,
                "overwrittenProperties": changed,
                "defaultProperties": [name for name, default, value in result.rows if value == default],
            }
        case "FUNCTIONS":
            functions = [
                {"name": name, "type": str(kind).upper(), "category": ""} for name, kind in result.rows
            ]
            return {"@type": "function_names", "functions": functions}
        case "TYPES":
            types = {name: schema(kind) for name, kind in session.catalogue.types()}
            return {"@type": "type_list", "types": types}
        case "VARIABLES":
            variables = [{"name": name, "value": value} for name, value in result.rows]
            return {"@type": "variables", "variables": variables}
    return {
        "@type": "ottla_result",
        "columns": list(result.columns),
        "rows": [list(row) for row in result.rows],
    }


def _source(source: Source) -> Entity:
    return {
        "type": source.kind,
        "name": source.name,
        "topic": source.topic,
        "keyFormat": source.key_format,
        "valueFormat": source.value_format,
        "isWindowed": source.window is not None,
    }


def running_query(running: Running, session: Conversation) -> Entity:
    state = running.state.partition(":")[0]
    sink = session.catalogue.get(running.sink)
    return {
        "queryString": running.statement,
        "sinks": [running.sink],
        "sinkKafkaTopics": [sink.topic if sink is not None else running.sink],
        "id": running.query_id,
        "statusCount": {state: 1},
        "queryType": "PERSISTENT",
        "state": state,
    }


def source_description(source: Source, session: Conversation, extended: bool) -> Entity:
    topic = session.brokers.topic(source.topic) if extended else None
    queries = session.queries
    reading = [running_query(each, session) for each in queries.all() if each.reads(source.name)]
    writing = [running_query(each, session) for each in queries.writing_to(source.name)]
    return {
        "name": source.name,
        "windowType": source.window,
        "readQueries": reading,
        "writeQueries": writing,
        "fields": fields(source),
        "type": source.kind,
        "timestamp": source.timestamp or "",
        "statistics": "",
        "errorStats": "",
        "extended": extended,
        "keyFormat": source.key_format,
        "valueFormat": source.value_format,
        "topic": source.topic,
        "partitions": topic.partitions if topic is not None else 0,
        "replication": topic.replication_factor if topic is not None else 0,
        "statement": source.statement,
        "queryOffsetSummaries": [],
        "sourceConstraints": [],
        "clusterStatistics": [],
        "clusterErrorStats": [],
    }


def fields(source: Source) -> list[Entity]:
    made = []
    for column in source.columns:
        field: Entity = {"name": column.name, "schema": schema(column.type)}
        if column.is_key:
            field["type"] = "KEY"
        elif column.is_headers:
            field["type"] = "HEADER"
        made.append(field)
    return made


def schema(kind: SqlType) -> Entity:
    inner: list[Entity] | None = None
    if kind.name == "STRUCT":
        inner = [{"name": each.name, "schema": schema(each.type)} for each in kind.fields]
    made: Entity = {
        "type": kind.name,
        "fields": inner,
        "memberSchema": schema(kind.element) if kind.element is not None else None,
    }
    if kind.name == "DECIMAL":
        made["parameters"] = {"precision": kind.precision, "scale": kind.scale}
    return made


def _explained(statement: s.Explain, result: Result, session: Conversation) -> Entity:
    running = session.queries.get(statement.query_id) if statement.query_id else None
    sources = sorted({each.name for each in running.plan.sources.values()}) if running is not None else []
    sink = session.catalogue.get(running.sink) if running is not None else None
    return {
        "id": running.query_id if running is not None else "",
        "statementText": running.statement if running is not None else statement.text,
        "windowType": sink.window if sink is not None else None,
        "fields": fields(sink) if sink is not None else [],
        "sources": sources,
        "sinks": [running.sink] if running is not None else [],
        "topology": "",
        "executionPlan": result.message or "",
        "overriddenProperties": {},
        "ksqlHostQueryStatus": {},
        "queryType": "PERSISTENT" if running is not None else "UNKNOWN",
        "queryErrors": [],
        "tasksMetadata": [],
        "state": running.state.partition(":")[0] if running is not None else None,
    }
