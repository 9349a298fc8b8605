from __future__ import annotations

import base64
from pathlib import Path

import grpc_tools
import pytest
from google.protobuf.descriptor_pb2 import DescriptorProto, FileDescriptorProto, FileDescriptorSet
from grpc_tools import protoc

from ottla.registry.schemas import InvalidSchema, parse
from ottla.registry.schemas.protobuf import ProtobufSchema
from ottla.registry.schemas.protobuf.bundled_files import BUNDLED
from ottla.registry.schemas.protobuf.normal_form import normal_form
from tests.registry.schemas.protobuf.files import FILES


def described_by_protoc(text: str, directory: Path) -> FileDescriptorProto | None:
    """Return protoc's descriptor of `text`, or None if protoc refuses it."""
    (directory / "f.proto").write_text(text)
    included = Path(grpc_tools.__file__).parent / "_proto"
    result = protoc.main(
        [
            "protoc",
            f"-I{directory}",
            f"-I{included}",
            f"--descriptor_set_out={directory}/out",
            f"{directory}/f.proto",
        ]
    )
    if result:
        return None
    return FileDescriptorSet.FromString((directory / "out").read_bytes()).file[0]


def comparable(file: FileDescriptorProto) -> FileDescriptorProto:
    """Remove values that protoc adds: derived JSON names and empty options."""
    copy = normal_form(file)
    copy.ClearField("name")
    for service in copy.service:
        for method in service.method:
            if not method.options.ListFields():
                method.ClearField("options")
    stack: list[DescriptorProto] = list(copy.message_type)
    fields = list(copy.extension)
    while stack:
        message = stack.pop()
        fields += [*message.field, *message.extension]
        stack += message.nested_type
    for field in fields:
        if field.json_name == "".join(
            part[:1].upper() + part[1:] if index else part for index, part in enumerate(field.name.split("_"))
        ):
            field.ClearField("json_name")
    return copy


@pytest.mark.parametrize("text", FILES.values(), ids=FILES.keys())
def test_a_file_is_described_as_protoc_describes_it(text: str, tmp_path: Path) -> None:
    theirs = described_by_protoc(text, tmp_path)
    assert theirs is not None

    assert comparable(parse("PROTOBUF", text, {}).raw) == comparable(theirs)


@pytest.mark.parametrize("text", FILES.values(), ids=FILES.keys())
def test_what_is_printed_is_read_again_as_the_same(text: str, tmp_path: Path) -> None:
    schema = parse("PROTOBUF", text, {})
    for printed in (schema.canonical, schema.normalized, schema.formatted("serialized")):
        again = parse("PROTOBUF", printed, {})
        assert comparable(again.raw) == comparable(schema.raw)
    assert parse("PROTOBUF", schema.canonical, {}).canonical == schema.canonical
    assert parse("PROTOBUF", schema.normalized, {}).normalized == schema.normalized
    assert described_by_protoc(schema.canonical, tmp_path) is not None


def test_a_file_is_stored_in_one_layout() -> None:
    text = """
        syntax = "proto3";
        package com.example; import "google/protobuf/timestamp.proto";
        option java_package = "com.example";
        message A { google.protobuf.Timestamp at = 1; oneof o { B b = 2; } map<string, B> m = 3; reserved 9;
                    message In { int32 x = 1; } }
        enum K { Z = 0; } message B { optional int32 y = 1 [deprecated=true]; }
    """

    assert parse("PROTOBUF", text, {}).canonical == (
        'syntax = "proto3";\n'
        "package com.example;\n"
        "\n"
        'import "google/protobuf/timestamp.proto";\n'
        "\n"
        'option java_package = "com.example";\n'
        "\n"
        "message A {\n"
        "  reserved 9;\n"
        "\n"
        "  google.protobuf.Timestamp at = 1;\n"
        "  map<string, B> m = 3;\n"
        "\n"
        "  oneof o {\n"
        "    B b = 2;\n"
        "  }\n"
        "\n"
        "  message In {\n"
        "    int32 x = 1;\n"
        "  }\n"
        "}\n"
        "enum K {\n"
        "  Z = 0;\n"
        "}\n"
        "message B {\n"
        "  optional int32 y = 1 [deprecated = true];\n"
        "}\n"
    )


def test_spellings_of_one_file_have_one_normal_form() -> None:
    one = 'syntax = "proto3"; package p; message M { N b = 2; int32 a = 1; } message N { } enum E { A = 0; C = 2; B = 1; }'
    other = 'syntax = "proto3"; package p; message M { int32 a = 1; .p.N b = 2; } message N {} enum E { A = 0; B = 1; C = 2; }'

    assert parse("PROTOBUF", one, {}).canonical != parse("PROTOBUF", other, {}).canonical
    assert parse("PROTOBUF", one, {}).normalized == parse("PROTOBUF", other, {}).normalized


def test_a_descriptor_in_base64_is_taken_and_given_back() -> None:
    file = FileDescriptorProto(name="u.proto", package="u", syntax="proto3")
    file.message_type.add(name="U").field.add(name="id", number=1, type=5, label=1, json_name="id")

    schema = parse("PROTOBUF", base64.b64encode(file.SerializeToString()).decode(), {})

    assert schema.canonical == 'syntax = "proto3";\npackage u;\n\nmessage U {\n  int32 id = 1;\n}\n'
    assert FileDescriptorProto.FromString(base64.b64decode(schema.formatted("serialized"))) == file


def test_files_refer_to_files_and_their_public_imports() -> None:
    base = parse("PROTOBUF", 'syntax = "proto3"; package b; message B { int32 x = 1; }', {})
    public = parse("PROTOBUF", 'syntax = "proto3"; import public "b.proto";', {"b.proto": base})
    private = parse("PROTOBUF", 'syntax = "proto3"; import "b.proto";', {"b.proto": base})
    user = 'syntax = "proto3"; import "p.proto"; message U { b.B b = 1; }'

    assert parse("PROTOBUF", user, {"p.proto": public}).raw.message_type[0].field[0].type_name == ".b.B"
    with pytest.raises(InvalidSchema, match=r'the type "b\.B" of "b" is not defined'):
        parse("PROTOBUF", user, {"p.proto": private})
    with pytest.raises(InvalidSchema, match=r'import "p\.proto" is not found'):
        parse("PROTOBUF", user, {})


def test_extensions_can_be_left_out() -> None:
    text = 'syntax = "proto2"; message M { extensions 100; optional int32 a = 1 [(x.y) = 3]; } extend M { optional int32 e = 100; }'

    printed = parse("PROTOBUF", text, {}).formatted("ignore_extensions")

    assert "extend M" not in printed
    assert "optional int32 a = 1;" in printed


TAGGED = (
    'syntax = "proto3"; import "confluent/meta.proto";'
    'message M { string ssn = 1 [(confluent.field_meta) = { tags: "PII", params: [{ key: "a" value: "b" }] },'
    ' (confluent.field_meta).doc = "d"]; }'
)
OWN = """
    syntax = "proto2"; package p.q; import "google/protobuf/descriptor.proto";
    extend google.protobuf.FieldOptions { optional string text = 50001; repeated int32 numbers = 50002; optional E e = 50003; }
    extend google.protobuf.MessageOptions { optional double ratio = 50004; optional bool flag = 50005; optional N n = 50006; }
    enum E { A = 0; B = 1; }
    message N { optional int64 x = 1; optional N inner = 2; extend google.protobuf.EnumOptions { optional bytes b = 50007; } }
    message M {
      option (ratio) = 1.5; option (p.q.flag) = true; option (.p.q.n).inner.x = -3;
      optional int32 a = 1 [(text) = "it's", (q.numbers) = 1, (numbers) = 2, (e) = B];
    }
    enum K { option (p.q.N.b) = "\\377"; Z = 0; }
"""


def test_options_of_ones_own_are_spelled_out_in_text() -> None:
    printed = parse("PROTOBUF", TAGGED, {}).canonical

    assert '(confluent.field_meta) = { tags : "PII" , params : [ { key : "a" value : "b" } ] }' in printed
    assert '(confluent.field_meta).doc = "d"' in printed


def test_options_of_ones_own_are_interpreted_in_descriptors_as_protoc_does(tmp_path: Path) -> None:
    theirs = described_by_protoc(OWN, tmp_path)
    assert theirs is not None

    ours = parse("PROTOBUF", OWN, {}).raw

    assert not ours.message_type[1].options.uninterpreted_option
    assert printed_descriptor(ours) == printed_descriptor(theirs)


def printed_descriptor(file: FileDescriptorProto) -> str:
    return parse("PROTOBUF", base64.b64encode(file.SerializeToString()).decode(), {}).normalized


@pytest.mark.parametrize("text", [TAGGED, OWN])
def test_options_in_a_descriptor_are_printed_and_read_again(text: str) -> None:
    schema = parse("PROTOBUF", text, {})
    from_descriptor = parse("PROTOBUF", schema.formatted("serialized"), {})
    again = parse("PROTOBUF", from_descriptor.canonical, {})

    assert from_descriptor.formatted("serialized") == schema.formatted("serialized")
    assert printed_descriptor(again.raw) == printed_descriptor(schema.raw) == from_descriptor.normalized


def test_an_option_whose_extension_is_unknown_stays_as_it_is() -> None:
    schema = parse("PROTOBUF", 'syntax = "proto3"; message M { int32 a = 1 [(x.y).z = 3]; }', {})

    assert "[(x.y).z = 3]" in schema.canonical
    assert schema.raw.message_type[0].field[0].options.uninterpreted_option[0].name[0].name_part == "x.y"


@pytest.mark.parametrize("name", BUNDLED)
def test_files_that_come_along_are_those_that_clients_have(name: str) -> None:
    module = name.removesuffix(".proto").replace("/", ".") + "_pb2"
    if name.startswith("confluent"):
        module = "confluent_kafka.schema_registry." + module
    theirs = FileDescriptorProto()
    pytest.importorskip(module, exc_type=ImportError).DESCRIPTOR.CopyToProto(theirs)
    theirs.ClearField("options")

    # Visible to every file that imports this one.
    user = parse("PROTOBUF", f'syntax = "proto3"; import "{name}";', {})

    assert isinstance(user, ProtobufSchema)
    assert comparable(user.imports[name]) == comparable(theirs)


def test_what_confluents_serializer_sends_and_asks_for_is_understood() -> None:
    protobuf = pytest.importorskip("confluent_kafka.schema_registry.protobuf")
    from google.protobuf import api_pb2

    sent = protobuf._schema_to_str(api_pb2.DESCRIPTOR)
    schema = parse("PROTOBUF", sent, {})

    answered = protobuf._str_to_proto("google/protobuf/api.proto", schema.formatted("serialized"))
    assert comparable(answered) == comparable(schema.raw)
    assert [message.name for message in answered.message_type] == ["Api", "Method", "Mixin"]
    assert parse("PROTOBUF", schema.canonical, {}).canonical == schema.canonical


def m(body: str) -> str:
    return f'syntax = "proto3"; message M {{ {body} }}'


REFUSED = {
    "words": ("this is no schema", "line 1, column 1: expected message"),
    "an unknown syntax": ('syntax = "proto4";', "unknown syntax"),
    "no end": (m("int32 a = 1;")[:-2], "the end of the file"),
    "no number": (m("int32 a;"), 'expected "="'),
    "no semicolon": (m("int32 a = 1"), 'expected ";"'),
    "number zero": (m("int32 a = 0;"), "between 1 and 536870911"),
    "a number that is too large": (m("int32 a = 536870912;"), "between 1 and 536870911"),
    "Protobuf's own numbers": (m("int32 a = 19000;"), "19000 to 19999"),
    "a number twice": (m("int32 a = 1; int32 b = 1;"), "the number 1 of M.b is that of a"),
    "a name twice": (m("int32 a = 1; int32 a = 2;"), '"a" is defined twice in M'),
    "a message twice": ('syntax = "proto3"; message M {} message M {}', '"M" is defined twice'),
    "an enum and a message": ('syntax = "proto3"; message M {} enum M { A = 0; }', '"M" is defined twice'),
    "a value in two enums": ('syntax = "proto3"; enum E { A = 0; } enum F { A = 0; }', '"A" is defined twice'),
    "a reserved number": (m("reserved 1 to 3; int32 a = 2;"), "the number 2 of M.a is reserved"),
    "a reserved name": (m('reserved "a"; int32 a = 2;'), "the name of M.a is reserved"),
    "an empty range": (m("reserved 5 to 3;"), "the range 5 to 3 is empty"),
    "ranges that overlap": (m("reserved 1 to 5; reserved 3;"), "overlap at 3"),
    "an unknown type": (m("Foo a = 1;"), 'the type "Foo" of "a" is not defined'),
    "an unknown type with a dot": (m(".Foo a = 1;"), "is not defined"),
    "required in proto3": (m("required int32 a = 1;"), "proto3 has no required fields"),
    "a default in proto3": (m("int32 a = 1 [default = 3];"), "no explicit default"),
    "a group in proto3": (m("optional group G = 1 {}"), "groups are not allowed in proto3"),
    "extensions in proto3": (m("extensions 100;"), "not allowed in proto3"),
    "no label in proto2": ('syntax = "proto2"; message M { int32 a = 1; }', "expected required, optional or repeated"),
    "an enum that does not begin with zero": ('syntax = "proto3"; enum E { A = 1; }', "must be zero"),
    "an enum without values": ('syntax = "proto3"; enum E { }', "has no values"),
    "an alias": ('syntax = "proto3"; enum E { A = 0; B = 0; }', "allow_alias"),
    "an enum value that is too large": ('syntax = "proto3"; enum E { A = 0; B = 2147483648; }', "between"),
    "an empty oneof": (m("oneof o { }"), "has no fields"),
    "a label in a oneof": (m("oneof o { repeated int32 a = 1; }"), "no label"),
    "a map in a oneof": (m("oneof o { map<string, int32> a = 1; }"), "no map fields"),
    "a repeated map": (m("repeated map<string, int32> a = 1;"), "expected a name"),
    "a map with a float key": (m("map<float, int32> a = 1;"), "the key of a map"),
    "a map with a message key": (m("map<M, int32> a = 1;"), "the key of a map"),
    "an unknown option": (m("int32 a = 1 [foo = 1];"), "unknown option foo"),
    "an option twice": (m("int32 a = 1 [deprecated = true, deprecated = true];"), "set twice"),
    "an option of another type": (m("int32 a = 1 [deprecated = 1];"), "wrong type"),
    "a default of another type": ('syntax = "proto2"; message M { optional int32 a = 1 [default = "x"]; }', "is an integer"),
    "a default that is too large": ('syntax = "proto2"; message M { optional int32 a = 1 [default = 2147483648]; }', "between"),
    "a default of a repeated field": ('syntax = "proto2"; message M { repeated int32 a = 1 [default = 2]; }', "no default"),
    "two packages": ("package a; package b;", "one package"),
    "an import twice": ('import "google/protobuf/any.proto"; import "google/protobuf/any.proto";', "listed twice"),
    "a string without end": ('syntax = "proto3', "unexpected character"),
    "a comment without end": ("/* forever", "has no end"),
    "a strange character": (m("int32 a = 1; #"), "unexpected character"),
    "a service without a message": ('syntax = "proto3"; service S { rpc R (X) returns (X); }', "is not defined"),
    "a method of an enum": ('syntax = "proto3"; enum X { A = 0; } service S { rpc R (X) returns (X); }', ""),
    "a file that imports itself": (base64.b64encode(FileDescriptorProto(name="a.proto", dependency=["a.proto"]).SerializeToString()).decode(), ""),
    "base64 of something else": (base64.b64encode(b"\xff\xff\xff\xff\xff\xff").decode(), "neither"),
    "an edition": ('edition = "2023"; message M {}', "editions are not supported"),
    "nothing at all": ("   ", "empty"),
}  # fmt: skip


@pytest.mark.parametrize(("text", "message"), REFUSED.values(), ids=REFUSED.keys())
def test_what_is_wrong_is_said_and_where(text: str, message: str) -> None:
    with pytest.raises(InvalidSchema) as refused:
        parse("PROTOBUF", text, {})

    assert message in str(refused.value)


def test_the_normal_form_sorts_options_by_name() -> None:
    text = """
        syntax = "proto3";
        option java_package = "x.y";
        option go_package = "z";
        message M {
          option no_standard_descriptor_accessor = false;
          option deprecated = true;
          int32 x = 1 [packed = false, json_name = "y", deprecated = true];
        }
        enum E { A = 0 [deprecated = true]; }
    """
    swapped = (
        text.replace("go_package", "?").replace("java_package", "go_package").replace("?", "java_package")
    )
    swapped = swapped.replace('"x.y"', "?").replace('"z"', '"x.y"').replace("?", '"z"')
    normal = parse("PROTOBUF", text, {}).normalized
    assert normal == parse("PROTOBUF", swapped, {}).normalized
    assert [line for line in normal.splitlines() if "option" in line] == [
        'option go_package = "z";',
        'option java_package = "x.y";',
        "  option deprecated = true;",
        "  option no_standard_descriptor_accessor = false;",
    ]
    assert 'int32 x = 1 [deprecated = true, json_name = "y", packed = false];' in normal
