"""Joins: which ones there are, what each compares, and the key of the result."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from sqlglot import exp

from ottla.spark.formats.value_format import quoted
from ottla.spark.sql.errors import Position, SqlError
from ottla.spark.sql.frames import TIME
from ottla.spark.sql.parsing.statements import Join, Select
from ottla.spark.sql.planning.scope import Scope
from ottla.spark.sql.sources import Source

#: What the final SELECT of a stateful query reads (see `stateful/`), and its columns.
FLOW, FLOW_TIME, FLOW_DELETED = "`__ottla_flow`", "`__time`", "`__deleted`"

_COLUMN = re.compile(r"`[^`]*`\.`[^`]*`")

JoinedKind = Literal["stream-stream", "stream-table", "table-table", "foreign-key"]


@dataclass(frozen=True)
class JoinStep:
    """The sources up to here, and the next one."""

    of: JoinedKind
    kind: Literal["INNER", "LEFT", "RIGHT", "FULL"]
    right: str  # its alias
    left_key: str
    right_key: str
    repartitions: bool  # whether the left side has another key than this
    by_keys: bool  # whether both sides have this key
    before_ms: int
    after_ms: int
    grace_ms: int | None
    position: Position


def view(alias: str) -> str:
    """The name of the view that a query reads a source from."""
    return quoted(f"__ottla_{alias}")


@dataclass(frozen=True)
class Joins:
    """`key` are the expressions that may be the key of the result, for each of its columns; what it is then is `value`.

    Where no column is compared with one, or both sides may be missing, the key is a column of its own, ROWKEY.
    """

    steps: tuple[JoinStep, ...]
    key: list[list[str]]
    value: str | None
    has_row_key: bool


def plan_joins(select: Select, sources: Mapping[str, Source], scope: Scope) -> Joins | None:
    """The joins from left to right. Refuses what ksqlDB refuses."""
    if not select.joins:
        return None
    left = sources[select.source.alias]
    primary = [scope.column(select.source.alias, key.name) for key in left.keys]
    # Expressions that mean the key of what has been joined so far, and the one that has its value.
    held = primary if len(primary) == 1 else []
    value: str | None = primary[0] if held else None
    has_row_key = False
    steps: list[JoinStep] = []
    for join in select.joins:
        right = sources[join.right.alias]
        _check(join, left, right, {sources[each.right].name for each in steps})
        first, second = equality(join, scope)
        _check_types(join, scope)
        of: JoinedKind = f"{left.kind.lower()}-{right.kind.lower()}"  # type: ignore[assignment]
        if right.kind == "TABLE":
            _check_primary_key(join, right, second, scope)
        if of == "table-table" and first not in held:
            _check_foreign_key(join, first, len(select.joins))
            of = "foreign-key"
        same = first in held and value is not None
        mine = value if same and value is not None else first
        steps.append(
            JoinStep(
                of,
                join.kind,
                join.right.alias,
                _with_window(mine, select.source.alias, left, scope),
                _with_window(second, join.right.alias, right, scope),
                not same,
                same and [second] == [scope.column(join.right.alias, key.name) for key in right.keys],
                join.before_ms or 0,
                join.after_ms or 0,
                join.grace_ms,
                join.position,
            )
        )
        if of == "foreign-key":
            return Joins(tuple(steps), [[each] for each in primary], None, False)
        held = [*held, second] if same else [first, second]
        if join.kind == "RIGHT":
            held.reverse()
        value = {"RIGHT": second, "FULL": f"coalesce({mine}, {second})"}.get(join.kind, mine)
        has_row_key = join.kind == "FULL" or not _columns(held)
        if join.kind == "FULL":
            held = [value]
    return Joins(tuple(steps), [[value or ""] if has_row_key else _columns(held)], value, has_row_key)


def _columns(expressions: list[str]) -> list[str]:
    return [each for each in dict.fromkeys(expressions) if _COLUMN.fullmatch(each)]


def _with_window(key: str, alias: str, source: Source, scope: Scope) -> str:
    """Of windowed sources the window is part of the key."""
    if source.window is None:
        return key
    bounds = f"'start', {scope.column(alias, 'WINDOWSTART')}"
    if source.window == "SESSION":
        bounds += f", 'end', {scope.column(alias, 'WINDOWEND')}"
    return f"CASE WHEN {key} IS NOT NULL THEN named_struct('key', {key}, {bounds}) END"


def _check(join: Join, left: Source, right: Source, before: set[str]) -> None:
    what = f"{join.kind} JOIN of a {left.kind.lower()} with a {right.kind.lower()}"
    if right.name in {left.name, *before}:
        raise SqlError(f"{right.name} cannot be joined with itself.", join.position)
    if left.kind == "TABLE" and right.kind == "STREAM":
        raise SqlError(f"{what} is not supported; name the stream first.", join.position)
    if left.kind == right.kind == "STREAM":
        if join.before_ms is None:
            raise SqlError("A JOIN of two streams needs WITHIN.", join.position)
    elif join.before_ms is not None:
        raise SqlError("WITHIN is for two streams; a table has one row for each key.", join.position)
    if left.kind == "STREAM" and right.kind == "TABLE" and join.kind in ("RIGHT", "FULL"):
        raise SqlError(
            f"{what} is not supported; a row of the table alone makes no event. Use LEFT JOIN.", join.position
        )
    for one, other in ((left, right), (right, left)):
        alike = other.window is not None and (one.window == "SESSION") == (other.window == "SESSION")
        if one.window is not None and not alike:
            raise SqlError(
                f"{one.name} has {one.window} windows: it can be joined only with what has such windows, too.",
                join.position,
            )
    for source in (left, right):
        if source.value_format == "KAFKA":
            raise SqlError(
                f"The values of {source.name} are in the format KAFKA, which cannot be joined.", join.position
            )


def _check_primary_key(join: Join, right: Source, compared: str, scope: Scope) -> None:
    primary = [scope.column(join.right.alias, key.name) for key in right.keys]
    if [compared] != primary:
        raise SqlError(
            f"A JOIN with a table is by its primary key, {_plain(' and '.join(primary))}, "
            f"and not by {_plain(compared)}.",
            scope.place(join.on),
        )


def _check_foreign_key(join: Join, compared: str, joins: int) -> None:
    if joins > 1:
        raise SqlError(
            f"A JOIN of tables by a foreign key, {_plain(compared)}, cannot be one of several joins; "
            "CREATE TABLE … AS SELECT it first.",
            join.position,
        )
    if join.kind in ("RIGHT", "FULL"):
        raise SqlError(
            f"{join.kind} JOIN by a foreign key is not supported; use INNER or LEFT JOIN.", join.position
        )


def check_partitions(
    first: str,
    sources: Mapping[str, Source],
    steps: Sequence[JoinStep],
    count: Callable[[Source], int | None],
) -> None:
    """As in ksqlDB, where the records of a key must be in the same partition of both topics.

    Here they need not, but a query that ksqlDB refuses should not depend on that.
    """
    for step in steps:
        if not step.by_keys:
            continue
        left, right = sources[first], sources[step.right]
        mine, theirs = count(left), count(right)
        if None not in (mine, theirs) and mine != theirs:
            raise SqlError(
                f"{left.name} has {mine} partitions and {right.name} has {theirs}: to be joined by their keys they "
                "must have the same number. CREATE … WITH (partitions=…) AS SELECT one of them anew.",
                step.position,
            )


def _sides(join: Join) -> tuple[exp.Expr, exp.Expr] | None:
    on = join.on.unnest() if isinstance(join.on, exp.Paren) else join.on
    return (on.this, on.expression) if isinstance(on, exp.EQ) else None


def _check_types(join: Join, scope: Scope) -> None:
    sides = _sides(join)
    assert sides is not None
    types = [scope.type_of(side) for side in sides]
    if None not in types and types[0] != types[1]:
        raise SqlError(
            f"ON compares {types[0]} with {types[1]}; CAST one of them, so that both have the same type.",
            scope.place(join.on),
        )


def equality(join: Join, scope: Scope) -> tuple[str, str]:
    """The two sides of ON, the one of the right source last."""
    sides = _sides(join)
    if sides is None:
        raise SqlError(
            "ON must be an equality, such as a.id = b.id; put the rest into WHERE.", scope.place(join.on)
        )
    first, second = scope.sql(sides[0]), scope.sql(sides[1])
    right = quoted(join.right.alias) + "."
    if right in first and right not in second:
        first, second = second, first
    if right not in second or right in first:
        raise SqlError(
            f"ON must compare a column of {join.right.alias} with one of the sources before it.",
            scope.place(join.on),
        )
    return first, second


def join_clause(join: Join, left: str, scope: Scope) -> str:
    """For what there is now, all at once."""
    first, second = equality(join, scope)
    right = join.right.alias
    condition = f"{first} = {second}"
    if join.before_ms is not None:
        mine, theirs = f"{quoted(left)}.{TIME}", f"{quoted(right)}.{TIME}"
        condition += (
            f" AND {theirs} >= {mine} - INTERVAL '{join.before_ms / 1000:.3f}' SECOND"
            f" AND {theirs} <= {mine} + INTERVAL '{join.after_ms / 1000:.3f}' SECOND"  # type: ignore[operator]
        )
    return f"{join.kind} JOIN {view(right)} AS {quoted(right)} ON {condition}"


def _plain(sql: str) -> str:
    return sql.replace("`", "")
