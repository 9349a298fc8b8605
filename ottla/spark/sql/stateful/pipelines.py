"""The pipeline of a plan."""

from __future__ import annotations

from ottla.spark.sql.planning.plan import Plan
from ottla.spark.sql.stateful.joins.stages import join_stages
from ottla.spark.sql.stateful.runner import Pipeline


def pipeline_of(plan: Plan) -> Pipeline:
    """The joins, if there are any, from left to right; the final SELECT is `plan.sql`."""
    return Pipeline(join_stages(plan))
