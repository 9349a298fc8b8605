"""Normalized descriptors: one order for all spellings of a file, and files without extensions."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from google.protobuf.descriptor_pb2 import DescriptorProto, FileDescriptorProto


def normal_form(file: FileDescriptorProto) -> FileDescriptorProto:
    """Sort imports and options by name, fields and enum values by number.

    Messages keep their order, since serializers refer to them by index.
    """
    copy = FileDescriptorProto()
    copy.CopyFrom(file)
    public = {copy.dependency[index] for index in copy.public_dependency}
    weak = {copy.dependency[index] for index in copy.weak_dependency}
    names = sorted(copy.dependency)
    del copy.dependency[:], copy.public_dependency[:], copy.weak_dependency[:]
    copy.dependency.extend(names)
    copy.public_dependency.extend(index for index, name in enumerate(names) if name in public)
    copy.weak_dependency.extend(index for index, name in enumerate(names) if name in weak)
    for message in _messages(copy):
        _sort(message.field, lambda field: field.number)
        _sort(message.reserved_range, lambda item: item.start)
        _sort(message.extension_range, lambda item: item.start)
        message.reserved_name.sort()
        for enum in message.enum_type:
            _sort_enum(enum)
    for enum in copy.enum_type:
        _sort_enum(enum)
    for options in options_of(copy):
        _sort(options.uninterpreted_option, lambda option: [part.name_part for part in option.name])
    return copy


def without_extensions(file: FileDescriptorProto) -> FileDescriptorProto:
    """Remove extensions, and options that need them."""
    copy = FileDescriptorProto()
    copy.CopyFrom(file)
    del copy.extension[:]
    for message in _messages(copy):
        del message.extension[:]
    for options in options_of(copy):
        del options.uninterpreted_option[:]
        options.DiscardUnknownFields()
        for extension in list(options.Extensions):
            options.ClearExtension(extension)
    return copy


def _sort_enum(enum: Any) -> None:
    # Among values with the same number the first name counts: the stable sort preserves it.
    first = [value for value in enum.value if value.number == 0]
    _sort(enum.value, lambda value: value.number)
    _sort(enum.reserved_range, lambda item: item.start)
    enum.reserved_name.sort()
    if first and enum.value[0].number != 0:
        # proto3 requires zero first.
        _sort(enum.value, lambda value: (value.number != 0, value.number))


def _sort(items: Any, key: Callable[[Any], Any]) -> None:
    ordered = sorted((_copied(item) for item in items), key=key)
    del items[:]
    items.extend(ordered)


def _copied(item: Any) -> Any:
    copy = type(item)()
    copy.CopyFrom(item)
    return copy


def _messages(file: FileDescriptorProto) -> Iterator[DescriptorProto]:
    stack = list(file.message_type)
    while stack:
        message = stack.pop()
        yield message
        stack.extend(message.nested_type)


def options_of(file: FileDescriptorProto) -> Iterator[Any]:
    """Yield all options set in the file."""
    holders: list[Any] = [file, *file.extension, *file.service]
    holders.extend(method for service in file.service for method in service.method)
    enums = list(file.enum_type)
    for message in _messages(file):
        holders.extend(
            (message, *message.field, *message.oneof_decl, *message.extension, *message.extension_range)
        )
        enums.extend(message.enum_type)
    for enum in enums:
        holders.extend((enum, *enum.value))
    for holder in holders:
        if holder.HasField("options"):
            yield holder.options
