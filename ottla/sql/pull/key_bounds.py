"""Extraction of keys and window bounds from WHERE. Pure: trees in, bounds out."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from sqlglot import exp

from ottla.sql.parsing.dialect import identifier_name
from ottla.sql.planning.plan import Plan
from ottla.sql.planning.pseudo_times import milliseconds
from ottla.sql.pull.key_codec import canonical, is_indexable, literal
from ottla.sql.pull.table_index import Range
from ottla.sql.sources import Source

#: Scan the table for more keys than this.
_MOST_KEYS = 10_000
_ALL = Range()
_MIRRORED = {exp.GT: exp.LT, exp.GTE: exp.LTE, exp.LT: exp.GT, exp.LTE: exp.GTE, exp.EQ: exp.EQ}


@dataclass(frozen=True)
class Bounds:
    keys: tuple[bytes, ...]
    starts: Range = _ALL
    ends: Range = _ALL
    #: Whether the bounds express the whole WHERE. Otherwise apply WHERE to the records found.
    is_all: bool = True


def bounds(plan: Plan) -> Bounds | None:
    """Return the bounds, or None if the table must be scanned."""
    if plan.mode != "batch" or len(plan.sources) != 1 or plan.select.where is None:
        return None
    [(alias, source)] = plan.sources.items()
    if not is_indexable(source):
        return None
    reader = _Reader(alias, source)
    for condition in _conjuncts(plan.select.where):
        reader.take(condition)
    return reader.result()


def _conjuncts(tree: exp.Expr) -> Iterator[exp.Expr]:
    if isinstance(tree, exp.Paren):
        yield from _conjuncts(tree.this)
    elif isinstance(tree, exp.And):
        yield from _conjuncts(tree.this)
        yield from _conjuncts(tree.expression)
    else:
        yield tree


class _Reader:
    def __init__(self, alias: str, source: Source) -> None:
        self._alias = alias
        self._types = {column.name: column.type for column in source.keys}
        self._windows = {name: Range() for name in source.window_columns}
        self._values: dict[str, list[Any]] = {}
        self._is_all = True

    def take(self, condition: exp.Expr) -> None:
        if not self._takes_key(condition) and not self._takes_window(condition):
            self._is_all = False

    def result(self) -> Bounds | None:
        if self._values.keys() != self._types.keys():
            return None
        choices = [self._values[name] for name in self._types]
        count = 1
        for each in choices:
            count *= len(each)
        if count > _MOST_KEYS:
            return None
        return Bounds(
            tuple(dict.fromkeys(canonical(each) for each in itertools.product(*choices))),
            self._windows.get("WINDOWSTART", _ALL),
            self._windows.get("WINDOWEND", _ALL),
            self._is_all,
        )

    # Keys

    def _takes_key(self, condition: exp.Expr) -> bool:
        named = self._choices(condition)
        if named is None:
            return False
        name, values = named
        held = self._values.get(name)
        self._values[name] = values if held is None else [each for each in held if each in values]
        return True

    def _choices(self, condition: exp.Expr) -> tuple[str, list[Any]] | None:
        if isinstance(condition, exp.Paren):
            return self._choices(condition.this)
        if isinstance(condition, exp.Or):
            left, right = self._choices(condition.this), self._choices(condition.expression)
            if left is None or right is None or left[0] != right[0]:
                return None
            return left[0], [*left[1], *(each for each in right[1] if each not in left[1])]
        if isinstance(condition, exp.EQ):
            for column, value in (
                (condition.this, condition.expression),
                (condition.expression, condition.this),
            ):
                name = self._column(column, self._types)
                if name is not None:
                    return self._typed(name, [value])
        if isinstance(condition, exp.In) and condition.expressions:
            name = self._column(condition.this, self._types)
            if name is not None:
                return self._typed(name, condition.expressions)
        return None

    def _typed(self, name: str, trees: list[exp.Expr]) -> tuple[str, list[Any]] | None:
        values = []
        for tree in trees:
            written = _literal(tree)
            value = None if written is None else literal(written, self._types[name])
            if value is None:
                return None
            values.append(value)
        return name, values

    # Windows

    def _takes_window(self, condition: exp.Expr) -> bool:
        if isinstance(condition, exp.Between):
            name = self._column(condition.this, self._windows)
            low, high = (_milliseconds(condition.args[each]) for each in ("low", "high"))
            if name is None or low is None or high is None:
                return False
            self._narrow(name, low, high)
            return True
        kind = type(condition)
        if kind not in _MIRRORED:
            return False
        assert isinstance(condition, exp.Binary)
        name, value = self._column(condition.this, self._windows), _milliseconds(condition.expression)
        if name is None:
            name, value = self._column(condition.expression, self._windows), _milliseconds(condition.this)
            kind = _MIRRORED[kind]
        if name is None or value is None:
            return False
        limits = {
            exp.EQ: (value, value),
            exp.GT: (value + 1, None),
            exp.GTE: (value, None),
            exp.LT: (None, value - 1),
            exp.LTE: (None, value),
        }
        self._narrow(name, *limits[kind])
        return True

    def _narrow(self, name: str, first: int | None, last: int | None) -> None:
        held = self._windows[name]
        if first is not None:
            held = held._replace(first=max(held.first, first))
        if last is not None:
            held = held._replace(last=min(held.last, last))
        self._windows[name] = held

    def _column(self, tree: exp.Expr, known: Mapping[str, Any]) -> str | None:
        if isinstance(tree, exp.Paren):
            return self._column(tree.this, known)
        if not isinstance(tree, exp.Column):
            return None
        *owner, name = [identifier_name(part) for part in tree.parts]
        if owner not in ([], [self._alias]) or name not in known:
            return None
        return name


def _literal(tree: exp.Expr) -> str | bool | Decimal | None:
    """Return a string, boolean or number, or None for anything but a literal."""
    if isinstance(tree, exp.Paren):
        return _literal(tree.this)
    if isinstance(tree, exp.Neg):
        value = _literal(tree.this)
        return -value if isinstance(value, Decimal) else None
    if isinstance(tree, exp.Boolean):
        return bool(tree.this)
    if isinstance(tree, exp.Literal):
        return str(tree.this) if tree.is_string else Decimal(str(tree.this))
    return None


def _milliseconds(tree: exp.Expr) -> int | None:
    value = _literal(tree)
    if isinstance(value, Decimal):
        return int(value) if value == value.to_integral_value() else None
    if isinstance(value, str):
        try:
            return milliseconds(value)
        except ValueError:
            return None
    return None
