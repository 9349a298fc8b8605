"""A Protobuf schema of the registry."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Collection, Mapping
from functools import cached_property

from google.protobuf.descriptor_pb2 import FileDescriptorProto
from google.protobuf.message import DecodeError

from ottla.registry.schemas.parsed import Incompatibility, InvalidSchema, ParsedSchema
from ottla.registry.schemas.protobuf.bundled_files import well_known
from ottla.registry.schemas.protobuf.normal_form import normal_form, without_extensions
from ottla.registry.schemas.protobuf.options import interpreted, spelled_out
from ottla.registry.schemas.protobuf.parser import Layout, parse_file
from ottla.registry.schemas.protobuf.printer import to_text
from ottla.registry.schemas.protobuf.resolver import resolved
from ottla.registry.schemas.protobuf.validation import pool_of, validate

_BASE64 = re.compile(r"\s*[A-Za-z0-9+/\r\n]+={0,2}\s*")


class ProtobufSchema(ParsedSchema):
    schema_type = "PROTOBUF"
    raw: FileDescriptorProto
    """With the full names of all types, and with options interpreted."""

    def __init__(
        self,
        written: FileDescriptorProto,
        raw: FileDescriptorProto,
        layout: Layout,
        imports: Mapping[str, FileDescriptorProto],
        references: Mapping[str, ParsedSchema],
    ) -> None:
        """`written` is the printed form: type names and options as in the file."""
        self._written = written
        self._layout = layout
        self.imports = imports
        """Every file that this one imports, directly or not, by its name."""
        self.references = references
        self.raw = raw

    @cached_property
    def canonical(self) -> str:
        return to_text(self._written, self._layout)

    @cached_property
    def normalized(self) -> str:
        return to_text(normal_form(resolved(self._written, self.imports)), self._layout, sort_options=True)

    def formatted(self, format: str) -> str:
        if format == "serialized":
            return base64.b64encode(self.raw.SerializeToString(deterministic=True)).decode()
        if format == "ignore_extensions":
            return to_text(without_extensions(self._written), self._layout)
        return self.canonical

    @property
    def fields(self) -> Collection[str]:
        return [field.name for field in self.raw.message_type[0].field] if self.raw.message_type else []

    def check(self, writer: ProtobufSchema, policy: str = "STRICT") -> list[Incompatibility]:
        from ottla.registry.schemas.protobuf.compatibility import check_files

        return check_files(self, writer)


def parse_protobuf(
    text: str, references: Mapping[str, ParsedSchema], *, stored: bool = False
) -> ProtobufSchema:
    if not text.strip():
        raise InvalidSchema("the schema is empty")
    if _BASE64.fullmatch(text):
        described = _from_base64(text)
        imports = _imports(described, references)
        raw = resolved(described, imports)
        pool = pool_of(raw, imports) if stored else validate(raw, imports)
        return ProtobufSchema(spelled_out(described, pool), raw, Layout(), imports, references)
    written, layout = parse_file(text)
    imports = _imports(written, references)
    raw = resolved(written, imports)
    pool = pool_of(raw, imports) if stored else validate(raw, imports)
    return ProtobufSchema(written, interpreted(raw, imports, pool), layout, imports, references)


def _from_base64(text: str) -> FileDescriptorProto:
    try:
        return FileDescriptorProto.FromString(base64.b64decode(text, validate=False))
    except (binascii.Error, DecodeError, ValueError):
        raise InvalidSchema("the text is neither a .proto file nor a descriptor in base64") from None


def _imports(
    file: FileDescriptorProto, references: Mapping[str, ParsedSchema]
) -> dict[str, FileDescriptorProto]:
    imports: dict[str, FileDescriptorProto] = {}
    for name, reference in references.items():
        if not isinstance(reference, ProtobufSchema):
            raise InvalidSchema(f"the reference {name} is of type {reference.schema_type}, not PROTOBUF")
    pending = list(file.dependency)
    while pending:
        name = pending.pop()
        if name in imports:
            continue
        given = references.get(name)
        if isinstance(given, ProtobufSchema):
            for inner, imported in given.imports.items():
                imports.setdefault(inner, imported)
            copy = FileDescriptorProto()
            copy.CopyFrom(given.raw)
            copy.name = name
            imports[name] = copy
        elif (found := well_known(name)) is not None:
            imports[name] = found
            pending.extend(found.dependency)
        else:
            raise InvalidSchema(f'import "{name}" is not found: it needs a reference with that name')
        if file.name and name == file.name:
            raise InvalidSchema(f'"{name}" imports itself')
    return imports
