"""Exact translation of source offsets into target offsets, based on every run of copied records.

MirrorMaker keeps at most 64 pairs of offsets per partition. Its translated offsets lie before the group's position, so
the group reads records again. With exact translation a group that fails over reads no record twice and misses none.
"""

from __future__ import annotations

from bisect import bisect_right, insort

from ottla.client.cluster import TopicPartition
from ottla.mirror.formats import Run


class Translation:
    """Runs of all partitions of a flow, by source topic name.

    The micro-batch thread adds runs and the group thread reads them; each change is a single assignment.
    """

    def __init__(self) -> None:
        self._runs: dict[TopicPartition, list[Run]] = {}

    def add(self, partition: TopicPartition, run: Run) -> None:
        runs = self._runs.setdefault(partition, [])
        if runs and runs[-1].start >= run.start:  # topic order differs from offset order
            insort(runs, run)
        elif runs and runs[-1].end == run.start and runs[-1].target_end == run.target_start:
            runs[-1] = Run(runs[-1].start, runs[-1].target_start, runs[-1].length + run.length)
        else:
            runs.append(run)

    def clear(self) -> None:
        self._runs.clear()

    def forget_before(self, partition: TopicPartition, target_start: int) -> list[Run]:
        runs = self._runs.get(partition, [])
        gone = [run for run in runs if run.target_end <= target_start]
        if gone and len(gone) == len(runs):
            gone.pop()  # keep the last run to translate the offsets of groups that have read everything
        self._runs[partition] = runs[len(gone) :]
        return gone

    def partitions(self) -> list[TopicPartition]:
        return sorted(self._runs)

    def translate(self, partition: TopicPartition, offset: int) -> int | None:
        """Return the target offset of the next record that the group reads, or None if it is unknown.

        A group that has read beyond the copied records gets the end of the copied records for now.
        """
        runs = self._runs.get(partition)
        if not runs:
            return None
        index = bisect_right(runs, offset, key=lambda run: run.start) - 1
        if index < 0:
            return runs[0].target_start
        run = runs[index]
        if offset < run.end:
            return run.target_start + offset - run.start
        if index + 1 < len(runs):  # the offset belongs to a marker or to a compacted record
            return runs[index + 1].target_start
        return run.target_end

    def copied_until(self, partition: TopicPartition) -> int | None:
        runs = self._runs.get(partition)
        return runs[-1].end if runs else None
