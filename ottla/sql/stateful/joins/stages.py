"""Stages for the joins of a plan: joins by the same key share a stage, and other joins are repartitioned first."""

from __future__ import annotations

from collections.abc import Sequence

from ottla.spark.formats.value_format import quoted
from ottla.sql.planning.join_plan import JoinStep
from ottla.sql.planning.plan import Plan
from ottla.sql.stateful.flows import source_columns
from ottla.sql.stateful.joins.chain import JoinChain
from ottla.sql.stateful.joins.foreign_key import Changes, ForeignKeyJoin, ForeignKeys, InOrder
from ottla.sql.stateful.joins.sides import Sides
from ottla.sql.stateful.joins.stream_stream import StreamStreamJoin
from ottla.sql.stateful.joins.stream_table import StreamTableJoin
from ottla.sql.stateful.joins.table_table import TableTableJoin
from ottla.sql.stateful.records import Operator
from ottla.sql.stateful.runner import Stage


def join_stages(plan: Plan) -> tuple[Stage, ...]:
    kinds = [source.kind for source in plan.sources.values()]
    stages: list[Stage] = []
    together: list[tuple[int, JoinStep]] = []
    for number, step in enumerate(plan.joins, 1):
        if together and (step.repartitions or step.of == "foreign-key"):
            stages.append(_stage(together, kinds))
            together = []
        if step.of == "foreign-key":
            stages += _by_foreign_key(plan, number, step)
            continue
        together.append((number, step))
    if together:
        stages.append(_stage(together, kinds))
    return tuple(stages)


def _by_foreign_key(plan: Plan, number: int, step: JoinStep) -> tuple[Stage, ...]:
    alias = plan.select.source.alias
    left = plan.sources[alias]
    keys = [f"{quoted(alias)}.{quoted(column.name)}" for column in left.keys]
    primary = keys[0] if len(keys) == 1 else f"struct({', '.join(keys)})"
    columns = source_columns(plan)[alias]
    places = tuple(columns.index(column.name) for column in left.keys)
    sides, changes = Sides(number, len(plan.sources)), Changes(len(plan.sources))
    by_foreign_key = dict.fromkeys(changes.all(), step.left_key) | {number: step.right_key}
    suffix = "" if number == 1 else f"-{number}"
    return (
        Stage(ForeignKeys(f"left-rows{suffix}", changes), {0: primary}, frozenset({0})),
        Stage(
            ForeignKeyJoin(f"join-{number}", sides, step.kind == "LEFT", places, changes),
            by_foreign_key,
            frozenset(by_foreign_key),
            frozenset(changes.all()),
        ),
        Stage(InOrder(f"results{suffix}"), {0: primary}, frozenset({0})),
    )


def _stage(together: list[tuple[int, JoinStep]], kinds: Sequence[str]) -> Stage:
    first = together[0][0]
    keys = {0: together[0][1].left_key} | {number: step.right_key for number, step in together}
    joins = tuple(_operator(step, Sides(number, len(kinds))) for number, step in together)
    tables = frozenset(number for number in keys if kinds[number] == "TABLE")
    return Stage(JoinChain(f"join-{first}", first, joins), keys, tables)


def _operator(step: JoinStep, sides: Sides) -> Operator:
    name = step.right
    keeps_left, keeps_right = step.kind in ("LEFT", "FULL"), step.kind in ("RIGHT", "FULL")
    if step.of == "stream-table":
        return StreamTableJoin(name, sides, keeps_left)
    if step.of == "table-table":
        return TableTableJoin(name, sides, keeps_left, keeps_right)
    return StreamStreamJoin(
        name, sides, keeps_left, keeps_right, step.before_ms, step.after_ms, step.grace_ms
    )
