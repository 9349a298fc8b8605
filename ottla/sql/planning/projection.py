"""Columns of a SELECT: expansion of `*`, generated names, and selection of the key."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from sqlglot import exp

from ottla.spark.formats.value_format import quoted
from ottla.sql.errors import Position, SqlError
from ottla.sql.parsing.dialect import identifier_name
from ottla.sql.parsing.statements import Select, SelectItem
from ottla.sql.planning.scope import Scope
from ottla.sql.sources import PSEUDO_COLUMNS, Source


@dataclass(frozen=True)
class Output:
    name: str
    sql: str
    is_key: bool
    position: Position
    is_made: bool = False  # by PARTITION BY for `*`; may have the name of a pseudo column


class Projection:
    """With `reader`, a person reads the rows and `*` includes window bounds, which are otherwise in the key."""

    def __init__(
        self,
        select: Select,
        sources: Mapping[str, Source],
        scope: Scope,
        reader: bool,
        row_key: str | None = None,
    ) -> None:
        self._select = select
        self._sources = sources
        self._scope = scope
        self._reader = reader
        self._row_key = row_key  # name of the key created by a join
        self._taken = {column.name for source in sources.values() for column in source.columns}

    def outputs(self, key_sql: Sequence[Sequence[str]]) -> list[Output]:
        """Return the output columns. `key_sql` lists the expressions equal to each key column."""
        generated = self._generated()
        named: list[tuple[str, str, bool, Position]] = []
        for item in self._select.items:
            if item.expression is None:
                named += [(name, sql, True, item.position) for name, sql in self._star(item)]
                continue
            if item.all_fields:
                named += [(name, sql, True, item.position) for name, sql in self._fields(item.expression)]
                continue
            tree = item.expression.unnest()
            if isinstance(tree, exp.Null):
                raise SqlError(
                    "Can't infer a type of null. Please explicitly cast it to a required type, e.g. "
                    "CAST(null AS VARCHAR).",
                    item.position,
                )
            name = item.alias or self._name(tree, [each[0] for each in named]) or next(generated)
            may_be_key = not _is_call(tree, "AS_VALUE") or any(
                _is_call(each.unnest(), "AS_VALUE") for each in self._select.group_by
            )
            named.append((name, self._scope.sql(tree), may_be_key, item.position))
        made = self._new_keys(named, generated)
        named = made + named
        names = [name for name, *_ in named]
        for i, (name, _, _, position) in enumerate(named):
            if name in names[:i]:
                raise SqlError(f"There are two columns {name} in the result; give one an alias.", position)
        new = {name for name, *_ in made}
        return [replace(each, is_made=each.name in new) for each in self._with_keys(named, key_sql)]

    def _with_keys(
        self, named: list[tuple[str, str, bool, Position]], key_sql: Sequence[Sequence[str]]
    ) -> list[Output]:
        keys: list[str] = []
        for choices in key_sql:
            there = [
                (choices.index(sql), name, sql, position)
                for name, sql, may_be_key, position in named
                if may_be_key and sql in choices
            ]
            if not there:
                continue
            _, key, key_is, _ = min(there, key=lambda each: each[0])
            keys.append(key)
            same = [(name, position) for _, name, sql, position in there if sql == key_is]
            if len(same) > 1 and not self._reader:
                names = sorted(name for name, _ in same)
                raise SqlError(
                    f"The projection contains a key column (`{key}`) more than once, aliased as: "
                    f"{', '.join(names[:-1])} and {names[-1]}. Use AS_VALUE(…) for a column of the value.",
                    same[1][1],
                )
        outputs = [Output(name, sql, name in keys, position) for name, sql, _, position in named]
        if not self._reader:  # key columns follow the order of the key, not of the SELECT
            outputs.sort(key=lambda each: keys.index(each.name) if each.is_key else len(keys))
        return outputs

    def _new_keys(
        self, named: Sequence[tuple[str, str, bool, Position]], generated: Iterator[str]
    ) -> list[tuple[str, str, bool, Position]]:
        """Return the keys created by PARTITION BY, which `*` includes."""
        star = next((item for item in self._select.items if item.expression is None), None)
        if star is None or self._reader:
            return []
        there = {sql for _, sql, *_ in named}
        new = []
        for each in self._select.partition_by:
            sql = self._scope.sql(each)
            if sql not in there and not isinstance(each, exp.Null):
                name = self._name(each, [name for name, *_ in named]) or next(generated)
                new.append((name, sql, True, star.position))
        return new

    def _generated(self) -> Iterator[str]:
        number = 0
        while True:
            if (name := f"KSQL_COL_{number}") not in self._taken:
                yield name
            number += 1

    def _star(self, item: SelectItem) -> list[tuple[str, str]]:
        if item.source is not None and item.source not in self._sources:
            raise SqlError(f"There is no {item.source} after FROM.", item.position)
        columns = []
        if item.source is None and self._row_key is not None:
            columns.append((self._row_key, self._scope.replaced[self._row_key]))
        for alias, source in self._sources.items():
            if item.source not in (None, alias):
                continue
            prefix = f"{alias}_" if self._select.joins else ""
            names = self._listed(source)
            columns += [(f"{prefix}{name}", self._scope.column(alias, name)) for name in names]
        return columns

    def _listed(self, source: Source) -> list[str]:
        keys = [column.name for column in source.keys]
        values = [column.name for column in source.columns if not column.is_key]
        joined = bool(self._select.joins)
        if self._reader or not self._select.partition_by:
            # As in ksqlDB, readers and joins also get the windows of each source.
            return [*keys, *(source.window_columns if joined or self._reader else ()), *values]
        # The old key follows the values, which matters for formats without field names. As in ksqlDB, a join with a
        # new key also includes the pseudo columns.
        return [*values, *(PSEUDO_COLUMNS if joined else ()), *keys]

    def _fields(self, struct: exp.Expr) -> list[tuple[str, str]]:
        where = self._scope.place(struct)
        kind = self._scope.type_of(struct)
        if kind is None or kind.name != "STRUCT":
            raise SqlError(f"->* needs a STRUCT, and this is {kind or 'of an unknown type'}.", where)
        sql = self._scope.sql(struct)
        return [(field.name, f"{sql}.{quoted(field.name)}") for field in kind.fields]

    def _name(self, tree: exp.Expr, before: Sequence[str]) -> str | None:
        """Return the name of a column or struct field. A field is numbered if a source or the result has its name."""
        if isinstance(tree, exp.Column):
            parts = [identifier_name(part) for part in tree.parts]
            qualified = len(parts) > 1 and parts[0] in self._sources and self._sources[parts[0]].has(parts[1])
            rest = parts[1:] if qualified else parts
            if len(rest) > 1:
                return _numbered(rest[-1], {*before, *self._taken})
            twice = sum(source.has(rest[0]) for source in self._sources.values()) > 1
            return f"{parts[0]}_{rest[0]}" if twice and qualified else rest[0]
        if isinstance(tree, exp.Dot) and isinstance(tree.expression, exp.Identifier):
            return _numbered(identifier_name(tree.expression), {*before, *self._taken})
        return None


def _numbered(name: str, taken: Collection[str]) -> str:
    number, chosen = 0, name
    while chosen in taken:
        number += 1
        chosen = f"{name}_{number}"
    return chosen


def _is_call(tree: exp.Expr, name: str) -> bool:
    return isinstance(tree, exp.Anonymous) and str(tree.this).upper() == name
