"""Pairs of Avro schemas with the verdict of Java's SchemaCompatibility."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Case:
    name: str
    reader: Any
    writer: Any
    expected: tuple[str, ...] = ()
    """The types and places of what is wrong, `TYPE /place`; nothing if the reader reads the writer's data."""

    def texts(self) -> tuple[str, str]:
        return json.dumps(self.reader), json.dumps(self.writer)


def field(name: str, type_: Any, **attributes: Any) -> dict[str, Any]:
    return {"name": name, "type": type_, **attributes}


def record(*fields: Any, name: str = "R", **attributes: Any) -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": list(fields), **attributes}


def enum(*symbols: str, name: str = "E", **attributes: Any) -> dict[str, Any]:
    return {"type": "enum", "name": name, "symbols": list(symbols), **attributes}


def fixed(size: int, name: str = "F", **attributes: Any) -> dict[str, Any]:
    return {"type": "fixed", "name": name, "size": size, **attributes}


def array(items: Any) -> dict[str, Any]:
    return {"type": "array", "items": items}


def map_(values: Any) -> dict[str, Any]:
    return {"type": "map", "values": values}


TYPES: dict[str, Any] = {
    **{name: name for name in ("null", "boolean", "int", "long", "float", "double", "bytes", "string")},
    "array": array("int"),
    "map": map_("int"),
    "fixed": fixed(4),
    "enum": enum("A", "B"),
    "record": record(field("a", "int")),
    "union": ["null", "int"],
}
# The writers that each reader accepts, besides its own type.
READS = {
    "long": {"int"},
    "float": {"int", "long"},
    "double": {"int", "long", "float"},
    "bytes": {"string"},
    "string": {"bytes"},
    "union": {"null", "int"},
}


def every_pair() -> Iterator[Case]:
    for reader in TYPES:
        for writer in TYPES:
            if reader == writer or writer in READS.get(reader, ()):
                expected: tuple[str, ...] = ()
            elif reader == "union":
                expected = ("MISSING_UNION_BRANCH /",)
            elif writer == "union":
                # Each branch must be readable; every unreadable branch adds a reason.
                expected = tuple(
                    f"TYPE_MISMATCH /{index}"
                    for index, branch in enumerate(("null", "int"))
                    if branch not in (reader, *READS.get(reader, ()))
                )
            else:
                expected = ("TYPE_MISMATCH /",)
            yield Case(f"{reader} reads {writer}", TYPES[reader], TYPES[writer], expected)


def every_promotion_in_a_field() -> Iterator[Case]:
    for reader in ("int", "long", "float", "double", "bytes", "string"):
        for writer in ("int", "long", "float", "double", "bytes", "string"):
            readable = reader == writer or writer in READS.get(reader, ())
            expected = () if readable else ("TYPE_MISMATCH /fields/0/type",)
            yield Case(
                f"a field {reader} reads {writer}",
                record(field("a", reader)),
                record(field("a", writer)),
                expected,
            )


A = field("a", "int")
MISSING = "READER_FIELD_MISSING_DEFAULT_VALUE"
LIST = record(field("value", "int"), field("next", ["null", "L"]), name="L")
LONG_LIST = record(field("value", "long"), field("next", ["null", "L"]), name="L")
TEXT_LIST = record(field("value", "string"), field("next", ["null", "L"]), name="L")

RECORDS = [
    Case("a field is added with a default", record(A, field("b", "int", default=0)), record(A)),
    Case("a field is added without a default", record(A, field("b", "int")), record(A), (f"{MISSING} /fields/1",)),
    Case("a null default counts", record(A, field("b", ["null", "int"], default=None)), record(A)),
    Case("a nullable field without default", record(A, field("b", ["null", "int"])), record(A),
         (f"{MISSING} /fields/1",)),
    Case("a field is removed", record(A), record(A, field("b", "int"))),
    Case("all fields are removed", record(), record(A, field("b", "int"))),
    Case("fields change places", record(field("b", "int"), A), record(A, field("b", "int"))),
    Case("a field is renamed", record(field("b", "int")), record(A), (f"{MISSING} /fields/0",)),
    Case("a field is renamed with an alias", record(field("b", "int", aliases=["a"])), record(A)),
    Case("the alias is of another field", record(field("b", "int", aliases=["c"])), record(A),
         (f"{MISSING} /fields/0",)),
    Case("the second alias counts", record(field("b", "int", aliases=["c", "a"])), record(A)),
    Case("an alias of the writer does not count", record(field("b", "int")), record(field("a", "int", aliases=["b"])),
         (f"{MISSING} /fields/0",)),
    Case("the aliased field has another type", record(field("b", "string", aliases=["a"])), record(A),
         ("TYPE_MISMATCH /fields/0/type",)),
    Case("the aliased field is promoted", record(field("b", "long", aliases=["a"])), record(A)),
    Case("several fields are missing", record(A, field("b", "int"), field("c", "int")), record(A),
         (f"{MISSING} /fields/1", f"{MISSING} /fields/2")),
    Case("one is missing, one has another type", record(field("a", "string"), field("b", "int")), record(A),
         ("TYPE_MISMATCH /fields/0/type", f"{MISSING} /fields/1")),
    Case("the record is renamed", record(A, name="S"), record(A), ("NAME_MISMATCH /name",)),
    Case("the record is renamed with an alias", record(A, name="S", aliases=["R"]), record(A)),
    Case("the alias is in another namespace", record(A, name="S", namespace="n", aliases=["R"]), record(A),
         ("NAME_MISMATCH /name",)),
    Case("the alias has the full name", record(A, name="S", namespace="n", aliases=["m.R"]),
         record(A, namespace="m")),
    Case("the namespace changes", record(A, namespace="n"), record(A, namespace="m")),
    Case("a namespace is added", record(A, namespace="n"), record(A)),
    Case("documentation changes", record(A, doc="new"), record(A, doc="old")),
    Case("properties change", record(A, owner="me"), record(A)),
    Case("the order of a field changes", record(field("a", "int", order="ignore")), record(A)),
    Case("a default changes", record(field("a", "int", default=1)), record(field("a", "int", default=2))),
    Case("a default is removed", record(A), record(field("a", "int", default=2))),
    Case("a record inside is changed", record(field("r", record(A, field("b", "int"), name="S"))),
         record(field("r", record(A, name="S"))), (f"{MISSING} /fields/0/type/fields/1",)),
    Case("a record inside is renamed", record(field("r", record(A, name="T"))), record(field("r",
         record(A, name="S"))),
         ("NAME_MISMATCH /fields/0/type/name",)),
    Case("a record inside is widened", record(field("r", record(field("a", "double"), name="S"))),
         record(field("r", record(A, name="S")))),
    Case("a record inside becomes a map", record(field("r", map_("int"))), record(field("r", record(A, name="S"))),
         ("TYPE_MISMATCH /fields/0/type",)),
    Case("an error reads a record of the same name", {"type": "error", "name": "R", "fields": []}, record()),
    Case("a record becomes an enum of the same name", enum("A", name="R"), record(), ("TYPE_MISMATCH /",)),
    Case("nothing is read from a record", record(), record()),
    Case("two levels down", record(field("a", array(map_(record(field("x", "int"), name="S"))))),
         record(field("a", array(map_(record(field("x", "string"), name="S"))))),
         ("TYPE_MISMATCH /fields/0/type/items/values/fields/0/type",)),
    Case("a field that is missing is an enum with a default", record(field("e", enum("A", default="A"))), record(),
         ("TYPE_MISMATCH /fields/0/type",)),
    Case("a field that is missing is an enum with a default, and has one",
         record(field("e", enum("A", default="A"), default="A")), record()),
]  # fmt: skip

NAMED = [
    Case("a symbol is added", enum("A", "B", "C"), enum("A", "B")),
    Case("a symbol is removed", enum("A"), enum("A", "B"), ("MISSING_ENUM_SYMBOLS /symbols",)),
    Case("a symbol is removed, there is a default", enum("A", default="A"), enum("A", "B")),
    Case("the default of the writer does not help", enum("A"), enum("A", "B", default="A"),
         ("MISSING_ENUM_SYMBOLS /symbols",)),
    Case("symbols change places", enum("B", "A"), enum("A", "B")),
    Case("all symbols are others", enum("C", "D"), enum("A", "B"), ("MISSING_ENUM_SYMBOLS /symbols",)),
    Case("the enum is renamed", enum("A", name="G"), enum("A"), ("NAME_MISMATCH /name",)),
    Case("the enum is renamed with an alias", enum("A", name="G", aliases=["E"]), enum("A")),
    Case("the enum is renamed and smaller", enum("A", name="G"), enum("A", "B"),
         ("NAME_MISMATCH /name", "MISSING_ENUM_SYMBOLS /symbols")),
    Case("the enum has another namespace", enum("A", namespace="n"), enum("A")),
    Case("an enum in a field is smaller", record(field("e", enum("A"))), record(field("e", enum("A", "B"))),
         ("MISSING_ENUM_SYMBOLS /fields/0/type/symbols",)),
    Case("an enum in an array is smaller", array(enum("A")), array(enum("A", "B")),
         ("MISSING_ENUM_SYMBOLS /items/symbols",)),
    Case("an enum becomes a string", "string", enum("A"), ("TYPE_MISMATCH /",)),
    Case("a string becomes an enum", enum("A"), "string", ("TYPE_MISMATCH /",)),
    Case("an enum becomes an int", "int", enum("A"), ("TYPE_MISMATCH /",)),
    Case("the size of a fixed type grows", fixed(8), fixed(4), ("FIXED_SIZE_MISMATCH /size",)),
    Case("the size of a fixed type shrinks", fixed(2), fixed(4), ("FIXED_SIZE_MISMATCH /size",)),
    Case("a fixed type is renamed", fixed(4, "G"), fixed(4), ("NAME_MISMATCH /name",)),
    Case("a fixed type is renamed with an alias", fixed(4, "G", aliases=["F"]), fixed(4)),
    Case("a fixed type is renamed and grows", fixed(8, "G"), fixed(4),
         ("NAME_MISMATCH /name", "FIXED_SIZE_MISMATCH /size")),
    Case("a fixed type becomes bytes", "bytes", fixed(4), ("TYPE_MISMATCH /",)),
    Case("bytes become a fixed type", fixed(4), "bytes", ("TYPE_MISMATCH /",)),
    Case("a fixed type in a map grows", map_(fixed(8)), map_(fixed(4)), ("FIXED_SIZE_MISMATCH /values/size",)),
    Case("a fixed type has another namespace", fixed(4, namespace="n"), fixed(4)),
    Case("an empty enum", enum("A"), enum()),
    Case("an empty enum reads another", enum(), enum("A"), ("MISSING_ENUM_SYMBOLS /symbols",)),
]  # fmt: skip

UNIONS = [
    Case("a branch is added", ["null", "int", "string"], ["null", "int"]),
    Case("a branch is removed", ["null"], ["null", "int"], ("MISSING_UNION_BRANCH /1",)),
    Case("two branches are removed", ["null"], ["int", "null", "string"],
         ("MISSING_UNION_BRANCH /0", "MISSING_UNION_BRANCH /2")),
    Case("branches change places", ["int", "null"], ["null", "int"]),
    Case("a branch is promoted", ["null", "long"], ["null", "int"]),
    Case("a branch is narrowed", ["null", "int"], ["null", "long"], ("MISSING_UNION_BRANCH /1",)),
    Case("a union of one reads its type", ["int"], "int"),
    Case("a type reads a union of it alone", "int", ["int"]),
    Case("a type becomes optional", ["null", "string"], "string"),
    Case("a type is no longer optional", "string", ["null", "string"], ("TYPE_MISMATCH /0",)),
    Case("a type becomes a union without it", ["null", "int"], "string", ("MISSING_UNION_BRANCH /",)),
    Case("a type becomes a union that promotes it", ["null", "double"], "int"),
    Case("every branch is promoted", "double", ["int", "long", "float", "double"]),
    Case("one branch is not promoted", "double", ["int", "string"], ("TYPE_MISMATCH /1",)),
    Case("the empty union is read by anything", "int", []),
    Case("the empty union reads nothing", [], "int", ("MISSING_UNION_BRANCH /",)),
    Case("both are empty", [], []),
    Case("a field becomes optional", record(field("a", ["null", "int"])), record(A)),
    Case("a field is no longer optional", record(A), record(field("a", ["null", "int"])),
         ("TYPE_MISMATCH /fields/0/type/0",)),
    Case("a branch of a field is removed", record(field("a", ["null"])), record(field("a", ["null", "int"])),
         ("MISSING_UNION_BRANCH /fields/0/type/1",)),
    Case("the items of an array get a branch", array(["null", "int"]), array("int")),
    Case("the items of an array lose a branch", array(["int"]), array(["null", "int"]),
         ("MISSING_UNION_BRANCH /items/0",)),
    Case("the values of a map get a branch", map_(["null", "int"]), map_("int")),
    Case("a record is a branch", ["null", record(A)], record(A)),
    Case("the record of a branch gets a field with a default", ["null", record(A, field("b", "int", default=1))],
         ["null", record(A)]),
    Case("the record of a branch gets a field without a default", ["null", record(A, field("b", "int"))],
         ["null", record(A)], ("MISSING_UNION_BRANCH /1",)),
    Case("the record of a branch is renamed", ["null", record(A, name="S")], ["null", record(A)],
         ("MISSING_UNION_BRANCH /1",)),
    Case("another record of the union reads it", [record(field("a", "string"), name="S"), record(A)], [record(A)]),
    Case("records of the same name in two namespaces",
         [record(field("x", "string"), namespace="n"), record(A, namespace="m")], [record(A, namespace="k")]),
    Case("an enum of a branch is smaller", ["null", enum("A")], ["null", enum("A", "B")],
         ("MISSING_UNION_BRANCH /1",)),
    Case("an enum of a branch has a default", ["null", enum("A", default="A")], ["null", enum("A", "B")]),
    Case("a fixed branch of another size", ["null", fixed(8)], ["null", fixed(4)], ("MISSING_UNION_BRANCH /1",)),
    Case("an array branch of other items", ["null", array("string")], ["null", array("int")],
         ("MISSING_UNION_BRANCH /1",)),
    Case("an array branch that is promoted", ["null", array("long")], ["null", array("int")]),
    Case("a map branch of other values", ["null", map_("int")], ["null", map_("string")],
         ("MISSING_UNION_BRANCH /1",)),
    Case("a string branch reads bytes", ["null", "string"], ["null", "bytes"]),
    Case("a bytes branch reads a string", ["null", "bytes"], ["null", "string"]),
    Case("a union of promotions", ["float", "string"], ["int", "long", "bytes"]),
    Case("union in a union's record", [record(field("a", ["null", "int"]))], [record(field("a", ["null",
         "int", "string"]))],
         ("MISSING_UNION_BRANCH /0",)),
]  # fmt: skip

NESTED = [
    Case("the items of an array are promoted", array("long"), array("int")),
    Case("the items of an array are narrowed", array("int"), array("long"), ("TYPE_MISMATCH /items",)),
    Case("the values of a map are promoted", map_("double"), map_("float")),
    Case("the values of a map are narrowed", map_("float"), map_("double"), ("TYPE_MISMATCH /values",)),
    Case("an array of arrays", array(array("string")), array(array("int")), ("TYPE_MISMATCH /items/items",)),
    Case("a map of maps", map_(map_("string")), map_(map_("int")), ("TYPE_MISMATCH /values/values",)),
    Case("an array of arrays is promoted", array(array("long")), array(array("int"))),
    Case("an array becomes a map", map_("int"), array("int"), ("TYPE_MISMATCH /",)),
    Case("a map becomes an array", array("int"), map_("int"), ("TYPE_MISMATCH /",)),
    Case("a list reads itself", LIST, LIST),
    Case("a list is promoted", LONG_LIST, LIST),
    Case("a list is narrowed", LIST, LONG_LIST, ("TYPE_MISMATCH /fields/0/type",)),
    Case("a list gets other values", TEXT_LIST, LIST, ("TYPE_MISMATCH /fields/0/type",)),
    Case("a list gets a field with a default",
         record(field("value", "int"), field("next", ["null", "L"]), field("x", "int", default=0), name="L"), LIST),
    Case("a list gets a field without a default",
         record(field("value", "int"), field("next", ["null", "L"]), field("x", "int"), name="L"), LIST,
         (f"{MISSING} /fields/2",)),
    Case("a tree", record(field("children", array("T")), name="T"), record(field("children", array("T")), name="T")),
    Case("a tree gets labels", record(field("children", array("T")), field("label", "string"), name="T"),
         record(field("children", array("T")), name="T"), (f"{MISSING} /fields/1",)),
    Case("two records that contain each other",
         record(field("b", ["null", record(field("a", ["null", "X"]), name="Y")]), name="X"),
         record(field("b", ["null", record(field("a", ["null", "X"]), name="Y")]), name="X")),
    Case("a type that is used twice", record(field("a", fixed(4)), field("b", "F")),
         record(field("a", fixed(8)), field("b", "F")), ("FIXED_SIZE_MISMATCH /fields/0/type/size",)),
    Case("a list becomes a tree", record(field("next", array("L")), name="L"),
         record(field("next", ["null", "L"]), name="L"),
         ("TYPE_MISMATCH /fields/0/type/0", "TYPE_MISMATCH /fields/0/type/1")),
]  # fmt: skip


def logical(type_: str, name: str, **attributes: Any) -> dict[str, Any]:
    return {"type": type_, "logicalType": name, **attributes}


LOGICAL = [
    Case("a logical type is added", logical("int", "date"), "int"),
    Case("a logical type is removed", "int", logical("int", "date")),
    Case("a logical type is another", logical("long", "timestamp-millis"), logical("long", "timestamp-micros")),
    Case("a logical type is unknown", logical("long", "parsecs"), "long"),
    Case("a logical type is promoted", logical("long", "timestamp-millis"), logical("int", "date")),
    Case("a logical type is narrowed", logical("int", "date"), logical("long", "timestamp-millis"),
         ("TYPE_MISMATCH /",)),
    Case("the scale of a decimal changes", logical("bytes", "decimal", precision=9, scale=2),
         logical("bytes", "decimal", precision=9, scale=3)),
    Case("the precision of a decimal changes", logical("bytes", "decimal", precision=9, scale=2),
         logical("bytes", "decimal", precision=4, scale=2)),
    Case("a decimal becomes fixed", {**fixed(4), "logicalType": "decimal", "precision": 4},
         logical("bytes", "decimal", precision=4), ("TYPE_MISMATCH /",)),
    Case("a uuid becomes a string", "string", logical("string", "uuid")),
    Case("bytes become a uuid", logical("string", "uuid"), "bytes"),
    Case("a duration is fixed", {**fixed(12), "logicalType": "duration"}, fixed(12)),
    Case("an array with a property", {**array("int"), "p": 1}, array("int")),
]  # fmt: skip

CASES = [
    *every_pair(),
    *every_promotion_in_a_field(),
    *RECORDS,
    *NAMED,
    *UNIONS,
    *NESTED,
    *LOGICAL,
]
