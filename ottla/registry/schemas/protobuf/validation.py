"""Checks of protoc on a syntactically correct file."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import pairwise
from typing import Any

from google.protobuf import descriptor_pool
from google.protobuf.descriptor_pb2 import DescriptorProto, EnumDescriptorProto, FileDescriptorProto

from ottla.registry.schemas.parsed import InvalidSchema
from ottla.registry.schemas.protobuf.resolver import types_of

_REQUIRED = 2
_OWN_NUMBERS = range(19000, 20000)


def validate(
    file: FileDescriptorProto, imports: Mapping[str, FileDescriptorProto]
) -> descriptor_pool.DescriptorPool:
    """Return a pool with `file`, which has full names, and all its imports. Raises `InvalidSchema`."""
    proto3 = file.syntax == "proto3"
    _check_names(
        file.package, "the file", (*file.message_type, *file.enum_type, *file.service, *file.extension)
    )
    for name, type_ in types_of(file):
        if isinstance(type_, DescriptorProto):
            _check_message(name, type_, proto3)
        else:
            _check_enum(name, type_, proto3)
    return pool_of(file, imports)


def _check_names(scope: str, where: str, items: Iterable[Any]) -> None:
    seen: set[str] = set()
    for item in items:
        # The values of an enum are in the scope of their parent, as in C++.
        values = [value.name for value in item.value] if isinstance(item, EnumDescriptorProto) else []
        for name in (item.name, *values):
            if name in seen:
                raise InvalidSchema(f'"{name}" is defined twice in {where}')
            seen.add(name)


def _check_message(name: str, message: DescriptorProto, proto3: bool) -> None:
    _check_names(
        name,
        name,
        (*message.field, *message.nested_type, *message.enum_type, *message.oneof_decl, *message.extension),
    )
    numbers: dict[int, str] = {}
    reserved = [(item.start, item.end, "reserved") for item in message.reserved_range]
    reserved += [(item.start, item.end, "in an extension range") for item in message.extension_range]
    for field in message.field:
        if field.number in numbers:
            raise InvalidSchema(
                f"the number {field.number} of {name}.{field.name} is that of {numbers[field.number]}"
            )
        numbers[field.number] = field.name
        if field.number in _OWN_NUMBERS:
            raise InvalidSchema(f"the numbers 19000 to 19999 are Protobuf's own: {name}.{field.name}")
        for start, end, what in reserved:
            if start <= field.number < end:
                raise InvalidSchema(
                    f"the number {field.number} of {name}.{field.name} is in {what}".replace("in r", "r")
                )
        if field.name in message.reserved_name:
            raise InvalidSchema(f"the name of {name}.{field.name} is reserved")
        if proto3 and field.label == _REQUIRED:
            raise InvalidSchema(f"{name}.{field.name}: proto3 has no required fields")
    ordered = sorted(reserved)
    for (_, end, _), (start, _, _) in pairwise(ordered):
        if start < end:
            raise InvalidSchema(f"ranges of {name} overlap at {start}")


def _check_enum(name: str, enum: EnumDescriptorProto, proto3: bool) -> None:
    if not enum.value:
        raise InvalidSchema(f"the enum {name} has no values")
    if proto3 and enum.value[0].number != 0:
        raise InvalidSchema(f"the first value of enum {name} must be zero in proto3")
    numbers: dict[int, str] = {}
    for value in enum.value:
        if value.number in numbers and not enum.options.allow_alias:
            raise InvalidSchema(
                f"{name}.{value.name} has the number of {numbers[value.number]}: "
                "aliases need `option allow_alias = true;`"
            )
        numbers[value.number] = value.name
        if any(item.start <= value.number <= item.end for item in enum.reserved_range):
            raise InvalidSchema(f"the number {value.number} of {name}.{value.name} is reserved")
        if value.name in enum.reserved_name:
            raise InvalidSchema(f"the name of {name}.{value.name} is reserved")


def pool_of(
    file: FileDescriptorProto, imports: Mapping[str, FileDescriptorProto]
) -> descriptor_pool.DescriptorPool:
    """Return a pool with the file. A file refused by the library would fail in every client, too."""
    pool = descriptor_pool.DescriptorPool()
    try:
        for name in in_order(file, imports):
            pool.Add(imports[name])
        copy = FileDescriptorProto()
        copy.CopyFrom(file)
        copy.name = copy.name or "default.proto"
        pool.Add(copy)
        pool.FindFileByName(copy.name)
    except (TypeError, KeyError) as error:
        text = str(error).rpartition("descriptor pool:")[2].strip() or str(error)
        raise InvalidSchema(text) from None
    return pool


def in_order(file: FileDescriptorProto, imports: Mapping[str, FileDescriptorProto]) -> list[str]:
    """Return the names of all imports, each after its own imports."""
    ordered: dict[str, None] = {}
    stack: list[tuple[str, bool]] = [(name, False) for name in reversed(file.dependency)]
    while stack:
        name, complete = stack.pop()
        if name in ordered:
            continue
        if complete:
            ordered[name] = None
        else:
            stack.append((name, True))
            stack.extend(
                (inner, False) for inner in reversed(imports[name].dependency) if inner not in ordered
            )
    return list(ordered)
