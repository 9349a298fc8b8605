"""`allOf`, `anyOf`, `oneOf`, `not`, `if`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ottla.registry.schemas.json_schema.document import Document
from ottla.registry.schemas.json_schema.values import same
from ottla.registry.schemas.json_schema.views import View, frozen
from ottla.registry.schemas.parsed import Incompatibility, Steps

if TYPE_CHECKING:
    from ottla.registry.schemas.json_schema.compatibility import Comparison

Result = list[Incompatibility]
Schema = tuple[Any, Document]


def compare_only(comparison: Comparison, reader: View, writer: View, path: str) -> Steps[Result | None]:
    """Compare schemas of which at least one is a pure combination. None: compare their parts."""
    if reader.only_combiner and writer.only_combiner:
        keywords = reader.only_combiner, writer.only_combiner
        compared: Result = yield _compare_lists(comparison, keywords[0], reader, keywords[1], writer, path)
        return compared
    if reader.only_combiner:
        if (yield _accepted_by(comparison, reader.only_combiner, reader, writer, path)):
            return []
        return None if writer.combiners else comparison.found("TYPE_CHANGED", path)
    parts = writer.combined(str(writer.only_combiner))
    results: list[Result] = []
    for part in parts:
        results.append((yield comparison.compare_views(reader, comparison.view(part), path)))
    if len(parts) == 1:
        return results[0]
    enough = any if writer.only_combiner == "allOf" else all
    if enough(not result for result in results):
        return []
    return None if reader.combiners else comparison.found("TYPE_CHANGED", path)


def compare_mixed(comparison: Comparison, reader: View, writer: View, path: str) -> Steps[Result]:
    """Compare the reader's combinations beside its other keywords."""
    result: Result = []
    for keyword in reader.combiners:
        if (yield _accepted_by(comparison, keyword, reader, writer, path)):
            continue
        partner = keyword if keyword in writer.combiners else next(iter(writer.combiners), None)
        if partner is None or (partner != keyword and partner in reader.combiners):
            result += comparison.found("TYPE_CHANGED", f"{path}/{keyword}")
        else:
            result += yield _compare_lists(comparison, keyword, reader, partner, writer, path)
    return result


def follows_from_part(comparison: Comparison, reader: View, writer: View, path: str) -> Steps[bool]:
    """Return True if one of the schemas that every writer instance satisfies is sufficient."""
    for part in writer.combined("allOf"):
        if not (yield comparison.compare_views(reader, comparison.view(part), path)):
            return True
    for keyword in ("anyOf", "oneOf"):
        parts = writer.combined(keyword)
        enough = bool(parts)
        for part in parts:
            if (yield comparison.compare_views(reader, comparison.view(part), path)):
                enough = False
                break
        if enough:
            return True
    return False


def _accepted_by(comparison: Comparison, keyword: str, reader: View, writer: View, path: str) -> Steps[bool]:
    """Return True if the writer as a whole fits one alternative, or all parts of a product."""
    accepted = []
    for part in reader.combined(keyword):
        fits = not (yield comparison.compare_views(comparison.view(part), writer, f"{path}/{keyword}"))
        if fits and keyword != "allOf":
            return True
        if not fits and keyword == "allOf":
            return False
        accepted.append(fits)
    if keyword == "anyOf" and writer.one_type_each:
        for each in writer.one_type_each:
            if not (yield _accepted_by(comparison, keyword, reader, each, path)):
                return False
        return True
    return all(accepted)


def _compare_lists(
    comparison: Comparison, keyword: str, reader: View, written_keyword: str, writer: View, path: str
) -> Steps[Result]:
    read = _distinct(reader.combined(keyword))
    written = _distinct(writer.combined(written_keyword))
    result: Result = []
    if keyword != written_keyword:
        widened = (
            keyword == "anyOf"
            or (len(read) == 1 and len(written) == 1)
            or (len(written) == 1 and keyword == "oneOf")
            or (len(read) == 1 and written_keyword == "allOf")
        )
        if not widened:
            return comparison.found("COMBINED_TYPE_CHANGED", path)
    if len(written) < len(read) and keyword == "allOf":
        result += comparison.found("PRODUCT_TYPE_EXTENDED", f"{path}/{keyword}")
    if len(written) > len(read) and written_keyword != "allOf":
        result += comparison.found("SUM_TYPE_NARROWED", f"{path}/{keyword}")
    pairs: list[list[int]] = []
    details: Result = []
    for index, old in enumerate(written):
        fitting = []
        for position, new in enumerate(read):
            found = yield comparison.compare(new, old, f"{path}/{written_keyword}/{index}")
            if not found:
                fitting.append(position)
            elif len(read) == 1 and len(written) == 1:
                details = found
        pairs.append(fitting)
    if _matched(pairs, len(read)) < min(len(read), len(written)):
        result += comparison.found("COMBINED_TYPE_SUBSCHEMAS_CHANGED", f"{path}/{keyword}")
    return result + details


def _distinct(schemas: list[Schema]) -> list[Schema]:
    found: dict[Any, Schema] = {}
    for schema, document in schemas:
        found.setdefault(frozen(schema), (schema, document))
    return list(found.values())


def _matched(pairs: list[list[int]], right: int) -> int:
    """Return the number of left items that can be paired with distinct right items."""
    owner: list[int | None] = [None] * right
    partner_of: list[int | None] = [None] * len(pairs)
    for start in range(len(pairs)):
        # Breadth first, so that long augmenting paths need no recursion.
        asked_by: dict[int, int] = {}
        queue = [start]
        free: int | None = None
        for current in queue:
            for candidate in pairs[current]:
                if candidate in asked_by:
                    continue
                asked_by[candidate] = current
                holder = owner[candidate]
                if holder is None:
                    free = candidate
                    break
                queue.append(holder)
            if free is not None:
                break
        while free is not None:
            asker = asked_by[free]
            given_up = partner_of[asker]
            owner[free], partner_of[asker] = asker, free
            free = given_up
    return sum(holder is not None for holder in owner)


def compare_not(comparison: Comparison, reader: View, writer: View, path: str) -> Steps[Result]:
    if "not" not in reader.words:
        return []
    path = f"{path}/not"
    refused = (reader.words["not"], reader.document)
    if "not" in writer.words:
        # The writer must already refuse everything that the reader refuses.
        if (yield comparison.compare((writer.words["not"], writer.document), refused, path)):
            return comparison.found("NOT_TYPE_EXTENDED", path)
        return []
    if not (comparison.view(refused).types & writer.types):
        return []
    return comparison.found("TYPE_CHANGED", path)


def compare_conditions(comparison: Comparison, reader: View, writer: View, path: str) -> Steps[Result]:
    if "if" not in reader.words or not ("then" in reader.words or "else" in reader.words):
        return []
    if "if" not in writer.words:
        return comparison.found("TYPE_CHANGED", f"{path}/if")
    conditions = (reader.words["if"], reader.document), (writer.words["if"], writer.document)
    if not same(comparison.view(conditions[0]), comparison.view(conditions[1])):
        return comparison.found("TYPE_CHANGED", f"{path}/if")
    result: Result = []
    for keyword in ("then", "else"):
        read = (reader.words.get(keyword, True), reader.document)
        written = (writer.words.get(keyword, True), writer.document)
        result += yield comparison.compare(read, written, f"{path}/{keyword}")
    return result
