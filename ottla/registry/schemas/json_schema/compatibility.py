"""Check whether every instance of one JSON Schema is an instance of another: Confluent's rules.

A schema is a conjunction of its keywords. Each requirement of the reader must follow from the same keyword of the
writer; keywords that are not understood must be equal in both. The answer "compatible" is therefore reliable, except
for three cases that Confluent allows: an added required property with a default, a required property without a schema,
and overlapping alternatives of a `oneOf`.
"""

from __future__ import annotations

from typing import Any

from ottla.registry.schemas.json_schema import combinations, objects
from ottla.registry.schemas.json_schema.document import Document
from ottla.registry.schemas.json_schema.values import (
    compare_arrays,
    compare_numbers,
    compare_strings,
    compare_types,
    compare_values,
)
from ottla.registry.schemas.json_schema.views import LENIENT, View, Views, incompatibility
from ottla.registry.schemas.parsed import Incompatibility, Steps, run

# Limit for hostile schemas that compare everything with everything.
_MAX_COMPARISONS = 50_000

Result = list[Incompatibility]


class _TooComplex(Exception):
    pass


def check_documents(reader: Document, writer: Document, policy: str) -> Result:
    comparison = Comparison(policy)
    first = comparison.compare((reader.root, reader), (writer.root, writer), "#")
    try:
        return list(dict.fromkeys(run(first)))
    except _TooComplex:
        return [incompatibility("TOO_COMPLEX", "#/")]


class Comparison:
    def __init__(self, policy: str) -> None:
        self._lenient = policy.upper() == "LENIENT"
        self._views = Views()
        # None during the comparison of a pair.
        self._pairs: dict[tuple[int, int], Result | None] = {}
        self._readable: list[tuple[int, int]] = []
        self._kept: list[View] = []
        self._left = _MAX_COMPARISONS

    def view(self, schema: tuple[Any, Document]) -> View:
        return self._views.of(*schema)

    def found(self, type_: str, path: str) -> Result:
        if self._lenient and type_ in LENIENT:
            return []
        return [incompatibility(type_, path if path != "#" else "#/")]

    def found_always(self, type_: str, path: str) -> Result:
        """Report regardless of the policy."""
        return [incompatibility(type_, path)]

    def compare(self, reader: tuple[Any, Document], writer: tuple[Any, Document], path: str) -> Steps[Result]:
        return (yield self.compare_views(self.view(reader), self.view(writer), path))  # type: ignore[no-any-return]

    def compare_views(self, reader: View, writer: View, path: str) -> Steps[Result]:
        if reader is writer or reader.accepts_all or writer.accepts_nothing:
            return []
        if reader.accepts_nothing:
            return self.found("TYPE_CHANGED", path)
        pair = (id(reader), id(writer))
        if pair in self._pairs:
            return self._pairs[pair] or []
        self._left -= 1
        if self._left < 0:
            raise _TooComplex
        # Their identities are keys, so they must outlive the comparison.
        self._kept += (reader, writer)
        self._pairs[pair] = None
        before = len(self._readable)
        result: Result = yield self._compare(reader, writer, path)
        self._pairs[pair] = result
        if result:
            # Inner pairs were found readable on the assumption that this pair is.
            for below in self._readable[before:]:
                del self._pairs[below]
            del self._readable[before:]
        else:
            self._readable.append(pair)
        return result

    def _compare(self, reader: View, writer: View, path: str) -> Steps[Result]:
        if reader.only_combiner or writer.only_combiner:
            result: Result | None = yield combinations.compare_only(self, reader, writer, path)
            if result is not None:
                return result
        result = []
        if reader.has_base:
            base: Result = yield self._base(reader, writer, path)
            if base and (yield combinations.follows_from_part(self, reader.base, writer, path)):
                base = []
            result += base
        result += yield combinations.compare_mixed(self, reader, writer, path)
        return result

    def _base(self, reader: View, writer: View, path: str) -> Steps[Result]:
        result = compare_types(self, reader, writer, path)
        if result:
            return result
        result += compare_values(self, reader, writer, path)
        if "string" in writer.types:
            result += compare_strings(self, reader, writer, path)
        if writer.types & {"number", "integer"}:
            result += compare_numbers(self, reader, writer, path)
        if "object" in writer.types:
            result += yield objects.compare_objects(self, reader, writer, path)
        if "array" in writer.types:
            result += yield compare_arrays(self, reader, writer, path)
        result += yield combinations.compare_not(self, reader, writer, path)
        result += yield combinations.compare_conditions(self, reader, writer, path)
        return result
