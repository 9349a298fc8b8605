"""Reads across the boundary between remote and local segments: batches, aborted transactions, offsets by time."""

from __future__ import annotations

import asyncio
import itertools
from typing import NamedTuple

from ottla.broker.remote_log.remote_log_manager import PASSING, RemoteLogManager, partition_id
from ottla.cluster.partitions.partition import Partition
from ottla.log.remote.segment_metadata import RemoteLogSegment
from ottla.log.remote.storage import ObjectNotFound
from ottla.log.retention import TimestampOffset
from ottla.log.segments.index import AbortedTransaction
from ottla.protocol.errors import ErrorCode, KafkaError


class RemoteRecords(NamedTuple):
    """Batches read for a consumer."""

    data: bytes
    aborted: list[AbortedTransaction]


async def read_remote(
    manager: RemoteLogManager, partition: Partition, offset: int, max_bytes: int, *, with_aborted: bool
) -> RemoteRecords:
    """Read batches at an offset below the local log. Raises KafkaError."""
    log, name = partition.log, partition_id(partition)
    if offset < log.log_start_offset:
        raise KafkaError(
            ErrorCode.OFFSET_OUT_OF_RANGE, f"{name} starts at offset {log.log_start_offset}, after {offset}"
        )
    try:
        segments = manager.metadata.segments(name)
        wanted = offset
        while wanted < log.local_start_offset:
            epochs = log.epochs.entries
            segment = segments.find_at_or_after(epochs, wanted)
            if segment is None and wanted == offset:
                await _wait_for_metadata(manager, partition)
                segment = segments.find_at_or_after(epochs, wanted)
            if segment is None:
                break
            limit = lineage_end(segment, epochs)
            found = await manager.in_reader(manager.reader.read, segment, wanted, max_bytes, limit)
            if found is not None:
                aborted = (
                    await _aborted(manager, partition, segment, offset, found.next_offset)
                    if with_aborted
                    else []
                )
                manager.works("read", str(name))
                return RemoteRecords(found.data, aborted)
            wanted = max(wanted, segment.end_offset) + 1  # the segment ends with a gap
    except PASSING as error:
        if offset < log.log_start_offset:
            raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE) from error
        if isinstance(error, KafkaError):
            raise
        if isinstance(error, ObjectNotFound):
            manager.failed("read", str(name), RuntimeError(f"{error}; the segment is in the metadata"))
        else:
            manager.failed("read", str(name), error)
        # Clients ask again after this error.
        raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, str(error)) from error
    if offset == wanted:
        raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE, f"no remote segment of {name} has offset {offset}")
    return await _read_local(partition, max_bytes)


def retrieve(task: asyncio.Task[RemoteRecords]) -> None:
    """Retrieve the error of a read whose client may have left."""
    if not task.cancelled():
        task.exception()


async def _read_local(partition: Partition, max_bytes: int) -> RemoteRecords:
    log = partition.log
    region = log.read(log.local_start_offset, max_bytes, upto=partition.last_stable_offset, min_one=True)
    aborted = log.aborted_transactions(log.local_start_offset, region) if region.size else []
    return RemoteRecords(await asyncio.to_thread(region.read), aborted)


async def _wait_for_metadata(manager: RemoteLogManager, partition: Partition) -> None:
    name = partition_id(partition)
    await manager.metadata.follow([name])
    if not await manager.metadata.caught_up(name):
        raise KafkaError(
            ErrorCode.KAFKA_STORAGE_ERROR, f"the metadata of the remote segments of {name} cannot be read yet"
        )


def lineage_end(segment: RemoteLogSegment, epochs: list[tuple[int, int]]) -> int | None:
    """Return the offset from which a segment differs from the log, after an unclean election; None if it does not."""
    starts = dict(epochs)
    ends = {epoch: start for (epoch, _), (_, start) in itertools.pairwise(epochs)}
    limit: int | None = None
    for epoch in segment.leader_epochs:
        end = ends.get(epoch)
        if epoch not in starts:
            # An epoch before the log start offset, or one that the log never had.
            end = segment.leader_epochs[epoch] if epoch > epochs[0][0] else None
        if end is not None and segment.epoch_range(epoch)[1] >= end:
            limit = end if limit is None else min(limit, end)
    return limit


async def _aborted(
    manager: RemoteLogManager, partition: Partition, first: RemoteLogSegment, start: int, upto: int
) -> list[AbortedTransaction]:
    """Search the transaction indexes from the segment on, as far as the last stable offset requires."""
    log = partition.log
    found: list[AbortedTransaction] = []
    segment: RemoteLogSegment | None = first
    epochs = log.epochs.entries
    segments = manager.metadata.segments(partition_id(partition))
    while segment is not None and segment.start_offset < log.local_start_offset:
        for aborted in await manager.in_reader(manager.reader.aborted_transactions, segment):
            if aborted.last_offset >= start and aborted.first_offset < upto and aborted not in found:
                found.append(aborted)
            if aborted.last_stable_offset >= upto:
                return found
        segment = segments.find_at_or_after(epochs, segment.end_offset + 1)
    for local in log.segments:
        entries: list[AbortedTransaction] = []
        is_complete = local.transaction_index.collect(start, upto, entries)
        found += [each for each in entries if each not in found]
        if is_complete:
            break
    return found


async def remote_offset_for_timestamp(
    manager: RemoteLogManager, partition: Partition, timestamp: int, upto: int
) -> TimestampOffset | None:
    """Return the first record at or after `timestamp` below the local log. Raises KafkaError."""
    log, name = partition.log, partition_id(partition)
    limit = min(upto, log.local_start_offset)
    if log.log_start_offset >= limit:
        return None
    try:
        await _wait_for_metadata(manager, partition)
        segments = manager.metadata.segments(name)
        offset, epochs = log.log_start_offset, log.epochs.entries
        while offset < limit:
            segment = segments.find_at_or_after(epochs, offset)
            if segment is None:
                return None
            if segment.max_timestamp_ms >= timestamp:
                end = lineage_end(segment, epochs)
                found = await manager.in_reader(
                    manager.reader.offset_for_timestamp,
                    segment,
                    timestamp,
                    offset,
                    limit if end is None else min(limit, end),
                )
                if found is not None:
                    return found
            offset = segment.end_offset + 1
    except PASSING as error:
        if isinstance(error, KafkaError):
            raise
        manager.failed("lookup", str(name), error)
        raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, str(error)) from error
    return None
