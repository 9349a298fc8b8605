"""Files that every .proto may import without a reference."""

from __future__ import annotations

from functools import cache
from importlib import import_module

from google.protobuf.descriptor_pb2 import FileDescriptorProto

from ottla.registry.schemas.protobuf.bundled_files import BUNDLED
from ottla.registry.schemas.protobuf.parser import parse_file
from ottla.registry.schemas.protobuf.resolver import resolved

_GOOGLE = (
    "any", "api", "descriptor", "duration", "empty", "field_mask", "source_context", "struct", "timestamp", "type",
    "wrappers",
)  # fmt: skip


@cache
def well_known(name: str) -> FileDescriptorProto | None:
    """Return the resolved descriptor of a well-known file, or None."""
    if name in BUNDLED:
        file, _ = parse_file(BUNDLED[name])
        file.name = name
        return resolved(file, {name: found for name in file.dependency if (found := well_known(name))})
    stem = name.removeprefix("google/protobuf/").removesuffix(".proto")
    if stem not in _GOOGLE or name != f"google/protobuf/{stem}.proto":
        return None
    file = FileDescriptorProto()
    import_module(f"google.protobuf.{stem}_pb2").DESCRIPTOR.CopyToProto(file)
    return file
