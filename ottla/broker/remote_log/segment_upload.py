"""Prepare a local segment for its copy: describe it on the event loop, check it in a thread."""

from __future__ import annotations

import os
import uuid

from ottla.log.batch import BatchScan
from ottla.log.partition_log import PartitionLog
from ottla.log.producer_state import SNAPSHOT_SUFFIX, ProducerStates, encode_snapshot
from ottla.log.recovery import rebuild_producers
from ottla.log.remote.segment_copy import SegmentFiles, copy_segment
from ottla.log.remote.segment_metadata import RemoteLogSegment, TopicIdPartition
from ottla.log.remote.storage import RemoteStorage
from ottla.log.segments.segment import LogSegment, segment_path


class UploadError(Exception):
    """A segment cannot be copied, or the copy was discarded. The message is for an operator."""


def describe_segment(
    name: TopicIdPartition,
    log: PartitionLog,
    segment: LogSegment,
    producers: bytes,
    broker_id: int,
    now_ms: int,
) -> tuple[RemoteLogSegment, SegmentFiles]:
    base, end = segment.base_offset, log.segments.end_of(segment)
    epochs = [(epoch, start) for epoch, start in log.epochs.entries if start < end]
    ends = [start for _, start in epochs[1:]] + [end]
    within = {
        epoch: max(start, base) for (epoch, start), stop in zip(epochs, ends, strict=True) if stop > base
    }
    if not within:
        raise UploadError(f"{log.epochs.path} has no leader epoch for {segment.path}")
    described = RemoteLogSegment(
        name,
        uuid.uuid4().bytes,
        base,
        end - 1,
        within,
        segment.size,
        segment.largest_timestamp(),
        broker_id,
        now_ms,
        has_transaction_index=bool(segment.transaction_index.entries),
    )
    files = SegmentFiles(
        segment.path,
        segment.size,
        segment.offset_index.path,
        segment.time_index.path,
        segment.transaction_index.path,
        producers,
        epochs,
    )
    return described, files


def producers_at(log: PartitionLog, offset: int) -> bytes:
    """Return the snapshot taken when the next segment was started, or read the producers from the batches. Blocks."""
    if offset in log.producers.snapshots:
        with open(segment_path(os.fspath(log.path), offset, SNAPSHOT_SUFFIX), "rb") as file:
            return file.read()
    producers = ProducerStates(
        os.fspath(log.path),
        [each for each in log.producers.snapshots if each <= offset],
        log.producers.checksums,
    )
    rebuild_producers(producers, [each for each in log.segments if each.base_offset < offset], offset)
    return encode_snapshot(producers.producers)


def verified_copy(storage: RemoteStorage, segment: RemoteLogSegment, files: SegmentFiles) -> None:
    """Check every batch before the copy, because the local segment may be deleted after it. Blocks."""
    fd = os.open(files.log, os.O_RDONLY | os.O_CLOEXEC)
    try:
        scan = BatchScan(fd, 0, files.size, check_crc=True)
        for _ in scan:
            pass
    finally:
        os.close(fd)
    if scan.invalid is not None:
        raise UploadError(
            f"{files.log} is corrupt at byte {scan.invalid.position}: {scan.invalid.reason}; it is not copied"
        )
    copy_segment(storage, segment, files)
