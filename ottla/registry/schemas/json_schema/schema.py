"""A JSON Schema of the registry."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import cache, cached_property
from typing import Any

import jsonschema_rs

from ottla.registry.schemas.json_schema.document import META_SCHEMAS, Document, declared_draft, subschemas
from ottla.registry.schemas.json_text import dump, load
from ottla.registry.schemas.parsed import Incompatibility, InvalidSchema, ParsedSchema


class JsonSchema(ParsedSchema):
    schema_type = "JSON"

    def __init__(self, raw: Any, document: Document, references: Mapping[str, ParsedSchema]) -> None:
        self.raw = raw
        self.document = document
        self.references = references

    @cached_property
    def canonical(self) -> str:
        return dump(self.raw)

    @cached_property
    def normalized(self) -> str:
        return dump(self.raw, sort_keys=True)

    @property
    def fields(self) -> Collection[str]:
        properties = self.raw.get("properties") if isinstance(self.raw, dict) else None
        return list(properties) if isinstance(properties, dict) else []

    def check(self, writer: JsonSchema, policy: str = "STRICT") -> list[Incompatibility]:
        from ottla.registry.schemas.json_schema.compatibility import check_documents

        return check_documents(self.document, writer.document, policy)


def parse_json_schema(
    text: str, references: Mapping[str, ParsedSchema], *, stored: bool = False
) -> JsonSchema:
    raw = load(text)
    if not isinstance(raw, dict | bool):
        raise InvalidSchema(f"a JSON Schema is an object or a boolean, not {text[:100]}")
    documents: dict[str, Document] = {}
    for name, reference in references.items():
        if not isinstance(reference, JsonSchema):
            raise InvalidSchema(f"the reference {name} is of type {reference.schema_type}, not JSON")
        documents[name] = reference.document
    document = Document(raw, documents)
    # A schema that violates its meta-schema cannot be compared: keywords could have arbitrary values.
    _check_meta_schema(raw, document.draft)
    if not stored:
        _check_draft(raw)
        _check_patterns(raw)
    return JsonSchema(raw, document, references)


def _check_draft(raw: Any) -> None:
    """Refuse a mistyped `$schema`. A meta-schema of somebody else is taken as draft 7."""
    uri = raw.get("$schema") if isinstance(raw, dict) else None
    is_foreign = isinstance(uri, str) and "://" in uri and "//json-schema.org/" not in uri
    if uri is not None and not is_foreign and declared_draft(raw) is None:
        known = ", ".join(META_SCHEMAS.values())
        raise InvalidSchema(f'$schema "{str(uri)[:100]}" is unknown: use one of {known}')


def _check_meta_schema(raw: Any, draft: int) -> None:
    try:
        _meta_validator(draft).validate(raw)
    except jsonschema_rs.ValidationError as error:
        where = "/".join(map(str, error.instance_path))
        raise InvalidSchema(f"at #/{where}: {error.message}") from None


@cache
def _meta_validator(draft: int) -> Any:
    """Return a validator for schemas of this draft, ignoring their `$schema` and formats."""
    classes = {
        4: jsonschema_rs.Draft4Validator,
        6: jsonschema_rs.Draft6Validator,
        7: jsonschema_rs.Draft7Validator,
        2019: jsonschema_rs.Draft201909Validator,
        2020: jsonschema_rs.Draft202012Validator,
    }
    return classes[draft]({"$ref": META_SCHEMAS[draft]}, validate_formats=False)


def _check_patterns(raw: Any) -> None:
    stack = [("#", raw)]
    while stack:
        path, schema = stack.pop()
        if not isinstance(schema, dict):
            continue
        patterns = [schema["pattern"]] if isinstance(schema.get("pattern"), str) else []
        if isinstance(schema.get("patternProperties"), dict):
            patterns.extend(schema["patternProperties"])
        for pattern in patterns:
            try:
                jsonschema_rs.Draft7Validator({"pattern": pattern})
            except (ValueError, jsonschema_rs.ValidationError):
                raise InvalidSchema(f'at {path}: "{pattern[:100]}" is not a regular expression') from None
        stack.extend((path + below, child) for below, child in subschemas(schema))
