"""Print Avro types as JSON, with attributes in Java's order."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ottla.registry.schemas.avro.types import Array, AvroType, Enum, Field, Fixed, Map, Named, Record, Union
from ottla.registry.schemas.json_text import MAX_DEPTH, dump
from ottla.registry.schemas.parsed import InvalidSchema

# A type is defined at its first use, so types used before their definition become nested. A record takes three levels
# of JSON.
_MAX_NESTING = MAX_DEPTH // 3


def to_text(root: AvroType, written: set[str], *, sort: bool = False) -> str:
    """Return the schema as text. Types named in `written` are not defined again."""
    return dump(_Printer(set(written), sort).json(root, ""))


class _Printer:
    def __init__(self, written: set[str], sort: bool) -> None:
        self._written = written
        self._sort = sort
        self._depth = 0

    def json(self, type_: AvroType, namespace: str) -> Any:
        if isinstance(type_, Union):
            return [self.json(branch, namespace) for branch in type_.branches]
        if isinstance(type_, Named):
            return self._named(type_, namespace)
        if isinstance(type_, Array):
            return {"type": "array", "items": self.json(type_.items, namespace), **self._props(type_.props)}
        if isinstance(type_, Map):
            return {"type": "map", "values": self.json(type_.values, namespace), **self._props(type_.props)}
        return {"type": type_.type, **self._props(type_.props)} if type_.props else type_.type

    def _named(self, type_: Named, namespace: str) -> Any:
        if type_.full_name in self._written:
            return _relative(type_.full_name, namespace)
        self._written.add(type_.full_name)
        self._depth += 1
        if self._depth > _MAX_NESTING:
            raise InvalidSchema(f"types are defined inside each other to more than {_MAX_NESTING} levels")
        kind = "error" if isinstance(type_, Record) and type_.is_error else type_.type
        out: dict[str, Any] = {"type": kind, "name": type_.name}
        if type_.namespace != namespace:
            out["namespace"] = type_.namespace
        if type_.doc is not None:
            out["doc"] = type_.doc
        if isinstance(type_, Record):
            out["fields"] = [self._field(field, type_.namespace) for field in type_.fields]
        elif isinstance(type_, Enum):
            out["symbols"] = list(type_.symbols)
            if type_.default is not None:
                out["default"] = type_.default
        elif isinstance(type_, Fixed):
            out["size"] = type_.size
        out.update(self._props(type_.props))
        if type_.aliases:
            out["aliases"] = self._names(type_.aliases, lambda name: _relative(name, type_.namespace))
        self._depth -= 1
        return out

    def _field(self, field: Field, namespace: str) -> dict[str, Any]:
        out: dict[str, Any] = {"name": field.name, "type": self.json(field.type, namespace)}
        if field.doc is not None:
            out["doc"] = field.doc
        if field.has_default:
            out["default"] = field.default
        if field.order != "ascending":
            out["order"] = field.order
        if field.aliases:
            out["aliases"] = self._names(field.aliases, lambda name: name)
        out.update(self._props(field.props))
        return out

    def _names(self, names: list[str], spelled: Callable[[str], str]) -> list[str]:
        return [spelled(name) for name in (sorted(names) if self._sort else names)]

    def _props(self, props: dict[str, Any]) -> dict[str, Any]:
        return sorted_deeply(props) if self._sort else props


def sorted_deeply(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: sorted_deeply(value[key]) for key in sorted(value)}
    if isinstance(value, list):
        return [sorted_deeply(item) for item in value]
    return value


def _relative(full_name: str, namespace: str) -> str:
    space, _, name = full_name.rpartition(".")
    return name if space == namespace else full_name
