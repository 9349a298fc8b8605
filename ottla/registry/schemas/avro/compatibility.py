"""Check whether data of one Avro schema can be read with another: the rules of Java's SchemaCompatibility.

Logical types do not matter. A pair of types under comparison counts as compatible where it recurs.
"""

from __future__ import annotations

from typing import Any

from ottla.registry.schemas.avro.types import Array, AvroType, Enum, Field, Fixed, Map, Named, Record, Union
from ottla.registry.schemas.parsed import Incompatibility, Steps, run

# Primitive types that a reader accepts besides its own.
_PROMOTIONS = {
    "long": {"int"},
    "float": {"int", "long"},
    "double": {"int", "long", "float"},
    "bytes": {"string"},
    "string": {"bytes"},
}

_TEMPLATES = {
    "NAME_MISMATCH": "The name of the schema has changed (path '{path}')",
    "FIXED_SIZE_MISMATCH": "The size of FIXED type field at path '{path}' in the {reader} schema does not match with "
    "the {writer} schema",
    "MISSING_ENUM_SYMBOLS": "The {reader} schema is missing enum symbols '{info}' at path '{path}' in the {writer} "
    "schema",
    "READER_FIELD_MISSING_DEFAULT_VALUE": "The field '{info}' at path '{path}' in the {reader} schema has no default "
    "value and is missing in the {writer} schema",
    "TYPE_MISMATCH": "The type (path '{path}') of a field in the {reader} schema does not match with the {writer} "
    "schema",
    "MISSING_UNION_BRANCH": "The {reader} schema is missing a type inside a union field at path '{path}' in the "
    "{writer} schema",
}

Result = list[Incompatibility]
# Position in the schema, from the inside out: mutually recursive types may be nested to any depth.
Path = tuple[Any, str] | None


def check_types(reader: AvroType, writer: AvroType) -> Result:
    found = run(_Comparison().compare(reader, writer, None))
    return list(dict.fromkeys(found))


class _Comparison:
    def __init__(self) -> None:
        # None during the comparison of a pair.
        self._pairs: dict[tuple[int, int], Result | None] = {}
        self._readable: list[tuple[int, int]] = []
        self._branches: dict[int, dict[str, list[AvroType]]] = {}

    def compare(self, reader: AvroType, writer: AvroType, path: Path) -> Steps[Result]:
        if reader.type == writer.type and not isinstance(reader, Named | Array | Map | Union):
            return []
        pair = (id(reader), id(writer))
        if pair in self._pairs:
            return self._pairs[pair] or []
        self._pairs[pair] = None
        before = len(self._readable)
        result: Result = yield self._compare(reader, writer, path)
        self._pairs[pair] = result
        if result:
            # Inner pairs were found readable on the assumption that this pair is.
            for below in self._readable[before:]:
                del self._pairs[below]
            del self._readable[before:]
        else:
            self._readable.append(pair)
        return result

    def _compare(self, reader: AvroType, writer: AvroType, path: Path) -> Steps[Result]:
        found: Result
        if isinstance(writer, Union):
            found = yield self._writer_union(reader, writer, path)
            return found
        if isinstance(reader, Union):
            for branch in self._candidates(reader, writer):
                if not (yield self.compare(branch, writer, path)):
                    return []
            return [_missing_branch(writer, path)]
        if isinstance(reader, Array) and isinstance(writer, Array):
            found = yield self.compare(reader.items, writer.items, (path, "items"))
            return found
        if isinstance(reader, Map) and isinstance(writer, Map):
            found = yield self.compare(reader.values, writer.values, (path, "values"))
            return found
        if isinstance(reader, Fixed) and isinstance(writer, Fixed):
            return _names(reader, writer, path) + _sizes(reader, writer, path)
        if isinstance(reader, Enum) and isinstance(writer, Enum):
            return _names(reader, writer, path) + _symbols(reader, writer, path)
        if isinstance(reader, Record) and isinstance(writer, Record):
            found = yield self._fields(reader, writer, (path, "fields"))
            return _names(reader, writer, path) + found
        if writer.type in _PROMOTIONS.get(reader.type, ()):
            return []
        info = f"reader type: {reader.type.upper()} not compatible with writer type: {writer.type.upper()}"
        return [_incompatibility("TYPE_MISMATCH", path, info)]

    def _candidates(self, reader: Union, writer: AvroType) -> list[AvroType]:
        """Return the branches that may read the writer, to avoid comparing all pairs in
        unions of thousands of records.
        """
        if not isinstance(writer, Named):
            return reader.branches
        by_name = self._branches.get(id(reader))
        if by_name is None:
            by_name = self._branches[id(reader)] = {}
            for branch in reader.branches:
                if isinstance(branch, Named):
                    for name in {branch.name, *branch.aliases}:
                        by_name.setdefault(name, []).append(branch)
        return [*by_name.get(writer.name, ()), *by_name.get(writer.full_name, ())]

    def _writer_union(self, reader: AvroType, writer: Union, path: Path) -> Steps[Result]:
        result: Result = []
        for index, branch in enumerate(writer.branches):
            here = (path, str(index))
            found = yield self.compare(reader, branch, here)
            if found and isinstance(reader, Union):
                result.append(_missing_branch(branch, here))
            else:
                result.extend(found)
        return result

    def _fields(self, reader: Record, writer: Record, path: Path) -> Steps[Result]:
        result: Result = []
        by_name = {field.name: field for field in writer.fields}
        for index, field in enumerate(reader.fields):
            here = (path, str(index))
            written = _written_field(field, by_name)
            if written is not None:
                result.extend((yield self.compare(field.type, written.type, (here, "type"))))
            elif field.has_default:
                continue
            elif isinstance(field.type, Enum) and field.type.default is not None:
                # Java looks for the enum in the record and reports that.
                result.extend((yield self.compare(field.type, writer, (here, "type"))))
            else:
                result.append(_incompatibility("READER_FIELD_MISSING_DEFAULT_VALUE", here, field.name))
        return result


def _written_field(field: Field, by_name: dict[str, Field]) -> Field | None:
    for name in (field.name, *field.aliases):
        if name in by_name:
            return by_name[name]
    return None


def _names(reader: Named, writer: Named, path: Path) -> Result:
    if reader.name == writer.name or writer.full_name in reader.aliases:
        return []
    return [_incompatibility("NAME_MISMATCH", (path, "name"), f"expected: {writer.full_name}")]


def _sizes(reader: Fixed, writer: Fixed, path: Path) -> Result:
    if reader.size == writer.size:
        return []
    info = f"expected: {writer.size}, found: {reader.size}"
    return [_incompatibility("FIXED_SIZE_MISMATCH", (path, "size"), info)]


def _symbols(reader: Enum, writer: Enum, path: Path) -> Result:
    missing = sorted(set(writer.symbols) - set(reader.symbols))
    if not missing or reader.default is not None:
        return []
    return [_incompatibility("MISSING_ENUM_SYMBOLS", (path, "symbols"), f"[{', '.join(missing)}]")]


def _missing_branch(writer: AvroType, path: Path) -> Incompatibility:
    return _incompatibility(
        "MISSING_UNION_BRANCH", path, f"reader union lacking writer type: {writer.type.upper()}"
    )


def _incompatibility(type_: str, path: Path, info: str) -> Incompatibility:
    parts: list[str] = []
    while path is not None:
        path, part = path
        parts.append(part)
    where = "/" + "/".join(reversed(parts))
    template = _TEMPLATES[type_].replace("{path}", where).replace("{info}", info)
    return Incompatibility(type_, where, template, info, quote="'")
