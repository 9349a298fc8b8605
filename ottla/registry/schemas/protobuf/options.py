"""Options: Protobuf's own are set, custom ones stay uninterpreted for printing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from google.protobuf import descriptor_pool, message_factory, text_format
from google.protobuf.descriptor_pb2 import FileDescriptorProto, UninterpretedOption

from ottla.registry.schemas.protobuf.lexer import Words, escaped
from ottla.registry.schemas.protobuf.normal_form import options_of

# Options: Protobuf's own are set, custom ones stay uninterpreted for printing.

# Maximum nesting of braces in an option's value.
_MAX_NESTING = 50


class OptionReader:
    def __init__(self, words: Words) -> None:
        self._words = words

    def statement(self, options: Any) -> None:
        """Parse the rest after the word `option`."""
        self.assignment(options)
        self._words.expect(";")

    def assignment(self, options: Any) -> None:
        words = self._words
        option = UninterpretedOption()
        while True:
            if words.take("("):
                option.name.add(name_part=words.type_name(), is_extension=True)
                words.expect(")")
            else:
                option.name.add(name_part=words.name(), is_extension=False)
            if not words.take("."):
                break
        words.expect("=")
        self._value(option)
        if not self._set(options, option):
            options.uninterpreted_option.append(option)

    def _value(self, option: UninterpretedOption) -> None:
        words = self._words
        if words.kind() == "text":
            option.string_value = words.string()
        elif words.at("{"):
            option.aggregate_value = self._aggregate()
        elif words.kind() == "name":
            option.identifier_value = words.next().text
        else:
            negative = words.take("-")
            words.take("+")
            if words.kind() == "name":
                option.double_value = float(("-" if negative else "") + words.name())
            elif words.kind() == "int":
                value = words.number()
                if negative:
                    option.negative_int_value = max(-value, -(2**63))
                elif value < 2**64:
                    option.positive_int_value = value
                else:
                    option.double_value = float(value)
            elif words.kind() == "float":
                option.double_value = float(words.next().text) * (-1 if negative else 1)
            else:
                raise words.error(f"expected the value of an option, not {words.shown()}")

    def _aggregate(self) -> str:
        words = self._words
        words.expect("{")
        parts: list[str] = []
        depth = 1
        while True:
            if words.at_end():
                raise words.error("the value of an option is not closed")
            token = words.next()
            if token.kind == "sign" and token.text in "{<[":
                depth += 1
                if depth > _MAX_NESTING:
                    raise words.error(f"the value of an option is nested deeper than {_MAX_NESTING} levels")
            elif token.kind == "sign" and token.text in "}>]":
                depth -= 1
                if not depth:
                    return " ".join(parts)
            if parts and parts[-1] == "-":
                parts[-1] += token.text
            else:
                parts.append(token.text)

    def _set(self, options: Any, option: UninterpretedOption) -> bool:
        """Set an option defined by Protobuf itself. Return False for others."""
        if len(option.name) != 1 or option.name[0].is_extension:
            return False
        name = option.name[0].name_part
        known = options.DESCRIPTOR.fields_by_name.get(name)
        if known is None:
            raise self._words.error(f"unknown option {name}: options of your own have parentheses")
        if known.is_repeated or known.message_type is not None:
            return False
        if options.HasField(name):
            raise self._words.error(f"the option {name} is set twice")
        try:
            setattr(options, name, self._plain(known, option))
        except (TypeError, ValueError, KeyError):
            raise self._words.error(f"the value of option {name} is of the wrong type") from None
        return True

    def _plain(self, known: Any, option: UninterpretedOption) -> Any:
        if known.enum_type is not None:
            return known.enum_type.values_by_name[option.identifier_value].number
        if known.type == known.TYPE_BOOL:
            return {"true": True, "false": False}[option.identifier_value]
        if known.type == known.TYPE_STRING:
            if not option.HasField("string_value"):
                raise TypeError
            return option.string_value.decode("utf-8")
        raise TypeError


# Custom options: interpreted in descriptors, as in protoc's output, and spelled out in text.
#
# An option with an unknown extension stays unchanged.

_DOUBLES = (1, 2)
_BOOL = 8
_TEXTS = (9, 12)
_MESSAGES = (10, 11)
_ENUM = 14


def interpreted(
    file: FileDescriptorProto,
    imports: Mapping[str, FileDescriptorProto],
    pool: descriptor_pool.DescriptorPool,
) -> FileDescriptorProto:
    """Return a copy of `file` with options converted to fields of the options messages."""
    copy = FileDescriptorProto()
    copy.CopyFrom(file)
    extensions: set[str] | None = None
    for options in options_of(copy):
        if not options.uninterpreted_option:
            continue
        if extensions is None:
            extensions = {name for each in (*imports.values(), file) for name in _extensions(each)}
        try:
            type_ = pool.FindMessageTypeByName(options.DESCRIPTOR.full_name)
        except KeyError:
            continue
        values = message_factory.GetMessageClass(type_)()
        kept = []
        for option in options.uninterpreted_option:
            if not _interpret(option, values, file.package, extensions, pool):
                kept.append(_copied(option))
        options.MergeFromString(values.SerializeToString(deterministic=True))
        del options.uninterpreted_option[:]
        options.uninterpreted_option.extend(kept)
    return copy


def spelled_out(file: FileDescriptorProto, pool: descriptor_pool.DescriptorPool) -> FileDescriptorProto:
    """Return a copy of protoc's descriptor `file` with options as originally written."""
    copy = FileDescriptorProto()
    copy.CopyFrom(file)
    for options in options_of(copy):
        try:
            type_ = pool.FindMessageTypeByName(options.DESCRIPTOR.full_name)
        except KeyError:
            continue
        known = message_factory.GetMessageClass(type_).FromString(options.SerializeToString())
        found = [pair for pair in known.ListFields() if pair[0].is_extension]
        if not found:
            continue
        for extension in list(options.Extensions):
            options.ClearExtension(extension)
        options.DiscardUnknownFields()
        for field, value in found:
            for each in value if field.is_repeated else (value,):
                option = options.uninterpreted_option.add()
                option.name.add(name_part=field.full_name, is_extension=True)
                _spell(option, field, each)
    return copy


def _interpret(
    option: UninterpretedOption,
    values: Any,
    package: str,
    extensions: set[str],
    pool: descriptor_pool.DescriptorPool,
) -> bool:
    """Set the option in `values`. Return True on success."""
    if not option.name or not option.name[0].is_extension:
        return False
    text = _value(option)
    for index, part in enumerate(reversed(option.name)):
        name = _full_name(part.name_part, package, extensions) if part.is_extension else part.name_part
        if name is None:
            return False
        label = f"[{name}]" if part.is_extension else name
        braces = index or option.HasField("aggregate_value")
        text = f"{label} {{ {text} }}" if braces else f"{label}: {text}"
    try:
        text_format.Merge(text, values, descriptor_pool=pool)
    except (text_format.ParseError, KeyError, ValueError, RecursionError):
        return False
    return True


def _full_name(name: str, package: str, extensions: set[str]) -> str | None:
    if name.startswith("."):
        return name[1:] if name[1:] in extensions else None
    scope = package
    while True:
        full = f"{scope}.{name}" if scope else name
        if full in extensions:
            return full
        if not scope:
            return None
        scope = scope.rpartition(".")[0]


def _value(option: UninterpretedOption) -> str:
    if option.HasField("string_value"):
        return f'"{escaped(option.string_value)}"'
    for name in ("aggregate_value", "identifier_value", "positive_int_value", "negative_int_value"):
        if option.HasField(name):
            return str(getattr(option, name))
    return repr(option.double_value)


def _spell(option: UninterpretedOption, field: Any, value: Any) -> None:
    if field.type in _MESSAGES:
        option.aggregate_value = text_format.MessageToString(value, as_one_line=True)
    elif field.type in _TEXTS:
        option.string_value = value.encode() if isinstance(value, str) else value
    elif field.type == _BOOL:
        option.identifier_value = "true" if value else "false"
    elif field.type == _ENUM:
        named = field.enum_type.values_by_number.get(value)
        option.identifier_value = named.name if named is not None else str(value)
    elif field.type in _DOUBLES:
        option.double_value = value
    elif value < 0:
        option.negative_int_value = value
    else:
        option.positive_int_value = value


def _extensions(file: FileDescriptorProto) -> Iterator[str]:
    scope = file.package + "." if file.package else ""
    yield from (scope + extension.name for extension in file.extension)
    stack = [(scope + message.name, message) for message in file.message_type]
    while stack:
        name, message = stack.pop()
        yield from (f"{name}.{extension.name}" for extension in message.extension)
        stack.extend((f"{name}.{nested.name}", nested) for nested in message.nested_type)


def _copied(option: UninterpretedOption) -> UninterpretedOption:
    copy = UninterpretedOption()
    copy.CopyFrom(option)
    return copy
