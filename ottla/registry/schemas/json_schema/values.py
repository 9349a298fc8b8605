"""Compatibility of types, single values, strings, numbers and arrays."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Any

from ottla.registry.schemas.json_schema.document import Document
from ottla.registry.schemas.json_schema.views import TYPES, View, frozen
from ottla.registry.schemas.parsed import Incompatibility, Steps

if TYPE_CHECKING:
    from ottla.registry.schemas.json_schema.compatibility import Comparison

# Check whether two schemas are literally equal, following their references.

_SILENT = frozenset(
    ("$schema", "$id", "id", "$comment", "$defs", "definitions", "title", "description", "examples")
)


def same(one: View, other: View) -> bool:
    stack: list[tuple[Any, Document, Any, Document]] = [
        (one.keywords, one.document, other.keywords, other.document)
    ]
    compared: set[tuple[int, int]] = set()
    while stack:
        left, left_document, right, right_document = stack.pop()
        if isinstance(left, dict) and isinstance(right, dict):
            if (id(left), id(right)) in compared:
                continue
            compared.add((id(left), id(right)))
            targets = left_document.target(left), right_document.target(right)
            if targets[0] is not None and targets[1] is not None:
                stack.append((*targets[0], *targets[1]))
            elif targets != (None, None):
                return False
            names = {name for name in (*left, *right) if name not in _SILENT and name != "$ref"}
            for name in names:
                if name not in left or name not in right:
                    return False
                stack.append((left[name], left_document, right[name], right_document))
        elif isinstance(left, list) and isinstance(right, list):
            if len(left) != len(right):
                return False
            stack.extend(
                (*pair[:1], left_document, *pair[1:], right_document)
                for pair in zip(left, right, strict=True)
            )
        elif frozen(left) != frozen(right):
            return False
    return True


# Types, single values, strings and numbers.

Result = list[Incompatibility]


def compare_types(comparison: Comparison, reader: View, writer: View, path: str) -> Result:
    missing = writer.types - reader.stated_types
    if not missing:
        return []
    if missing == {"number"} and "integer" in reader.stated_types:
        return comparison.found("TYPE_NARROWED", path)
    if writer.types != TYPES and reader.stated_types < writer.types and len(writer.types) > 1:
        return comparison.found("SUM_TYPE_NARROWED", path)
    return comparison.found("TYPE_CHANGED", path)


def compare_values(comparison: Comparison, reader: View, writer: View, path: str) -> Result:
    if reader.values is None:
        return []
    if writer.values is None:
        return comparison.found("TYPE_CHANGED", path)
    read = {frozen(value) for value in reader.values}
    written = {frozen(value) for value in writer.values}
    if written <= read:
        return []
    keyword = "const" if "const" in reader.words else "enum"
    return comparison.found(
        "ENUM_ARRAY_NARROWED" if read < written else "ENUM_ARRAY_CHANGED", f"{path}/{keyword}"
    )


def compare_strings(comparison: Comparison, reader: View, writer: View, path: str) -> Result:
    result = at_most(comparison, "maxLength", "MAX_LENGTH", reader, writer, path)
    result += at_least(comparison, "minLength", "MIN_LENGTH", reader, writer, path)
    pattern = reader.words.get("pattern")
    if pattern is not None and pattern != writer.words.get("pattern"):
        kind = "PATTERN_CHANGED" if "pattern" in writer.words else "PATTERN_ADDED"
        result += comparison.found(kind, f"{path}/pattern")
    return result


def compare_numbers(comparison: Comparison, reader: View, writer: View, path: str) -> Result:
    result = at_most(comparison, "maximum", "MAXIMUM", reader, writer, path)
    result += at_least(comparison, "minimum", "MINIMUM", reader, writer, path)
    result += at_most(comparison, "exclusiveMaximum", "EXCLUSIVE_MAXIMUM", reader, writer, path)
    result += at_least(comparison, "exclusiveMinimum", "EXCLUSIVE_MINIMUM", reader, writer, path)
    result += _multiples(comparison, reader, writer, path)
    return result


def _multiples(comparison: Comparison, reader: View, writer: View, path: str) -> Result:
    read, written = reader.words.get("multipleOf"), writer.words.get("multipleOf")
    if read is None or read == written:
        return []
    path = f"{path}/multipleOf"
    if written is None:
        return comparison.found("MULTIPLE_OF_ADDED", path)
    new, old = _exact(read), _exact(written)
    if old % new == 0:
        return []
    return comparison.found("MULTIPLE_OF_EXPANDED" if new % old == 0 else "MULTIPLE_OF_CHANGED", path)


def at_most(comparison: Comparison, keyword: str, kind: str, reader: View, writer: View, path: str) -> Result:
    read, written = reader.bound(keyword), writer.bound(keyword)
    if read is None or (written is not None and written <= read):
        return []
    return comparison.found(f"{kind}_{'ADDED' if written is None else 'DECREASED'}", f"{path}/{keyword}")


def at_least(
    comparison: Comparison, keyword: str, kind: str, reader: View, writer: View, path: str
) -> Result:
    read, written = reader.bound(keyword), writer.bound(keyword)
    if read is None or (written is not None and written >= read):
        return []
    return comparison.found(f"{kind}_{'ADDED' if written is None else 'INCREASED'}", f"{path}/{keyword}")


def _exact(value: Any) -> Fraction:
    return Fraction(repr(value)) if isinstance(value, float) else Fraction(value)


# Arrays: items by position, and additional items.

Schema = tuple[Any, Document]


def compare_arrays(comparison: Comparison, reader: View, writer: View, path: str) -> Steps[Result]:
    result = at_most(comparison, "maxItems", "MAX_ITEMS", reader, writer, path)
    result += at_least(comparison, "minItems", "MIN_ITEMS", reader, writer, path)
    if reader.words.get("uniqueItems") is True and writer.words.get("uniqueItems") is not True:
        result += comparison.found("UNIQUE_ITEMS_ADDED", f"{path}/uniqueItems")
    result += yield _items(comparison, reader, writer, path)
    result += yield _contains(comparison, reader, writer, path)
    if (
        reader.evaluates_elsewhere
        and reader.words.get("unevaluatedItems", True) not in (True, {})
        and not same(reader, writer)
    ):
        result += comparison.found("ADDITIONAL_ITEMS_NARROWED", f"{path}/unevaluatedItems")
    return result


def _items(comparison: Comparison, reader: View, writer: View, path: str) -> Steps[Result]:
    read, rest_read = _positions(reader)
    written, rest_written = _positions(writer)
    result: Result = []
    if not read and not written:
        result += yield comparison.compare(rest_read, rest_written, f"{path}/items")
        # Without a list of items the keyword has no effect, yet Confluent's registry compares it.
        idle = _idle_additional(reader), _idle_additional(writer)
        result += yield _rest(comparison, *idle, f"{path}/additionalItems")
        return result
    for index in range(max(len(read), len(written))):
        here = f"{path}/items/{index}"
        if index < len(read) and index < len(written):
            result += yield comparison.compare(read[index], written[index], here)
        elif index < len(read):
            result += yield _added(comparison, read[index], rest_written, here)
        else:
            result += yield _removed(comparison, written[index], rest_read, here)
    result += yield _rest(comparison, rest_read, rest_written, f"{path}/additionalItems")
    return result


def _added(comparison: Comparison, read: Schema, rest: Schema, path: str) -> Steps[Result]:
    others = comparison.view(rest)
    if others.accepts_nothing or comparison.view(read).accepts_all:
        return []
    if others.accepts_all:
        return comparison.found("ITEM_ADDED_TO_OPEN_CONTENT_MODEL", path)
    if (yield comparison.compare(read, rest, path)):
        return comparison.found("ITEM_ADDED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL", path)
    return []


def _removed(comparison: Comparison, written: Schema, rest: Schema, path: str) -> Steps[Result]:
    others = comparison.view(rest)
    if others.accepts_all or comparison.view(written).accepts_nothing:
        return []
    if others.accepts_nothing:
        return comparison.found("ITEM_REMOVED_FROM_CLOSED_CONTENT_MODEL", path)
    if (yield comparison.compare(rest, written, path)):
        return comparison.found("ITEM_REMOVED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL", path)
    return []


def _rest(comparison: Comparison, read: Schema, written: Schema, path: str) -> Steps[Result]:
    new, old = comparison.view(read), comparison.view(written)
    if new.accepts_all or old.accepts_nothing:
        return []
    if new.accepts_nothing:
        return comparison.found("ADDITIONAL_ITEMS_REMOVED", path)
    if old.accepts_all:
        return comparison.found("ADDITIONAL_ITEMS_NARROWED", path)
    return (yield comparison.compare(read, written, path))  # type: ignore[no-any-return]


def _positions(view: View) -> tuple[list[Schema], Schema]:
    """Return the schemas of the first items, and the schema of all others."""
    words, document = view.words, view.document
    items = words.get("items", True)
    if document.draft >= 2020:
        first, rest = words.get("prefixItems") or [], items
    elif isinstance(items, list):
        first, rest = items, words.get("additionalItems", True)
    else:
        first, rest = [], items
    if rest is True and not view.evaluates_elsewhere:
        rest = words.get("unevaluatedItems", True)
    return [(schema, document) for schema in first], (rest, document)


def _idle_additional(view: View) -> Schema:
    words, document = view.words, view.document
    return (words.get("additionalItems", True) if document.draft < 2020 else True), document


def _contains(comparison: Comparison, reader: View, writer: View, path: str) -> Steps[Result]:
    if "contains" not in reader.words:
        return []
    path = f"{path}/contains"
    if "contains" not in writer.words:
        return comparison.found("TYPE_CHANGED", path)
    read = (reader.words["contains"], reader.document)
    written = (writer.words["contains"], writer.document)
    least = (reader.words.get("minContains", 1), writer.words.get("minContains", 1))
    most = (reader.words.get("maxContains"), writer.words.get("maxContains"))
    if least[0] > least[1] or (most[0] is not None and (most[1] is None or most[0] < most[1])):
        return comparison.found("TYPE_CHANGED", path)
    if most[0] is not None and not same(comparison.view(read), comparison.view(written)):
        return comparison.found("TYPE_CHANGED", path)
    return (yield comparison.compare(read, written, path))  # type: ignore[no-any-return]
