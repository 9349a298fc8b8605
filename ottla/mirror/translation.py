"""Offsets of the source as offsets of the target: exactly, because every run of records that was copied is known.

MirrorMaker keeps at most 64 pairs of offsets for a partition, so what it translates lies before where a group stands,
and the group reads records again. Here a group that moves over reads none again, and misses none.
"""

from __future__ import annotations

from bisect import bisect_right, insort

from ottla.client.cluster import TopicPartition
from ottla.mirror.formats import Run


class Translation:
    """The runs of all partitions of a flow, by the source's names.

    Added to in the thread of the micro-batch, and read in that of the groups: each change is one assignment.
    """

    def __init__(self) -> None:
        self._runs: dict[TopicPartition, list[Run]] = {}

    def add(self, partition: TopicPartition, run: Run) -> None:
        runs = self._runs.setdefault(partition, [])
        if runs and runs[-1].start >= run.start:  # read in the order of the topic, and not of the offsets
            insort(runs, run)
        elif runs and runs[-1].end == run.start and runs[-1].target_end == run.target_start:
            runs[-1] = Run(runs[-1].start, runs[-1].target_start, runs[-1].length + run.length)
        else:
            runs.append(run)

    def clear(self) -> None:
        self._runs.clear()

    def forget_before(self, partition: TopicPartition, target_start: int) -> list[Run]:
        """Remove the runs whose records are gone from the target."""
        runs = self._runs.get(partition, [])
        gone = [run for run in runs if run.target_end <= target_start]
        if gone and len(gone) == len(runs):
            gone.pop()  # it tells where a group stands that has read everything
        self._runs[partition] = runs[len(gone) :]
        return gone

    def partitions(self) -> list[TopicPartition]:
        return sorted(self._runs)

    def translate(self, partition: TopicPartition, offset: int) -> int | None:
        """The offset on the target of the next record that a group reads; None while that is not known.

        A group that has read more than was copied stands at the end of what was copied, for now.
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
        if index + 1 < len(runs):  # offsets of markers, or of records that were compacted away
            return runs[index + 1].target_start
        return run.target_end

    def copied_until(self, partition: TopicPartition) -> int | None:
        runs = self._runs.get(partition)
        return runs[-1].end if runs else None
