"""Check whether data of one Protobuf schema can be read with another: Confluent's rules.

Fields are compared by number, messages by name. Messages used from imported files are compared as well.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Protocol

from google.protobuf.descriptor_pb2 import DescriptorProto, FieldDescriptorProto, FileDescriptorProto

from ottla.registry.schemas.parsed import Incompatibility
from ottla.registry.schemas.protobuf.resolver import types_of

_REQUIRED = FieldDescriptorProto.LABEL_REQUIRED
_REPEATED = FieldDescriptorProto.LABEL_REPEATED
_MESSAGES = (FieldDescriptorProto.TYPE_MESSAGE, FieldDescriptorProto.TYPE_GROUP)

# Types with the same wire format. An enum is a number.
_KINDS = {
    3: "varint", 4: "varint", 5: "varint", 8: "varint", 13: "varint", 14: "varint",
    17: "zigzag", 18: "zigzag", 7: "fixed32", 15: "fixed32", 6: "fixed64", 16: "fixed64",
    1: "double", 2: "float", 9: "bytes", 12: "bytes",
}  # fmt: skip

_MISMATCH = " at path '{path}' in the {reader} schema does not match its "
_TEMPLATES = {
    "PACKAGE_CHANGED": "The package of the {reader} schema does not match the package of the {writer} schema",
    "MESSAGE_REMOVED": "The {reader} schema is missing a field of type MESSAGE at path '{path}' in the {writer} schema",
    "FIELD_KIND_CHANGED": f"The type of a field{_MISMATCH}type in the {{writer}} schema",
    "FIELD_SCALAR_KIND_CHANGED": f"The kind of a SCALAR field{_MISMATCH}kind in the {{writer}} schema",
    "FIELD_NAMED_TYPE_CHANGED": f"The type of a MESSAGE field{_MISMATCH}type in the {{writer}} schema",
    "FIELD_NUMERIC_LABEL_CHANGED": f"The label of a numeric field{_MISMATCH}label in the {{writer}} schema",
    "REQUIRED_FIELD_ADDED": "A required field at path '{path}' in the {reader} schema is missing in the {writer} "
    "schema",
    "REQUIRED_FIELD_REMOVED": "The {reader} schema is missing a required field at path '{path}' in the {writer} schema",
    "ONEOF_FIELD_REMOVED": "The {reader} schema is missing a oneof field at path '{path}' in the {writer} schema",
    "MULTIPLE_FIELDS_MOVED_TO_ONEOF": "Multiple fields in the oneof at path '{path}' in the {reader} schema are "
    "outside a oneof in the {writer} schema",
    "FIELD_MOVED_TO_EXISTING_ONEOF": "A field of the existing oneof at path '{path}' in the {reader} schema is "
    "outside of it in the {writer} schema",
}


class Files(Protocol):
    """A file with full names, and its imports."""

    raw: FileDescriptorProto

    @property
    def imports(self) -> Mapping[str, FileDescriptorProto]: ...


def check_files(reader: Files, writer: Files) -> list[Incompatibility]:
    return list(dict.fromkeys(_Comparison(reader, writer).differences()))


class _Comparison:
    def __init__(self, reader: Files, writer: Files) -> None:
        self._reader = _messages(reader)
        self._writer = _messages(writer)
        self._local_names = (_local_names(reader), _local_names(writer))
        self._packages = (reader.raw.package, writer.raw.package)
        self._own = [name for name, type_ in types_of(writer.raw) if isinstance(type_, DescriptorProto)]
        self._compared: set[tuple[str, str]] = set()
        # Messages of other files, discovered through fields.
        self._pending: list[tuple[str, str]] = []

    def differences(self) -> Iterator[Incompatibility]:
        if self._packages[0] != self._packages[1]:
            yield _incompatibility("PACKAGE_CHANGED", "#/")
        removed: list[str] = []
        for name in self._own:
            if self._writer[name].options.map_entry or any(name.startswith(outer + ".") for outer in removed):
                continue
            found = self._counterpart(name)
            if found is None:
                removed.append(name)
                yield _incompatibility("MESSAGE_REMOVED", self._path(name))
            else:
                self._pending.append((found, name))
        self._pending.reverse()
        while self._pending:
            pair = self._pending.pop()
            if pair not in self._compared:
                self._compared.add(pair)
                yield from self._message(*pair)

    def _counterpart(self, name: str) -> str | None:
        """Return the reader's name of a message in the writer's file. The message may
        have moved to an imported file.
        """
        local = _without(name, self._packages[1])
        for candidate in (f"{self._packages[0]}.{local}" if self._packages[0] else local, name):
            if candidate in self._reader:
                return candidate
        return None

    def _path(self, name: str) -> str:
        return "#/" + _without(name, self._packages[1]).replace(".", "/")

    def _message(self, reader_name: str, writer_name: str) -> Iterator[Incompatibility]:
        reader, writer = self._reader[reader_name], self._writer[writer_name]
        path = self._path(writer_name)
        read = {field.number: field for field in reader.field}
        written = {field.number: field for field in writer.field}
        in_oneofs = {field.number: oneof for oneof, fields in _oneofs(writer).items() for field in fields}
        for number, field in written.items():
            other = read.get(number)
            if other is not None:
                yield from self._field(other, field, reader, writer, f"{path}/{number}")
            elif field.label == _REQUIRED:
                yield _incompatibility("REQUIRED_FIELD_REMOVED", f"{path}/{number}")
            elif number in in_oneofs and self._is_kept(in_oneofs[number], reader, writer):
                yield _incompatibility("ONEOF_FIELD_REMOVED", f"{path}/{in_oneofs[number]}/{number}")
        for number, field in read.items():
            added = number not in written or written[number].label != _REQUIRED
            if field.label == _REQUIRED and added:
                yield _incompatibility("REQUIRED_FIELD_ADDED", f"{path}/{number}")
        yield from self._moved(reader, writer, path)

    def _is_kept(self, oneof: str, reader: DescriptorProto, writer: DescriptorProto) -> bool:
        """Return True if the reader has this oneof, perhaps under a new name."""
        kept = _oneofs(reader)
        if oneof in kept:
            return True
        members = {field.number for field in _oneofs(writer)[oneof]}
        return any(members & {field.number for field in fields} for fields in kept.values())

    def _moved(
        self, reader: DescriptorProto, writer: DescriptorProto, path: str
    ) -> Iterator[Incompatibility]:
        """Two fields that a writer may set together must not become alternatives."""
        before = _oneofs(writer)
        written = {field.number for field in writer.field}
        for oneof, fields in _oneofs(reader).items():
            old = {field.number for field in before.get(oneof, ())}
            numbers = {field.number for field in fields if field.number in written}
            moved = numbers - old
            # The fields of a renamed oneof were alternatives before.
            if any(moved <= {field.number for field in others} for others in before.values()) and not (
                numbers & old
            ):
                continue
            if moved and oneof in before:
                yield _incompatibility("FIELD_MOVED_TO_EXISTING_ONEOF", f"{path}/{oneof}")
            elif len(moved) > 1:
                yield _incompatibility("MULTIPLE_FIELDS_MOVED_TO_ONEOF", f"{path}/{oneof}")

    def _field(
        self,
        reader: FieldDescriptorProto,
        writer: FieldDescriptorProto,
        reader_message: DescriptorProto,
        writer_message: DescriptorProto,
        path: str,
    ) -> Iterator[Incompatibility]:
        reader_entry, writer_entry = _entry(reader, reader_message), _entry(writer, writer_message)
        if reader_entry is not None and writer_entry is not None:
            for index in (0, 1):
                yield from self._types(reader_entry.field[index], writer_entry.field[index], path)
        elif reader_entry is not None or writer_entry is not None:
            yield _incompatibility("FIELD_KIND_CHANGED", path)
        else:
            yield from self._types(reader, writer, path)
            repeated = (reader.label == _REPEATED, writer.label == _REPEATED)
            numeric = (
                _KINDS.get(writer.type, "bytes") != "bytes" and _KINDS.get(reader.type, "bytes") != "bytes"
            )
            if repeated[0] != repeated[1] and numeric:
                yield _incompatibility("FIELD_NUMERIC_LABEL_CHANGED", path)

    def _types(
        self, reader: FieldDescriptorProto, writer: FieldDescriptorProto, path: str
    ) -> Iterator[Incompatibility]:
        messages = (reader.type in _MESSAGES, writer.type in _MESSAGES)
        if messages[0] != messages[1] or (messages[0] and reader.type != writer.type):
            yield _incompatibility("FIELD_KIND_CHANGED", path)
        elif not messages[0]:
            if _KINDS[reader.type] != _KINDS[writer.type]:
                yield _incompatibility("FIELD_SCALAR_KIND_CHANGED", path)
        else:
            names = (reader.type_name.lstrip("."), writer.type_name.lstrip("."))
            # The file of a type, and with it the package, may be another one.
            if self._local_names[0][names[0]] != self._local_names[1][names[1]]:
                yield _incompatibility("FIELD_NAMED_TYPE_CHANGED", path)
            else:
                self._pending.append(names)


def _messages(files: Files) -> dict[str, DescriptorProto]:
    found: dict[str, DescriptorProto] = {}
    for file in (*files.imports.values(), files.raw):
        for name, type_ in types_of(file):
            if isinstance(type_, DescriptorProto):
                found[name] = type_
    return found


def _local_names(files: Files) -> dict[str, str]:
    """Return the names of all types without the packages of their files."""
    return {
        name: _without(name, file.package)
        for file in (*files.imports.values(), files.raw)
        for name, _ in types_of(file)
    }


def _oneofs(message: DescriptorProto) -> dict[str, list[FieldDescriptorProto]]:
    found: dict[str, list[FieldDescriptorProto]] = {}
    for field in message.field:
        if field.HasField("oneof_index") and not field.proto3_optional:
            found.setdefault(message.oneof_decl[field.oneof_index].name, []).append(field)
    return found


def _entry(field: FieldDescriptorProto, message: DescriptorProto) -> DescriptorProto | None:
    if field.label != _REPEATED or field.type not in _MESSAGES:
        return None
    name = field.type_name.rpartition(".")[2]
    for nested in message.nested_type:
        if nested.name == name and nested.options.map_entry:
            return nested
    return None


def _without(name: str, package: str) -> str:
    return name.removeprefix(package + ".") if package else name


def _incompatibility(type_: str, path: str) -> Incompatibility:
    return Incompatibility(type_, path, _TEMPLATES[type_].replace("{path}", path))
