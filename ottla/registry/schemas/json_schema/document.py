"""A JSON Schema document: its draft, and its `$ref`s, inside and into referenced documents."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import unquote, urldefrag, urljoin

from ottla.registry.schemas.parsed import InvalidSchema

# Drafts of JSON Schema, and their keywords that contain schemas.

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


# A JSON Schema document: resolves its `$ref`s, inside and into referenced documents.

_REFS = ("$ref", "$dynamicRef", "$recursiveRef")
# urljoin supports only URLs with a known scheme.
_NOWHERE = "http://schemas.invalid/"


class Document:
    """The schemas of one document, indexed once. A document with an unresolvable reference is refused."""

    def __init__(self, root: Any, references: Mapping[str, Document]) -> None:
        self.root = root
        self.draft = draft_of(root)
        self.references = references
        # By the identity of the object that has the `$ref`.
        self._targets: dict[int, tuple[Any, Document]] = {}
        self._by_uri: dict[str, Any] = {}
        self._anchors: dict[tuple[str, str], Any] = {}
        self._walked: set[int] = set()
        self._pending: list[tuple[dict[str, Any], str, str]] = []
        self.base = self._base_of(root, _NOWHERE)
        self._by_uri[self.base] = root
        self._walk(root, _NOWHERE)
        while self._pending:
            holder, base, ref = self._pending.pop()
            self._targets[id(holder)] = self._resolve(base, ref)

    def target(self, schema: dict[str, Any]) -> tuple[Any, Document] | None:
        """Return the target of the schema's `$ref`, or None."""
        return self._targets.get(id(schema))

    def _walk(self, root: Any, base: str) -> None:
        stack = [(root, base)]
        while stack:
            schema, base = stack.pop()
            if not isinstance(schema, dict) or id(schema) in self._walked:
                continue
            self._walked.add(id(schema))
            base = self._index(schema, base)
            for keyword in _REFS:
                if isinstance(schema.get(keyword), str):
                    self._pending.append((schema, base, schema[keyword]))
                    break
            stack.extend((child, base) for _, child in subschemas(schema))

    def _index(self, schema: dict[str, Any], base: str) -> str:
        base = self._base_of(schema, base)
        self._by_uri.setdefault(base, schema)
        for keyword in ("$id", "id"):
            anchor = schema.get(keyword)
            if isinstance(anchor, str) and anchor.startswith("#") and len(anchor) > 1:
                self._anchors[base, anchor[1:]] = schema
        for keyword in ("$anchor", "$dynamicAnchor"):
            if isinstance(schema.get(keyword), str):
                self._anchors[base, schema[keyword]] = schema
        return base

    def _base_of(self, schema: Any, base: str) -> str:
        if not isinstance(schema, dict):
            return base
        identifier = schema.get("id" if self.draft == 4 else "$id")
        # Until draft 7 keywords beside a `$ref` are ignored, except for the name of a whole document.
        if not isinstance(identifier, str) or (
            "$ref" in schema and self.draft <= 7 and schema is not self.root
        ):
            return base
        return _joined(base, urldefrag(identifier)[0])

    def _resolve(self, base: str, ref: str) -> tuple[Any, Document]:
        location, fragment = urldefrag(ref)
        uri = _joined(base, location)
        if not location:
            return self._at(self._by_uri.get(base, self.root), base, fragment, ref), self
        for name, document in self.references.items():
            if name in (location, ref) or _joined(base, name) == uri or document.base == uri:
                if name == ref and fragment and not urldefrag(name)[1]:
                    fragment = ""
                return document._at(document.root, document.base, fragment, ref), document
        if uri in self._by_uri:
            return self._at(self._by_uri[uri], uri, fragment, ref), self
        for document in self.references.values():
            if uri in document._by_uri:
                return document._at(document._by_uri[uri], uri, fragment, ref), document
        if uri.rstrip("#") in {meta.rstrip("#") for meta in META_SCHEMAS.values()}:
            # A schema that describes schemas: its content does not change.
            return True, self
        raise InvalidSchema(f'the reference "{ref}" does not resolve: no schema or reference has that name')

    def _at(self, node: Any, base: str, fragment: str, ref: str) -> Any:
        if not fragment:
            return node
        if not fragment.startswith("/"):
            found = self._anchors.get((base, unquote(fragment)))
            if found is None:
                raise InvalidSchema(f'the reference "{ref}" does not resolve: there is no such anchor')
            return found
        for token in unquote(fragment).split("/")[1:]:
            token = token.replace("~1", "/").replace("~0", "~")
            if isinstance(node, dict) and token in node:
                node = node[token]
            elif isinstance(node, list) and token.isdigit() and int(token) < len(node):
                node = node[int(token)]
            else:
                raise InvalidSchema(f'the reference "{ref}" does not resolve: "{token}" is not there')
        if not isinstance(node, dict | bool):
            raise InvalidSchema(f'the reference "{ref}" does not lead to a schema')
        self._walk(node, base)
        return node


def _joined(base: str, uri: str) -> str:
    try:
        return urljoin(base, uri)
    except ValueError:
        raise InvalidSchema(f'"{uri}" is not a valid URI') from None
