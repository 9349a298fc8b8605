"""The joins of a plan as stages: those by the same key in one, with a repartition before each other."""

from __future__ import annotations

from collections.abc import Sequence

from ottla.spark.sql.planning.join_plan import JoinStep
from ottla.spark.sql.planning.plan import Plan
from ottla.spark.sql.stateful.joins.chain import JoinChain
from ottla.spark.sql.stateful.joins.sides import Sides
from ottla.spark.sql.stateful.joins.stream_table import StreamTableJoin
from ottla.spark.sql.stateful.records import Operator
from ottla.spark.sql.stateful.runner import Stage


def join_stages(plan: Plan) -> tuple[Stage, ...]:
    kinds = [source.kind for source in plan.sources.values()]
    stages: list[Stage] = []
    together: list[tuple[int, JoinStep]] = []
    for number, step in enumerate(plan.joins, 1):
        if together and step.repartitions:
            stages.append(_stage(together, kinds))
            together = []
        together.append((number, step))
    if together:
        stages.append(_stage(together, kinds))
    return tuple(stages)


def _stage(together: list[tuple[int, JoinStep]], kinds: Sequence[str]) -> Stage:
    first = together[0][0]
    keys = {0: together[0][1].left_key} | {number: step.right_key for number, step in together}
    joins = tuple(_operator(step, Sides(number, len(kinds))) for number, step in together)
    tables = frozenset(number for number in keys if kinds[number] == "TABLE")
    return Stage(JoinChain(f"join-{first}", first, joins), keys, tables)


def _operator(step: JoinStep, sides: Sides) -> Operator:
    name = step.right
    if step.of == "stream-table":
        return StreamTableJoin(name, sides, step.kind == "LEFT")
    raise AssertionError(step.of)
