"""Pairs of Protobuf schemas with the verdict of Confluent's rules."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Case:
    name: str
    old: str
    new: str
    expected: tuple[str, ...] = ()
    """The types and places of what is wrong if the new schema reads, `TYPE #/place`."""
    syntax: str = "proto3"
    imports: dict[str, tuple[str, str]] = field(default_factory=dict)
    """Old and new text of files that both import, by their names."""

    def texts(self) -> tuple[str, str]:
        head = f'syntax = "{self.syntax}";\n' + "".join(f'import "{name}";\n' for name in self.imports)
        return head + self.new, head + self.old


def m(body: str, name: str = "M") -> str:
    return f"message {name} {{ {body} }}\n"


E = "enum E { A = 0; B = 1; }\n"
N = m("int32 x = 1;", "N")

# Types with the same wire format.
KINDS = [
    ("int32", "int64", "uint32", "uint64", "bool", "E"),
    ("sint32", "sint64"),
    ("fixed32", "sfixed32"),
    ("fixed64", "sfixed64"),
    ("float",),
    ("double",),
    ("string", "bytes"),
]
SCALARS = [name for kind in KINDS for name in kind]


def every_scalar() -> Iterator[Case]:
    for old in SCALARS:
        for new in SCALARS:
            alike = any(old in kind and new in kind for kind in KINDS)
            expected = () if alike else ("FIELD_SCALAR_KIND_CHANGED #/M/1",)
            yield Case(f"{old} to {new}", E + m(f"{old} a = 1;"), E + m(f"{new} a = 1;"), expected)


def every_kind() -> Iterator[Case]:
    """Return cases that replace scalars, messages and maps with each other."""
    kinds = {"a scalar": "int32", "a message": "N", "a map": "map<string, int32>"}
    for old, old_type in kinds.items():
        for new, new_type in kinds.items():
            expected = () if old == new else ("FIELD_KIND_CHANGED #/M/1",)
            yield Case(
                f"{old} becomes {new}", N + m(f"{old_type} a = 1;"), N + m(f"{new_type} a = 1;"), expected
            )


def every_label() -> Iterator[Case]:
    for type_ in ("int32", "sint64", "fixed32", "double", "bool", "E", "string", "bytes", "N"):
        numeric = type_ not in ("string", "bytes", "N")
        expected = ("FIELD_NUMERIC_LABEL_CHANGED #/M/1",) if numeric else ()
        one, many = E + N + m(f"{type_} a = 1;"), E + N + m(f"repeated {type_} a = 1;")
        yield Case(f"{type_} becomes repeated", one, many, expected)
        yield Case(f"{type_} is no longer repeated", many, one, expected)
        yield Case(f"{type_} becomes optional", one, E + N + m(f"optional {type_} a = 1;"))
        yield Case(f"{type_} is no longer optional", E + N + m(f"optional {type_} a = 1;"), one)


def every_map() -> Iterator[Case]:
    for old in ("int32", "string", "bool"):
        for new in ("int32", "string", "int64"):
            alike = any(old in kind and new in kind for kind in KINDS)
            expected = () if alike else ("FIELD_SCALAR_KIND_CHANGED #/M/1",)
            yield Case(
                f"a map's key {old} to {new}",
                m(f"map<{old}, string> a = 1;"),
                m(f"map<{new}, string> a = 1;"),
                expected,
            )
            yield Case(
                f"a map's value {old} to {new}",
                m(f"map<string, {old}> a = 1;"),
                m(f"map<string, {new}> a = 1;"),
                expected,
            )


MESSAGES = [
    Case("the same", m("int32 a = 1;"), m("int32 a = 1;")),
    Case("comments and white space", m("int32 a = 1;"), "// said\n" + m("/* more */ int32   a=1 ;")),
    Case("a message added", N, N + m("int32 a = 1;")),
    Case("a message removed", N + m("int32 a = 1;"), N, ("MESSAGE_REMOVED #/M",)),
    Case("a message renamed", m("int32 a = 1;"), m("int32 a = 1;", "O"), ("MESSAGE_REMOVED #/M",)),
    Case("messages in another order", N + m("int32 a = 1;"), m("int32 a = 1;") + N),
    Case("all messages removed", N + m(""), E, ("MESSAGE_REMOVED #/N", "MESSAGE_REMOVED #/M")),
    Case("a nested message added", m("int32 a = 1;"), m("int32 a = 1; message I { int32 x = 1; }")),
    Case("a nested message removed", m("int32 a = 1; message I { int32 x = 1; }"), m("int32 a = 1;"), ("MESSAGE_REMOVED #/M/I",)),
    Case("a nested message changes", m("message I { int32 x = 1; }"), m("message I { string x = 1; }"), ("FIELD_SCALAR_KIND_CHANGED #/M/I/1",)),
    Case("a message removed with what is in it", m("message I { message J {} }") + N, N, ("MESSAGE_REMOVED #/M",)),
    Case("a nested message of a nested message changes", m("message I { message J { int32 x = 1; } }"), m("message I { message J { string x = 1; } }"),
         ("FIELD_SCALAR_KIND_CHANGED #/M/I/J/1",)),
    Case("a nested message moves out", m("I i = 1; message I { int32 x = 1; }"), m("I i = 1;") + m("int32 x = 1;", "I"),
         ("MESSAGE_REMOVED #/M/I", "FIELD_NAMED_TYPE_CHANGED #/M/1")),
    Case("the package changes", "package a;\n" + N, "package b;\n" + N, ("PACKAGE_CHANGED #/",)),
    Case("a package is added", N, "package b;\n" + N, ("PACKAGE_CHANGED #/",)),
    Case("a package is removed", "package a;\n" + N, N, ("PACKAGE_CHANGED #/",)),
    Case("the package is the same", "package a.b;\n" + N, "package a.b;\n" + N),
    Case("the package and a field change", "package a;\n" + N, "package b;\n" + m("string x = 1;", "N"), ("PACKAGE_CHANGED #/", "FIELD_SCALAR_KIND_CHANGED #/N/1")),
    Case("options change", 'option java_package = "a";\n' + N, 'option java_package = "b";\n' + N),
    Case("a service is added", N, N + "service S { rpc R (N) returns (N); }"),
    Case("a service is removed", N + "service S { rpc R (N) returns (N); }", N),
    Case("an empty message", m(""), m("")),
    Case("an empty message gets fields", m(""), m("int32 a = 1;")),
    Case("a message that contains itself", m("M next = 1; int32 a = 2;"), m("M next = 1; int64 a = 2;")),
    Case("a message that contains itself changes", m("M next = 1; int32 a = 2;"), m("M next = 1; string a = 2;"), ("FIELD_SCALAR_KIND_CHANGED #/M/2",)),
    Case("messages that contain each other", m("P p = 1;") + m("M m = 1;", "P"), m("P p = 1;") + m("M m = 1; int32 a = 2;", "P")),
]  # fmt: skip

FIELDS = [
    Case("a field added", m("int32 a = 1;"), m("int32 a = 1; string b = 2;")),
    Case("a field removed", m("int32 a = 1; string b = 2;"), m("int32 a = 1;")),
    Case("a field removed and reserved", m("int32 a = 1; string b = 2;"), m('reserved 2; reserved "b"; int32 a = 1;')),
    Case("all fields removed", m("int32 a = 1; string b = 2;"), m("")),
    Case("a field renamed", m("int32 a = 1;"), m("int32 b = 1;")),
    Case("a field renumbered", m("int32 a = 1;"), m("int32 a = 2;")),
    Case("fields in another order", m("int32 a = 1; string b = 2;"), m("string b = 2; int32 a = 1;")),
    Case("fields exchange their numbers", m("int32 a = 1; string b = 2;"), m("int32 a = 2; string b = 1;"),
         ("FIELD_SCALAR_KIND_CHANGED #/M/1", "FIELD_SCALAR_KIND_CHANGED #/M/2")),
    Case("a number is used again", m("int32 a = 1;"), m("string b = 1;"), ("FIELD_SCALAR_KIND_CHANGED #/M/1",)),
    Case("two fields change", m("int32 a = 1; int32 b = 2;"), m("string a = 1; double b = 2;"),
         ("FIELD_SCALAR_KIND_CHANGED #/M/1", "FIELD_SCALAR_KIND_CHANGED #/M/2")),
    Case("a field is deprecated", m("int32 a = 1;"), m("int32 a = 1 [deprecated = true];")),
    Case("a field gets a JSON name", m("int32 a = 1;"), m('int32 a = 1 [json_name = "x"];')),
    Case("packed changes", m("repeated int32 a = 1;"), m("repeated int32 a = 1 [packed = false];")),
    Case("a field of a message type", N + m("N n = 1;"), N + m("N n = 1;")),
    Case("a field of a message type changes", N + m("N n = 1;"), N + m("", "O") + m("O n = 1;"), ("FIELD_NAMED_TYPE_CHANGED #/M/1",)),
    Case("the message of a field changes", N + m("N n = 1;"), m("string x = 1;", "N") + m("N n = 1;"), ("FIELD_SCALAR_KIND_CHANGED #/N/1",)),
    Case("the type is written with its full name", "package p;\n" + N + m("N n = 1;"), "package p;\n" + N + m(".p.N n = 1;")),
    Case("the type is written with its package", "package p;\n" + N + m("N n = 1;"), "package p;\n" + N + m("p.N n = 1;")),
    Case("a nested type is written with its message", m("I i = 1; message I {}"), m("M.I i = 1; message I {}")),
    Case("a nested type hides an outer one", m("", "I") + m("I i = 1;"), m("", "I") + m("I i = 1; message I {}"), ("FIELD_NAMED_TYPE_CHANGED #/M/1",)),
    Case("a field becomes a map of messages", N + m("repeated N n = 1;"), N + m("map<string, N> n = 1;"), ("FIELD_KIND_CHANGED #/M/1",)),
    Case("the message of a map changes", N + m("map<string, N> n = 1;"), N + m("", "O") + m("map<string, O> n = 1;"), ("FIELD_NAMED_TYPE_CHANGED #/M/1",)),
    Case("a map is renamed", m("map<string, int32> a = 1;"), m("map<string, int32> b = 1;")),
    Case("a map is removed", m("map<string, int32> a = 1;"), m("")),
    Case("a map is added", m(""), m("map<string, int32> a = 1;")),
    Case("reserved added", m("int32 a = 1;"), m("reserved 2 to 9; int32 a = 1;")),
    Case("reserved removed", m("reserved 2 to 9; int32 a = 1;"), m("int32 a = 1; int32 b = 2;")),
    Case("a timestamp", 'import "google/protobuf/timestamp.proto";\n' + m("google.protobuf.Timestamp t = 1;"),
         'import "google/protobuf/timestamp.proto";\n' + m(".google.protobuf.Timestamp t = 1;")),
    Case("a timestamp becomes a duration", 'import "google/protobuf/timestamp.proto";\n' + m("google.protobuf.Timestamp t = 1;"),
         'import "google/protobuf/duration.proto";\n' + m("google.protobuf.Duration t = 1;"), ("FIELD_NAMED_TYPE_CHANGED #/M/1",)),
    Case("a string becomes a wrapper", m("string a = 1;"), 'import "google/protobuf/wrappers.proto";\n' + m("google.protobuf.StringValue a = 1;"),
         ("FIELD_KIND_CHANGED #/M/1",)),
]  # fmt: skip

ENUMS = [
    Case("an enum added", N, E + N),
    Case("an enum removed", E + N, N),
    Case("a value added", E, "enum E { A = 0; B = 1; C = 2; }"),
    Case("a value removed", E, "enum E { A = 0; }"),
    Case("a value renamed", E, "enum E { A = 0; X = 1; }"),
    Case("a value renumbered", E, "enum E { A = 0; B = 5; }"),
    Case("an enum renamed", E + m("E e = 1;"), "enum F { A = 0; B = 1; }\n" + m("F e = 1;")),
    Case("a nested enum moves out", m("E e = 1; enum E { A = 0; }"), "enum E { A = 0; }\n" + m("E e = 1;")),
    Case("an alias added", E, "enum E { option allow_alias = true; A = 0; B = 1; C = 1; }"),
    Case("an enum becomes a string", E + m("E e = 1;"), E + m("string e = 1;"), ("FIELD_SCALAR_KIND_CHANGED #/M/1",)),
    Case("an enum becomes a message", E + m("E e = 1;"), N + m("N e = 1;"), ("FIELD_KIND_CHANGED #/M/1",)),
    Case("a message becomes an enum", N + m("N e = 1;"), E + N + m("E e = 1;"), ("FIELD_KIND_CHANGED #/M/1",)),
    Case("an enum that is used changes", E + m("E e = 1;"), "enum E { A = 0; Z = 7; }\n" + m("E e = 1;")),
]  # fmt: skip

ONEOFS = [
    Case("a oneof added with new fields", m("int32 a = 1;"), m("int32 a = 1; oneof o { int32 b = 2; string c = 3; }")),
    Case("a oneof removed with its fields", m("int32 a = 1; oneof o { int32 b = 2; string c = 3; }"), m("int32 a = 1;")),
    Case("a oneof dissolved", m("oneof o { int32 b = 2; string c = 3; }"), m("int32 b = 2; string c = 3;")),
    Case("a oneof renamed", m("oneof o { int32 b = 2; string c = 3; }"), m("oneof p { int32 b = 2; string c = 3; }")),
    Case("a oneof renamed without one of its fields", m("oneof o { int32 b = 2; string c = 3; }"), m("oneof p { int32 b = 2; }"), ("ONEOF_FIELD_REMOVED #/M/o/3",)),
    Case("a oneof renamed with one more field", m("oneof o { int32 b = 2; }"), m("oneof p { int32 b = 2; string c = 3; }")),
    Case("a field added to a oneof", m("oneof o { int32 b = 2; }"), m("oneof o { int32 b = 2; string c = 3; }")),
    Case("a field removed from a oneof", m("oneof o { int32 b = 2; string c = 3; }"), m("oneof o { int32 b = 2; }"), ("ONEOF_FIELD_REMOVED #/M/o/3",)),
    Case("two fields removed from a oneof", m("oneof o { int32 b = 2; string c = 3; string d = 4; }"), m("oneof o { int32 b = 2; }"),
         ("ONEOF_FIELD_REMOVED #/M/o/3", "ONEOF_FIELD_REMOVED #/M/o/4")),
    Case("a field moved out of a oneof", m("oneof o { int32 b = 2; string c = 3; }"), m("oneof o { int32 b = 2; } string c = 3;")),
    Case("a field moved into a new oneof", m("int32 a = 1;"), m("oneof o { int32 a = 1; }")),
    Case("a field moved into a new oneof with new fields", m("int32 a = 1;"), m("oneof o { int32 a = 1; string b = 2; }")),
    Case("two fields moved into a new oneof", m("int32 a = 1; string b = 2;"), m("oneof o { int32 a = 1; string b = 2; }"),
         ("MULTIPLE_FIELDS_MOVED_TO_ONEOF #/M/o",)),
    Case("a field moved into an existing oneof", m("int32 a = 1; oneof o { string b = 2; }"), m("oneof o { int32 a = 1; string b = 2; }"),
         ("FIELD_MOVED_TO_EXISTING_ONEOF #/M/o",)),
    Case("a field moved from one oneof to another", m("oneof o { int32 a = 1; int32 b = 2; } oneof p { int32 c = 3; }"),
         m("oneof o { int32 b = 2; } oneof p { int32 c = 3; int32 a = 1; }"), ("FIELD_MOVED_TO_EXISTING_ONEOF #/M/p",)),
    Case("two oneofs become one", m("oneof o { int32 a = 1; } oneof p { int32 b = 2; }"), m("oneof q { int32 a = 1; int32 b = 2; }"),
         ("MULTIPLE_FIELDS_MOVED_TO_ONEOF #/M/q",)),
    Case("a oneof is split", m("oneof o { int32 a = 1; int32 b = 2; }"), m("oneof p { int32 a = 1; } oneof q { int32 b = 2; }")),
    Case("a field of a oneof renamed", m("oneof o { int32 a = 1; }"), m("oneof o { int32 x = 1; }")),
    Case("a field of a oneof widened", m("oneof o { int32 a = 1; }"), m("oneof o { int64 a = 1; }")),
    Case("a field of a oneof changes", m("oneof o { int32 a = 1; }"), m("oneof o { string a = 1; }"), ("FIELD_SCALAR_KIND_CHANGED #/M/1",)),
    Case("a message of a oneof changes", N + m("oneof o { N a = 1; }"), N + m("", "P") + m("oneof o { P a = 1; }"), ("FIELD_NAMED_TYPE_CHANGED #/M/1",)),
    Case("optional is no oneof", m("optional int32 a = 1; optional int32 b = 2;"), m("int32 a = 1; int32 b = 2;")),
    Case("optional becomes a oneof", m("optional int32 a = 1;"), m("oneof o { int32 a = 1; }")),
    Case("a oneof in a nested message", m("message I { oneof o { int32 a = 1; int32 b = 2; } }"), m("message I { oneof o { int32 a = 1; } }"),
         ("ONEOF_FIELD_REMOVED #/M/I/o/2",)),
    Case("events of one topic extended", N + m("oneof o { N n = 1; }"), N + m("", "P") + m("oneof o { N n = 1; P p = 2; }")),
]  # fmt: skip

PROTO2 = [
    Case("a required field added", m("optional int32 a = 1;"), m("optional int32 a = 1; required int32 b = 2;"), ("REQUIRED_FIELD_ADDED #/M/2",), "proto2"),
    Case("a required field removed", m("optional int32 a = 1; required int32 b = 2;"), m("optional int32 a = 1;"), ("REQUIRED_FIELD_REMOVED #/M/2",), "proto2"),
    Case("a field becomes required", m("optional int32 a = 1;"), m("required int32 a = 1;"), ("REQUIRED_FIELD_ADDED #/M/1",), "proto2"),
    Case("a field is no longer required", m("required int32 a = 1;"), m("optional int32 a = 1;"), (), "proto2"),
    Case("a required field stays", m("required int32 a = 1;"), m("required int64 a = 1;"), (), "proto2"),
    Case("a required field renamed", m("required int32 a = 1;"), m("required int32 b = 1;"), (), "proto2"),
    Case("a required field renumbered", m("required int32 a = 1;"), m("required int32 a = 2;"),
         ("REQUIRED_FIELD_REMOVED #/M/1", "REQUIRED_FIELD_ADDED #/M/2"), "proto2"),
    Case("a default changes", m("optional int32 a = 1 [default = 1];"), m("optional int32 a = 1 [default = 2];"), (), "proto2"),
    Case("a default is removed", m("optional int32 a = 1 [default = 1];"), m("optional int32 a = 1;"), (), "proto2"),
    Case("a group stays", m("optional group G = 1 { optional int32 x = 1; }"), m("optional group G = 1 { optional int32 x = 1; }"), (), "proto2"),
    Case("a group changes", m("optional group G = 1 { optional int32 x = 1; }"), m("optional group G = 1 { optional string x = 1; }"),
         ("FIELD_SCALAR_KIND_CHANGED #/M/G/1",), "proto2"),
    Case("a group becomes a message", m("optional group G = 1 { optional int32 x = 1; }"), m("message G { optional int32 x = 1; } optional G g = 1;"),
         ("FIELD_KIND_CHANGED #/M/1",), "proto2"),
    Case("extensions added", m("optional int32 a = 1;"), m("optional int32 a = 1; extensions 100 to max;"), (), "proto2"),
    Case("an extension added", m("extensions 100;"), m("extensions 100;") + "extend M { optional int32 e = 100; }", (), "proto2"),
    Case("a nested required field added", m("optional I i = 1; message I {}"), m("optional I i = 1; message I { required int32 x = 1; }"),
         ("REQUIRED_FIELD_ADDED #/M/I/1",), "proto2"),
    Case("a proto2 enum gets a value", "enum E { A = 1; }\n" + m("optional E e = 1;"), "enum E { A = 1; B = 2; }\n" + m("optional E e = 1;"), (), "proto2"),
    Case("a proto2 field becomes repeated", m("optional int32 a = 1;"), m("repeated int32 a = 1;"), ("FIELD_NUMERIC_LABEL_CHANGED #/M/1",), "proto2"),
    Case("a proto2 string becomes repeated", m("optional string a = 1;"), m("repeated string a = 1;"), (), "proto2"),
]  # fmt: skip

USER = 'syntax = "proto3"; package u; message U { int32 id = 1; }'
IMPORTS = [
    Case("an imported message stays", m("u.U u = 1;"), m("u.U u = 1;"), imports={"u.proto": (USER, USER)}),
    Case("an imported message changes", m("u.U u = 1;"), m("u.U u = 1;"), ("FIELD_SCALAR_KIND_CHANGED #/u/U/1",),
         imports={"u.proto": (USER, USER.replace("int32", "string"))}),
    Case("an imported message grows", m("u.U u = 1;"), m("u.U u = 1;"), imports={"u.proto": (USER, USER.replace("}", "string n = 2; }"))}),
    Case("an imported message that is not used changes", m("int32 a = 1;"), m("int32 a = 1;"), imports={"u.proto": (USER, USER.replace("int32", "string"))}),
    Case("an imported message is written with a dot", m("u.U u = 1;"), m(".u.U u = 1;"), imports={"u.proto": (USER, USER)}),
    Case("a message moves out of an imported file", m("u.U u = 1;"), m("U u = 1;") + m("int32 id = 1;", "U"), imports={"u.proto": (USER, USER)}),
    Case("a message moves out of an imported file and changes", m("u.U u = 1;"), m("U u = 1;") + m("string id = 1;", "U"),
         ("FIELD_SCALAR_KIND_CHANGED #/u/U/1",), imports={"u.proto": (USER, USER)}),
    Case("the package of an imported file changes", m("u.U u = 1;"), m("v.U u = 1;"), imports={"u.proto": (USER, USER.replace("package u", "package v"))}),
    Case("an imported message is replaced by another one", m("u.U u = 1;"), m("u.V u = 1;"), ("FIELD_NAMED_TYPE_CHANGED #/M/1",),
         imports={"u.proto": (USER, USER + " message V { int32 id = 1; }")}),
    Case("a message moves to an imported file", "package u;\n" + m("U u = 1;") + m("int32 id = 1;", "U"), "package u;\n" + m("U u = 1;"),
         imports={"u.proto": ('syntax = "proto3"; package u; message X {}', USER)}),
    Case("an enum of an imported file", m("u.K k = 1;"), m("u.K k = 1;"),
         imports={"u.proto": ('syntax = "proto3"; package u; enum K { Z = 0; }', 'syntax = "proto3"; package u; enum K { Z = 0; Y = 1; }')}),
]  # fmt: skip

CASES = [
    *every_scalar(), *every_kind(), *every_label(), *every_map(), *MESSAGES, *FIELDS, *ENUMS, *ONEOFS, *PROTO2, *IMPORTS,
]  # fmt: skip
