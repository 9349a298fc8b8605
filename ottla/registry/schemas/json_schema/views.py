"""Schemas as the comparison sees them, and the messages for incompatible changes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from ottla.registry.schemas.json_schema.document import Document
from ottla.registry.schemas.parsed import Incompatibility

# Messages for each kind of incompatible change, with Confluent's names of the kinds.

# Kinds permitted by the policy LENIENT.
LENIENT = frozenset((
    "ADDITIONAL_PROPERTIES_NARROWED",
    "ADDITIONAL_PROPERTIES_REMOVED",
    "OPTIONAL_PROPERTY_ADDED_TO_OPEN_CONTENT_MODEL",
    "REQUIRED_PROPERTY_WITH_DEFAULT_ADDED_TO_OPEN_CONTENT_MODEL",
    "PROPERTY_ADDED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL",
    "PROPERTY_REMOVED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL",
    "PROPERTY_REMOVED_FROM_CLOSED_CONTENT_MODEL",
))  # fmt: skip

_ADDED_TO_OPEN = (
    "The {reader} schema has an open content model and has a property or item at path '{path}' which is missing in "
    "the {writer} schema"
)
_REMOVED_FROM_CLOSED = (
    "The {reader} schema has a closed content model and is missing a property or item present at path '{path}' in "
    "the {writer} schema"
)
_REMOVED_NOT_COVERED = (
    "A property or item is missing in the {reader} schema but present at path '{path}' in the {writer} schema and is "
    "not covered by its partially open content model"
)
_ADDED_NOT_COVERED = (
    "The {reader} schema has a property or item at path '{path}' which is missing in the {writer} schema and is not "
    "covered by its partially open content model"
)
_TYPE = "A type at path '{path}' is different between the {reader} schema and the {writer} schema"

_SPECIAL = {
    "OPTIONAL_PROPERTY_ADDED_TO_OPEN_CONTENT_MODEL": _ADDED_TO_OPEN,
    "REQUIRED_PROPERTY_ADDED_TO_OPEN_CONTENT_MODEL": _ADDED_TO_OPEN,
    "REQUIRED_PROPERTY_WITH_DEFAULT_ADDED_TO_OPEN_CONTENT_MODEL": _ADDED_TO_OPEN,
    "ITEM_ADDED_TO_OPEN_CONTENT_MODEL": _ADDED_TO_OPEN,
    "REQUIRED_PROPERTY_ADDED_TO_UNOPEN_CONTENT_MODEL": "The {reader} schema has an unopen content model and has a "
    "required property at path '{path}' which is missing in the {writer} schema",
    "PROPERTY_REMOVED_FROM_CLOSED_CONTENT_MODEL": _REMOVED_FROM_CLOSED,
    "ITEM_REMOVED_FROM_CLOSED_CONTENT_MODEL": _REMOVED_FROM_CLOSED,
    "PROPERTY_REMOVED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL": _REMOVED_NOT_COVERED,
    "ITEM_REMOVED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL": _REMOVED_NOT_COVERED,
    "PROPERTY_ADDED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL": _ADDED_NOT_COVERED,
    "ITEM_ADDED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL": _ADDED_NOT_COVERED,
    "TYPE_CHANGED": _TYPE,
    "TYPE_NARROWED": _TYPE,
    "COMBINED_TYPE_CHANGED": _TYPE,
    "COMBINED_TYPE_SUBSCHEMAS_CHANGED": _TYPE,
    "ENUM_ARRAY_CHANGED": _TYPE,
    "TOO_COMPLEX": "The {reader} and the {writer} schema are too complex to be compared",
}
_BY_ENDING = (
    ("_ADDED", "The keyword at path '{path}' in the {reader} schema is not present in the {writer} schema"),
    ("_REMOVED", "The keyword at path '{path}' in the {reader} schema is not present in the {writer} schema"),
    (
        "_INCREASED",
        "The value at path '{path}' in the {reader} schema is more than its value in the {writer} schema",
    ),
    (
        "_EXPANDED",
        "The value at path '{path}' in the {reader} schema is more than its value in the {writer} schema",
    ),
    (
        "_DECREASED",
        "The value at path '{path}' in the {reader} schema is less than its value in the {writer} schema",
    ),
    ("_CHANGED", "The value at path '{path}' is different between the {reader} and {writer} schema"),
    (
        "_NARROWED",
        "An array or combined type at path '{path}' has fewer elements in the {reader} schema than the {writer} schema",
    ),
    (
        "_EXTENDED",
        "An array or combined type at path '{path}' has more elements in the {reader} schema than the {writer} schema",
    ),
)


def incompatibility(type_: str, path: str) -> Incompatibility:
    template = _SPECIAL.get(type_) or next(text for ending, text in _BY_ENDING if type_.endswith(ending))
    return Incompatibility(type_, path, template.replace("{path}", path))


# Schemas prepared for comparison: references followed, and draft spellings unified.

TYPES = frozenset(("null", "boolean", "integer", "number", "string", "array", "object"))
COMBINERS = ("allOf", "anyOf", "oneOf")
_IN_PLACE = (*COMBINERS, "$ref", "$dynamicRef", "$recursiveRef", "if", "dependentSchemas", "not")
# Keywords that no instance can violate.
_ANNOTATIONS = frozenset((
    "$schema", "$id", "id", "$anchor", "$dynamicAnchor", "$recursiveAnchor", "$comment", "$defs", "definitions",
    "$vocabulary", "title", "description", "default", "examples", "deprecated", "readOnly", "writeOnly", "format",
    "contentEncoding", "contentMediaType", "contentSchema",
))  # fmt: skip
_ASSERTIONS = frozenset((
    "type", "enum", "const", "multipleOf", "maximum", "exclusiveMaximum", "minimum", "exclusiveMinimum", "maxLength",
    "minLength", "pattern", "items", "prefixItems", "additionalItems", "unevaluatedItems", "maxItems", "minItems",
    "uniqueItems", "contains", "minContains", "maxContains", "maxProperties", "minProperties", "required",
    "properties", "patternProperties", "additionalProperties", "unevaluatedProperties", "dependencies",
    "dependentRequired", "dependentSchemas", "propertyNames",
))  # fmt: skip
_BASE = _ASSERTIONS | {"not", "if"}
_DEMANDS = _BASE | set(COMBINERS)


@dataclass(eq=False)
class View:
    """One schema. `keywords` are its own, `all_of` come from its references."""

    keywords: dict[str, Any] | bool
    document: Document
    referred: list[tuple[Any, Document]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.words: dict[str, Any] = self.keywords if isinstance(self.keywords, dict) else {}

    @cached_property
    def accepts_all(self) -> bool:
        if isinstance(self.keywords, bool):
            return self.keywords
        if self.referred:
            return False
        return self.words.keys().isdisjoint(_DEMANDS)

    @cached_property
    def accepts_nothing(self) -> bool:
        return self.keywords is False or self.words.get("not") in (True, {})

    @cached_property
    def has_base(self) -> bool:
        """True if it has keywords other than combinations."""
        return not self.words.keys().isdisjoint(_BASE)

    @cached_property
    def evaluates_elsewhere(self) -> bool:
        return bool(self.referred) or not self.words.keys().isdisjoint(_IN_PLACE)

    @cached_property
    def stated_types(self) -> frozenset[str]:
        """Types permitted by `type`."""
        given = self.words.get("type")
        if isinstance(given, str):
            found = frozenset((given,))
        elif isinstance(given, list):
            found = frozenset(given)
        else:
            return TYPES
        return found | {"integer"} if "number" in found else found

    @cached_property
    def types(self) -> frozenset[str]:
        """Types that instances can have."""
        if self.values is not None and "type" not in self.words:
            return frozenset(_type_of(value) for value in self.values)
        return self.stated_types

    @cached_property
    def one_type_each(self) -> list[View]:
        """Split a schema with several types into one per type."""
        given = self.words.get("type")
        if not isinstance(given, list) or len(given) < 2:
            return []
        return [View({**self.words, "type": each}, self.document, self.referred) for each in given]

    @cached_property
    def values(self) -> list[Any] | None:
        """The only possible values, from `enum` or `const`."""
        if "const" in self.words:
            return [self.words["const"]]
        enum = self.words.get("enum")
        return enum if isinstance(enum, list) else None

    def combined(self, keyword: str) -> list[tuple[Any, Document]]:
        subschemas = [(schema, self.document) for schema in self.words.get(keyword) or ()]
        return [*self.referred, *subschemas] if keyword == "allOf" else subschemas

    @cached_property
    def combiners(self) -> list[str]:
        if not self.referred and self.words.keys().isdisjoint(COMBINERS):
            return []
        return [keyword for keyword in COMBINERS if self.combined(keyword)]

    @cached_property
    def only_combiner(self) -> str | None:
        """The combination keyword, if the schema consists of nothing else."""
        return self.combiners[0] if len(self.combiners) == 1 and not self.has_base else None

    def bound(self, keyword: str) -> Any:
        """Return a limit. In draft 4 `exclusiveMaximum` was a boolean beside `maximum`."""
        value = self.words.get(keyword)
        if keyword in ("maximum", "minimum"):
            exclusive = self.words.get("exclusive" + keyword.capitalize())
            return None if exclusive is True else value
        if keyword in ("exclusiveMaximum", "exclusiveMinimum") and isinstance(value, bool):
            return self.words.get(keyword.removeprefix("exclusive").lower()) if value else None
        return value

    @cached_property
    def base(self) -> View:
        """Return the schema without combinations."""
        kept = {name: value for name, value in self.words.items() if name not in COMBINERS and name != "$ref"}
        return View(kept, self.document)

    def dependencies(self) -> Iterator[tuple[str, Any]]:
        for keyword in ("dependencies", "dependentRequired", "dependentSchemas"):
            given = self.words.get(keyword)
            if isinstance(given, dict):
                yield from given.items()


class Views:
    """Views of two documents. Each view is created once, so that identity distinguishes them."""

    def __init__(self) -> None:
        self._views: dict[tuple[int, int], View] = {}
        self._true: dict[bool, View] = {}

    def of(self, schema: Any, document: Document) -> View:
        passed: set[int] = set()
        while isinstance(schema, dict):
            found = document.target(schema)
            if found is None:
                break
            if id(schema) in passed:
                # A reference to itself has no effect.
                schema = True
                break
            passed.add(id(schema))
            if document.draft > 7 and any(
                name not in _ANNOTATIONS and not name.startswith("$") for name in schema
            ):
                key = (id(schema), id(document))
                if key not in self._views:
                    self._views[key] = View(schema, document, [found])
                return self._views[key]
            schema, document = found
        key = (id(schema), id(document)) if isinstance(schema, dict) else (int(schema is not False), 0)
        if key not in self._views:
            self._views[key] = View(schema if isinstance(schema, dict | bool) else True, document)
        return self._views[key]


def frozen(value: Any) -> str:
    """Return equal texts for values equal in JSON Schema: 1 and 1.0 are, 1 and true are not."""
    text = json.dumps(value, sort_keys=True)
    if "." in text or "e" in text:
        text = json.dumps(json.loads(text, parse_float=_plain), sort_keys=True)
    return text


def _plain(literal: str) -> float:
    value = float(literal)
    return int(value) if value.is_integer() else value


def _type_of(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int) or (isinstance(value, float) and value.is_integer()):
        return "integer"
    if isinstance(value, float):
        return "number"
    return "string" if isinstance(value, str) else "array" if isinstance(value, list) else "object"
