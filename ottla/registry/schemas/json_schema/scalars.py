"""Types, single values, strings and numbers."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Any

from ottla.registry.schemas.json_schema.views import TYPES, View, frozen
from ottla.registry.schemas.parsed import Incompatibility

if TYPE_CHECKING:
    from ottla.registry.schemas.json_schema.compatibility import Comparison

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
