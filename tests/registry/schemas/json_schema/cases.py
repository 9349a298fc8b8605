"""Pairs of JSON Schemas with the verdict of Confluent's rules, as listed in its compatibility documentation."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Case:
    name: str
    old: Any
    new: Any
    expected: tuple[str, ...] = ()
    """The types and places of what is wrong if the new schema reads, `TYPE #/place`."""
    lenient: tuple[str, ...] | None = field(default=None)
    """The same under the policy LENIENT; None: the same as `expected`."""

    def texts(self) -> tuple[str, str]:
        return json.dumps(self.new), json.dumps(self.old)


STRING: Any = {"type": "string"}
INTEGER: Any = {"type": "integer"}
NUMBER: Any = {"type": "number"}
BOOLEAN: Any = {"type": "boolean"}
NULL: Any = {"type": "null"}
ARRAY: Any = {"type": "array"}
OBJECT: Any = {"type": "object"}
TYPES = {"string": STRING, "integer": INTEGER, "number": NUMBER, "boolean": BOOLEAN, "null": NULL, "array": ARRAY, "object": OBJECT}  # fmt: skip


def open_(*required: str, **properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, **({"required": list(required)} if required else {})}


def closed(*required: str, **properties: Any) -> dict[str, Any]:
    return {**open_(*required, **properties), "additionalProperties": False}


def partly(schema: Any, *required: str, **properties: Any) -> dict[str, Any]:
    return {**open_(*required, **properties), "additionalProperties": schema}


def patterned(patterns: dict[str, Any], additional: Any = False, **properties: Any) -> dict[str, Any]:
    return {**open_(**properties), "patternProperties": patterns, "additionalProperties": additional}


def every_type() -> Iterator[Case]:
    for old, old_schema in TYPES.items():
        for new, new_schema in TYPES.items():
            if old == new or (old, new) == ("integer", "number"):
                expected: tuple[str, ...] = ()
            elif (old, new) == ("number", "integer"):
                expected = ("TYPE_NARROWED",)
            else:
                expected = ("TYPE_CHANGED",)
            yield Case(f"{old} to {new}", old_schema, new_schema, tuple(f"{each} #/" for each in expected))
            if old <= new:
                at = tuple(f"{each} #/properties/a" for each in expected)
                yield Case(f"a property {old} to {new}", open_(a=old_schema), open_(a=new_schema), at)


def every_limit() -> Iterator[Case]:
    upper = {
        "maxLength": STRING,
        "maximum": NUMBER,
        "exclusiveMaximum": NUMBER,
        "maxItems": ARRAY,
        "maxProperties": OBJECT,
    }
    lower = {
        "minLength": STRING,
        "minimum": NUMBER,
        "exclusiveMinimum": NUMBER,
        "minItems": ARRAY,
        "minProperties": OBJECT,
    }
    for keyword, base in {**upper, **lower}.items():
        kind = "".join("_" + letter if letter.isupper() else letter for letter in keyword).upper()
        tighter, looser = (3, 9) if keyword in upper else (9, 3)
        change = "DECREASED" if keyword in upper else "INCREASED"
        yield Case(f"{keyword} added", base, {**base, keyword: 5}, (f"{kind}_ADDED #/{keyword}",))
        yield Case(f"{keyword} removed", {**base, keyword: 5}, base)
        yield Case(f"{keyword} relaxed", {**base, keyword: 5}, {**base, keyword: looser})
        yield Case(
            f"{keyword} tightened",
            {**base, keyword: 5},
            {**base, keyword: tighter},
            (f"{kind}_{change} #/{keyword}",),
        )
        yield Case(f"{keyword} the same", {**base, keyword: 5}, {**base, keyword: 5})
        yield Case(
            f"{keyword} tightened in a property",
            open_(p={**base, keyword: 5}),
            open_(p={**base, keyword: tighter}),
            (f"{kind}_{change} #/properties/p/{keyword}",),
        )


SCALARS = [
    Case("pattern added", STRING, {**STRING, "pattern": "a"}, ("PATTERN_ADDED #/pattern",)),
    Case("pattern removed", {**STRING, "pattern": "a"}, STRING),
    Case("pattern changed", {**STRING, "pattern": "a"}, {**STRING, "pattern": "b"}, ("PATTERN_CHANGED #/pattern",)),
    Case("pattern the same", {**STRING, "pattern": "a"}, {**STRING, "pattern": "a"}),
    Case("format added", STRING, {**STRING, "format": "date"}),
    Case("format changed", {**STRING, "format": "time"}, {**STRING, "format": "date"}),
    Case("title, description and default changed", {**STRING, "title": "a"}, {**STRING, "description": "b", "default": ""}),
    Case("multipleOf added", NUMBER, {**NUMBER, "multipleOf": 2}, ("MULTIPLE_OF_ADDED #/multipleOf",)),
    Case("multipleOf removed", {**NUMBER, "multipleOf": 2}, NUMBER),
    Case("multipleOf reduced", {**NUMBER, "multipleOf": 10}, {**NUMBER, "multipleOf": 5}),
    Case("multipleOf expanded", {**NUMBER, "multipleOf": 5}, {**NUMBER, "multipleOf": 10}, ("MULTIPLE_OF_EXPANDED #/multipleOf",)),
    Case("multipleOf changed", {**NUMBER, "multipleOf": 5}, {**NUMBER, "multipleOf": 3}, ("MULTIPLE_OF_CHANGED #/multipleOf",)),
    Case("multipleOf of fractions", {**NUMBER, "multipleOf": 0.3}, {**NUMBER, "multipleOf": 0.1}),
    Case("two limits at once", NUMBER, {**NUMBER, "minimum": 1, "maximum": 2}, ("MAXIMUM_ADDED #/maximum", "MINIMUM_ADDED #/minimum")),
    Case("a limit of another type does not matter", STRING, {**STRING, "maximum": 1, "maxItems": 1, "required": ["a"]}),
    Case("limits with a type that grows", {**INTEGER, "minimum": 5}, {**NUMBER, "minimum": 5}),
    Case("enum extended", {"enum": ["a"]}, {"enum": ["a", "b"]}),
    Case("enum narrowed", {"enum": ["a", "b"]}, {"enum": ["a"]}, ("ENUM_ARRAY_NARROWED #/enum",)),
    Case("enum changed", {"enum": ["a", "b"]}, {"enum": ["a", "c"]}, ("ENUM_ARRAY_CHANGED #/enum",)),
    Case("enum in another order", {"enum": ["a", "b"]}, {"enum": ["b", "a"]}),
    Case("enum added", STRING, {**STRING, "enum": ["a"]}, ("TYPE_CHANGED #/",)),
    Case("enum removed", {**STRING, "enum": ["a"]}, STRING),
    Case("enum of mixed values", {"enum": [1, "a", None]}, {"enum": [None, "a", 1, 2]}),
    Case("true is not one", {"enum": [True]}, {"enum": [1]}, ("ENUM_ARRAY_CHANGED #/enum",)),
    Case("enum without type becomes a type", {"enum": ["a", 1]}, {"type": ["string", "integer"]}),
    Case("one is one", {"enum": [1]}, {"enum": [1.0]}),
    Case("enum of objects", {"enum": [{"a": 1, "b": 2}]}, {"enum": [{"b": 2, "a": 1}]}),
    Case("const the same", {"const": 1}, {"const": 1}),
    Case("const changed", {"const": 1}, {"const": 2}, ("ENUM_ARRAY_CHANGED #/const",)),
    Case("const becomes an enum with it", {"const": 1}, {"enum": [1, 2]}),
    Case("const becomes an enum without it", {"const": 1}, {"enum": [2, 3]}, ("ENUM_ARRAY_CHANGED #/enum",)),
    Case("const removed", {"const": "a"}, STRING),
    Case("const added", STRING, {"const": "a", "type": "string"}, ("TYPE_CHANGED #/",)),
    Case("types extended", STRING, {"type": ["string", "null"]}),
    Case("types narrowed", {"type": ["string", "null"]}, STRING, ("SUM_TYPE_NARROWED #/",)),
    Case("types changed", {"type": ["string", "null"]}, {"type": ["string", "integer"]}, ("TYPE_CHANGED #/",)),
    Case("types in another order", {"type": ["string", "null"]}, {"type": ["null", "string"]}),
    Case("types with a number that grows", {"type": ["integer", "null"]}, {"type": ["number", "null"]}),
    Case("types with a number that shrinks", {"type": ["number", "null"]}, {"type": ["integer", "null"]}, ("TYPE_NARROWED #/",)),
    Case("a type added", {}, STRING, ("TYPE_CHANGED #/",)),
    Case("a type removed", STRING, {}),
    Case("true to a type", True, STRING, ("TYPE_CHANGED #/",)),
    Case("a type to true", STRING, True),
    Case("false to a type", False, STRING),
    Case("a type to false", STRING, False, ("TYPE_CHANGED #/",)),
    Case("true to an empty schema", True, {}),
    Case("an empty schema to true", {}, True),
    Case("false to false", False, False),
]  # fmt: skip

OPTIONAL_OPEN = "OPTIONAL_PROPERTY_ADDED_TO_OPEN_CONTENT_MODEL"
REQUIRED_OPEN = "REQUIRED_PROPERTY_ADDED_TO_OPEN_CONTENT_MODEL"
DEFAULT_OPEN = "REQUIRED_PROPERTY_WITH_DEFAULT_ADDED_TO_OPEN_CONTENT_MODEL"
REQUIRED_UNOPEN = "REQUIRED_PROPERTY_ADDED_TO_UNOPEN_CONTENT_MODEL"
REMOVED_CLOSED = "PROPERTY_REMOVED_FROM_CLOSED_CONTENT_MODEL"
REMOVED_UNCOVERED = "PROPERTY_REMOVED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL"
ADDED_UNCOVERED = "PROPERTY_ADDED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL"
WITH_DEFAULT = {**STRING, "default": ""}
B = "#/properties/b"

# The 24 combinations of adding and removing, open and closed, required and optional, under both policies.
CONTENT_MODELS = [
    Case("optional added to open", open_(a=STRING), open_(a=STRING, b=STRING), (f"{OPTIONAL_OPEN} {B}",), ()),
    Case("required added to open", open_(a=STRING), open_("b", a=STRING, b=STRING), (f"{REQUIRED_OPEN} {B}",)),
    Case("required with default added to open", open_(a=STRING), open_("b", a=STRING, b=WITH_DEFAULT), (f"{DEFAULT_OPEN} {B}",), ()),
    Case("optional added to closed", closed(a=STRING), closed(a=STRING, b=STRING)),
    Case("required added to closed", closed(a=STRING), closed("b", a=STRING, b=STRING), (f"{REQUIRED_UNOPEN} {B}",)),
    Case("required with default added to closed", closed(a=STRING), closed("b", a=STRING, b=WITH_DEFAULT)),
    Case("optional removed from open", open_(a=STRING, b=STRING), open_(a=STRING)),
    Case("required removed from open", open_("b", a=STRING, b=STRING), open_(a=STRING)),
    Case("required with default removed from open", open_("b", a=STRING, b=WITH_DEFAULT), open_(a=STRING)),
    Case("optional removed from closed", closed(a=STRING, b=STRING), closed(a=STRING), (f"{REMOVED_CLOSED} {B}",), ()),
    Case("required removed from closed", closed("b", a=STRING, b=STRING), closed(a=STRING), (f"{REMOVED_CLOSED} {B}",)),
    Case("required with default removed from closed", closed("b", a=STRING, b=WITH_DEFAULT), closed(a=STRING), (f"{REMOVED_CLOSED} {B}",)),
]  # fmt: skip

OBJECTS = [
    Case("an empty schema added to open", open_(a=STRING), open_(a=STRING, b={})),
    Case("true added to open", open_(a=STRING), open_(a=STRING, b=True)),
    Case("an empty schema added and required", open_(a=STRING), open_("b", a=STRING, b={}), ("REQUIRED_ATTRIBUTE_ADDED #/required/b",)),
    Case("false added to closed", closed(a=STRING), closed(a=STRING, b=False)),
    Case("false removed from closed", closed(a=STRING, b=False), closed(a=STRING)),
    Case("false removed from open", open_(a=STRING, b=False), open_(a=STRING)),
    Case("a property changes its type", open_(a=STRING), open_(a=INTEGER), ("TYPE_CHANGED #/properties/a",)),
    Case("a property is widened", open_(a=INTEGER), open_(a=NUMBER)),
    Case("two properties change", open_(a=STRING, b=STRING), open_(a=INTEGER, b=INTEGER), ("TYPE_CHANGED #/properties/a", f"TYPE_CHANGED {B}")),
    Case("a property is renamed in closed", closed(a=STRING), closed(b=STRING), (f"{REMOVED_CLOSED} #/properties/a",), ()),
    Case("a property is renamed in open", open_(a=STRING), open_(b=STRING), (f"{OPTIONAL_OPEN} {B}",), ()),
    Case("closed becomes open", closed(a=STRING), open_(a=STRING)),
    Case("open becomes closed", open_(a=STRING), closed(a=STRING), ("ADDITIONAL_PROPERTIES_REMOVED #/additionalProperties",), ()),
    Case("open becomes partly open", open_(a=STRING), partly(STRING, a=STRING), ("ADDITIONAL_PROPERTIES_NARROWED #/additionalProperties",), ()),
    Case("partly open becomes open", partly(STRING, a=STRING), open_(a=STRING)),
    Case("partly open becomes closed", partly(STRING, a=STRING), closed(a=STRING), ("ADDITIONAL_PROPERTIES_REMOVED #/additionalProperties",), ()),
    Case("closed becomes partly open", closed(a=STRING), partly(STRING, a=STRING)),
    Case("additionalProperties is widened", partly(INTEGER), partly(NUMBER)),
    Case("additionalProperties changes its type", partly(INTEGER), partly(STRING), ("TYPE_CHANGED #/additionalProperties",)),
    Case("additionalProperties becomes the empty schema", partly(INTEGER), partly({})),
    Case("additionalProperties was the empty schema", partly({}), open_()),
    Case("a covered property added", partly(STRING, a=STRING), partly(STRING, a=STRING, b=STRING)),
    Case("a property added that is not covered", partly(STRING, a=STRING), partly(STRING, a=STRING, b=INTEGER), (f"TYPE_CHANGED {B}", f"{ADDED_UNCOVERED} {B}"), (f"TYPE_CHANGED {B}",)),
    Case("a covered property added and required", partly(STRING), partly(STRING, "b", b=STRING), (f"{REQUIRED_UNOPEN} {B}",)),
    Case("a covered property added and required with default", partly(STRING), partly(STRING, "b", b=WITH_DEFAULT)),
    Case("a covered property removed", partly(STRING, a=STRING, b=STRING), partly(STRING, a=STRING)),
    Case("a property removed that is not covered", partly(STRING, a=STRING, b=INTEGER), partly(STRING, a=STRING),
         (f"TYPE_CHANGED {B}", f"{REMOVED_UNCOVERED} {B}"), (f"TYPE_CHANGED {B}",)),
    Case("a property added under a pattern", patterned({"^s": STRING}), patterned({"^s": STRING}, sb=STRING)),
    Case("a property added against a pattern", patterned({"^s": STRING}), patterned({"^s": STRING}, sb=INTEGER),
         ("TYPE_CHANGED #/properties/sb", f"{ADDED_UNCOVERED} #/properties/sb"), ("TYPE_CHANGED #/properties/sb",)),
    Case("a property added beside a pattern", patterned({"^s": STRING}), patterned({"^s": STRING}, b=STRING)),
    Case("a property removed under a pattern", patterned({"^s": STRING}, sb=STRING), patterned({"^s": STRING})),
    Case("a property removed against a pattern", patterned({"^s": STRING}, sb={"type": ["string", "integer"]}), patterned({"^s": STRING}),
         ("SUM_TYPE_NARROWED #/properties/sb", f"{REMOVED_UNCOVERED} #/properties/sb"), ("SUM_TYPE_NARROWED #/properties/sb",)),
    Case("a property removed beside a pattern", patterned({"^s": STRING}, b=STRING), patterned({"^s": STRING}), (f"{REMOVED_UNCOVERED} {B}",), ()),
    Case("a pattern is widened", patterned({"^s": INTEGER}), patterned({"^s": NUMBER})),
    Case("a pattern changes its type", patterned({"^s": INTEGER}), patterned({"^s": STRING}), ("TYPE_CHANGED #/patternProperties/^s",)),
    Case("a pattern added to open", open_(), patterned({"^s": STRING}, True), (f"{OPTIONAL_OPEN} #/patternProperties/^s",), ()),
    Case("a pattern added to closed", closed(), patterned({"^s": STRING})),
    Case("a pattern removed from closed", patterned({"^s": STRING}), closed(), (f"{REMOVED_CLOSED} #/patternProperties/^s",), ()),
    Case("a pattern removed from open", patterned({"^s": STRING}, True), open_()),
    Case("a pattern added that holds for a property", {**closed(sa=INTEGER)}, patterned({"^s": STRING}, sa=INTEGER), ("TYPE_CHANGED #/properties/sa",)),
    Case("a property becomes required", open_(a=STRING), open_("a", a=STRING), ("REQUIRED_ATTRIBUTE_ADDED #/required/a",)),
    Case("a property with default becomes required", open_(a=WITH_DEFAULT), open_("a", a=WITH_DEFAULT)),
    Case("a property is no longer required", open_("a", a=STRING), open_(a=STRING)),
    Case("two properties become required", open_(a=STRING, b=STRING), open_("a", "b", a=STRING, b=STRING),
         ("REQUIRED_ATTRIBUTE_ADDED #/required/a", "REQUIRED_ATTRIBUTE_ADDED #/required/b")),
    Case("something unknown becomes required", OBJECT, {**OBJECT, "required": ["x"]}),
    Case("something unknown becomes required instead of a property", open_("a", a=STRING), open_("x", a=STRING)),
    Case("a property inside a model that is partly open", partly(STRING, o=closed(a=STRING, b=STRING)), partly(STRING, o=closed(a=STRING)),
         (f"{REMOVED_CLOSED} #/properties/o/properties/b",), ()),
    Case("an object that is covered but for one property", partly(closed(a=STRING), o=closed(a=STRING, b=STRING)), partly(closed(a=STRING)),
         (f"{REMOVED_CLOSED} #/properties/o/properties/b", f"{REMOVED_UNCOVERED} #/properties/o"), ()),
    Case("an object inside becomes closed", open_(o=open_(a=STRING)), open_(o=closed(a=STRING)),
         ("ADDITIONAL_PROPERTIES_REMOVED #/properties/o/additionalProperties",), ()),
    Case("an object inside gets a property", closed(o=closed(a=STRING)), closed(o=closed(a=STRING, b=STRING))),
    Case("an object inside loses a property", closed(o=closed(a=STRING, b=STRING)), closed(o=closed(a=STRING)), (f"{REMOVED_CLOSED} #/properties/o/properties/b",), ()),
    Case("a dependency added", OBJECT, {**OBJECT, "dependencies": {"a": ["b"]}}, ("DEPENDENCY_ARRAY_ADDED #/dependencies/a",)),
    Case("a dependency removed", {**OBJECT, "dependencies": {"a": ["b"]}}, OBJECT),
    Case("a dependency extended", {**OBJECT, "dependencies": {"a": ["b"]}}, {**OBJECT, "dependencies": {"a": ["b", "c"]}},
         ("DEPENDENCY_ARRAY_EXTENDED #/dependencies/a",)),
    Case("a dependency narrowed", {**OBJECT, "dependencies": {"a": ["b", "c"]}}, {**OBJECT, "dependencies": {"a": ["b"]}}),
    Case("a dependency changed", {**OBJECT, "dependencies": {"a": ["b"]}}, {**OBJECT, "dependencies": {"a": ["c"]}},
         ("DEPENDENCY_ARRAY_CHANGED #/dependencies/a",)),
    Case("a dependent schema added", OBJECT, {**OBJECT, "dependencies": {"a": open_(b=STRING)}}, ("DEPENDENCY_SCHEMA_ADDED #/dependencies/a",)),
    Case("a dependent schema removed", {**OBJECT, "dependencies": {"a": open_(b=STRING)}}, OBJECT),
    Case("a dependent schema changed", {**OBJECT, "dependencies": {"a": open_(b=STRING)}}, {**OBJECT, "dependencies": {"a": open_(b=INTEGER)}},
         ("TYPE_CHANGED #/dependencies/a/properties/b",)),
    Case("names of properties restricted", OBJECT, {**OBJECT, "propertyNames": {"maxLength": 3}}, ("MAX_LENGTH_ADDED #/propertyNames/maxLength",)),
    Case("names of properties freed", {**OBJECT, "propertyNames": {"maxLength": 3}}, OBJECT),
    Case("names of properties relaxed", {**OBJECT, "propertyNames": {"maxLength": 3}}, {**OBJECT, "propertyNames": {"maxLength": 4}}),
]  # fmt: skip


def tuple_(*items: Any, rest: Any = True) -> dict[str, Any]:
    return {"type": "array", "items": list(items), "additionalItems": rest}


def list_(items: Any, **keywords: Any) -> dict[str, Any]:
    return {"type": "array", "items": items, **keywords}


ARRAYS = [
    Case("items the same", list_(STRING), list_(STRING)),
    Case("items widened", list_(INTEGER), list_(NUMBER)),
    Case("items narrowed", list_(NUMBER), list_(INTEGER), ("TYPE_NARROWED #/items",)),
    Case("items changed", list_(STRING), list_(INTEGER), ("TYPE_CHANGED #/items",)),
    Case("items added", ARRAY, list_(STRING), ("TYPE_CHANGED #/items",)),
    Case("items removed", list_(STRING), ARRAY),
    Case("uniqueItems added", ARRAY, {**ARRAY, "uniqueItems": True}, ("UNIQUE_ITEMS_ADDED #/uniqueItems",)),
    Case("uniqueItems removed", {**ARRAY, "uniqueItems": True}, ARRAY),
    Case("uniqueItems false", ARRAY, {**ARRAY, "uniqueItems": False}),
    Case("an item changes its type", tuple_(STRING), tuple_(INTEGER), ("TYPE_CHANGED #/items/0",)),
    Case("an item is widened", tuple_(STRING, INTEGER), tuple_(STRING, NUMBER)),
    Case("an item added to open", tuple_(STRING), tuple_(STRING, STRING), ("ITEM_ADDED_TO_OPEN_CONTENT_MODEL #/items/1",)),
    Case("an empty item added to open", tuple_(STRING), tuple_(STRING, {})),
    Case("an item added to closed", tuple_(STRING, rest=False), tuple_(STRING, STRING, rest=False)),
    Case("a covered item added", tuple_(STRING, rest=INTEGER), tuple_(STRING, NUMBER, rest=INTEGER)),
    Case("an item added that is not covered", tuple_(STRING, rest=INTEGER), tuple_(STRING, STRING, rest=INTEGER),
         ("ITEM_ADDED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL #/items/1",)),
    Case("an item removed from open", tuple_(STRING, STRING), tuple_(STRING)),
    Case("an item removed from closed", tuple_(STRING, STRING, rest=False), tuple_(STRING, rest=False),
         ("ITEM_REMOVED_FROM_CLOSED_CONTENT_MODEL #/items/1",)),
    Case("a false item removed from closed", tuple_(STRING, False, rest=False), tuple_(STRING, rest=False)),
    Case("a covered item removed", tuple_(STRING, INTEGER, rest=NUMBER), tuple_(STRING, rest=NUMBER)),
    Case("an item removed that is not covered", tuple_(STRING, STRING, rest=NUMBER), tuple_(STRING, rest=NUMBER),
         ("ITEM_REMOVED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL #/items/1",)),
    Case("additionalItems removed", tuple_(STRING), tuple_(STRING, rest=False), ("ADDITIONAL_ITEMS_REMOVED #/additionalItems",)),
    Case("additionalItems added", tuple_(STRING, rest=False), tuple_(STRING)),
    Case("additionalItems narrowed", tuple_(STRING), tuple_(STRING, rest=INTEGER), ("ADDITIONAL_ITEMS_NARROWED #/additionalItems",)),
    Case("additionalItems extended", tuple_(STRING, rest=INTEGER), tuple_(STRING)),
    Case("additionalItems changed", tuple_(STRING, rest=INTEGER), tuple_(STRING, rest=STRING), ("TYPE_CHANGED #/additionalItems",)),
    Case("additionalItems removed without items", ARRAY, {**ARRAY, "additionalItems": False}, ("ADDITIONAL_ITEMS_REMOVED #/additionalItems",)),
    Case("additionalItems narrowed without items", ARRAY, {**ARRAY, "additionalItems": STRING}, ("ADDITIONAL_ITEMS_NARROWED #/additionalItems",)),
    Case("additionalItems narrowed beside items", list_(STRING), {**list_(STRING), "additionalItems": STRING}, ("ADDITIONAL_ITEMS_NARROWED #/additionalItems",)),
    Case("additionalItems extended without items", {**ARRAY, "additionalItems": False}, ARRAY),
    Case("contains added", ARRAY, {**ARRAY, "contains": STRING}, ("TYPE_CHANGED #/contains",)),
    Case("contains removed", {**ARRAY, "contains": STRING}, ARRAY),
    Case("contains widened", {**ARRAY, "contains": INTEGER}, {**ARRAY, "contains": NUMBER}),
    Case("contains changed", {**ARRAY, "contains": INTEGER}, {**ARRAY, "contains": STRING}, ("TYPE_CHANGED #/contains",)),
    Case("items of objects get a property", list_(closed(a=STRING)), list_(closed(a=STRING, b=STRING))),
    Case("items of objects lose a property", list_(closed(a=STRING, b=STRING)), list_(closed(a=STRING)), (f"{REMOVED_CLOSED} #/items/properties/b",), ()),
    Case("lists of lists", list_(list_(STRING)), list_(list_(INTEGER)), ("TYPE_CHANGED #/items/items",)),
    Case("a list becomes a tuple", list_(STRING), tuple_(STRING, rest=STRING)),
    Case("a tuple becomes a list", tuple_(STRING, rest=STRING), list_(STRING)),
]  # fmt: skip


def any_of(*schemas: Any) -> dict[str, Any]:
    return {"anyOf": list(schemas)}


def one_of(*schemas: Any) -> dict[str, Any]:
    return {"oneOf": list(schemas)}


def all_of(*schemas: Any) -> dict[str, Any]:
    return {"allOf": list(schemas)}


SHORT = {**STRING, "maxLength": 3}
LONG = {**STRING, "minLength": 1}


def every_sum() -> Iterator[Case]:
    for keyword in ("anyOf", "oneOf"):

        def sum_(*schemas: Any, keyword: str = keyword) -> dict[str, Any]:
            return {keyword: list(schemas)}

        yield Case(f"{keyword} the same", sum_(STRING, INTEGER), sum_(STRING, INTEGER))
        yield Case(f"{keyword} in another order", sum_(STRING, INTEGER), sum_(INTEGER, STRING))
        yield Case(f"{keyword} extended", sum_(STRING, INTEGER), sum_(STRING, INTEGER, NULL))
        yield Case(
            f"{keyword} narrowed",
            sum_(STRING, INTEGER, NULL),
            sum_(STRING, INTEGER),
            (f"SUM_TYPE_NARROWED #/{keyword}",),
        )
        yield Case(
            f"{keyword} changed",
            sum_(STRING, INTEGER),
            sum_(STRING, NULL),
            (f"COMBINED_TYPE_SUBSCHEMAS_CHANGED #/{keyword}",),
        )
        yield Case(f"{keyword} widened", sum_(STRING, INTEGER), sum_(STRING, NUMBER))
        yield Case(
            f"{keyword} extended and changed",
            sum_(STRING, INTEGER),
            sum_(STRING, NULL, BOOLEAN),
            (f"COMBINED_TYPE_SUBSCHEMAS_CHANGED #/{keyword}",),
        )
        yield Case(f"a type becomes {keyword} with it", STRING, sum_(STRING, INTEGER))
        yield Case(
            f"a type becomes {keyword} without it", STRING, sum_(BOOLEAN, INTEGER), ("TYPE_CHANGED #/",)
        )
        yield Case(f"a type becomes {keyword} that widens it", INTEGER, sum_(STRING, NUMBER))
        yield Case(f"{keyword} becomes one of its types", sum_(STRING, INTEGER), STRING, ("TYPE_CHANGED #/",))
        yield Case(f"{keyword} of one becomes its type", sum_(STRING), STRING)
        yield Case(f"a type becomes {keyword} of one", STRING, sum_(STRING))
        yield Case(f"{keyword} of one changes", sum_(STRING), INTEGER, ("TYPE_CHANGED #/",))
        yield Case(f"{keyword} becomes true", sum_(STRING, INTEGER), True)
        yield Case(f"{keyword} becomes a list of types", sum_(STRING, NULL), {"type": ["string", "null"]})
        yield Case(
            f"a list of types becomes {keyword}",
            {"type": ["string", "null"]},
            sum_(STRING, NULL, INTEGER),
            () if keyword == "anyOf" else ("TYPE_CHANGED #/",),
        )
        yield Case(
            f"{keyword} in a property narrowed",
            open_(a=sum_(STRING, INTEGER)),
            open_(a=sum_(STRING)),
            (f"SUM_TYPE_NARROWED #/properties/a/{keyword}",),
        )
        yield Case(f"a property becomes {keyword}", open_(a=STRING), open_(a=sum_(STRING, NULL)))
        yield Case(f"{keyword} with a repeated type", sum_(STRING, STRING), sum_(STRING))
        yield Case(
            f"{keyword} of objects extended",
            sum_(closed(a=STRING), closed(b=STRING)),
            sum_(closed(a=STRING), closed(b=STRING), closed(c=STRING)),
        )
        yield Case(
            f"{keyword} beside other keywords the same",
            {**OBJECT, keyword: [open_("a"), open_("b")]},
            {**OBJECT, keyword: [open_("a"), open_("b")]},
        )
        yield Case(
            f"{keyword} beside other keywords removed", {**OBJECT, keyword: [open_("a"), open_("b")]}, OBJECT
        )
        yield Case(
            f"{keyword} beside other keywords added",
            OBJECT,
            {**OBJECT, keyword: [open_("a"), open_("b")]},
            (f"TYPE_CHANGED #/{keyword}",),
        )


COMBINATIONS = [
    Case("oneOf becomes anyOf", one_of(STRING, INTEGER), any_of(STRING, INTEGER)),
    Case("anyOf becomes oneOf", any_of(STRING, INTEGER), one_of(STRING, INTEGER), ("COMBINED_TYPE_CHANGED #/",)),
    Case("allOf becomes anyOf", all_of(SHORT, LONG), any_of(SHORT, LONG)),
    Case("anyOf becomes allOf", any_of(SHORT, LONG), all_of(SHORT, LONG), ("COMBINED_TYPE_CHANGED #/",)),
    Case("oneOf becomes allOf", one_of(SHORT, LONG), all_of(SHORT, LONG), ("COMBINED_TYPE_CHANGED #/",)),
    Case("allOf of one becomes oneOf", all_of(STRING), one_of(STRING, INTEGER)),
    Case("allOf becomes oneOf of one", all_of(SHORT, LONG), one_of(SHORT)),
    Case("anyOf of one becomes allOf of one", any_of(STRING), all_of(STRING)),
    Case("oneOf narrowed and anyOf", one_of(STRING, INTEGER, NULL), any_of(STRING, INTEGER), ("SUM_TYPE_NARROWED #/anyOf",)),
    Case("allOf the same", all_of(SHORT, LONG), all_of(SHORT, LONG)),
    Case("allOf in another order", all_of(SHORT, LONG), all_of(LONG, SHORT)),
    Case("allOf narrowed", all_of(SHORT, LONG), all_of(SHORT)),
    Case("allOf extended", all_of(SHORT), all_of(SHORT, LONG), ("PRODUCT_TYPE_EXTENDED #/allOf",)),
    Case("allOf changed", all_of(SHORT, LONG), all_of(SHORT, INTEGER), ("COMBINED_TYPE_SUBSCHEMAS_CHANGED #/allOf",)),
    Case("allOf becomes one of its parts", all_of(SHORT, LONG), SHORT),
    Case("allOf becomes another type", all_of(SHORT, LONG), INTEGER, ("TYPE_CHANGED #/",)),
    Case("a type becomes allOf with more", SHORT, all_of(SHORT, LONG), ("TYPE_CHANGED #/",)),
    Case("a type becomes allOf of what it is", {**SHORT, "minLength": 1}, all_of(SHORT, LONG)),
    Case("allOf beside properties the same", {**open_(a=STRING), "allOf": [open_(b=STRING)]}, {**open_(a=STRING), "allOf": [open_(b=STRING)]}),
    Case("allOf beside properties removed", {**open_(a=STRING), "allOf": [open_(b=STRING)]}, open_(a=STRING)),
    Case("not the same", {"not": STRING}, {"not": STRING}),
    Case("not narrowed", {"not": {"type": ["string", "null"]}}, {"not": STRING}),
    Case("not extended", {"not": STRING}, {"not": {"type": ["string", "null"]}}, ("NOT_TYPE_EXTENDED #/not",)),
    Case("not changed", {"not": STRING}, {"not": INTEGER}, ("NOT_TYPE_EXTENDED #/not",)),
    Case("not removed", {"not": STRING}, {}),
    Case("not added", {}, {"not": STRING}, ("TYPE_CHANGED #/not",)),
    Case("not added that never applies", STRING, {**STRING, "not": NULL}),
    Case("a condition the same", {"if": STRING, "then": SHORT}, {"if": STRING, "then": SHORT}),
    Case("a condition removed", {"if": STRING, "then": SHORT}, {}),
    Case("a condition added", {}, {"if": STRING, "then": SHORT}, ("TYPE_CHANGED #/if",)),
    Case("a consequence relaxed", {"if": STRING, "then": SHORT}, {"if": STRING, "then": {**STRING, "maxLength": 4}}),
    Case("a consequence tightened", {"if": STRING, "then": SHORT}, {"if": STRING, "then": {**STRING, "maxLength": 2}}, ("MAX_LENGTH_DECREASED #/then/maxLength",)),
    Case("an alternative added", {"if": STRING, "then": SHORT}, {"if": STRING, "then": SHORT, "else": INTEGER}, ("TYPE_CHANGED #/else",)),
    Case("another condition", {"if": STRING, "then": SHORT}, {"if": INTEGER, "then": SHORT}, ("TYPE_CHANGED #/if",)),
    Case("a condition without consequence", {}, {"if": STRING}),
    Case("events of one topic extended", one_of({"$ref": "#/definitions/a"}), one_of({"$ref": "#/definitions/a"}, {"$ref": "#/definitions/b"})),
]  # fmt: skip
# References need their definitions.
COMBINATIONS[-1] = Case(
    COMBINATIONS[-1].name,
    {**COMBINATIONS[-1].old, "definitions": {"a": open_(x=STRING), "b": open_(y=STRING)}},
    {**COMBINATIONS[-1].new, "definitions": {"a": open_(x=STRING), "b": open_(y=STRING)}},
)


def referring(definition: Any, name: str = "d", keyword: str = "definitions") -> dict[str, Any]:
    return {**open_(r={"$ref": f"#/{keyword}/{name}"}), keyword: {name: definition}}


def node(value: Any, **more: Any) -> dict[str, Any]:
    return {
        "$ref": "#/definitions/n",
        "definitions": {"n": closed(value=value, next={"$ref": "#/definitions/n"}, **more)},
    }


REFERENCES = [
    Case("a definition changes", referring(STRING), referring(INTEGER), ("TYPE_CHANGED #/properties/r",)),
    Case("a definition is widened", referring(INTEGER), referring(NUMBER)),
    Case("a definition is renamed", referring(STRING), referring(STRING, "other")),
    Case("definitions move to $defs", referring(STRING), referring(STRING, keyword="$defs")),
    Case("a definition is written out", referring(STRING), open_(r=STRING)),
    Case("a type becomes a definition", open_(r=STRING), referring(STRING)),
    Case("an unused definition changes", {**STRING, "definitions": {"d": STRING}}, {**STRING, "definitions": {"d": INTEGER}}),
    Case("a list reads itself", node(STRING), node(STRING)),
    Case("a list changes its values", node(STRING), node(INTEGER), ("TYPE_CHANGED #/properties/value",)),
    Case("a list widens its values", node(INTEGER), node(NUMBER)),
    Case("a list gets a property", node(STRING), node(STRING, more=STRING)),
    Case("a list loses a property", node(STRING, more=STRING), node(STRING), (f"{REMOVED_CLOSED} #/properties/more",), ()),
    Case("the root refers to itself", open_(r={"$ref": "#"}), open_(r={"$ref": "#"})),
    Case("the root that refers to itself changes", open_(r={"$ref": "#"}, a=STRING), open_(r={"$ref": "#"}, a=INTEGER), ("TYPE_CHANGED #/properties/a",)),
    Case("a reference that leads to itself", {"$ref": "#"}, {"$ref": "#"}),
    Case("a reference by $id", {**open_(r={"$ref": "d.json"}), "definitions": {"d": {"$id": "d.json", **STRING}}}, open_(r=STRING)),
    Case("a reference by $id changes", {**open_(r={"$ref": "d.json"}), "definitions": {"d": {"$id": "d.json", **STRING}}},
         {**open_(r={"$ref": "d.json"}), "definitions": {"d": {"$id": "d.json", **INTEGER}}}, ("TYPE_CHANGED #/properties/r",)),
    Case("a chain of references", {**open_(r={"$ref": "#/definitions/a"}), "definitions": {"a": {"$ref": "#/definitions/b"}, "b": STRING}}, open_(r=STRING)),
    Case("what stands beside a reference does not count", {"$ref": "#/definitions/d", "maxLength": 1, "definitions": {"d": STRING}},
         {"$ref": "#/definitions/d", "maxLength": 2, "definitions": {"d": {**STRING, "maxLength": 9}}}, ("MAX_LENGTH_ADDED #/maxLength",)),
]  # fmt: skip

D4 = "http://json-schema.org/draft-04/schema#"
D6 = "http://json-schema.org/draft-06/schema#"
D7 = "http://json-schema.org/draft-07/schema#"
D2019 = "https://json-schema.org/draft/2019-09/schema"
D2020 = "https://json-schema.org/draft/2020-12/schema"


def draft(uri: str, schema: dict[str, Any]) -> dict[str, Any]:
    return {"$schema": uri, **schema}


def every_draft() -> Iterator[Case]:
    for name, uri in (("4", D4), ("6", D6), ("7", D7), ("2019-09", D2019), ("2020-12", D2020)):
        keyword = "definitions" if uri in (D4, D6, D7) else "$defs"
        yield Case(
            f"draft {name}: optional added to closed",
            draft(uri, closed(a=STRING)),
            draft(uri, closed(a=STRING, b=STRING)),
        )
        yield Case(
            f"draft {name}: optional added to open",
            draft(uri, open_(a=STRING)),
            draft(uri, open_(a=STRING, b=STRING)),
            (f"{OPTIONAL_OPEN} {B}",),
            (),
        )
        yield Case(
            f"draft {name}: a definition changes",
            draft(uri, referring(STRING, keyword=keyword)),
            draft(uri, referring(INTEGER, keyword=keyword)),
            ("TYPE_CHANGED #/properties/r",),
        )
        yield Case(
            f"draft {name}: the draft changes", draft(uri, closed(a=STRING)), draft(D2020, closed(a=STRING))
        )


def prefix(*items: Any, rest: Any = True) -> dict[str, Any]:
    return {"$schema": D2020, "type": "array", "prefixItems": list(items), "items": rest}


def beside(uri: str, definition: Any, **keywords: Any) -> dict[str, Any]:
    return {"$schema": uri, "$ref": "#/$defs/d", "$defs": {"d": definition}, **keywords}


DRAFTS = [
    *every_draft(),
    Case("draft 4: a maximum becomes exclusive", draft(D4, {**NUMBER, "maximum": 5}), draft(D4, {**NUMBER, "maximum": 5, "exclusiveMaximum": True}),
         ("EXCLUSIVE_MAXIMUM_ADDED #/exclusiveMaximum",)),
    Case("draft 4 to 7: an exclusive maximum", draft(D4, {**NUMBER, "maximum": 5, "exclusiveMaximum": True}), draft(D7, {**NUMBER, "exclusiveMaximum": 5})),
    Case("draft 4: an exclusive minimum is relaxed", draft(D4, {**NUMBER, "minimum": 5, "exclusiveMinimum": True}),
         draft(D4, {**NUMBER, "minimum": 4, "exclusiveMinimum": True})),
    Case("draft 2020: an item added to open", prefix(STRING), prefix(STRING, STRING), ("ITEM_ADDED_TO_OPEN_CONTENT_MODEL #/items/1",)),
    Case("draft 2020: an item added to closed", prefix(STRING, rest=False), prefix(STRING, STRING, rest=False)),
    Case("draft 2020: an item changes", prefix(STRING), prefix(INTEGER), ("TYPE_CHANGED #/items/0",)),
    Case("draft 2020: the rest is narrowed", prefix(STRING), prefix(STRING, rest=STRING), ("ADDITIONAL_ITEMS_NARROWED #/additionalItems",)),
    Case("draft 7 to 2020: a tuple", draft(D7, tuple_(STRING, rest=False)), prefix(STRING, rest=False)),
    Case("draft 2019: dependentRequired added", draft(D2019, OBJECT), draft(D2019, {**OBJECT, "dependentRequired": {"a": ["b"]}}),
         ("DEPENDENCY_ARRAY_ADDED #/dependencies/a",)),
    Case("draft 2019: dependentSchemas added", draft(D2019, OBJECT), draft(D2019, {**OBJECT, "dependentSchemas": {"a": STRING}}),
         ("DEPENDENCY_SCHEMA_ADDED #/dependencies/a",)),
    Case("draft 7 to 2019: dependencies", draft(D7, {**OBJECT, "dependencies": {"a": ["b"]}}), draft(D2019, {**OBJECT, "dependentRequired": {"a": ["b"]}})),
    Case("draft 2019: unevaluatedProperties false added", draft(D2019, open_(a=STRING)), draft(D2019, {**open_(a=STRING), "unevaluatedProperties": False}),
         ("ADDITIONAL_PROPERTIES_REMOVED #/unevaluatedProperties",), ()),
    Case("draft 2019: unevaluatedProperties false and a property added", draft(D2019, {**open_(a=STRING), "unevaluatedProperties": False}),
         draft(D2019, {**open_(a=STRING, b=STRING), "unevaluatedProperties": False})),
    Case("draft 2019: unevaluatedProperties beside allOf the same", draft(D2019, {"allOf": [open_(a=STRING)], "unevaluatedProperties": False}),
         draft(D2019, {"allOf": [open_(a=STRING)], "unevaluatedProperties": False})),
    Case("draft 2019: unevaluatedProperties beside allOf that loses a property",
         draft(D2019, {"allOf": [open_(a=STRING, b=STRING)], "unevaluatedProperties": False}),
         draft(D2019, {"allOf": [open_(a=STRING)], "unevaluatedProperties": False}),
         ("ADDITIONAL_PROPERTIES_NARROWED #/unevaluatedProperties",), ()),
    Case("draft 2019: what stands beside a reference counts", beside(D2019, STRING, maxLength=5), beside(D2019, STRING, maxLength=4),
         ("MAX_LENGTH_DECREASED #/maxLength",)),
    Case("draft 2019: what stands beside a reference is relaxed", beside(D2019, STRING, maxLength=5), beside(D2019, STRING, maxLength=6)),
    Case("draft 2020: the definition beside keywords changes", beside(D2020, STRING, maxLength=5), beside(D2020, INTEGER, maxLength=5),
         ("COMBINED_TYPE_SUBSCHEMAS_CHANGED #/allOf", "TYPE_CHANGED #/allOf/0")),
    Case("draft 2020: minContains grows", draft(D2020, {**ARRAY, "contains": STRING}), draft(D2020, {**ARRAY, "contains": STRING, "minContains": 2}),
         ("TYPE_CHANGED #/contains",)),
    Case("draft 2020: minContains shrinks", draft(D2020, {**ARRAY, "contains": STRING, "minContains": 2}), draft(D2020, {**ARRAY, "contains": STRING})),
    Case("draft 2020: maxContains added", draft(D2020, {**ARRAY, "contains": STRING}), draft(D2020, {**ARRAY, "contains": STRING, "maxContains": 2}),
         ("TYPE_CHANGED #/contains",)),
    Case("draft 2020: an anchor", draft(D2020, {**open_(r={"$ref": "#here"}), "$defs": {"d": {"$anchor": "here", **STRING}}}), draft(D2020, open_(r=STRING))),
    Case("draft 2020: a dynamic reference", draft(D2020, {**open_(r={"$dynamicRef": "#here"}), "$defs": {"d": {"$dynamicAnchor": "here", **STRING}}}),
         draft(D2020, open_(r=STRING))),
]  # fmt: skip

CASES = [
    *every_type(), *every_limit(), *SCALARS, *CONTENT_MODELS, *OBJECTS, *ARRAYS, *every_sum(), *COMBINATIONS,
    *REFERENCES, *DRAFTS,
]  # fmt: skip
