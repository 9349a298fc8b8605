"""Drafts of JSON Schema, and their keywords that contain schemas."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

# Draft of schemas with a missing or unknown `$schema`.
DEFAULT_DRAFT = 7

_DRAFTS = {
    "json-schema.org/draft-04/schema": 4,
    "json-schema.org/draft-06/schema": 6,
    "json-schema.org/draft-07/schema": 7,
    "json-schema.org/draft/2019-09/schema": 2019,
    "json-schema.org/draft/2020-12/schema": 2020,
}
META_SCHEMAS = {
    4: "http://json-schema.org/draft-04/schema#",
    6: "http://json-schema.org/draft-06/schema#",
    7: "http://json-schema.org/draft-07/schema#",
    2019: "https://json-schema.org/draft/2019-09/schema",
    2020: "https://json-schema.org/draft/2020-12/schema",
}

# Keywords whose value is a schema, a list of schemas, or schemas by name.
_ONE = frozenset((
    "additionalItems", "additionalProperties", "contains", "contentSchema", "else", "if", "items", "not",
    "propertyNames", "then", "unevaluatedItems", "unevaluatedProperties",
))  # fmt: skip
_SEVERAL = frozenset(("allOf", "anyOf", "items", "oneOf", "prefixItems"))
_BY_NAME = frozenset(
    ("$defs", "definitions", "dependencies", "dependentSchemas", "patternProperties", "properties")
)


def draft_of(schema: Any) -> int:
    return declared_draft(schema) or DEFAULT_DRAFT


def declared_draft(schema: Any) -> int | None:
    """Return the draft that `$schema` names, or None if it is missing or unknown."""
    uri = schema.get("$schema") if isinstance(schema, dict) else None
    return _DRAFTS.get(uri.rstrip("#").partition("://")[2]) if isinstance(uri, str) else None


def subschemas(schema: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield the schemas directly inside `schema`, with relative pointers."""
    for keyword, value in schema.items():
        if keyword in _BY_NAME and isinstance(value, dict):
            for name, item in value.items():
                if isinstance(item, dict | bool):
                    yield f"/{keyword}/{name}", item
        elif keyword in _SEVERAL and isinstance(value, list):
            for index, item in enumerate(value):
                yield f"/{keyword}/{index}", item
        elif keyword in _ONE and isinstance(value, dict | bool):
            yield f"/{keyword}", value
