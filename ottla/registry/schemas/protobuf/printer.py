"""Print a FileDescriptorProto as .proto text, laid out as in Confluent's registry."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from google.protobuf.descriptor_pb2 import (
    DescriptorProto,
    EnumDescriptorProto,
    FieldDescriptorProto,
    FileDescriptorProto,
    ServiceDescriptorProto,
    UninterpretedOption,
)

from ottla.registry.schemas.json_text import java_double
from ottla.registry.schemas.protobuf.lexer import escaped, quoted
from ottla.registry.schemas.protobuf.parser import SCALARS, Layout
from ottla.registry.schemas.protobuf.resolver import camel_case

_NAMES = {number: name for name, number in SCALARS.items()}
_LABELS = {1: "optional ", 2: "required ", 3: "repeated "}
_GROUP = FieldDescriptorProto.TYPE_GROUP
_MAX_FIELD = 2**29 - 1
_MAX_ENUM = 2**31 - 1


def to_text(file: FileDescriptorProto, layout: Layout, *, sort_options: bool = False) -> str:
    """Print a file. `sort_options` sorts options by name; otherwise Protobuf's own precede custom ones."""
    return "".join(line + "\n" for line in _Printer(file, layout, sort_options).lines())


class _Printer:
    def __init__(self, file: FileDescriptorProto, layout: Layout, sort_options: bool) -> None:
        self._file = file
        self._layout = layout
        self._sort_options = sort_options
        self._proto3 = file.syntax == "proto3"

    def lines(self) -> Iterator[str]:
        file = self._file
        yield f'syntax = "{file.syntax or "proto2"}";'
        if file.package:
            yield f"package {file.package};"
        if file.dependency:
            yield ""
            # Public imports follow the others.
            public = set(file.public_dependency)
            weak = set(file.weak_dependency)
            for index, name in enumerate(file.dependency):
                if index not in public:
                    yield f"import {'weak ' if index in weak else ''}{quoted(name)};"
            for index in sorted(public):
                yield f"import public {quoted(file.dependency[index])};"
        options = list(self._options(file.options)) if file.HasField("options") else []
        if options:
            yield ""
            yield from (f"option {option};" for option in options)
        if file.message_type or file.enum_type:
            yield ""
            groups = {field.type_name.rpartition(".")[2] for field in file.extension if field.type == _GROUP}
            yield from self._types("", file.message_type, file.enum_type, groups)
        if file.extension:
            yield ""
            yield from self._extensions(file.extension, file.message_type)
        if file.service:
            yield ""
            for service in file.service:
                yield from self._service(service)

    def _types(self, path: str, messages: Any, enums: Any, hidden: set[str]) -> Iterator[str]:
        order = {name: index for index, name in enumerate(self._layout.get(path, ()))}
        types: list[Any] = [
            *(
                message
                for message in messages
                if message.name not in hidden and not message.options.map_entry
            ),
            *enums,
        ]
        types.sort(key=lambda type_: order.get(type_.name, len(order)))
        for type_ in types:
            if isinstance(type_, EnumDescriptorProto):
                yield from self._enum(type_)
            else:
                inner = f"{path}.{type_.name}" if path else type_.name
                yield f"message {type_.name} {{"
                yield from _indented(self._members(type_, inner))
                yield "}"

    def _members(self, message: DescriptorProto, path: str) -> Iterator[str]:
        """Yield sections separated by empty lines."""
        entries = {nested.name: nested for nested in message.nested_type if nested.options.map_entry}
        groups = {
            field.type_name.rpartition(".")[2]
            for field in (*message.field, *message.extension)
            if field.type == _GROUP
        }
        sections: list[list[str]] = [
            list(_reserved(message.reserved_range, message.reserved_name, 1, _MAX_FIELD)),
            [f"option {option};" for option in self._options(message.options)]
            if message.HasField("options")
            else [],
            [
                line
                for field in message.field
                if not field.HasField("oneof_index") or field.proto3_optional
                for line in self._field(field, message, entries, path)
            ],
        ]
        for index, oneof in enumerate(message.oneof_decl):
            fields = [
                field
                for field in message.field
                if field.HasField("oneof_index") and field.oneof_index == index and not field.proto3_optional
            ]
            if not fields:
                continue
            lines = [f"option {option};" for option in self._options(oneof.options)]
            for field in fields:
                lines.extend(self._field(field, message, entries, path, in_oneof=True))
            sections.append([f"oneof {oneof.name} {{", *_indented(lines), "}"])
        sections.append(list(self._extension_ranges(message)))
        sections.append(list(self._types(path, message.nested_type, message.enum_type, groups)))
        if message.extension:
            sections.append(list(self._extensions(message.extension, message.nested_type)))
        first = True
        for section in sections:
            if section:
                if not first:
                    yield ""
                first = False
                yield from section

    def _field(
        self,
        field: FieldDescriptorProto,
        message: DescriptorProto | None,
        entries: dict[str, DescriptorProto],
        path: str,
        *,
        in_oneof: bool = False,
        groups: Any = (),
    ) -> Iterator[str]:
        options = self._field_options(field)
        label = "" if in_oneof else _LABELS[field.label]
        if self._proto3 and field.label == 1 and not field.proto3_optional:
            label = ""
        entry = entries.get(field.type_name.rpartition(".")[2]) if field.label == 3 else None
        if field.type == _GROUP:
            name = field.type_name.rpartition(".")[2]
            nested = next(
                type_ for type_ in (message.nested_type if message else groups) if type_.name == name
            )
            yield f"{label}group {name} = {field.number}{options} {{"
            yield from _indented(self._members(nested, f"{path}.{name}" if path else name))
            yield "}"
        elif entry is not None:
            key, value = entry.field
            yield f"map<{_type(key)}, {_type(value)}> {field.name} = {field.number}{options};"
        else:
            yield f"{label}{_type(field)} {field.name} = {field.number}{options};"

    def _extensions(self, extensions: Any, groups: Any) -> Iterator[str]:
        extendees = list(dict.fromkeys(field.extendee for field in extensions))
        for extendee in extendees:
            yield f"extend {extendee} {{"
            for field in extensions:
                if field.extendee == extendee:
                    yield from _indented(self._field(field, None, {}, "", groups=groups))
            yield "}"

    def _enum(self, enum: EnumDescriptorProto) -> Iterator[str]:
        yield f"enum {enum.name} {{"
        lines = [f"option {option};" for option in self._options(enum.options)]
        lines.extend(_reserved(enum.reserved_range, enum.reserved_name, 0, _MAX_ENUM))
        for value in enum.value:
            options = ", ".join(self._options(value.options))
            lines.append(f"{value.name} = {value.number}{f' [{options}]' if options else ''};")
        yield from _indented(lines)
        yield "}"

    def _service(self, service: ServiceDescriptorProto) -> Iterator[str]:
        yield f"service {service.name} {{"
        lines = [f"option {option};" for option in self._options(service.options)]
        for method in service.method:
            takes = ("stream " if method.client_streaming else "") + method.input_type
            gives = ("stream " if method.server_streaming else "") + method.output_type
            options = [f"option {option};" for option in self._options(method.options)]
            head = f"rpc {method.name} ({takes}) returns ({gives})"
            if options:
                lines.extend((head + " {", *_indented(options), "};"))
            else:
                lines.append(head + ";")
        yield from _indented(lines)
        yield "}"

    def _options(self, options: Any) -> list[str]:
        return self._in_order(option_texts(options))

    def _field_options(self, field: FieldDescriptorProto) -> str:
        texts = []
        if field.HasField("default_value"):
            texts.append(f"default = {_default(field)}")
        if field.HasField("json_name") and field.json_name != camel_case(field.name):
            texts.append(f"json_name = {quoted(field.json_name)}")
        texts.extend(option_texts(field.options) if field.HasField("options") else ())
        return f" [{', '.join(self._in_order(texts))}]" if texts else ""

    def _extension_ranges(self, message: DescriptorProto) -> Iterator[str]:
        for item in message.extension_range:
            options = ", ".join(self._options(item.options)) if item.HasField("options") else ""
            where = _range(item.start, item.end - 1, _MAX_FIELD)
            yield f"extensions {where}{f' [{options}]' if options else ''};"

    def _in_order(self, texts: Iterable[str]) -> list[str]:
        """Sort options by name, without parentheses. Values of a repeated option keep their order."""
        if not self._sort_options:
            return list(texts)
        return sorted(texts, key=lambda text: text.partition(" = ")[0].replace("(", "").replace(")", ""))


def _indented(lines: Any) -> Iterator[str]:
    for line in lines:
        yield "  " + line if line else line


def _type(field: FieldDescriptorProto) -> str:
    return str(field.type_name or _NAMES[field.type])


def _reserved(ranges: Any, names: Any, beyond: int, highest: int) -> Iterator[str]:
    """`beyond` is 1 if the end of a range is exclusive."""
    for item in ranges:
        yield f"reserved {_range(item.start, item.end - beyond, highest)};"
    for name in names:
        yield f"reserved {quoted(name)};"


def _range(first: int, last: int, highest: int) -> str:
    return str(first) if first == last else f"{first} to {'max' if last == highest else last}"


def _default(field: FieldDescriptorProto) -> str:
    if field.type == SCALARS["string"]:
        return quoted(field.default_value)
    if field.type == SCALARS["bytes"]:
        return f'"{field.default_value}"'
    return str(field.default_value)


def option_texts(options: Any) -> Iterator[str]:
    """Yield `name = value` of each option, Protobuf's own first."""
    for known, value in sorted(options.ListFields(), key=lambda item: item[0].number):
        if known.name == "uninterpreted_option" or known.name == "map_entry" or known.is_extension:
            continue
        if known.message_type is not None or known.is_repeated:
            continue
        yield f"{known.name} = {_known_value(known, value)}"
    for option in options.uninterpreted_option:
        yield f"{_option_name(option)} = {_option_value(option)}"


def _known_value(known: Any, value: Any) -> str:
    if known.enum_type is not None:
        return str(known.enum_type.values_by_number[value].name)
    if isinstance(value, bool):
        return "true" if value else "false"
    return quoted(value)


def _option_name(option: UninterpretedOption) -> str:
    return ".".join(f"({part.name_part})" if part.is_extension else part.name_part for part in option.name)


def _option_value(option: UninterpretedOption) -> str:
    if option.HasField("string_value"):
        try:
            return quoted(option.string_value.decode())
        except UnicodeDecodeError:
            return f'"{escaped(option.string_value)}"'
    if option.HasField("aggregate_value"):
        return f"{{ {option.aggregate_value} }}"
    if option.HasField("identifier_value"):
        return str(option.identifier_value)
    if option.HasField("positive_int_value"):
        return str(option.positive_int_value)
    if option.HasField("negative_int_value"):
        return str(option.negative_int_value)
    return java_double(option.double_value).strip('"').replace("Infinity", "inf").replace("NaN", "nan")
