"""Appends from another log: a leader's, or the source of a mirror topic."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from ottla.log.append_check import check_replicated
from ottla.log.append_info import AppendInfo
from ottla.log.batch import header_at
from ottla.protocol.batch_header import BATCH_OVERHEAD, BatchHeader
from ottla.protocol.compression import Buffer
from ottla.protocol.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from ottla.log.partition_log import PartitionLog
    from ottla.log.segments.segment import LogSegment


class ReplicatedAppends:
    """Invariant: batches keep their offsets, leader epochs and producers.

    Owner: the log, on the event loop.
    """

    __slots__ = ("_log",)

    def __init__(self, log: PartitionLog) -> None:
        self._log = log

    def append(self, records: Buffer) -> AppendInfo:
        """Append a leader's batches, dropping an incomplete last one."""
        log = self._log
        if log.offline_reason is not None:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, log.offline_reason)
        view = memoryview(records)
        batches = check_replicated(view, log.log_end_offset)
        first_offset = batches[0][1].base_offset if batches else log.log_end_offset
        max_timestamp = max((header.max_timestamp for _, header in batches), default=-1)
        while batches:
            segment = log.active
            header = batches[0][1]
            if _must_roll(segment, header, segment.size):
                base = log.log_end_offset
                if header.last_offset > base + segment.max_offset - segment.base_offset:
                    base = header.base_offset  # compaction left a gap too large for one segment
                segment = log.roll_for_append(base)
            count, end = 1, segment.size + header.size
            while count < len(batches) and not _must_roll(segment, batches[count][1], end):
                end += batches[count][1].size
                count += 1
            self._append_run(segment, view, batches[:count])
            batches = batches[count:]
        if log.log_end_offset - log.recovery_point >= log.config.flush_messages:
            log.flush()
        return AppendInfo(first_offset, log.log_end_offset - 1, -1, log.log_start_offset, max_timestamp)

    def append_mirrored(self, records: Buffer) -> AppendInfo:
        """Append batches that a mirror link copied from another cluster's log, unchanged and with gaps.

        Invariant: this log has the epochs of the source's batches, which rise as they do there. A leader's own epoch
        exceeds all of them and is recorded only once the leader writes, after promotion. Mirrored records therefore
        never follow records written here.
        """
        log = self._log
        view = memoryview(records)
        end = log.log_end_offset
        if len(view) >= BATCH_OVERHEAD:
            header = header_at(view)
            if header.base_offset < end:
                raise KafkaError(
                    ErrorCode.OFFSET_OUT_OF_RANGE,
                    f"the log of {log.topic}-{log.partition} ends at {end}, so {header.base_offset} cannot follow",
                )
            log.epochs.truncate_from_end(end)
            if 0 <= header.partition_leader_epoch < log.epochs.latest:
                raise KafkaError(
                    ErrorCode.INVALID_REQUEST,
                    f"{log.topic}-{log.partition} has records of leader epoch {log.epochs.latest}: what was written "
                    f"in epoch {header.partition_leader_epoch} of the source cannot follow",
                )
        return self.append(view)

    def _append_run(
        self, segment: LogSegment, view: memoryview, batches: list[tuple[int, BatchHeader]]
    ) -> None:
        """Write several batches for the same segment at once."""
        log = self._log
        start, last = batches[0][0], batches[-1]
        end = last[0] + last[1].size
        for _, header in batches:
            if header.partition_leader_epoch != log.epochs.latest:
                log.start_epoch(header.partition_leader_epoch, header.base_offset)
        try:
            base_position = segment.write(view[start:end], end - start)
        except KafkaError as error:
            log.write_failed(error)
            raise
        for at, header in batches:
            segment.note(header, base_position + at - start)
            completed = log.producers.replay(header, partial(bytes, view[at : at + header.size]))
            if completed is not None and completed.aborted:
                log.index_aborted(segment, completed)
        log.log_end_offset = last[1].last_offset + 1
        log.appended(is_first=not base_position)
        log.refusal = None


def _must_roll(segment: LogSegment, header: BatchHeader, size: int) -> bool:
    return (
        (size > 0 and size + header.size > segment.max_size)
        or header.max_timestamp > segment.roll_after_timestamp
        or header.last_offset > segment.max_offset
        or segment.index_full
    )
