"""Names derived by protoc, and type names resolved by Protobuf's scoping rules: the innermost scope wins."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from google.protobuf.descriptor_pb2 import DescriptorProto, FieldDescriptorProto, FileDescriptorProto

from ottla.registry.schemas.parsed import InvalidSchema

if TYPE_CHECKING:
    from ottla.registry.schemas.protobuf.lexer import Words

# Names and values derived by protoc.

_FLOATS = (1, 2)
_BOOL = 8
_SIGNED = {3: 63, 5: 31, 15: 31, 16: 63, 17: 31, 18: 63}
_UNSIGNED = {4: 64, 6: 64, 7: 32, 13: 32}


def camel_case(name: str) -> str:
    """Return a field's JSON name: `some_field` becomes `someField`."""
    out = []
    raised = False
    for character in name:
        if character == "_":
            raised = True
        else:
            out.append(character.upper() if raised else character)
            raised = False
    return "".join(out)


def map_entry_name(field: str) -> str:
    name = camel_case(field)
    return name[:1].upper() + name[1:] + "Entry"


def default_of(words: Words, field: FieldDescriptorProto) -> str:
    """Return the default of a number, bool or enum in a descriptor's notation."""
    if not field.HasField("type"):
        return words.name()
    if field.type == _BOOL:
        name = words.name()
        if name not in ("true", "false"):
            raise words.error(f"the default of field {field.name} is true or false, not {name}")
        return name
    if field.type in _FLOATS:
        return words.floating()
    if field.type in _SIGNED:
        bits = _SIGNED[field.type]
        return str(words.integer(-(2**bits), 2**bits - 1, f"the default of field {field.name}"))
    return str(words.integer(0, 2 ** _UNSIGNED[field.type] - 1, f"the default of field {field.name}"))


# Resolve type names to full names by Protobuf's scoping rules: the innermost scope wins.

_ENUM = FieldDescriptorProto.TYPE_ENUM
_MESSAGE = FieldDescriptorProto.TYPE_MESSAGE
_GROUP = FieldDescriptorProto.TYPE_GROUP


def resolved(file: FileDescriptorProto, imports: Mapping[str, FileDescriptorProto]) -> FileDescriptorProto:
    """Return a copy of `file` with full names. `imports` contains all direct and indirect imports."""
    copy = FileDescriptorProto()
    copy.CopyFrom(file)
    symbols: dict[str, str] = {}
    for name in dict.fromkeys(_visible(file, imports)):
        _add_symbols(imports[name], symbols)
    _add_symbols(file, symbols)
    resolver = _Resolver(symbols)
    package = file.package
    for message in copy.message_type:
        resolver.message(message, _joined(package, message.name))
    for extension in copy.extension:
        resolver.field(extension, package)
    for service in copy.service:
        scope = _joined(package, service.name)
        for method in service.method:
            method.input_type = resolver.type(method.input_type, scope, method.name)[0]
            method.output_type = resolver.type(method.output_type, scope, method.name)[0]
    return copy


def types_of(file: FileDescriptorProto) -> Iterator[tuple[str, Any]]:
    """Yield every message and enum of `file` with its full name, without a leading dot."""
    for enum in file.enum_type:
        yield _joined(file.package, enum.name), enum
    stack = [(_joined(file.package, message.name), message) for message in reversed(file.message_type)]
    while stack:
        name, message = stack.pop()
        yield name, message
        for enum in message.enum_type:
            yield f"{name}.{enum.name}", enum
        stack.extend((f"{name}.{nested.name}", nested) for nested in reversed(message.nested_type))


def _visible(file: FileDescriptorProto, imports: Mapping[str, FileDescriptorProto]) -> Iterable[str]:
    """Return the imports, and their public imports."""
    stack = list(file.dependency)
    seen: set[str] = set()
    while stack:
        name = stack.pop()
        if name in seen:
            continue
        seen.add(name)
        yield name
        imported = imports[name]
        stack.extend(imported.dependency[index] for index in imported.public_dependency)


def _add_symbols(file: FileDescriptorProto, symbols: dict[str, str]) -> None:
    parts = file.package.split(".") if file.package else []
    for length in range(1, len(parts) + 1):
        symbols.setdefault(".".join(parts[:length]), "package")
    for name, type_ in types_of(file):
        symbols[name] = "message" if isinstance(type_, DescriptorProto) else "enum"


class _Resolver:
    def __init__(self, symbols: Mapping[str, str]) -> None:
        self._symbols = symbols

    def message(self, message: DescriptorProto, scope: str) -> None:
        stack = [(message, scope)]
        while stack:
            message, scope = stack.pop()
            for field in message.field:
                self.field(field, scope)
            for extension in message.extension:
                self.field(extension, scope)
            stack.extend((nested, f"{scope}.{nested.name}") for nested in message.nested_type)

    def field(self, field: FieldDescriptorProto, scope: str) -> None:
        if field.extendee:
            field.extendee, kind = self.type(field.extendee, scope, field.name)
            if kind != "message":
                raise InvalidSchema(f'"{field.extendee}", which is extended, is not a message')
        if not field.type_name:
            return
        field.type_name, kind = self.type(field.type_name, scope, field.name)
        if kind == "enum":
            field.type = _ENUM
        elif field.type != _GROUP:
            field.type = _MESSAGE

    def type(self, name: str, scope: str, user: str) -> tuple[str, str]:
        """Return the full name with a leading dot, and whether it is a message or an enum."""
        if name.startswith("."):
            kind = self._symbols.get(name[1:])
            if kind in ("message", "enum"):
                return name, str(kind)
            raise InvalidSchema(f'the type "{name}" of "{user}" in {scope or "the file"} is not defined')
        first = name.partition(".")[0]
        while True:
            if _joined(scope, first) in self._symbols:
                full = _joined(scope, name)
                kind = self._symbols.get(full)
                if kind in ("message", "enum"):
                    return "." + full, str(kind)
            if not scope:
                raise InvalidSchema(f'the type "{name}" of "{user}" is not defined')
            scope = scope.rpartition(".")[0]


def _joined(scope: str, name: str) -> str:
    return f"{scope}.{name}" if scope else name
