"""Parse a .proto file into a FileDescriptorProto. Type names stay as written."""

from __future__ import annotations

from typing import Any

from google.protobuf.descriptor_pb2 import (
    DescriptorProto,
    EnumDescriptorProto,
    FileDescriptorProto,
    MethodOptions,
    ServiceDescriptorProto,
)
from google.protobuf.descriptor_pb2 import FieldDescriptorProto as Field

from ottla.registry.schemas.protobuf.lexer import Words, escaped
from ottla.registry.schemas.protobuf.options import OptionReader
from ottla.registry.schemas.protobuf.resolver import default_of, map_entry_name

SCALARS = {
    "double": 1, "float": 2, "int64": 3, "uint64": 4, "int32": 5, "fixed64": 6, "fixed32": 7, "bool": 8,
    "string": 9, "bytes": 12, "uint32": 13, "sfixed32": 15, "sfixed64": 16, "sint32": 17, "sint64": 18,
}  # fmt: skip
_LABELS = {"optional": 1, "required": 2, "repeated": 3}
_MAX_NUMBER = 2**29 - 1
# As in protoc.
_MAX_NESTING = 32


class Layout(dict[str, list[str]]):
    """Order of type definitions in a file or message (by path), which descriptors do not preserve."""


def parse_file(source: str) -> tuple[FileDescriptorProto, Layout]:
    return _FileParser(source).parse()


class _FileParser:
    def __init__(self, source: str) -> None:
        self.words = Words(source)
        self.options = OptionReader(self.words)
        self.file = FileDescriptorProto()
        self.layout = Layout()
        self.proto3 = False

    def parse(self) -> tuple[FileDescriptorProto, Layout]:
        words = self.words
        if words.at("edition"):
            raise words.error("editions are not supported: use proto2 or proto3")
        if words.take("syntax"):
            words.expect("=")
            syntax = words.string().decode("utf-8", "replace")
            words.expect(";")
            if syntax not in ("proto2", "proto3"):
                raise words.error(f'unknown syntax "{syntax}": it is proto2 or proto3')
            self.proto3 = syntax == "proto3"
            if self.proto3:
                self.file.syntax = syntax
        while not words.at_end():
            self._statement()
        return self.file, self.layout

    def _statement(self) -> None:
        words = self.words
        if words.take(";"):
            return
        if words.take("package"):
            if self.file.package:
                raise words.error("a file has one package")
            self.file.package = words.full_name()
            words.expect(";")
        elif words.take("import"):
            self._import()
        elif words.take("option"):
            self.options.statement(self.file.options)
        elif words.take("message"):
            self._message(self.file.message_type.add(), "", 1)
        elif words.take("enum"):
            self._enum(self.file.enum_type.add(), "")
        elif words.take("extend"):
            self._extend(self.file.extension, self.file.message_type, "", 1)
        elif words.take("service"):
            self._service(self.file.service.add())
        else:
            raise words.error(
                f"expected message, enum, import, option, package, service or extend, not {words.shown()}"
            )

    def _import(self) -> None:
        words = self.words
        public = words.take("public")
        weak = not public and words.take("weak")
        name = words.string().decode("utf-8", "replace")
        words.expect(";")
        if name in self.file.dependency:
            raise words.error(f'import "{name}" is listed twice')
        if public:
            self.file.public_dependency.append(len(self.file.dependency))
        if weak:
            self.file.weak_dependency.append(len(self.file.dependency))
        self.file.dependency.append(name)

    def _message(self, message: DescriptorProto, scope: str, depth: int, name: str = "") -> None:
        if depth > _MAX_NESTING:
            raise self.words.error(f"messages are nested deeper than {_MAX_NESTING} levels")
        message.name = name or self.words.name()
        path = f"{scope}.{message.name}" if scope else message.name
        self.layout.setdefault(scope, []).append(message.name)
        self.words.expect("{")
        while not self.words.take("}"):
            self._member(message, path, depth)
        self._add_synthetic_oneofs(message)

    def _member(self, message: DescriptorProto, path: str, depth: int) -> None:
        words = self.words
        if words.take(";"):
            return
        # A field's type may have the name of a keyword: the next token tells them apart.
        if words.at("message") and words.after("name", "{"):
            words.take("message")
            self._message(message.nested_type.add(), path, depth + 1)
        elif words.at("enum") and words.after("name", "{"):
            words.take("enum")
            self._enum(message.enum_type.add(), path)
        elif words.at("oneof") and words.after("name", "{"):
            words.take("oneof")
            self._oneof(message, path, depth)
        elif words.at("extensions") and words.after("int"):
            words.take("extensions")
            self._extensions(message)
        elif words.at("reserved") and (words.after("int") or words.after("text") or words.after("name", ",")):
            words.take("reserved")
            self._reserved(message)
        elif words.at("extend") and not words.after("name", "="):
            words.take("extend")
            self._extend(message.extension, message.nested_type, path, depth)
        elif words.at("option") and not words.after("name", "=", "int"):
            words.take("option")
            self.options.statement(message.options)
        elif words.at("map") and words.after("<"):
            self._map(message)
        else:
            self._field(message.field.add(), message.nested_type, path, depth)

    def _oneof(self, message: DescriptorProto, path: str, depth: int) -> None:
        words = self.words
        index = len(message.oneof_decl)
        oneof = message.oneof_decl.add(name=words.name())
        words.expect("{")
        fields = 0
        while not words.take("}"):
            if words.take(";"):
                continue
            if words.at("option") and not words.after("name", "=", "int"):
                words.take("option")
                self.options.statement(oneof.options)
                continue
            if (
                any(words.at(label) for label in _LABELS)
                and not words.after("name", "=")
                and not words.after("=")
            ):
                raise words.error("fields of a oneof have no label")
            if words.at("map") and words.after("<"):
                raise words.error("a oneof has no map fields")
            field = message.field.add()
            self._field(field, message.nested_type, path, depth, label=1)
            field.oneof_index = index
            fields += 1
        if not fields:
            raise words.error(f"the oneof {oneof.name} has no fields")

    def _field(self, field: Field, nested: Any, path: str, depth: int, *, label: int = 0) -> None:
        words = self.words
        if not label:
            for word, number in _LABELS.items():
                if words.at(word) and not words.after("="):
                    words.take(word)
                    label = number
                    if word == "optional" and self.proto3:
                        field.proto3_optional = True
                    break
            else:
                if not self.proto3:
                    raise words.error(f"expected required, optional or repeated, not {words.shown()}")
        field.label = label or 1
        if words.at("group") and words.after("name", "="):
            words.take("group")
            self._group(field, nested, path, depth)
            return
        self._set_type(field, words.type_name())
        field.name = words.name()
        self._number_and_options(field)
        words.expect(";")

    def _number_and_options(self, field: Field) -> None:
        self.words.expect("=")
        field.number = self.words.integer(1, _MAX_NUMBER, "a field number")
        if self.words.take("["):
            self._field_options(field)

    def _field_options(self, field: Field) -> None:
        words = self.words
        while True:
            if words.at("default") and words.after("="):
                words.take("default")
                words.expect("=")
                if field.HasField("default_value"):
                    raise words.error(f"the field {field.name} has two defaults")
                field.default_value = self._default(field)
            elif words.at("json_name") and words.after("="):
                words.take("json_name")
                words.expect("=")
                field.json_name = words.string().decode("utf-8", "replace")
            else:
                self.options.assignment(field.options)
            if words.take("]"):
                return
            words.expect(",")

    def _default(self, field: Field) -> str:
        if self.proto3:
            raise self.words.error("fields of proto3 have no explicit default")
        if field.label == 3:
            raise self.words.error("a repeated field has no default")
        if field.type == SCALARS["string"]:
            return self.words.string().decode("utf-8", "replace")
        if field.type == SCALARS["bytes"]:
            return escaped(self.words.string())
        return default_of(self.words, field)

    def _set_type(self, field: Field, name: str) -> None:
        if name in SCALARS:
            field.type = SCALARS[name]
        else:
            field.type_name = name

    def _group(self, field: Field, nested: Any, path: str, depth: int) -> None:
        words = self.words
        if self.proto3:
            raise words.error("groups are not allowed in proto3")
        name = words.name()
        if not name[0].isupper():
            raise words.error(f"the name of group {name} must begin with a capital letter")
        field.name = name.lower()
        field.type = Field.TYPE_GROUP
        field.type_name = name
        self._number_and_options(field)
        self._message(nested.add(), path, depth + 1, name)

    def _map(self, message: DescriptorProto) -> None:
        words = self.words
        words.take("map")
        words.expect("<")
        key = words.type_name()
        if key not in SCALARS or key in ("float", "double", "bytes"):
            raise words.error(f"the key of a map is an integer, a bool or a string, not {key}")
        words.expect(",")
        value = words.type_name()
        words.expect(">")
        field = message.field.add(name=words.name(), label=Field.LABEL_REPEATED, type=Field.TYPE_MESSAGE)
        entry = message.nested_type.add(name=map_entry_name(field.name))
        entry.options.map_entry = True
        field.type_name = entry.name
        for number, (name, type_) in enumerate((("key", key), ("value", value)), 1):
            part = entry.field.add(name=name, number=number, label=Field.LABEL_OPTIONAL)
            self._set_type(part, type_)
        self._number_and_options(field)
        words.expect(";")

    def _extend(self, extensions: Any, nested: Any, path: str, depth: int) -> None:
        words = self.words
        extendee = words.type_name()
        words.expect("{")
        while not words.take("}"):
            if words.take(";"):
                continue
            field = extensions.add()
            self._field(field, nested, path, depth)
            field.extendee = extendee

    def _extensions(self, message: DescriptorProto) -> None:
        words = self.words
        if self.proto3:
            raise words.error("extension ranges are not allowed in proto3")
        ranges = [words.number_range(_MAX_NUMBER)]
        while words.take(","):
            ranges.append(words.number_range(_MAX_NUMBER))
        added = [message.extension_range.add(start=first, end=last + 1) for first, last in ranges]
        if words.take("["):
            while True:
                self.options.assignment(added[0].options)
                if words.take("]"):
                    break
                words.expect(",")
            for other in added[1:]:
                other.options.CopyFrom(added[0].options)
        words.expect(";")

    def _reserved(self, message: DescriptorProto) -> None:
        words = self.words
        if words.kind() == "int":
            while True:
                first, last = words.number_range(_MAX_NUMBER)
                message.reserved_range.add(start=first, end=last + 1)
                if not words.take(","):
                    break
        else:
            message.reserved_name.extend(words.reserved_names())
        words.expect(";")

    def _enum(self, enum: EnumDescriptorProto, scope: str) -> None:
        words = self.words
        enum.name = words.name()
        self.layout.setdefault(scope, []).append(enum.name)
        words.expect("{")
        while not words.take("}"):
            if words.take(";"):
                continue
            if words.at("option") and not words.after("="):
                words.take("option")
                self.options.statement(enum.options)
            elif words.at("reserved") and not words.after("="):
                words.take("reserved")
                self._enum_reserved(enum)
            else:
                value = enum.value.add(name=words.name())
                words.expect("=")
                value.number = words.integer(-(2**31), 2**31 - 1, "the number of an enum value")
                if words.take("["):
                    while True:
                        self.options.assignment(value.options)
                        if words.take("]"):
                            break
                        words.expect(",")
                words.expect(";")

    def _enum_reserved(self, enum: EnumDescriptorProto) -> None:
        words = self.words
        if words.kind() in ("text", "name"):
            enum.reserved_name.extend(words.reserved_names())
        else:
            while True:
                first, last = words.number_range(2**31 - 1, lowest=-(2**31))
                enum.reserved_range.add(start=first, end=last)
                if not words.take(","):
                    break
        words.expect(";")

    def _service(self, service: ServiceDescriptorProto) -> None:
        words = self.words
        service.name = words.name()
        words.expect("{")
        while not words.take("}"):
            if words.take(";"):
                continue
            if words.take("option"):
                self.options.statement(service.options)
                continue
            words.expect("rpc")
            method = service.method.add(name=words.name())
            words.expect("(")
            method.client_streaming = words.take("stream")
            method.input_type = words.type_name()
            words.expect(")")
            words.expect("returns")
            words.expect("(")
            method.server_streaming = words.take("stream")
            method.output_type = words.type_name()
            words.expect(")")
            if not method.client_streaming:
                method.ClearField("client_streaming")
            if not method.server_streaming:
                method.ClearField("server_streaming")
            if words.take("{"):
                method.options.CopyFrom(MethodOptions())
                while not words.take("}"):
                    if not words.take(";"):
                        words.expect("option")
                        self.options.statement(method.options)
            else:
                words.expect(";")

    def _add_synthetic_oneofs(self, message: DescriptorProto) -> None:
        """Put each `optional` field of proto3 into a hidden oneof of its own."""
        taken = {oneof.name for oneof in message.oneof_decl} | {field.name for field in message.field}
        for field in message.field:
            if field.proto3_optional:
                name = field.name if field.name.startswith("_") else "_" + field.name
                while name in taken:
                    name = "X" + name
                taken.add(name)
                field.oneof_index = len(message.oneof_decl)
                message.oneof_decl.add(name=name)
