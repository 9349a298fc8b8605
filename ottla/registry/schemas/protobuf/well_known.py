"""Files that every .proto may import without a reference."""

from __future__ import annotations

from functools import cache
from importlib import import_module

from google.protobuf.descriptor_pb2 import FileDescriptorProto

_GOOGLE = (
    "any", "api", "descriptor", "duration", "empty", "field_mask", "source_context", "struct", "timestamp", "type",
    "wrappers",
)  # fmt: skip

# What Confluent's registry brings along: tags and parameters of fields, and the decimal of its converters.
_CONFLUENT = {
    "confluent/meta.proto": """
        syntax = "proto3";
        package confluent;
        import "google/protobuf/descriptor.proto";
        option go_package = "../confluent";
        message Meta {
          string doc = 1;
          map<string, string> params = 2;
          repeated string tags = 3;
        }
        extend google.protobuf.FileOptions { Meta file_meta = 1088; }
        extend google.protobuf.MessageOptions { Meta message_meta = 1088; }
        extend google.protobuf.FieldOptions { Meta field_meta = 1088; }
        extend google.protobuf.EnumOptions { Meta enum_meta = 1088; }
        extend google.protobuf.EnumValueOptions { Meta enum_value_meta = 1088; }
    """,
    "confluent/type/decimal.proto": """
        syntax = "proto3";
        package confluent.type;
        option go_package = "../type";
        message Decimal {
          bytes value = 1;
          uint32 precision = 2;
          int32 scale = 3;
        }
    """,
}


@cache
def well_known(name: str) -> FileDescriptorProto | None:
    """The resolved descriptor of a file with this name; None if it is not one of them."""
    if name in _CONFLUENT:
        from ottla.registry.schemas.protobuf.parser import parse_file
        from ottla.registry.schemas.protobuf.resolver import resolved

        file, _ = parse_file(_CONFLUENT[name])
        file.name = name
        return resolved(file, {name: found for name in file.dependency if (found := well_known(name))})
    stem = name.removeprefix("google/protobuf/").removesuffix(".proto")
    if stem not in _GOOGLE or name != f"google/protobuf/{stem}.proto":
        return None
    file = FileDescriptorProto()
    import_module(f"google.protobuf.{stem}_pb2").DESCRIPTOR.CopyToProto(file)
    return file
