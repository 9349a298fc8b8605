"""Arrays: items by position, and additional items."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ottla.registry.schemas.json_schema.document import Document
from ottla.registry.schemas.json_schema.sameness import same
from ottla.registry.schemas.json_schema.scalars import at_least, at_most
from ottla.registry.schemas.json_schema.views import View
from ottla.registry.schemas.parsed import Incompatibility
from ottla.registry.schemas.recursion import Steps

if TYPE_CHECKING:
    from ottla.registry.schemas.json_schema.compatibility import Comparison

Result = list[Incompatibility]
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
