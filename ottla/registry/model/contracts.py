"""Data contracts: metadata, rules and tags of schemas."""

from __future__ import annotations

import hashlib
import json
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from ottla.registry.errors import bad_request, invalid_rule_set, invalid_schema, not_permitted

# Metadata and rule sets: storage format, merging and hashing.

Json = dict[str, Any]

_KINDS = ("TRANSFORM", "CONDITION")
_MIGRATION_MODES = ("UPGRADE", "DOWNGRADE", "UPDOWN")
_DOMAIN_MODES = ("WRITE", "READ", "WRITEREAD")
#: The lists of a rule set, in the order of storage and hashing.
_LISTS = ("migrationRules", "domainRules", "encodingRules")
_RULE_TEXTS = ("name", "doc", "kind", "mode", "type", "expr", "onSuccess", "onFailure")


class Reference(NamedTuple):
    name: str
    subject: str
    version: int

    def to_json(self) -> Json:
        return {"name": self.name, "subject": self.subject, "version": self.version}

    def __str__(self) -> str:
        return f"{{name='{self.name}', subject='{self.subject}', version={self.version}}}"


# Metadata


def read_metadata(value: object) -> Json | None:
    """Return sorted metadata, as stored. Raises RegistryError for anything else."""
    if value is None:
        return None
    given = _object(value, "metadata")
    metadata: Json = {}
    tags = _object(given.get("tags") or {}, "metadata.tags")
    if tags:
        metadata["tags"] = {path: _texts(tags[path], "metadata.tags") for path in sorted(tags)}
    properties = _object(given.get("properties") or {}, "metadata.properties")
    if properties:
        metadata["properties"] = {name: _scalar(properties[name]) for name in sorted(properties)}
    sensitive = _texts(given.get("sensitive") or [], "metadata.sensitive")
    if sensitive:
        metadata["sensitive"] = sensitive
    return metadata


def merge_metadata(older: Json | None, newer: Json | None) -> Json | None:
    """Merge metadata; `newer` wins for each key."""
    if older is None or newer is None:
        return newer if older is None else older
    return read_metadata(
        {
            "tags": {**older.get("tags", {}), **newer.get("tags", {})},
            "properties": {**older.get("properties", {}), **newer.get("properties", {})},
            "sensitive": [*older.get("sensitive", ()), *newer.get("sensitive", ())],
        }
    )


# Rule sets


def read_rule_set(value: object) -> Json | None:
    if value is None:
        return None
    given = _object(value, "ruleSet")
    return {name: [_rule(each) for each in _list(given[name], name)] for name in _LISTS if given.get(name)}


def _rule(value: object) -> Json:
    given = _object(value, "rule")
    texts = {name: given.get(name) for name in _RULE_TEXTS}
    for name, text in texts.items():
        if text is not None and not isinstance(text, str):
            raise bad_request(f"{name} of a rule must be a string.")
    params = _object(given.get("params") or {}, "params")
    rule = {
        "name": texts["name"],
        "doc": texts["doc"],
        "kind": texts["kind"] or "TRANSFORM",
        "mode": texts["mode"] or "WRITEREAD",
        "type": texts["type"],
        "tags": _texts(given.get("tags") or [], "tags") or None,
        "params": {name: _scalar(params[name]) for name in sorted(params)} or None,
        "expr": texts["expr"],
        "onSuccess": texts["onSuccess"],
        "onFailure": texts["onFailure"],
        "disabled": given.get("disabled") is True,
    }
    return {name: each for name, each in rule.items() if each is not None}


def check_rule_set(rules: Json | None) -> None:
    for name, modes, of_what in (
        ("migrationRules", _MIGRATION_MODES, "Migration rules can only be UPGRADE, DOWNGRADE, UPDOWN"),
        ("domainRules", _DOMAIN_MODES, "Domain rules can only be WRITE, READ, WRITEREAD"),
        ("encodingRules", _DOMAIN_MODES, "Encoding rules can only be WRITE, READ, WRITEREAD"),
    ):
        names = set()
        for rule in (rules or {}).get(name, ()):
            _check_rule_name(rule.get("name"))
            if rule["name"] in names:
                raise invalid_rule_set(f"Found rule with duplicate name '{rule['name']}'")
            names.add(rule["name"])
            if "type" not in rule:
                raise invalid_rule_set("Missing rule type")
            if rule["kind"] not in _KINDS:
                raise invalid_rule_set(f"Unknown rule kind '{rule['kind']}'")
            if rule["mode"] not in modes:
                raise invalid_rule_set(of_what)


def _check_rule_name(name: str | None) -> None:
    if name is None:
        raise invalid_rule_set("Missing rule name")
    if not name:
        raise invalid_rule_set("Empty rule name")
    if not (name[0].isalpha() or name[0] == "_"):
        raise invalid_rule_set(f"Illegal initial character in rule name: {name}")
    if not all(each.isalnum() or each == "_" for each in name[1:]):
        raise invalid_rule_set(f"Illegal character in rule name: {name}")


def merge_rule_sets(older: Json | None, newer: Json | None) -> Json | None:
    """Merge rule sets; a rule in `newer` replaces one of the same name."""
    if older is None or newer is None:
        return newer if older is None else older
    merged = {}
    for name in _LISTS:
        replaced = {rule.get("name") for rule in newer.get(name, ())}
        rules = [rule for rule in older.get(name, ()) if rule.get("name") not in replaced]
        rules += newer.get(name, ())
        if rules:
            merged[name] = rules
    return merged


# Hashes


def content_md5(
    schema: str, references: Iterable[Reference], metadata: Json | None, rules: Json | None
) -> bytes:
    """Return the hash that identifies a schema: equal ones share an id in a context."""
    parts: list[bytes] = [schema.encode()]
    for reference in references:
        parts += [reference.name.encode(), reference.subject.encode(), bytes([reference.version & 0xFF])]
    if metadata is not None:
        parts += [b"\x01", *_metadata_parts(metadata)]
    if rules is not None:
        parts.append(b"\x01")
        for name in _LISTS:
            for rule in rules.get(name, ()):
                parts += _rule_parts(rule)
    return hashlib.md5(b"".join(parts), usedforsecurity=False).digest()


def guid_of(md5: bytes) -> str:
    return str(uuid.UUID(bytes=md5))


def _metadata_parts(metadata: Json) -> list[bytes]:
    texts: list[str] = []
    for path, tags in metadata.get("tags", {}).items():
        texts += [path, *tags]
    for name, value in metadata.get("properties", {}).items():
        texts += [name, value]
    texts += metadata.get("sensitive", ())
    return [text.encode() for text in texts]


def _rule_parts(rule: Json) -> list[bytes]:
    texts: list[str] = [rule[name] for name in ("name", "doc", "kind", "mode", "type") if name in rule]
    texts += rule.get("tags", ())
    for name, value in rule.get("params", {}).items():
        texts += [name, value]
    texts += [rule[name] for name in ("expr", "onSuccess", "onFailure") if name in rule]
    parts = [text.encode() for text in texts]
    return [*parts, b"\x01"] if rule.get("disabled") else parts


# Reading JSON


def _object(value: object, what: str) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise bad_request(f"{what} must be an object.")
    return value


def _list(value: object, what: str) -> Sequence[Any]:
    if not isinstance(value, list):
        raise bad_request(f"{what} must be an array.")
    return value


def _texts(value: object, what: str) -> list[str]:
    """Return a sorted set of strings."""
    texts = _list(value, what)
    if not all(isinstance(each, str) for each in texts):
        raise bad_request(f"{what} must be an array of strings.")
    return sorted(set(texts))


def _scalar(value: object) -> str:
    """Convert like Jackson, which reads numbers and booleans as strings where needed."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (str, int, float)):
        return str(value)
    raise bad_request("Values of properties and params must be strings.")


# Tags inside schemas: `confluent:tags` on records and fields, and their paths.
#
# The path of an Avro record is its full name; that of a field is `full.name.field`. In a JSON Schema the path lists the
# steps to the entity: `object.lines.array.object.price`, `object.shape.oneof.1.object.radius`.

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
