"""Names and values derived by protoc."""

from __future__ import annotations

from typing import TYPE_CHECKING

from google.protobuf.descriptor_pb2 import FieldDescriptorProto

if TYPE_CHECKING:
    from ottla.registry.schemas.protobuf.words import Words

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
