"""How a table's columns follow the schemas of its topic: fields are added, widened and renamed, and never dropped.

A schema that does not fit is a breaking change: its records become dead letters, and the table goes on.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import pyarrow as pa

from ottla.spark.tables.schemas.columns import FIXED_NAMES, lake_type, sql_name

Path = tuple[str, ...]

_INTEGERS = (pa.int32(), pa.int64())


class Breaking(Exception):
    """A schema does not fit the table. The message says why, and completes "the record cannot be stored: …"."""


@dataclass(frozen=True)
class Shape:
    """A field of a schema, with everything that identifies it in other versions of the schema.

    A struct has its fields as children, a list one child, and a map its key and its value.
    """

    name: str
    type: pa.DataType
    aliases: tuple[str, ...] = ()
    #: Number of a Protobuf field, or 0.
    number: int = 0
    children: tuple[Shape, ...] = ()
    #: Name of the column, once `Names` has given it.
    column: str = ""


def plain_shape(name: str, kind: pa.DataType) -> Shape:
    """Return the shape of a type whose fields have only names."""
    if pa.types.is_struct(kind):
        children: tuple[Shape, ...] = tuple(plain_shape(each.name, each.type) for each in kind)
    elif pa.types.is_list(kind) or pa.types.is_large_list(kind):
        children = (plain_shape("element", kind.value_type),)
    elif pa.types.is_map(kind):
        children = (plain_shape("key", kind.key_type), plain_shape("value", kind.item_type))
    else:
        children = ()
    return Shape(name, kind, (), 0, children, name)


def renamed(shape: Shape, path: Sequence[str], name: str) -> Shape:
    """Return the shape with another column name for the field at this path of column names."""
    children = []
    for child in shape.children:
        if child.column == path[0]:
            child = replace(child, column=name) if len(path) == 1 else renamed(child, path[1:], name)
        children.append(child)
    return replace(shape, children=tuple(children))


class Names:
    """Names of columns: a renamed field has its newest name in all versions of the schema."""

    def __init__(self) -> None:
        self._newer: dict[tuple[Path, str], str] = {}
        self._numbers: dict[tuple[Path, int], str] = {}

    def learn(self, shape: Shape, path: Path = ()) -> None:
        """Learn the renames in a version. Call this for older versions first."""
        for child in shape.children:
            if child.number:
                before = self._numbers.get((path, child.number))
                if before is not None and before != child.name:
                    self._rename(path, before, child.name)
                self._numbers[path, child.number] = child.name
            for alias in child.aliases:
                if alias != child.name:
                    self._rename(path, alias, child.name)
            self.learn(child, (*path, self.newest(path, child.name)))

    def _rename(self, path: Path, old: str, new: str) -> None:
        self._newer.pop((path, new), None)  # a name that came back
        self._newer[path, old] = new

    def newest(self, path: Path, name: str, taken: Iterable[str] = ()) -> str:
        """Follow the renames of a field, but not to a name that is `taken` by another field of the schema."""
        newer = self._newer.get((path, name))
        while newer is not None and newer not in taken:
            name, newer = newer, self._newer.get((path, newer))
        return name

    def named(self, shape: Shape, path: Path = ()) -> Shape:
        """Return the shape with the names of its columns."""
        names = [child.name for child in shape.children]
        children = []
        for child in shape.children:
            column = child.name
            if pa.types.is_struct(shape.type):
                column = self.newest(path, child.name, [each for each in names if each != child.name])
            children.append(self.named(replace(child, column=column), (*path, column)))
        return replace(shape, children=tuple(children))


class Change(NamedTuple):
    """A change of one column: `kind` is add, widen or rename. The path has the names before all changes."""

    kind: str
    path: Path
    type: pa.DataType | None = None
    name: str = ""

    def __str__(self) -> str:
        where = ".".join(self.path)
        if self.kind == "rename":
            return f"rename {where} to {self.name}"
        return f"{self.kind} {where} {sql_name(self.type)}"


@dataclass
class Evolution:
    """The columns after the changes, and the changes in the order in which they must be made."""

    columns: pa.Schema
    changes: list[Change] = field(default_factory=list)

    @property
    def only_adds_columns(self) -> bool:
        return all(each.kind == "add" and len(each.path) == 1 for each in self.changes)


def evolve(columns: pa.Schema, shape: Shape, names: Names, *, skip_conflicts: bool = False) -> Evolution:
    """Fit the columns to a shape from `Names.named`. Raises Breaking, unless conflicts are to be skipped."""
    if skip_conflicts:
        kept = tuple(each for each in shape.children if each.column not in FIXED_NAMES)
        shape = replace(shape, children=kept)
    for child in shape.children:
        if child.column in FIXED_NAMES:
            raise Breaking(f"its field {child.name} has the name of a column that every table has")
    merger = _Merger(names, skip_conflicts)
    fields = merger.struct(list(columns), shape, (), ())
    order = {"widen": 0, "rename": 1, "add": 2}
    return Evolution(pa.schema(fields), sorted(merger.changes, key=lambda change: order[change.kind]))


class _Merger:
    def __init__(self, names: Names, skip_conflicts: bool) -> None:
        self._names = names
        self._skips = skip_conflicts
        self.changes: list[Change] = []

    def struct(
        self, columns: Sequence[pa.Field], shape: Shape, path: Path, canonical: Path
    ) -> list[pa.Field]:
        """Merge fields. `path` has the current names of the columns above, `canonical` the newest."""
        fields = list(columns)
        for child in shape.children:
            wanted = lake_type(child.type)
            if wanted is None:
                continue
            at = self._find(fields, child, shape, canonical)
            if at is None:
                kind = _renamed_type(child)
                self.changes.append(Change("add", (*path, child.column), kind))
                fields.append(pa.field(child.column, kind))
                continue
            old = fields[at]
            here = (*path, old.name)
            try:
                kind = self._merge(old.type, child, here, (*canonical, child.column))
            except Breaking:
                if not self._skips:
                    raise
                kind = old.type
            if old.name != child.column:
                self.changes.append(Change("rename", here, None, child.column))
            fields[at] = pa.field(child.column, kind)
        return fields

    def _find(self, fields: Sequence[pa.Field], child: Shape, shape: Shape, canonical: Path) -> int | None:
        names = [each.name for each in fields]
        if child.column in names:
            return names.index(child.column)
        taken = {each.column for each in shape.children}
        for index, name in enumerate(names):
            if name not in taken and self._names.newest(canonical, name) == child.column:
                return index
        return None

    def _merge(self, column: pa.DataType, child: Shape, path: Path, canonical: Path) -> pa.DataType:
        wanted: Any = lake_type(child.type)
        if pa.types.is_struct(column) and pa.types.is_struct(wanted):
            return pa.struct(self.struct(list(column), child, path, canonical))
        if pa.types.is_list(column) and pa.types.is_list(wanted):
            inner = (*path, "element"), (*canonical, "element")
            return pa.list_(pa.field("element", self._merge(column.value_type, child.children[0], *inner)))
        if pa.types.is_map(column) and pa.types.is_map(wanted):
            if column.key_type == wanted.key_type:
                inner = (*path, "value"), (*canonical, "value")
                return pa.map_(column.key_type, self._merge(column.item_type, child.children[1], *inner))
        elif column == wanted or _is_narrower(wanted, column):
            return column
        elif _is_narrower(column, wanted) and not (column in _INTEGERS and pa.types.is_floating(wanted)):
            self.changes.append(Change("widen", path, wanted))
            return wanted
        raise Breaking(
            f"its field {'.'.join(canonical)} is {sql_name(wanted)}, but the column is {sql_name(column)}"
        )


def _is_narrower(kind: pa.DataType, than: pa.DataType) -> bool:
    """Return True if a column of type `than` can store all values of `kind`. Whole numbers fit into double."""
    if pa.types.is_decimal(kind) and pa.types.is_decimal(than):
        return bool(kind.scale == than.scale and kind.precision <= than.precision)
    if (kind, than) in ((pa.int32(), pa.int64()), (pa.float32(), pa.float64())):
        return True
    return kind in _INTEGERS and than == pa.float64()


def _renamed_type(shape: Shape) -> pa.DataType:
    """Return the column type of a shape, with the names of columns for its fields."""
    kind: Any = lake_type(shape.type)
    if pa.types.is_struct(kind):
        return pa.struct(
            [
                pa.field(each.column, _renamed_type(each))
                for each in shape.children
                if lake_type(each.type) is not None
            ]
        )
    if pa.types.is_list(kind):
        return pa.list_(pa.field("element", _renamed_type(shape.children[0])))
    if pa.types.is_map(kind):
        return pa.map_(kind.key_type, _renamed_type(shape.children[1]))
    return kind
