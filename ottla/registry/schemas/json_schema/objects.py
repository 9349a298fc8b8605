"""Objects: their properties, and the rules of open, closed and partially open content models.

A model is open if it allows any other property; closed if it allows none; partially open if other properties must match
a pattern or a schema (`patternProperties`, a schema as `additionalProperties`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import re2

from ottla.registry.schemas.json_schema.document import Document
from ottla.registry.schemas.json_schema.values import at_least, at_most, same
from ottla.registry.schemas.json_schema.views import View
from ottla.registry.schemas.parsed import Incompatibility, Steps

if TYPE_CHECKING:
    from ottla.registry.schemas.json_schema.compatibility import Comparison

Result = list[Incompatibility]
Schema = tuple[Any, Document]
_COMBINERS = ("/allOf", "/anyOf", "/oneOf")


@dataclass
class _Model:
    properties: dict[str, Schema]
    patterns: dict[str, Schema]
    additional: Schema
    keyword: str
    required: set[str]

    @classmethod
    def of(cls, view: View) -> _Model:
        words, document = view.words, view.document
        additional: Any = True
        keyword = "additionalProperties"
        if keyword in words:
            additional = words[keyword]
        elif "unevaluatedProperties" in words and not view.evaluates_elsewhere:
            keyword = "unevaluatedProperties"
            additional = words[keyword]
        required = words.get("required")
        return cls(
            {name: (schema, document) for name, schema in (words.get("properties") or {}).items()},
            {name: (schema, document) for name, schema in (words.get("patternProperties") or {}).items()},
            (additional, document),
            keyword,
            set(required) if isinstance(required, list) else set(),
        )


def compare_objects(comparison: Comparison, reader: View, writer: View, path: str) -> Steps[Result]:
    return (yield _Objects(comparison, reader, writer, path).compare())  # type: ignore[no-any-return]


class _Objects:
    def __init__(self, comparison: Comparison, reader: View, writer: View, path: str) -> None:
        self._comparison = comparison
        self._views = (reader, writer)
        self._reader = _Model.of(reader)
        self._writer = _Model.of(writer)
        self._path = path

    def compare(self) -> Steps[Result]:
        reader, writer = self._views
        result = at_most(self._comparison, "maxProperties", "MAX_PROPERTIES", reader, writer, self._path)
        result += at_least(self._comparison, "minProperties", "MIN_PROPERTIES", reader, writer, self._path)
        result += self._required()
        result += yield self._additional()
        result += yield self._dependencies()
        result += yield self._names()
        for name in dict.fromkeys((*self._writer.properties, *self._reader.properties)):
            path = f"{self._path}/properties/{name}"
            if name not in self._reader.properties:
                result += yield self._removed(name, path)
            elif name not in self._writer.properties:
                result += yield self._added(name, path)
            else:
                result += yield self._comparison.compare(
                    self._reader.properties[name], self._writer.properties[name], path
                )
                result += yield self._under_new_patterns(name, path)
        result += yield self._patterns()
        result += self._unevaluated()
        return result

    def _required(self) -> Result:
        result: Result = []
        for name in sorted(self._reader.required - self._writer.required):
            known = self._reader.properties.get(name)
            if known is None and not self._path.endswith(_COMBINERS):
                continue  # Confluent's registry ignores a requirement for a property without a schema.
            if known is not None and name not in self._writer.properties and not self._accepts_all(known):
                continue  # a new property: see `_added`
            if known is None or not _has_default(self._comparison.view(known)):
                result += self._comparison.found("REQUIRED_ATTRIBUTE_ADDED", f"{self._path}/required/{name}")
        return result

    def _additional(self) -> Steps[Result]:
        read, written = self._reader.additional, self._writer.additional
        path = f"{self._path}/{self._reader.keyword}"
        if self._accepts_all(read) or self._accepts_nothing(written):
            return []
        if self._accepts_nothing(read):
            return self._comparison.found("ADDITIONAL_PROPERTIES_REMOVED", path)
        if self._accepts_all(written):
            return self._comparison.found("ADDITIONAL_PROPERTIES_NARROWED", path)
        return (yield self._comparison.compare(read, written, path))  # type: ignore[no-any-return]

    def _removed(self, name: str, path: str) -> Steps[Result]:
        written = self._writer.properties[name]
        covers = self._matching(self._reader, name)
        if not covers:
            if self._accepts_all(self._reader.additional) or self._accepts_nothing(written):
                return []
            if self._accepts_nothing(self._reader.additional):
                if not self._reader.patterns:
                    kind = "PROPERTY_REMOVED_FROM_CLOSED_CONTENT_MODEL"
                else:
                    kind = "PROPERTY_REMOVED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL"
                if name in self._writer.required:
                    # Every instance has it, so no policy can ignore the change.
                    return self._comparison.found_always(kind, path)
                return self._comparison.found(kind, path)
            covers = [self._reader.additional]
        for cover in covers:
            different: Result = yield self._comparison.compare(cover, written, path)
            if different:
                # LENIENT permits that the property goes, but not that its values become invalid.
                kind = "PROPERTY_REMOVED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL"
                return [*different, *self._comparison.found(kind, path)]
        return []

    def _added(self, name: str, path: str) -> Steps[Result]:
        read = self._reader.properties[name]
        required = name in self._reader.required - self._writer.required
        has_default = _has_default(self._comparison.view(read))
        covers = self._matching(self._writer, name)
        if not covers and self._accepts_all(self._writer.additional):
            if self._accepts_all(read):
                return []
            kind = "OPTIONAL" if not required else "REQUIRED"
            if required and has_default:
                kind += "_PROPERTY_WITH_DEFAULT_ADDED_TO_OPEN_CONTENT_MODEL"
            else:
                kind += "_PROPERTY_ADDED_TO_OPEN_CONTENT_MODEL"
            return self._comparison.found(kind, path)
        result: Result = []
        covers = covers or [self._writer.additional]
        different: Result = []
        for cover in covers:
            different = yield self._comparison.compare(read, cover, path)
            if not different:
                break
        if different:
            result += different
            result += self._comparison.found(
                "PROPERTY_ADDED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL", path
            )
        if required and not has_default and not self._accepts_all(read):
            result += self._comparison.found("REQUIRED_PROPERTY_ADDED_TO_UNOPEN_CONTENT_MODEL", path)
        return result

    def _under_new_patterns(self, name: str, path: str) -> Steps[Result]:
        """Compare a common property that matches a pattern of the reader only."""
        result: Result = []
        for pattern, schema in self._reader.patterns.items():
            if pattern not in self._writer.patterns and _matches(pattern, name) is not False:
                result += yield self._comparison.compare(schema, self._writer.properties[name], path)
        return result

    def _patterns(self) -> Steps[Result]:
        result: Result = []
        for pattern, schema in self._reader.patterns.items():
            path = f"{self._path}/patternProperties/{pattern}"
            if pattern in self._writer.patterns:
                result += yield self._comparison.compare(schema, self._writer.patterns[pattern], path)
                continue
            for source in (*self._writer.patterns.values(), self._writer.additional):
                if (yield self._comparison.compare(schema, source, path)):
                    whole = self._accepts_all(self._writer.additional) and not self._writer.patterns
                    kind = (
                        "OPTIONAL_PROPERTY_ADDED_TO_OPEN_CONTENT_MODEL"
                        if whole
                        else "PROPERTY_ADDED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL"
                    )
                    result += self._comparison.found(kind, path)
                    break
        for pattern, written in self._writer.patterns.items():
            if pattern in self._reader.patterns or self._accepts_all(self._reader.additional):
                continue
            if (yield self._comparison.compare(self._reader.additional, written, self._path)):
                path = f"{self._path}/patternProperties/{pattern}"
                closed = self._accepts_nothing(self._reader.additional) and not self._reader.patterns
                kind = (
                    "PROPERTY_REMOVED_FROM_CLOSED_CONTENT_MODEL"
                    if closed
                    else "PROPERTY_REMOVED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL"
                )
                result += self._comparison.found(kind, path)
        return result

    def _dependencies(self) -> Steps[Result]:
        reader, writer = self._views
        written = {(name, isinstance(value, list)): value for name, value in writer.dependencies()}
        result: Result = []
        for name, value in reader.dependencies():
            path = f"{self._path}/dependencies/{name}"
            other = written.get((name, isinstance(value, list)))
            if not isinstance(value, list):
                if other is None:
                    if not self._accepts_all((value, reader.document)):
                        result += self._comparison.found("DEPENDENCY_SCHEMA_ADDED", path)
                else:
                    schemas = (value, reader.document), (other, writer.document)
                    result += yield self._comparison.compare(*schemas, path)
            elif other is None:
                if value:
                    result += self._comparison.found("DEPENDENCY_ARRAY_ADDED", path)
            elif not set(value) <= set(other):
                kind = "EXTENDED" if set(value) > set(other) else "CHANGED"
                result += self._comparison.found(f"DEPENDENCY_ARRAY_{kind}", path)
        return result

    def _names(self) -> Steps[Result]:
        reader, writer = self._views
        if "propertyNames" not in reader.words:
            return []
        read = (reader.words["propertyNames"], reader.document)
        written = (writer.words.get("propertyNames", {"type": "string"}), writer.document)
        return (yield self._comparison.compare(read, written, f"{self._path}/propertyNames"))  # type: ignore[no-any-return]

    def _unevaluated(self) -> Result:
        """Compare unevaluated keywords: other parts of the schema must be equal, because their effects are not
        analysed.
        """
        reader, writer = self._views
        if not reader.evaluates_elsewhere or reader.words.get("unevaluatedProperties", True) in (True, {}):
            return []
        if same(reader, writer):
            return []
        return self._comparison.found("ADDITIONAL_PROPERTIES_NARROWED", f"{self._path}/unevaluatedProperties")

    def _matching(self, model: _Model, name: str) -> list[Schema]:
        wanted = (True, None) if model is self._reader else (True,)
        return [schema for pattern, schema in model.patterns.items() if _matches(pattern, name) in wanted]

    def _accepts_all(self, schema: Schema) -> bool:
        return self._comparison.view(schema).accepts_all

    def _accepts_nothing(self, schema: Schema) -> bool:
        return self._comparison.view(schema).accepts_nothing


def _has_default(view: View) -> bool:
    return "default" in view.words


def _matches(pattern: str, name: str) -> bool | None:
    """Return None if the linear-time engine does not support the pattern."""
    try:
        return re2.search(pattern, name) is not None
    except re2.error:
        return None
