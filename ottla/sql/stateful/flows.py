"""Sources of a query combined into one flow."""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce
from typing import TYPE_CHECKING

from ottla.spark.formats.value_format import quoted
from ottla.sql.frames import DELETED
from ottla.sql.planning.plan import Plan
from ottla.sql.sources import PSEUDO_COLUMNS
from ottla.sql.stateful.columns import INPUT, PART, REMOVED, SEQ, TIME

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def source_columns(plan: Plan) -> dict[str, list[str]]:
    """Return the required columns of each source: those named in the plan's SQL, and the key. State has no others."""
    texts = [plan.sql, *(key for step in plan.joins for key in (step.left_key, step.right_key))]
    if plan.aggregation is not None:
        texts += [plan.aggregation.rows_sql, plan.aggregation.group_key]
    written = "\n".join(texts)
    columns = {}
    for alias, source in plan.sources.items():
        keys = [column.name for column in source.keys]
        others = [column.name for column in source.columns if not column.is_key]
        others += [*source.window_columns, *PSEUDO_COLUMNS]
        columns[alias] = [*keys, *(name for name in others if f"{quoted(alias)}.{quoted(name)}" in written)]
        columns[alias] = columns[alias] or ["ROWTIME"]
    return columns


def source_flow(plan: Plan, frames: Mapping[str, DataFrame]) -> DataFrame:
    """Combine the records of all sources, each in the struct column of its alias.

    Stream records without a value are skipped.
    """
    tagged = []
    columns = source_columns(plan)
    for number, (alias, frame) in enumerate(frames.items()):
        if plan.sources[alias].kind == "STREAM":
            frame = frame.where(f"NOT {DELETED}")
        fields = ", ".join(quoted(name) for name in columns[alias])
        tagged.append(
            frame.selectExpr(
                f"{number} AS {INPUT}",
                f"ROWTIME AS {TIME}",
                f"{DELETED} AS {REMOVED}",
                f"ROWPARTITION AS {PART}",
                f"ROWOFFSET AS {SEQ}",
                f"struct({fields}) AS {quoted(alias)}",
            )
        )
    return reduce(lambda one, other: one.unionByName(other, allowMissingColumns=True), tagged)
