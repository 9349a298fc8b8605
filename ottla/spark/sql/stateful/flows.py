"""The columns of a flow, and the sources as one."""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce
from typing import TYPE_CHECKING

from ottla.spark.formats.value_format import quoted
from ottla.spark.sql.frames import DELETED
from ottla.spark.sql.planning.join_plan import FLOW
from ottla.spark.sql.sources import Source

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

INPUT, TIME, REMOVED, PART, SEQ, KEY = "__input", "__time", "__deleted", "__part", "__seq", "__key"
#: In this order, and before the payload.
HEAD = (INPUT, TIME, REMOVED, PART, SEQ)

__all__ = ["FLOW", "HEAD", "INPUT", "KEY", "PART", "REMOVED", "SEQ", "TIME", "source_flow"]


def source_flow(sources: Mapping[str, Source], frames: Mapping[str, DataFrame]) -> DataFrame:
    """Every record of the sources, each in the struct column of its alias.

    Records of streams that have no value make no row.
    """
    tagged = []
    for number, (alias, frame) in enumerate(frames.items()):
        if sources[alias].kind == "STREAM":
            frame = frame.where(f"NOT {DELETED}")
        fields = ", ".join(quoted(name) for name in frame.columns)
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
