"""The copy of a log that will replace it in another directory.

Its directory is `topic-partition.<unique id>-future`, as in Kafka. It is written like a follower's log, with the
original as its leader. Once it is complete, two renames and an assignment make it the log. A crash between the renames
leaves two complete logs, of which the longer one is kept.
"""

from __future__ import annotations

import logging
import re
import uuid
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ottla.log.batch import header_at
from ottla.log.files.descriptors import FileRegion
from ottla.protocol.batch_header import BATCH_OVERHEAD

if TYPE_CHECKING:
    from ottla.log.files.checkpoint import TopicPartition
    from ottla.log.log_directory import LogDirectory
    from ottla.log.partition_log import PartitionLog

logger = logging.getLogger(__name__)

FUTURE_SUFFIX = "-future"
_FUTURE_NAME = re.compile(r"(.+)-(\d+)\.[0-9a-f]{32}" + FUTURE_SUFFIX)


def future_name(topic: str, partition: int) -> str:
    return f"{topic}-{partition}.{uuid.uuid4().hex}{FUTURE_SUFFIX}"


def parse_future_name(name: str) -> TopicPartition | None:
    found = _FUTURE_NAME.fullmatch(name)
    return None if found is None else (found[1], int(found[2]))


def align(future: PartitionLog, log: PartitionLog) -> None:
    """Truncate records that the log lacks, and start at its log start offset."""
    future.truncate_to(_common_end(future, log))  # may end earlier, because batches are removed as a whole
    if future.log_end_offset < log.local_start_offset:
        future.truncate_fully_and_start_at(log.local_start_offset)


def _common_end(future: PartitionLog, log: PartitionLog) -> int:
    """Return the common end of both logs: the same leaders wrote them up to the end of a shared epoch."""
    for epoch, _ in reversed(future.epochs.entries):
        known, end = log.epoch_end_offset(epoch)
        if known == epoch:
            return min(end, future.epoch_end_offset(epoch)[1])
    return min(future.log_end_offset, log.local_start_offset)


def copy(region: FileRegion, future: PartitionLog) -> int:
    """Append bytes read at the copy's end. Return the number of bytes read. May run in a thread."""
    data = memoryview(region.read())
    if future.log_end_offset == future.log_start_offset and len(data) >= BATCH_OVERHEAD:
        first = header_at(data)
        if first.base_offset < future.log_end_offset <= first.last_offset:
            # The log starts in the middle of a batch, because earlier records were deleted.
            future.truncate_fully_and_start_at(first.base_offset)
    future.append_as_follower(data)
    return len(data)


def inherit(future: PartitionLog, log: PartitionLog, first_dirty_offset: int) -> None:
    """Take over the log's state beyond its batches, and flush equally far. Both have the same batches."""
    if log.log_start_offset > future.log_start_offset:
        future.advance_log_start_offset(log.log_start_offset)
    elif log.is_tiered:
        future.log_start_offset = log.log_start_offset  # remote storage has the records in between
        future.copied_upto = log.copied_upto
    for epoch, start_offset in log.epochs.entries:
        future.start_epoch(epoch, start_offset)
    future.producers.take_over(log.producers)
    future.config = log.config
    future.first_dirty_offset = min(first_dirty_offset, log.first_dirty_offset)
    if log.recovery_point > future.recovery_point:
        future.flush()


def settle_copies(directories: Sequence[LogDirectory]) -> None:
    """Resolve duplicates after a crash: keep one of two logs of a partition, and discard a copy without a log.

    Duplicates also appear when a disk returns after its partitions were recreated on another one.
    """
    kept: dict[TopicPartition, LogDirectory] = {}
    for directory in directories:
        for name, log in list(directory.logs.items()):
            other = kept.setdefault(name, directory)
            if other is directory:
                continue
            shorter = other if _reach(other.logs[name]) < _reach(log) else directory
            kept[name] = directory if shorter is other else other
            logger.warning(
                "%s-%d is in two directories: the log in %s goes further and is kept, not the one in %s",
                *name,
                kept[name].path,
                shorter.path,
            )
            shorter.delete_log(*name)
    if all(directory.online for directory in directories):
        damaged = {name for directory in directories for name in directory.offline_logs}
        for directory in directories:
            for name in set(directory.future_logs) - kept.keys() - damaged:
                directory.delete_future(*name)


def _reach(log: PartitionLog) -> tuple[int, int]:
    """Return the sort key of a history: the later leader epoch wins, regardless of length."""
    return log.epochs.latest, log.log_end_offset
