"""Joins: supported combinations, join conditions, and the key of the result."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from sqlglot import exp

from ottla.spark.formats.value_format import quoted
from ottla.sql.errors import Position, SqlError
from ottla.sql.frames import TIME
from ottla.sql.parsing.statements import Join, Select
from ottla.sql.planning.scope import Scope
from ottla.sql.planning.written import written
from ottla.sql.registered.formats import REGISTERED
from ottla.sql.sources import Source, map_key
from ottla.sql.sql_types import has_map

#: Table and columns that the final SELECT of a stateful query reads (see `stateful/`).
FLOW, FLOW_TIME, FLOW_DELETED = "`__ottla_flow`", "`__time`", "`__deleted`"

_COLUMN = re.compile(r"`[^`]*`\.`[^`]*`")
_ROW_KEY = re.compile(r"ROWKEY(?:_(\d+))?")

JoinedKind = Literal["stream-stream", "stream-table", "table-table", "foreign-key"]


@dataclass(frozen=True)
class JoinStep:
    """One join: the sources joined so far, and the next source."""

    of: JoinedKind
    kind: Literal["INNER", "LEFT", "RIGHT", "FULL"]
    right: str  # alias of the next source
    left_key: str
    right_key: str
    repartitions: bool  # whether the left side has a different key
    by_keys: bool  # whether both sides are joined by their keys
    before_ms: int
    after_ms: int
    grace_ms: int | None
    position: Position


def view(alias: str) -> str:
    return quoted(f"__ottla_{alias}")


@dataclass(frozen=True)
class Joins:
    """All joins of a SELECT. `key` lists, for each key column, the expressions equal to it; `value` is its value.

    If no column is compared, or both sides may be missing, the key is a separate column `row_key`.
    """

    steps: tuple[JoinStep, ...]
    key: list[list[str]]
    value: str | None
    row_key: str | None


def plan_joins(select: Select, sources: Mapping[str, Source], scope: Scope) -> Joins | None:
    """Plan the joins from left to right. Refuse joins that ksqlDB refuses."""
    if not select.joins:
        return None
    left = sources[select.source.alias]
    primary = [scope.column(select.source.alias, key.name) for key in left.keys]
    # Expressions equal to the key of the sources joined so far, and the expression with its value.
    held = primary if len(primary) == 1 else []
    value: str | None = primary[0] if held else None
    has_row_key = False
    steps: list[JoinStep] = []
    for join in select.joins:
        right = sources[join.right.alias]
        first, second = equality(join, scope)
        _check(join, left, right, [sources[each.right].name for each in steps])
        _check_types(join, scope)
        of: JoinedKind = f"{left.kind.lower()}-{right.kind.lower()}"  # type: ignore[assignment]
        if right.kind == "TABLE":
            _check_primary_key(join, left, right, second, scope)
        if of == "table-table" and first not in held:
            _check_foreign_key(join, steps)
            of = "foreign-key"
        same = first in held and value is not None
        by_keys = same and [second] == [scope.column(join.right.alias, key.name) for key in right.keys]
        _check_windows(join, left, right, by_keys)
        mine = value if same and value is not None else first
        steps.append(
            JoinStep(
                of,
                join.kind,
                join.right.alias,
                _with_window(mine, select.source.alias, left, scope),
                _with_window(second, join.right.alias, right, scope),
                not same,
                by_keys,
                join.before_ms or 0,
                join.after_ms or 0,
                join.grace_ms,
                join.position,
            )
        )
        if of == "foreign-key":
            continue  # the result keeps the key of the left side
        held = [*held, second] if same else [first, second]
        value = {"RIGHT": second, "FULL": f"coalesce({mine}, {second})"}.get(join.kind, mine)
        has_row_key = join.kind == "FULL" or not _columns(held)
        if join.kind == "FULL":
            held = [value]
    if all(step.of == "foreign-key" for step in steps):
        return Joins(tuple(steps), [[each] for each in primary], None, None)
    row_key = _row_key(sources) if has_row_key else None
    return Joins(tuple(steps), [[value or ""] if has_row_key else _columns(held)], value, row_key)


def _row_key(sources: Mapping[str, Source]) -> str:
    """Return ROWKEY, numbered if such columns already exist."""
    names = [column.name for source in sources.values() for column in source.columns]
    numbers = [int(found[1] or 0) for name in names if (found := _ROW_KEY.fullmatch(name))]
    return f"ROWKEY_{max(numbers) + 1}" if numbers else "ROWKEY"


def _columns(expressions: list[str]) -> list[str]:
    return [each for each in dict.fromkeys(expressions) if _COLUMN.fullmatch(each)]


def _with_window(key: str, alias: str, source: Source, scope: Scope) -> str:
    if source.window is None:
        return key
    bounds = f"'start', {scope.column(alias, 'WINDOWSTART')}"
    if source.window == "SESSION":
        bounds += f", 'end', {scope.column(alias, 'WINDOWEND')}"
    return f"CASE WHEN {key} IS NOT NULL THEN named_struct('key', {key}, {bounds}) END"


_WRITTEN = {"INNER": "[INNER] JOIN", "LEFT": "LEFT [OUTER] JOIN", "RIGHT": "RIGHT [OUTER] JOIN"}


def _check(join: Join, left: Source, right: Source, before: list[str]) -> None:
    got = f"Got {left.name} {_WRITTEN.get(join.kind, '[FULL] OUTER JOIN')} {right.name}."
    if right.name == left.name:
        raise SqlError(
            f"Can not join '{left.name}' to '{right.name}': self joins are not yet supported.", join.position
        )
    if right.name in before:
        raise SqlError(
            f"N-way joins do not support multiple occurrences of the same source. Source: '{right.name}'",
            join.position,
        )
    if left.kind == "TABLE" and right.kind == "STREAM":
        raise SqlError(
            f"Invalid join order: table-stream joins are not supported; only stream-table joins. {got} "
            "Name the stream first.",
            join.position,
        )
    if left.kind == right.kind == "STREAM":
        if join.before_ms is None:
            raise SqlError(
                "Stream-Stream joins must have a WITHIN clause specified. None was provided.", join.position
            )
    elif join.before_ms is not None:
        raise SqlError(
            f"A window definition was provided for a {left.kind.capitalize()}-Table join. These joins are not "
            "windowed. Please drop the window definition (i.e. the WITHIN clause) and try to execute your join again.",
            join.position,
        )
    if left.kind == "STREAM" and right.kind == "TABLE" and join.kind in ("RIGHT", "FULL"):
        raise SqlError(
            f"Invalid join type: {join.kind.lower()}-outer join not supported for stream-table join. {got} "
            "A row of the table alone makes no event: use LEFT JOIN.",
            join.position,
        )
    bare = [source.name for source in (left, right) if source.value_format == "KAFKA"]
    if bare:
        raise SqlError(
            f"Source(s) {', '.join(bare)} are using the 'KAFKA' value format. This format does not yet support JOIN.",
            join.position,
        )


def _check_windows(join: Join, left: Source, right: Source, by_keys: bool) -> None:
    """Windows are part of the key, so both sides need compatible windows."""
    if left.window is None and right.window is None:
        return
    if left.window is None or right.window is None:
        said = " and ".join(
            f"`{each.name}` is {each.window + ' windowed' if each.window else 'not windowed'}"
            for each in (left, right)
        )
        raise SqlError(f"Can not join windowed source to non-windowed source. {said}.", join.position)
    if (left.window == "SESSION") != (right.window == "SESSION"):
        raise SqlError(
            f"Incompatible windowed sources. Left source: {left.window}. Right source: {right.window}. Session "
            "windowed sources can only be joined to other session windowed sources.",
            join.position,
        )
    alike = (left.window, left.window_size_ms) == (right.window, right.window_size_ms)
    if not by_keys or not (alike or left.key_format in REGISTERED):
        raise SqlError(
            "Implicit repartitioning of windowed sources is not supported. They are joined by their keys, and must "
            "have the same windows.",
            join.position,
        )


def _check_primary_key(join: Join, left: Source, right: Source, compared: str, scope: Scope) -> None:
    primary = [scope.column(join.right.alias, key.name) for key in right.keys]
    if [compared] != primary:
        whose = (
            "stream-table joins require to join on the table's primary key"
            if left.kind == "STREAM"
            else "table-table joins require to join on the primary key of the right input table"
        )
        raise SqlError(f"Invalid join condition: {whose}. Got {_got(join, scope)}.", scope.place(join.on))


def _got(join: Join, scope: Scope) -> str:
    sides = _sides(join)
    assert sides is not None
    return " = ".join(written(side, scope) for side in sides)


def _check_foreign_key(join: Join, before: Sequence[JoinStep]) -> None:
    if any(step.kind in ("RIGHT", "FULL") for step in before):
        raise SqlError(
            "A JOIN by a foreign key after a RIGHT or FULL JOIN is not supported; CREATE TABLE … AS SELECT that first.",
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
    """Require equal partition counts, like ksqlDB.

    Ottla does not need co-partitioning, but queries should stay portable.
    """
    for step in steps:
        if not step.by_keys:
            continue
        left, right = sources[first], sources[step.right]
        mine, theirs = count(left), count(right)
        if None not in (mine, theirs) and mine != theirs:
            raise SqlError(
                f"Can't join `{left.name}` with `{right.name}` since the number of partitions don't match. "
                f"`{left.name}` partitions = {mine}; `{right.name}` partitions = {theirs}. Please repartition either "
                "one so that the number of partitions match.",
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
        got = " = ".join(f"{written(side, scope)}{{{kind}}}" for side, kind in zip(sides, types, strict=True))
        raise SqlError(
            f"Invalid join condition: types don't match. Got {got}. CAST one of them.", scope.place(join.on)
        )
    if types[0] is not None and has_map(types[0]):
        raise map_key(written(sides[0], scope).replace(".", "_"), types[0], scope.place(join.on))


def equality(join: Join, scope: Scope) -> tuple[str, str]:
    """Return both sides of ON, with the right source's side last."""
    where, sides = scope.place(join.on), _sides(join)
    if sides is None:
        if isinstance(join.on, exp.And):
            raise SqlError(
                "Invalid join condition: joins on multiple conditions are not yet supported. Got "
                f"{_bracketed(join.on, scope)}. Put the others into WHERE.",
                where,
            )
        raise SqlError(
            "Only equality join criteria is supported, such as a.id = b.id; put the rest into WHERE.", where
        )
    texts = [scope.sql(side) for side in sides]
    owners = [_owners(text, scope) for text in texts]
    for side, owner in zip(sides, owners, strict=True):
        if len(owner) != 1:
            raise SqlError(
                f"Invalid comparison expression '{written(side, scope)}' in join '{_bracketed(join.on, scope)}'. Each "
                "side of the join comparision must contain references from exactly one source.",
                where,
            )
    [one], [other] = owners
    if one == other:
        raise SqlError(
            "Each side of the join must reference exactly one source and not the same source. Left side references "
            f"`{one}` and right references `{other}`",
            where,
        )
    right = join.right.alias
    if right not in (one, other):
        raise SqlError(
            f"A join criteria is expected to reference the source (`{right}`) in the FROM clause, instead the right "
            f"source references `{other}` and the left source references `{one}`",
            where,
        )
    return (texts[0], texts[1]) if other == right else (texts[1], texts[0])


def _owners(sql: str, scope: Scope) -> list[str]:
    return [alias for alias in scope.sources if f"{quoted(alias)}." in sql]


def _bracketed(tree: exp.Expr, scope: Scope) -> str:
    if isinstance(tree, exp.And):
        return f"({_bracketed(tree.this, scope)} AND {_bracketed(tree.expression, scope)})"
    plain = tree.unnest() if isinstance(tree, exp.Paren) else tree
    return f"({written(plain, scope)})"


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
