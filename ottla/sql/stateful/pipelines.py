"""Pipeline of a plan."""

from __future__ import annotations

from ottla.sql.planning.aggregate_plan import ROW_KEY, AggregationPlan
from ottla.sql.planning.plan import Plan
from ottla.sql.stateful.aggregation import AggregateOperator, TableRowsOperator
from ottla.sql.stateful.joins.stages import join_stages
from ottla.sql.stateful.runner import Pipeline, Projection, Stage, Step


def pipeline_of(plan: Plan) -> Pipeline:
    """Build the pipeline of joins, from left to right, and grouping. The final SELECT is `plan.sql`."""
    grouping = () if plan.aggregation is None else _grouping(plan.aggregation)
    return Pipeline((*join_stages(plan), *grouping))


def _grouping(plan: AggregationPlan) -> tuple[Step, ...]:
    steps: list[Step] = [Projection(plan.rows_sql)]
    if plan.layout.of_table:
        steps.append(Stage(TableRowsOperator("rows", plan.layout), {0: ROW_KEY}))
    steps.append(Stage(AggregateOperator("groups", plan.layout, plan.aggregation), {0: plan.group_key}))
    return tuple(steps)
