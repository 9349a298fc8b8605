"""Avro schemas parsed from JSON: nodes with names, defaults and logical types."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

PRIMITIVES = ("null", "boolean", "int", "long", "float", "double", "bytes", "string")

#: Maximum nesting, well below Python's recursion limit.
_DEEPEST = 100
_NAME = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*\Z")
#: Allowed types of each logical type. A logical type on another type is ignored.
_LOGICAL = {
    "date": ("int",),
    "time-millis": ("int",),
    "time-micros": ("long",),
    "timestamp-millis": ("long",),
    "timestamp-micros": ("long",),
    "timestamp-nanos": ("long",),
    "local-timestamp-millis": ("long",),
    "local-timestamp-micros": ("long",),
    "local-timestamp-nanos": ("long",),
    "decimal": ("bytes", "fixed"),
    "uuid": ("string", "fixed"),
    "duration": ("fixed",),
}


class AvroSchemaError(ValueError):
    """The schema is invalid. The message says why."""


@dataclass(eq=False)
class Field:
    name: str
    node: Node
    aliases: tuple[str, ...] = ()
    default: Any = None
    has_default: bool = False


@dataclass(eq=False)
class Node:
    """`of` holds the elements of an array, the values of a map, or the branches of a union."""

    type: str
    logical: str = ""
    name: str = ""
    aliases: tuple[str, ...] = ()
    fields: list[Field] = field(default_factory=list)
    symbols: tuple[str, ...] = ()
    default_symbol: str | None = None
    size: int = 0
    precision: int = 0
    scale: int = 0
    of: list[Node] = field(default_factory=list)
    #: Whether the record is a map entry. Connect encodes maps with nullable keys as an array of entries.
    is_map_entry: bool = False

    @property
    def short_name(self) -> str:
        return self.name.rpartition(".")[2]

    @property
    def branches(self) -> list[Node]:
        return self.of if self.type == "union" else [self]

    def __str__(self) -> str:
        if self.type == "union":
            return f"a union of {', '.join(map(str, self.of))}"
        return f"{self.type} {self.name}" if self.name else self.logical or self.type


def parse(text: str, references: Iterable[str] = ()) -> Node:
    """Parse a schema. `references` are schemas that the text may use, in dependency order."""
    parser = _Parser()
    for other in references:
        parser.node(_loaded(other), "", 0)
    return parser.node(_loaded(text), "", 0)


def _loaded(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        if text.strip() in PRIMITIVES:
            return text.strip()
        raise AvroSchemaError("it is not JSON") from None
    except RecursionError:
        raise AvroSchemaError("it is nested too deeply") from None


class _Parser:
    def __init__(self) -> None:
        self._named: dict[str, Node] = {}

    def node(self, given: Any, space: str, depth: int) -> Node:
        if depth > _DEEPEST:
            raise AvroSchemaError("it is nested too deeply")
        if isinstance(given, str):
            return self._by_name(given, space)
        if isinstance(given, list):
            return self._union(given, space, depth)
        if not isinstance(given, dict):
            raise AvroSchemaError(f"{json.dumps(given)} is no type")
        kind = given.get("type")
        if isinstance(kind, (dict, list)):
            return self.node(kind, space, depth + 1)
        if kind in ("record", "error"):
            return self._record(given, space, depth)
        if kind == "enum":
            return self._enum(given, space)
        if kind == "fixed":
            return self._fixed(given, space)
        if kind in ("array", "map"):
            what = "items" if kind == "array" else "values"
            if what not in given:
                raise AvroSchemaError(f"an {kind} does not say its {what}")
            return Node(kind, of=[self.node(given[what], space, depth + 1)])
        if not isinstance(kind, str):
            raise AvroSchemaError("a type is missing")
        found = self._by_name(kind, space)
        return _with_logical_type(Node(found.type), given) if not found.name else found

    def _by_name(self, name: str, space: str) -> Node:
        if name in PRIMITIVES:
            return Node(name)
        for each in (name if "." in name or not space else f"{space}.{name}", name):
            if each in self._named:
                return self._named[each]
        raise AvroSchemaError(f"there is no type '{name}'")

    def _union(self, given: list[Any], space: str, depth: int) -> Node:
        branches = [self.node(each, space, depth + 1) for each in given]
        if any(each.type == "union" for each in branches):
            raise AvroSchemaError("a union contains a union")
        kinds = [each.name or each.type for each in branches]
        if len(set(kinds)) < len(kinds):
            raise AvroSchemaError(f"a union has the same type twice: {', '.join(kinds)}")
        return Node("union", of=branches)

    def _named_node(self, kind: str, given: dict[str, Any], space: str) -> tuple[Node, str]:
        name = given.get("name")
        if not isinstance(name, str) or _NAME.match(name) is None:
            raise AvroSchemaError(f"the {kind} {json.dumps(name)} has no proper name")
        inner = given.get("namespace", space)
        if "." in name:
            inner = name.rpartition(".")[0]
        elif inner:
            name = f"{inner}.{name}"
        if name in self._named:
            raise AvroSchemaError(f"the type '{name}' is defined twice")
        aliases = tuple(
            each if "." in each or not inner else f"{inner}.{each}" for each in _strings(given, "aliases")
        )
        node = self._named[name] = Node(kind, name=name, aliases=aliases)
        return node, inner

    def _record(self, given: dict[str, Any], space: str, depth: int) -> Node:
        node, inner = self._named_node("record", given, space)
        fields = given.get("fields")
        if not isinstance(fields, list):
            raise AvroSchemaError(f"the record {node.name} has no fields")
        node.is_map_entry = given.get("connect.internal.type") == "MapEntry"
        for each in fields:
            name = each.get("name") if isinstance(each, dict) else None
            if not isinstance(name, str) or "type" not in each:
                raise AvroSchemaError(f"a field of the record {node.name} has no name or no type")
            if any(name == other.name for other in node.fields):
                raise AvroSchemaError(f"the record {node.name} has the field '{name}' twice")
            kind = self.node(each["type"], inner, depth + 1)
            if isinstance(each["type"], str) and not kind.name:
                kind = _with_logical_type(Node(kind.type), each)
            node.fields.append(
                Field(name, kind, _strings(each, "aliases"), each.get("default"), "default" in each)
            )
        return node

    def _enum(self, given: dict[str, Any], space: str) -> Node:
        node, _ = self._named_node("enum", given, space)
        node.symbols = _strings(given, "symbols")
        node.default_symbol = given.get("default")
        if not node.symbols or len(set(node.symbols)) < len(node.symbols):
            raise AvroSchemaError(f"the enum {node.name} has no symbols, or one of them twice")
        if node.default_symbol is not None and node.default_symbol not in node.symbols:
            raise AvroSchemaError(f"the default of the enum {node.name} is none of its symbols")
        return node

    def _fixed(self, given: dict[str, Any], space: str) -> Node:
        node, _ = self._named_node("fixed", given, space)
        size = given.get("size")
        if not isinstance(size, int) or size < 0 or isinstance(size, bool):
            raise AvroSchemaError(f"the size of the fixed {node.name} is no number")
        node.size = size
        return _with_logical_type(node, given)


def _with_logical_type(node: Node, given: dict[str, Any]) -> Node:
    logical = given.get("logicalType")
    if not isinstance(logical, str) or node.type not in _LOGICAL.get(logical, ()):
        return node
    if logical == "decimal":
        precision, scale = given.get("precision"), given.get("scale", 0)
        if not isinstance(precision, int) or not isinstance(scale, int) or not 0 <= scale <= precision > 0:
            return node
        node.precision, node.scale = precision, scale
    if (logical == "duration" and node.size != 12) or (
        logical == "uuid" and node.type == "fixed" and node.size != 16
    ):
        return node
    node.logical = logical
    return node


def _strings(given: dict[str, Any], name: str) -> tuple[str, ...]:
    found = given.get(name, ())
    if not isinstance(found, (list, tuple)) or not all(isinstance(each, str) for each in found):
        raise AvroSchemaError(f"'{name}' is not a list of names")
    return tuple(found)
