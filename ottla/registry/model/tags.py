"""Tags inside schemas: `confluent:tags` on records and fields, and their paths.

The path of an Avro record is its full name; that of a field is `full.name.field`. In a JSON Schema the path lists the
steps to the entity: `object.lines.array.object.price`, `object.shape.oneof.1.object.radius`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from ottla.registry.errors import invalid_schema, not_permitted
from ottla.registry.model.contracts import Json

RECORD = "sr_record"
FIELD = "sr_field"
_TAGS = "confluent:tags"
_COMBINED = ("allOf", "anyOf", "oneOf")


class Entity(NamedTuple):
    path: str
    kind: str


Tags = Mapping[Entity, list[str]]


def tagged_entities(schema_type: str, text: str) -> dict[Entity, list[str]]:
    return {
        entity: [str(each) for each in node[_TAGS]]
        for entity, node in _entities(schema_type, json.loads(text) if schema_type != "PROTOBUF" else None)
        if isinstance(node.get(_TAGS), list) and node[_TAGS]
    }


def found_json(schema_type: str, text: str, wanted: str) -> list[Json]:
    """Return the answer to `findTags`: one tag, several separated by commas, or `*` for all."""
    names = {each.strip() for each in wanted.split(",")}
    return [
        {"schemaEntity": {"entityPath": entity.path, "entityType": entity.kind}, "tags": tags}
        for entity, tags in tagged_entities(schema_type, text).items()
        if "*" in names or names & set(tags)
    ]


def with_tags(schema_type: str, text: str, added: Tags, removed: Tags) -> str:
    """Return the schema with changed tags. Raises RegistryError if an entity is missing."""
    if not added and not removed:
        return text
    if schema_type == "PROTOBUF":
        raise not_permitted(
            "Tags of Protobuf schemas are options in their text: register a schema that has them"
        )
    document = json.loads(text)
    nodes = dict(_entities(schema_type, document))
    for entity in [*added, *removed]:
        if entity not in nodes:
            raise invalid_schema(f"No matching path '{entity.path}' found in the schema")
    for entity, tags in added.items():
        held = nodes[entity].setdefault(_TAGS, [])
        held += [each for each in dict.fromkeys(tags) if each not in held]
    for entity, tags in removed.items():
        left = [each for each in nodes[entity].get(_TAGS, ()) if each not in tags]
        nodes[entity].pop(_TAGS, None)
        if left:
            nodes[entity][_TAGS] = left
    return json.dumps(document, ensure_ascii=False)


def _entities(schema_type: str, document: Any) -> list[tuple[Entity, Json]]:
    try:
        if schema_type == "AVRO":
            return list(_avro(document, ""))
        if schema_type == "JSON":
            return list(_json_schema(document, ""))
    except RecursionError:
        raise not_permitted("The schema is nested too deeply for tags") from None
    return []


def _avro(node: Any, namespace: str) -> Iterator[tuple[Entity, Json]]:
    if isinstance(node, list):
        for branch in node:
            yield from _avro(branch, namespace)
    if not isinstance(node, dict):
        return
    if node.get("type") in ("record", "error"):
        name = str(node.get("name", ""))
        if "." not in name:
            given = node.get("namespace", namespace)
            name = f"{given}.{name}" if given else name
        yield Entity(name, RECORD), node
        for field in node.get("fields", ()):
            yield Entity(f"{name}.{field['name']}", FIELD), field
            yield from _avro(field.get("type"), name.rpartition(".")[0])
    elif isinstance(node.get("type"), (dict, list)):
        yield from _avro(node["type"], namespace)
    for inner in ("items", "values"):
        yield from _avro(node.get(inner), namespace)


def _json_schema(node: Any, before: str) -> Iterator[tuple[Entity, Json]]:
    """`before` is the path to this schema with a trailing dot, empty for the root."""
    if not isinstance(node, dict):
        return
    if "properties" in node or node.get("type") == "object":
        path = f"{before}object"
        yield Entity(path, RECORD), node
        properties = node.get("properties")
        for name, inner in properties.items() if isinstance(properties, dict) else ():
            if isinstance(inner, dict):
                yield Entity(f"{path}.{name}", FIELD), inner
                yield from _json_schema(inner, f"{path}.{name}.")
    yield from _json_schema(node.get("items"), f"{before}array.")
    for word in _COMBINED:
        branches = node.get(word)
        for number, branch in enumerate(branches) if isinstance(branches, list) else ():
            yield from _json_schema(branch, f"{before}{word.lower()}.{number}.")
    yield from _json_schema(node.get("not"), f"{before}not.")
