"""The types of an Avro schema. Named types are compared by identity: a recursive type contains itself."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

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
