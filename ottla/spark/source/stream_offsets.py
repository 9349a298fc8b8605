"""Offsets of a streaming query: the end of its next micro-batch, and the commits of its consumer group.

This runs in the driver. The checkpoint has all durable state.
"""

from __future__ import annotations

import time

from ottla.client.cluster import Cluster, TopicPartition
from ottla.client.errors import ClientError
from ottla.client.offsets import EARLIEST, LATEST, commit_offsets, list_offsets
from ottla.spark.source.data_loss import log, report
from ottla.spark.source.partition_planning import all_partitions, existing_partitions
from ottla.spark.source.positions import Offsets
from ottla.spark.source.ranges import OffsetRange, limit_offsets, split_ranges
from ottla.spark.source.source_options import SourceOptions

# Keep this short, because the commit only shows the lag to tools.
_COMMIT_SECONDS = 5.0


class StreamOffsets:
    """Invariant: offsets before `start` have been processed. Owner: the query's stream reader, in the driver."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        self._cluster = Cluster(options.settings)
        self._first: Offsets = {}  # of partitions added while the query runs
        self._target: Offsets | None = None
        self._last_batch_at: float | None = None
        self._committed: Offsets = {}
        self._commit_failure = ""
        self.latest: Offsets | None = None

    def close(self) -> None:
        self._cluster.close()

    def initial(self) -> Offsets:
        partitions = all_partitions(self._cluster, self._options.subscription)
        if not partitions:
            return {}
        return self._options.starting.resolve(self._cluster, partitions, self._options.isolation_level)

    def stop_at_latest(self) -> None:
        """Leave later records to the next run, for AvailableNow."""
        self._target = self._cluster.retrying(self._read_latest)

    def next_end(self, start: Offsets, *, limited: bool) -> Offsets:
        """Return the end of the next micro-batch, or `start` if no batch should run yet."""
        latest = self.latest = self._cluster.retrying(self._read_latest)
        self._commit({each: start[each] for each in start if each in latest})
        if self._target is not None:
            latest = {each: min(latest[each], self._target[each]) for each in self._target if each in latest}
        self._check_loss(start, latest)
        begin = self._begin(start, latest)
        if not limited:
            return latest
        if self._target is None and self._is_too_little(begin, latest):
            return start
        self._last_batch_at = time.monotonic()
        most = self._options.max_offsets_per_trigger
        return latest if most is None else limit_offsets(begin, latest, most)

    def ranges(self, start: Offsets, end: Offsets) -> list[OffsetRange]:
        begin = self._begin(start, end)
        ranges = [OffsetRange(each, begin[each], end[each]) for each in sorted(end)]
        return split_ranges(ranges, self._options.min_partitions, self._options.max_records_per_partition)

    def _read_latest(self) -> Offsets:
        partitions = existing_partitions(self._cluster, self._options.subscription)
        # Do not retry here: if a topic was deleted, the partitions must be looked up again too.
        found = list_offsets(
            self._cluster, dict.fromkeys(partitions, LATEST), self._options.isolation_level, seconds=0
        )
        return {partition: found[partition].offset for partition in partitions}

    def _begin(self, start: Offsets, end: Offsets) -> Offsets:
        """Return `start` plus the first offset of each new, unread partition."""
        new = [each for each in end if each not in start and each not in self._first]
        if new:
            self._first.update(self._first_offsets(new, end))
        self._first = {each: offset for each, offset in self._first.items() if each not in start}
        return {each: start[each] if each in start else self._first[each] for each in end}

    def _first_offsets(self, new: list[TopicPartition], end: Offsets) -> Offsets:
        existing = set(existing_partitions(self._cluster, self._options.subscription))
        found = list_offsets(self._cluster, {each: EARLIEST for each in new if each in existing})
        first = {}
        for partition in new:
            if partition not in found:  # the batch is repeated and its topic has been deleted
                self._report(f"{partition} no longer exists")
            elif found[partition].offset > 0:
                self._report(
                    f"The new partition {partition} starts at offset {found[partition].offset}, not at 0"
                )
            first[partition] = found[partition].offset if partition in found else end[partition]
        return first

    def _check_loss(self, start: Offsets, latest: Offsets) -> None:
        gone = sorted(set(start) - set(latest))
        if gone:
            self._report(f"{', '.join(map(str, gone))} no longer exists")
        for partition, offset in latest.items():
            if offset < start.get(partition, 0):
                self._report(
                    f"Partition {partition} ends at offset {offset} and was read up to {start[partition]}: "
                    "it was truncated, or its topic was deleted and created again"
                )

    def _report(self, what: str) -> None:
        report(what, fail=self._options.fail_on_data_loss)

    def _is_too_little(self, begin: Offsets, latest: Offsets) -> bool:
        least = self._options.min_offsets_per_trigger
        if least is None or self._last_batch_at is None:
            return False
        if time.monotonic() - self._last_batch_at >= self._options.max_trigger_delay:
            return False
        return sum(max(0, latest[each] - begin[each]) for each in latest) < least

    def _commit(self, offsets: Offsets) -> None:
        """Commit to the consumer group, so that tools see the lag. These offsets are never read back."""
        group = self._options.commit_group
        if group is None or not offsets or offsets == self._committed:
            return
        try:
            commit_offsets(self._cluster, group, offsets, _COMMIT_SECONDS)
        except ClientError as error:
            if error.message != self._commit_failure:
                log.warning(
                    "The progress of the query is not visible in group '%s': %s", group, error.message
                )
            self._commit_failure = error.message
        else:
            self._committed = offsets
