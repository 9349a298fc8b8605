"""The log of one partition (Kafka's UnifiedLog): `LocalLog`, and appends as leader, follower or mirror."""

from __future__ import annotations

import logging
from functools import partial

from crc32c import crc32c

from ottla.log.append_check import (
    body_fault,
    check_replicated,
    check_unusual,
    inspect_on_loop,
    invalid_record,
    needs_records,
    read_only,
    refuse_short,
)
from ottla.log.batch import (
    ATTRIBUTES,
    BASE_OFFSET,
    CRC,
    CRC_START,
    LEADER_EPOCH,
    LEADER_EPOCH_AT,
    MAX_TIMESTAMP,
    MAX_TIMESTAMP_AT,
    header_at,
)
from ottla.log.config import LOG_APPEND_TIME, LONG_MAX, LogConfig
from ottla.log.files.live_ends import END, END_COPY
from ottla.log.local_log import LocalLog
from ottla.log.producer_state import SEQUENCE_MAX
from ottla.log.segments.index import CompletedTransaction
from ottla.log.segments.segment import LogSegment
from ottla.protocol.batch_header import (
    ATTRIBUTES_AT,
    BATCH_OVERHEAD,
    CODEC_MASK,
    CONTROL_FLAG,
    CRC_AT,
    HEADER,
    LOG_OVERHEAD,
    MAGIC,
    TIMESTAMP_TYPE_FLAG,
    TRANSACTIONAL_FLAG,
    BatchHeader,
)
from ottla.protocol.compression import Buffer
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.records import build_marker

__all__ = ["AppendInfo", "PartitionLog"]

logger = logging.getLogger(__name__)

_RECENT_BATCHES = 32
_HIGHEST_CODEC = 4
_UNUSUAL_ATTRIBUTES = CONTROL_FLAG | TIMESTAMP_TYPE_FLAG
_unpack = HEADER.unpack_from


class AppendInfo:
    """Offsets assigned to batches. A duplicate has the offsets of its first append."""

    __slots__ = (
        "duplicate",
        "first_offset",
        "last_offset",
        "log_append_time",
        "log_start_offset",
        "max_timestamp",
    )

    def __init__(
        self,
        first_offset: int,
        last_offset: int,
        log_append_time: int,
        log_start_offset: int,
        max_timestamp: int,
        duplicate: bool = False,
    ) -> None:
        self.first_offset = first_offset
        self.last_offset = last_offset
        self.log_append_time = log_append_time  # -1 for producer timestamps
        self.log_start_offset = log_start_offset
        self.max_timestamp = max_timestamp
        self.duplicate = duplicate


class PartitionLog(LocalLog):
    """Invariant: the state in memory (end offset, producers, epochs, indexes) matches the files, even after a failed
    append. Owner: the event loop.
    """

    def _configure(self, config: LogConfig) -> None:
        super()._configure(config)
        # Fields of the hot path.
        self._max_batch_bytes = min(config.max_message_bytes, config.segment_bytes)
        if config.is_mirror:
            self._max_batch_bytes = -1  # treats every batch as unusual, so that `append` refuses it
        self._log_append_time = config.message_timestamp_type == LOG_APPEND_TIME
        self._after_max_ms = LONG_MAX if self._log_append_time else config.message_timestamp_after_max_ms
        self._reads_records = needs_records(config)
        self._flush_messages = config.flush_messages

    def append(
        self,
        records: Buffer,
        *,
        leader_epoch: int,
        now_ms: int,
        from_client: bool = True,
        inspected: bool = False,
    ) -> AppendInfo:
        """Append one batch as leader, writing base offset and leader epoch into `records` itself.

        Raises InspectionNeeded if the caller has to run `append_check.inspect` first and then pass `inspected`.
        """
        view = records if type(records) is memoryview else memoryview(records)
        size = len(view)
        if size < BATCH_OVERHEAD:
            raise refuse_short(size)
        (
            base_offset, length, _, magic, crc, attributes, delta,
            _, max_timestamp, producer_id, producer_epoch, first_sequence, count,
        ) = _unpack(view)  # fmt: skip
        actual_crc = crc32c(view[CRC_START:])
        if (
            actual_crc != crc
            or magic != MAGIC
            or length != size - LOG_OVERHEAD
            or size > self._max_batch_bytes
            or count != delta + 1
            or delta < 0
            or base_offset
            or attributes & _UNUSUAL_ATTRIBUTES
            or attributes & CODEC_MASK > _HIGHEST_CODEC
            or (producer_id >= 0 and (first_sequence < 0 or producer_epoch < 0))
            or (producer_id < 0 and attributes & TRANSACTIONAL_FLAG)
        ):
            if self._config.is_mirror:
                raise read_only(self.topic)
            check_unusual(view, actual_crc, self._config, from_client=from_client)
        last_sequence = -1
        if producer_id >= 0:
            last_sequence = (first_sequence + delta) & SEQUENCE_MAX
            repeated = None
            if from_client:
                try:
                    repeated = self.producers.check(
                        producer_id,
                        producer_epoch,
                        first_sequence,
                        last_sequence,
                        attributes & TRANSACTIONAL_FLAG != 0,
                    )
                except KafkaError as error:
                    if self.producers.forget_below(producer_id, self._mirrored_end):
                        pass  # another producer, of the mirror's source
                    elif error.code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER and self.refusal is not None:
                        raise KafkaError(self.refusal.code, self.refusal.message) from error
                    else:
                        raise
            else:
                self.producers.check_epoch(producer_id, producer_epoch)
            if repeated is not None and not self.producers.forget_below(producer_id, self._mirrored_end):
                _, _, first_offset, last_offset, timestamp = repeated
                append_time = timestamp if self._log_append_time else -1
                return AppendInfo(
                    first_offset, last_offset, append_time, self.log_start_offset, timestamp, True
                )
        if self.offline_reason is not None:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, self.offline_reason)
        if from_client and not inspected:
            if self._reads_records or max_timestamp - now_ms > self._after_max_ms:
                view = inspect_on_loop(view, self._config, now_ms)
                size = len(view)
                attributes = header_at(view).attributes
            elif (fault := body_fault(view, attributes & CODEC_MASK, count)) is not None:
                raise invalid_record(fault)
        if view.readonly:
            view = memoryview(bytearray(view))
        append_time = -1
        if self._log_append_time:
            append_time = max_timestamp = now_ms
            ATTRIBUTES.pack_into(view, ATTRIBUTES_AT, attributes | TIMESTAMP_TYPE_FLAG)
            MAX_TIMESTAMP.pack_into(view, MAX_TIMESTAMP_AT, now_ms)
            CRC.pack_into(view, CRC_AT, crc32c(view[CRC_START:]))

        first_offset = self.log_end_offset
        last_offset = first_offset + delta
        segment = self.active
        if (
            segment.size + size > segment.max_size
            or max_timestamp > segment.roll_after_timestamp
            or now_ms > segment.roll_after_time
            or last_offset > segment.max_offset
            or segment.index_full
        ):
            segment = self.roll_for_append(first_offset)
        if leader_epoch != self.epochs.latest:
            self.start_epoch(leader_epoch)
        BASE_OFFSET.pack_into(view, 0, first_offset)
        LEADER_EPOCH.pack_into(view, LEADER_EPOCH_AT, leader_epoch)
        try:
            position = segment.append(view, size, last_offset, max_timestamp)
        except KafkaError as error:
            self._write_failed(error)
            raise
        self.log_end_offset = last_offset + 1
        live = self._live
        if live is not None:
            live[END] = live[END_COPY] = last_offset + 1
            if not position:
                self._note_first_batch()
        self.refusal = None
        recent = self._recent
        recent[first_offset] = position
        if len(recent) > _RECENT_BATCHES:
            del recent[next(iter(recent))]
        if producer_id >= 0 and not attributes & CONTROL_FLAG:
            batch = (first_sequence, last_sequence, first_offset, last_offset, max_timestamp)
            self.producers.update(producer_id, producer_epoch, batch, attributes & TRANSACTIONAL_FLAG != 0)
        if last_offset - self.recovery_point >= self._flush_messages - 1:
            self.flush()
        return AppendInfo(first_offset, last_offset, append_time, self.log_start_offset, max_timestamp)

    def append_marker(
        self,
        producer_id: int,
        producer_epoch: int,
        *,
        commit: bool,
        coordinator_epoch: int,
        transaction_version: int,
        leader_epoch: int,
        now_ms: int,
    ) -> AppendInfo:
        """End the producer's transaction as leader: its records become readable or aborted."""
        try:
            self.producers.check_marker(producer_id, producer_epoch, coordinator_epoch, transaction_version)
        except KafkaError:
            if not self.producers.forget_below(producer_id, self._mirrored_end):
                raise
        batch = build_marker(
            producer_id, producer_epoch, commit=commit, coordinator_epoch=coordinator_epoch, timestamp=now_ms
        )
        info = self.append(batch, leader_epoch=leader_epoch, now_ms=now_ms, from_client=False)
        completed = self.producers.end_transaction(header_at(batch), coordinator_epoch, not commit)
        if completed is not None and completed.aborted:
            self._index_aborted(self.active, completed)
        return info

    def append_as_follower(self, records: Buffer) -> AppendInfo:
        """Append a leader's batches with their offsets, leader epochs and producers. Drop an incomplete last one."""
        if self.offline_reason is not None:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, self.offline_reason)
        view = memoryview(records)
        batches = check_replicated(view, self.log_end_offset)
        first_offset = batches[0][1].base_offset if batches else self.log_end_offset
        max_timestamp = max((header.max_timestamp for _, header in batches), default=-1)
        while batches:
            segment = self.active
            header = batches[0][1]
            if _must_roll(segment, header, segment.size):
                base = self.log_end_offset
                if header.last_offset > base + segment.max_offset - segment.base_offset:
                    base = header.base_offset  # compaction left a gap too large for one segment
                segment = self.roll_for_append(base)
            count, end = 1, segment.size + header.size
            while count < len(batches) and not _must_roll(segment, batches[count][1], end):
                end += batches[count][1].size
                count += 1
            self._append_run(segment, view, batches[:count])
            batches = batches[count:]
        if self.log_end_offset - self.recovery_point >= self.config.flush_messages:
            self.flush()
        return AppendInfo(first_offset, self.log_end_offset - 1, -1, self.log_start_offset, max_timestamp)

    def append_mirrored(self, records: Buffer) -> AppendInfo:
        """Append batches that a mirror link copied from another cluster's log, unchanged and with gaps.

        Invariant: this log has the epochs of the source's batches, which rise as they do there. A leader's own epoch
        exceeds all of them and is recorded only once the leader writes, after promotion. Mirrored records therefore
        never follow records written here.
        """
        view = memoryview(records)
        end = self.log_end_offset
        if len(view) >= BATCH_OVERHEAD:
            header = header_at(view)
            if header.base_offset < end:
                raise KafkaError(
                    ErrorCode.OFFSET_OUT_OF_RANGE,
                    f"the log of {self.topic}-{self.partition} ends at {end}, so {header.base_offset} cannot follow",
                )
            self.epochs.truncate_from_end(end)
            if 0 <= header.partition_leader_epoch < self.epochs.latest:
                raise KafkaError(
                    ErrorCode.INVALID_REQUEST,
                    f"{self.topic}-{self.partition} has records of leader epoch {self.epochs.latest}: records "
                    f"of the source's epoch {header.partition_leader_epoch} cannot follow",
                )
        return self.append_as_follower(view)

    def _append_run(
        self, segment: LogSegment, view: memoryview, batches: list[tuple[int, BatchHeader]]
    ) -> None:
        """Write several batches for the same segment at once."""
        start, last = batches[0][0], batches[-1]
        end = last[0] + last[1].size
        for _, header in batches:
            if header.partition_leader_epoch != self.epochs.latest:
                self.start_epoch(header.partition_leader_epoch, header.base_offset)
        try:
            base_position = segment.write(view[start:end], end - start)
        except KafkaError as error:
            self._write_failed(error)
            raise
        for at, header in batches:
            segment.note(header, base_position + at - start)
            completed = self.producers.replay(header, partial(bytes, view[at : at + header.size]))
            if completed is not None and completed.aborted:
                self._index_aborted(segment, completed)
        self.log_end_offset = last[1].last_offset + 1
        self._appended(is_first=not base_position)
        self.refusal = None

    def _index_aborted(self, segment: LogSegment, completed: CompletedTransaction) -> None:
        try:
            segment.transaction_index.append(self.producers.aborted(completed))
        except OSError as error:
            # Without the entry consumers would treat the aborted records as committed.
            self.go_offline("marked with an aborted transaction", error)

    def _write_failed(self, error: KafkaError) -> None:
        self.refusal = error
        if not self.active.takes_appends:
            self.offline_reason = f"{error.message}; the log takes no appends until the broker is restarted"
            logger.error("%s", self.offline_reason)


def _must_roll(segment: LogSegment, header: BatchHeader, size: int) -> bool:
    return (
        (size > 0 and size + header.size > segment.max_size)
        or header.max_timestamp > segment.roll_after_timestamp
        or header.last_offset > segment.max_offset
        or segment.index_full
    )
