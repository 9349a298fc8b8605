"""The types of an Avro schema, their defaults, and their JSON."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

from ottla.registry.schemas.json_text import MAX_DEPTH, dump
from ottla.registry.schemas.parsed import InvalidSchema, Steps, run

# The types of an Avro schema. Named types are compared by identity: a recursive type contains itself.

PRIMITIVES = ("null", "boolean", "int", "long", "float", "double", "bytes", "string")

NO_DEFAULT: Any = object()


@dataclass(eq=False)
class AvroType:
    type: str
    props: dict[str, Any] = field(default_factory=dict)
    """What Avro itself does not know, logical types among them."""

    @property
    def branch(self) -> str:
        """The type's name in messages, unique within a union."""
        return self.type


@dataclass(eq=False)
class Primitive(AvroType):
    pass


@dataclass(eq=False)
class Array(AvroType):
    items: AvroType = None  # type: ignore[assignment]


@dataclass(eq=False)
class Map(AvroType):
    values: AvroType = None  # type: ignore[assignment]


@dataclass(eq=False)
class Union(AvroType):
    branches: list[AvroType] = field(default_factory=list)


@dataclass(eq=False)
class Named(AvroType):
    name: str = ""
    namespace: str = ""
    doc: str | None = None
    aliases: list[str] = field(default_factory=list)
    """Full names."""

    @property
    def full_name(self) -> str:
        return f"{self.namespace}.{self.name}" if self.namespace else self.name

    @property
    def branch(self) -> str:
        return self.full_name


@dataclass(eq=False)
class Fixed(Named):
    size: int = 0


@dataclass(eq=False)
class Enum(Named):
    symbols: list[str] = field(default_factory=list)
    default: str | None = None


@dataclass(eq=False)
class Field:
    name: str
    type: AvroType
    doc: str | None = None
    default: Any = NO_DEFAULT
    order: Literal["ascending", "descending", "ignore"] = "ascending"
    aliases: list[str] = field(default_factory=list)
    props: dict[str, Any] = field(default_factory=dict)

    @property
    def has_default(self) -> bool:
        return self.default is not NO_DEFAULT


@dataclass(eq=False)
class Record(Named):
    fields: list[Field] = field(default_factory=list)
    is_error: bool = False


@dataclass(eq=False)
class Forward(Named):
    """A name used before its definition. A parsed schema contains none."""

    fallback: str = ""
    """The name in no namespace."""
    path: str = ""


# Check whether a JSON value is a valid default of an Avro type, like Java's parser.


def is_valid_default(type_: AvroType, value: Any) -> bool:
    return run(_valid(type_, value, set()))


def _valid(type_: AvroType, value: Any, open_records: set[tuple[int, int]]) -> Steps[bool]:
    match type_.type:
        case "string" | "bytes" | "fixed" | "enum":
            return isinstance(value, str)
        case "int":
            return _is_integer(value) and -(2**31) <= value < 2**31
        case "long":
            return _is_integer(value) and -(2**63) <= value < 2**63
        case "float" | "double":
            return isinstance(value, int | float) and not isinstance(value, bool)
        case "boolean":
            return isinstance(value, bool)
        case "null":
            return value is None
    if isinstance(type_, Array):
        if not isinstance(value, list):
            return False
        for item in value:
            if not (yield _valid(type_.items, item, open_records)):
                return False
        return True
    if isinstance(type_, Map):
        if not isinstance(value, dict):
            return False
        for item in value.values():
            if not (yield _valid(type_.values, item, open_records)):
                return False
        return True
    if isinstance(type_, Union):
        for branch in type_.branches:
            if (yield _valid(branch, value, open_records)):
                return True
        return False
    assert isinstance(type_, Record)
    if not isinstance(value, dict):
        return False
    # A field missing in the value gets its own default: a record whose default needs itself has none.
    here = (id(type_), id(value))
    if here in open_records:
        return False
    open_records.add(here)
    try:
        for field in type_.fields:
            if field.name in value:
                given = value[field.name]
            elif field.has_default:
                given = field.default
            else:
                return False
            if not (yield _valid(field.type, given, open_records)):
                return False
    finally:
        open_records.discard(here)
    return True


def _is_integer(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


# Print Avro types as JSON, with attributes in Java's order.

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
