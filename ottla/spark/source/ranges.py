"""Offset ranges: the input of one task, limits per trigger, and splitting."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

from ottla.client.cluster import TopicPartition
from ottla.spark.source.positions import Offsets


class OffsetRange(NamedTuple):
    """Offsets from `start` to `end`, exclusive."""

    partition: TopicPartition
    start: int
    end: int

    @property
    def size(self) -> int:
        return self.end - self.start


def limit_offsets(
    start: Mapping[TopicPartition, int], end: Mapping[TopicPartition, int], most: int
) -> Offsets:
    """Limit the end to `most` offsets in total, divided among partitions in proportion to their backlog."""
    sizes = {
        partition: end[partition] - start[partition] for partition in end if end[partition] > start[partition]
    }
    total = sum(sizes.values())
    if total <= most:
        return dict(end)
    limited = dict(end)
    for partition, size in sizes.items():
        share = most * size / total
        # A partition with a small backlog still advances; otherwise a large one might starve it.
        step = math.ceil(share) if share < 1 else math.floor(share)
        limited[partition] = min(end[partition], start[partition] + step)
    return limited


def split_ranges(
    ranges: Sequence[OffsetRange], min_partitions: int | None, max_records: int | None
) -> list[OffsetRange]:
    """Split ranges to at most `max_records` offsets each, and at least about `min_partitions` ranges."""
    result = [each for each in ranges if each.size > 0]
    if max_records is not None:
        result = [part for each in result for part in _divide(each, math.ceil(each.size / max_records))]
    if min_partitions is None or len(result) >= min_partitions:
        return result
    total = sum(each.size for each in result)
    small = [each for each in result if _parts(each.size, total, min_partitions) == 1]
    large_total = total - sum(each.size for each in small)
    large_parts = max(min_partitions - len(small), 1)
    return [
        part
        for each in result
        for part in ([each] if each in small else _divide(each, _parts(each.size, large_total, large_parts)))
    ]


def _parts(size: int, total: int, wanted: int) -> int:
    return max(1, math.floor(size / total * wanted + 0.5))


def _divide(whole: OffsetRange, parts: int) -> list[OffsetRange]:
    cuts = [whole.start + whole.size * part // parts for part in range(parts + 1)]
    return [OffsetRange(whole.partition, start, end) for start, end in pairwise(cuts) if end > start]


def offsets_to_json(offsets: Mapping[TopicPartition, int]) -> dict[str, dict[str, int]]:
    """Format offsets like Spark's Kafka connector in checkpoints, in a stable order."""
    result: dict[str, dict[str, int]] = {}
    for partition in sorted(offsets):
        result.setdefault(partition.topic, {})[str(partition.partition)] = offsets[partition]
    return result


def offsets_from_json(offsets: Mapping[str, Mapping[str, int]]) -> Offsets:
    return {
        TopicPartition(topic, int(partition)): offset
        for topic, partitions in offsets.items()
        for partition, offset in partitions.items()
    }
