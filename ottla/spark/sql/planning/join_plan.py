"""Joins: which ones there are, their key, and their text for Spark."""

from __future__ import annotations

from collections.abc import Mapping

from sqlglot import exp

from ottla.spark.formats.value_format import quoted
from ottla.spark.sql.errors import SqlError
from ottla.spark.sql.frames import TIME
from ottla.spark.sql.parsing.statements import Join, Select
from ottla.spark.sql.planning.scope import Scope
from ottla.spark.sql.sources import Source


def view(alias: str) -> str:
    """The name of the view that a query reads a source from."""
    return quoted(f"__ottla_{alias}")


def check_joins(select: Select, sources: Mapping[str, Source]) -> None:
    left = sources[select.source.alias]
    kinds = {sources[join.right.alias].kind for join in select.joins}
    for join in select.joins:
        right = sources[join.right.alias]
        what = f"{join.kind} JOIN of a {left.kind.lower()} with a {right.kind.lower()}"
        if left.kind == "TABLE" and right.kind == "STREAM":
            raise SqlError(f"{what} is not supported; name the stream first.", join.position)
        if left.kind == right.kind == "STREAM":
            if join.before_ms is None:
                raise SqlError("A JOIN of two streams needs WITHIN.", join.position)
            if "TABLE" in kinds:
                raise SqlError(
                    "A JOIN of streams and tables at once is not supported; CREATE STREAM … AS SELECT the join of "
                    "the streams first.",
                    join.position,
                )
        elif join.before_ms is not None:
            raise SqlError("WITHIN is for two streams; a table has one row for each key.", join.position)
        if left.kind == "STREAM" and right.kind == "TABLE" and join.kind in ("RIGHT", "FULL"):
            raise SqlError(
                f"{what} is not supported; a row of the table alone makes no event. Use LEFT JOIN.",
                join.position,
            )
        if join.kind == "FULL" and len(select.joins) > 1:
            raise SqlError("FULL JOIN of more than two sources is not supported.", join.position)
        if right.window is not None or (select.joins and left.window is not None):
            raise SqlError("A JOIN of a windowed table is not supported.", join.position)


def equality(join: Join, scope: Scope) -> tuple[str, str]:
    """The two sides of ON, the one of the right source last."""
    on = join.on.unnest() if isinstance(join.on, exp.Paren) else join.on
    if not isinstance(on, exp.EQ):
        raise SqlError(
            "ON must be an equality, such as a.id = b.id; put the rest into WHERE.", scope.place(on)
        )
    first, second = scope.sql(on.this), scope.sql(on.expression)
    right = quoted(join.right.alias) + "."
    if right in first and right not in second:
        first, second = second, first
    if right not in second or right in first:
        raise SqlError(
            f"ON must compare a column of {join.right.alias} with one of the sources before it.",
            scope.place(on),
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
