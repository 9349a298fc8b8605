"""What a filter of a batch query says about where to read: Spark still checks every row against it.

Only what is certain narrows the reading. The end of a range is never cut by a timestamp, because a later record may
have an earlier one.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any

from ottla.client.cluster import Cluster
from ottla.client.offsets import list_offsets
from ottla.spark.ranges import OffsetRange

if TYPE_CHECKING:
    from pyspark.sql.datasource import Filter


@dataclass
class _Bounds:
    """A column lies within these, and is one of these."""

    least: float = -math.inf
    most: float = math.inf
    choices: set[Any] | None = None

    def allow(self, value: Any) -> bool:
        inside = isinstance(value, str) or self.least <= value <= self.most
        return inside and (self.choices is None or value in self.choices)

    def choose(self, values: Iterable[Any]) -> None:
        chosen = set(values)
        self.choices = chosen if self.choices is None else self.choices & chosen


@dataclass
class Narrowing:
    topic: _Bounds = field(default_factory=_Bounds)
    partition: _Bounds = field(default_factory=_Bounds)
    offset: _Bounds = field(default_factory=_Bounds)
    timestamp: _Bounds = field(default_factory=_Bounds)

    @classmethod
    def of(cls, filters: Sequence[Filter]) -> Narrowing:
        """All of the filters hold; those that say nothing here are left to Spark, as is null."""
        narrowing = cls()
        for each in filters:
            column: tuple[str, ...] = getattr(each, "attribute", ())
            if len(column) == 1 and column[0] in ("topic", "partition", "offset", "timestamp"):
                narrowing._add(getattr(narrowing, column[0]), each)
        return narrowing

    def _add(self, bounds: _Bounds, each: Filter) -> None:
        from pyspark.sql.datasource import (
            EqualTo,
            GreaterThan,
            GreaterThanOrEqual,
            In,
            LessThan,
            LessThanOrEqual,
        )

        if isinstance(each, In):
            bounds.choose(each.value)
            return
        value = getattr(each, "value", None)
        if isinstance(value, datetime):
            value = math.floor(value.timestamp() * 1000)  # records have milliseconds, and no more
        if value is None:
            return
        if isinstance(each, EqualTo):
            bounds.choose([value])
            if not isinstance(value, str):
                bounds.least, bounds.most = max(bounds.least, value), min(bounds.most, value)
        elif isinstance(value, str):
            return
        # One too many at either end is no harm.
        elif isinstance(each, (GreaterThan, GreaterThanOrEqual)):
            bounds.least = max(bounds.least, value)
        elif isinstance(each, (LessThan, LessThanOrEqual)):
            bounds.most = min(bounds.most, value)

    def apply(self, cluster: Cluster, ranges: list[OffsetRange], isolation_level: int) -> list[OffsetRange]:
        """What may hold a row that passes."""
        offsets = self.offset
        least, most = offsets.least, offsets.most
        if offsets.choices is not None:
            known = [each for each in offsets.choices if each is not None]
            least, most = max(least, min(known, default=math.inf)), min(most, max(known, default=-math.inf))
        kept = []
        for each in ranges:
            if not (
                self.topic.allow(each.partition.topic) and self.partition.allow(each.partition.partition)
            ):
                continue
            start, end = max(each.start, least), min(each.end, most + 1)
            if start < end:
                kept.append(OffsetRange(each.partition, int(start), int(end)))
        if math.isinf(self.timestamp.least) or not kept:
            return kept
        since = dict.fromkeys((each.partition for each in kept), int(self.timestamp.least))
        found = list_offsets(cluster, since, isolation_level)
        later = [
            OffsetRange(each.partition, max(each.start, found[each.partition].offset), each.end)
            for each in kept
            if found[each.partition].offset >= 0
        ]
        return [each for each in later if each.size > 0]
