"""Parse Avro types from JSON, with the checks of Java's parser: names, symbols, unions, defaults."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ottla.registry.schemas.avro.types import (
    NO_DEFAULT,
    PRIMITIVES,
    Array,
    AvroType,
    Enum,
    Field,
    Fixed,
    Forward,
    Map,
    Named,
    Primitive,
    Record,
    Union,
    is_valid_default,
)
from ottla.registry.schemas.json_text import dump
from ottla.registry.schemas.parsed import InvalidSchema

# Avro's own attributes; all others are properties, which are kept.
_NAMED = {"type", "name", "namespace", "doc", "aliases"}
_RESERVED = {
    "record": _NAMED | {"fields"},
    "error": _NAMED | {"fields"},
    "enum": _NAMED | {"symbols", "default"},
    "fixed": _NAMED | {"size"},
    "array": {"type", "items", "doc", "fields", "name", "namespace", "size", "symbols", "values", "aliases"},
    "map": {"type", "items", "doc", "fields", "name", "namespace", "size", "symbols", "values", "aliases"},
}
_RESERVED_FIELD = {"name", "type", "doc", "default", "order", "aliases"}
_RESERVED_SCHEMA = {
    "doc",
    "fields",
    "items",
    "name",
    "namespace",
    "size",
    "symbols",
    "values",
    "type",
    "aliases",
}


def parse_types(
    document: Any, known: Mapping[str, Named], *, check_defaults: bool = True
) -> tuple[AvroType, dict[str, Named]]:
    """Return the type of `document` and the named types that it defines. `known` are those it may refer to."""
    parser = _Parser(known)
    root = parser.resolved(parser.parse(document, "", ""))
    if check_defaults:
        parser.check_defaults()
    return root, parser.defined


class _Parser:
    def __init__(self, known: Mapping[str, Named]) -> None:
        self._known = known
        self.defined: dict[str, Named] = {}
        self._defaults: list[tuple[Field, str]] = []
        self._forwards = False

    def parse(self, node: Any, namespace: str, path: str) -> AvroType:
        if isinstance(node, str):
            return self._named(node, namespace, path)
        if isinstance(node, dict):
            return self._object(node, namespace, path)
        if isinstance(node, list):
            return self._union(node, namespace, path)
        raise InvalidSchema(f"{_at(path)}a schema is a name, an object or a list, not {dump(node)}")

    def _named(self, name: str, namespace: str, path: str) -> AvroType:
        if name in PRIMITIVES:
            return Primitive(name)
        full = name if "." in name or not namespace else f"{namespace}.{name}"
        found = self._find(full) or self._find(name)
        if found is None:
            found = Forward("forward", {}, full, fallback=name, path=path)
            self._forwards = True
        return found

    def _find(self, full: str) -> Named | None:
        return self.defined.get(full) or self._known.get(full)

    def _object(self, node: dict[str, Any], namespace: str, path: str) -> AvroType:
        kind = node.get("type")
        if not isinstance(kind, str):
            raise InvalidSchema(f"{_at(path)}the schema {_shortened(node)} has no type")
        if kind in PRIMITIVES:
            return Primitive(kind, _props(node, _RESERVED_SCHEMA))
        if kind in ("record", "error"):
            return self._record(node, kind, namespace, path)
        if kind == "enum":
            return self._enum(node, namespace, path)
        if kind == "fixed":
            return self._fixed(node, namespace, path)
        if kind == "array":
            if "items" not in node:
                raise InvalidSchema(f"{_at(path)}the array has no items")
            items = self.parse(node["items"], namespace, path + "/items")
            return Array(kind, _props(node, _RESERVED["array"]), items)
        if kind == "map":
            if "values" not in node:
                raise InvalidSchema(f"{_at(path)}the map has no values")
            values = self.parse(node["values"], namespace, path + "/values")
            return Map(kind, _props(node, _RESERVED["map"]), values)
        return self._named(kind, namespace, path)

    def _union(self, node: list[Any], namespace: str, path: str) -> Union:
        union = Union("union")
        seen: set[str] = set()
        for index, child in enumerate(node):
            branch = self.parse(child, namespace, f"{path}/{index}")
            if isinstance(branch, Union):
                raise InvalidSchema(f"{_at(path)}a union must not directly contain another union")
            if branch.branch in seen:
                raise InvalidSchema(f"{_at(path)}duplicate in union: {branch.branch}")
            seen.add(branch.branch)
            union.branches.append(branch)
        return union

    def _record(self, node: dict[str, Any], kind: str, namespace: str, path: str) -> Record:
        record = Record("record", _props(node, _RESERVED[kind]), is_error=kind == "error")
        self._define(record, node, namespace, path)
        fields = node.get("fields")
        if not isinstance(fields, list):
            raise InvalidSchema(f"{_at(path)}the record {record.full_name} has no list of fields")
        names: set[str] = set()
        for index, item in enumerate(fields):
            field = self._field(item, record, f"{path}/fields/{index}")
            if field.name in names:
                raise InvalidSchema(f"{_at(path)}duplicate field {field.name} in record {record.full_name}")
            names.add(field.name)
            record.fields.append(field)
        return record

    def _field(self, node: Any, record: Record, path: str) -> Field:
        if not isinstance(node, dict):
            raise InvalidSchema(f"{_at(path)}a field is an object, not {_shortened(node)}")
        name = node.get("name")
        if not isinstance(name, str):
            raise InvalidSchema(f"{_at(path)}the field {_shortened(node)} has no name")
        _check_name(name, path)
        if node.get("type") is None:
            raise InvalidSchema(f"{_at(path)}the field {name} has no type")
        order = node.get("order", "ascending")
        if not isinstance(order, str) or order.lower() not in ("ascending", "descending", "ignore"):
            raise InvalidSchema(
                f"{_at(path)}the order of field {name} is ascending, descending or ignore, not {dump(order)}"
            )
        field = Field(
            name,
            self.parse(node["type"], record.namespace, path + "/type"),
            doc=_text(node.get("doc")),
            default=node.get("default", NO_DEFAULT),
            order=order.lower(),  # type: ignore[arg-type]
            aliases=_aliases(node, path),
            props=_props(node, _RESERVED_FIELD),
        )
        if field.has_default:
            if field.type.type in ("float", "double") and isinstance(field.default, str):
                field.default = _number(field.default)
            self._defaults.append((field, path))
        return field

    def _enum(self, node: dict[str, Any], namespace: str, path: str) -> Enum:
        enum = Enum("enum", _props(node, _RESERVED["enum"]))
        self._define(enum, node, namespace, path)
        symbols = node.get("symbols")
        if not isinstance(symbols, list):
            raise InvalidSchema(f"{_at(path)}the enum {enum.full_name} has no list of symbols")
        for symbol in symbols:
            if not isinstance(symbol, str):
                raise InvalidSchema(
                    f"{_at(path)}a symbol of enum {enum.full_name} is text, not {_shortened(symbol)}"
                )
            _check_name(symbol, path)
            enum.symbols.append(symbol)
        if len(set(enum.symbols)) < len(enum.symbols):
            raise InvalidSchema(f"{_at(path)}duplicate symbol in enum {enum.full_name}")
        default = node.get("default")
        if isinstance(default, str):
            if default not in enum.symbols:
                raise InvalidSchema(
                    f"{_at(path)}the default {_shortened(default)} is not a symbol of enum {enum.full_name}"
                )
            enum.default = default
        return enum

    def _fixed(self, node: dict[str, Any], namespace: str, path: str) -> Fixed:
        fixed = Fixed("fixed", _props(node, _RESERVED["fixed"]))
        self._define(fixed, node, namespace, path)
        size = node.get("size")
        if not isinstance(size, int) or isinstance(size, bool) or not 0 <= size < 2**31:
            raise InvalidSchema(f"{_at(path)}the fixed type {fixed.full_name} has no valid size")
        fixed.size = size
        return fixed

    def _define(self, type_: Named, node: dict[str, Any], enclosing: str, path: str) -> None:
        name = node.get("name")
        if not isinstance(name, str):
            raise InvalidSchema(f"{_at(path)}the {node['type']} has no name")
        if "." in name:
            type_.namespace, _, type_.name = name.rpartition(".")
        else:
            given = node.get("namespace")
            type_.namespace = given if isinstance(given, str) else enclosing
            type_.name = name
        _check_full_name(type_.full_name, path)
        type_.doc = _text(node.get("doc"))
        for alias in _aliases(node, path):
            full = alias if "." in alias or not type_.namespace else f"{type_.namespace}.{alias}"
            _check_full_name(full, path)
            type_.aliases.append(full)
        full = type_.full_name
        if full in PRIMITIVES:
            raise InvalidSchema(f"{_at(path)}a type must not have the name of a primitive type: {full}")
        if self._find(full) is not None:
            raise InvalidSchema(f"{_at(path)}can't redefine: {full}")
        self.defined[full] = type_

    def resolved(self, root: AvroType) -> AvroType:
        """Insert types defined after their first use."""
        if not self._forwards:
            return root
        stack: list[AvroType] = [*self.defined.values(), root]
        seen: set[int] = set()
        while stack:
            type_ = stack.pop()
            if id(type_) in seen:
                continue
            seen.add(id(type_))
            if isinstance(type_, Array):
                type_.items = self._now(type_.items)
                stack.append(type_.items)
            elif isinstance(type_, Map):
                type_.values = self._now(type_.values)
                stack.append(type_.values)
            elif isinstance(type_, Union):
                type_.branches = [self._now(branch) for branch in type_.branches]
                stack.extend(type_.branches)
            elif isinstance(type_, Record):
                for field in type_.fields:
                    field.type = self._now(field.type)
                    stack.append(field.type)
        return self._now(root)

    def _now(self, type_: AvroType) -> AvroType:
        if not isinstance(type_, Forward):
            return type_
        found = self._find(type_.name) or self._find(type_.fallback)
        if found is None:
            raise InvalidSchema(f"{_at(type_.path)}undefined type name {_quoted(type_.name)}")
        return found

    def check_defaults(self) -> None:
        """Check defaults last, once all types are complete: a default may be a value of
        the record that has the field.
        """
        for field, path in self._defaults:
            if not is_valid_default(field.type, field.default):
                raise InvalidSchema(
                    f"{_at(path)}the default {_shortened(field.default)} of field {field.name} is not a value of "
                    f"its type {field.type.branch}"
                )


def _check_full_name(full_name: str, path: str) -> None:
    for part in full_name.split("."):
        _check_name(part, path)


def _check_name(name: str, path: str) -> None:
    if not name:
        raise InvalidSchema(f"{_at(path)}a name must not be empty")
    if not (name[0].isalpha() or name[0] == "_"):
        raise InvalidSchema(f"{_at(path)}illegal initial character in name {_quoted(name)}")
    for character in name[1:]:
        if not (character.isalpha() or character.isdecimal() or character == "_"):
            raise InvalidSchema(f"{_at(path)}illegal character in name {_quoted(name)}")


def _aliases(node: dict[str, Any], path: str) -> list[str]:
    aliases = node.get("aliases")
    if aliases is None:
        return []
    if not isinstance(aliases, list) or not all(isinstance(alias, str) for alias in aliases):
        raise InvalidSchema(f"{_at(path)}aliases are a list of names, not {_shortened(aliases)}")
    return list(dict.fromkeys(aliases))


def _props(node: dict[str, Any], reserved: set[str]) -> dict[str, Any]:
    return {key: value for key, value in node.items() if key not in reserved}


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def _number(text: str) -> Any:
    try:
        value = float(text)
    except ValueError:
        return text
    return value


def _quoted(text: str) -> str:
    return dump(text if len(text) <= 100 else text[:100] + "…")


def _shortened(value: Any) -> str:
    text = dump(None if value is NO_DEFAULT else value)
    return text if len(text) <= 100 else text[:100] + "…"


def _at(path: str) -> str:
    return f"at {path}: " if path else ""
