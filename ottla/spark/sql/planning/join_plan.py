"""Joins: which ones there are, what each compares, and the key of the result."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from sqlglot import exp

from ottla.spark.formats.value_format import quoted
from ottla.spark.sql.errors import SqlError
from ottla.spark.sql.frames import TIME
from ottla.spark.sql.parsing.statements import Join, Select
from ottla.spark.sql.planning.scope import Scope
from ottla.spark.sql.sources import Source

#: What the final SELECT of a stateful query reads (see `stateful/`), and its columns.
FLOW, FLOW_TIME, FLOW_DELETED = "`__ottla_flow`", "`__time`", "`__deleted`"

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
    before_ms: int = 0
    after_ms: int = 0
    grace_ms: int | None = None


def view(alias: str) -> str:
    """The name of the view that a query reads a source from."""
    return quoted(f"__ottla_{alias}")


def join_steps(select: Select, sources: Mapping[str, Source], scope: Scope) -> tuple[JoinStep, ...]:
    """The joins from left to right. Refuses what ksqlDB refuses."""
    left_kind = sources[select.source.alias].kind
    keys = {scope.column(select.source.alias, key.name) for key in sources[select.source.alias].keys}
    if len(keys) > 1:
        keys = set()  # the join is by one column
    steps: list[JoinStep] = []
    for join in select.joins:
        right = sources[join.right.alias]
        _check(join, left_kind, right)
        first, second = equality(join, scope)
        _check_types(join, scope)
        primary = {scope.column(join.right.alias, key.name) for key in right.keys}
        of: JoinedKind = f"{left_kind.lower()}-{right.kind.lower()}"  # type: ignore[assignment]
        if right.kind == "TABLE" and {second} != primary:
            raise SqlError(
                f"A JOIN with a table is by its primary key, {_plain(' and '.join(sorted(primary)))}, "
                f"and not by {_plain(second)}.",
                scope.place(join.on),
            )
        if of == "table-table" and first not in keys:
            of = "foreign-key"
            if len(select.joins) > 1:
                raise SqlError(
                    f"A JOIN of tables by a foreign key, {_plain(first)}, cannot be one of several joins; "
                    "CREATE TABLE … AS SELECT it first.",
                    join.position,
                )
            if join.kind in ("RIGHT", "FULL"):
                raise SqlError(
                    f"{join.kind} JOIN by a foreign key is not supported; use INNER or LEFT JOIN.",
                    join.position,
                )
        steps.append(
            JoinStep(
                of,
                join.kind,
                join.right.alias,
                first,
                second,
                first not in keys,
                join.before_ms or 0,
                join.after_ms or 0,
                join.grace_ms,
            )
        )
        if of != "foreign-key":
            keys = _equivalents(join, first, second, keys)
    return tuple(steps)


def _equivalents(join: Join, first: str, second: str, keys: set[str]) -> set[str]:
    """The expressions that are the key after a join: where a side may be missing, it is none of them."""
    left = keys | {first} if first in keys else {first}
    return {
        "INNER": left | {second},
        "LEFT": left,
        "RIGHT": {second},
        "FULL": {f"coalesce({first}, {second})"},
    }[join.kind]


def _check(join: Join, left_kind: str, right: Source) -> None:
    what = f"{join.kind} JOIN of a {left_kind.lower()} with a {right.kind.lower()}"
    if left_kind == "TABLE" and right.kind == "STREAM":
        raise SqlError(f"{what} is not supported; name the stream first.", join.position)
    if left_kind == right.kind == "STREAM":
        if join.before_ms is None:
            raise SqlError("A JOIN of two streams needs WITHIN.", join.position)
    elif join.before_ms is not None:
        raise SqlError("WITHIN is for two streams; a table has one row for each key.", join.position)
    if left_kind == "STREAM" and right.kind == "TABLE" and join.kind in ("RIGHT", "FULL"):
        raise SqlError(
            f"{what} is not supported; a row of the table alone makes no event. Use LEFT JOIN.", join.position
        )
    if right.window is not None:
        raise SqlError("A JOIN of a windowed table is not supported.", join.position)


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


def join_keys(select: Select, sources: Mapping[str, Source], scope: Scope) -> list[str] | None:
    """The expressions that are the key of the result; None if it has no joins."""
    if not select.joins:
        return None
    left = sources[select.source.alias]
    first, second = equality(select.joins[0], scope)
    kind = select.joins[0].kind
    if left.kind == "TABLE" and len(left.keys) == 1:
        primary = scope.column(select.source.alias, left.keys[0].name)
        if first != primary:  # by a foreign key
            return [primary]
    if kind == "FULL":
        return [f"coalesce({first}, {second})"]
    if kind == "LEFT":
        return [first]
    return [second] if kind == "RIGHT" else [first, second]


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
