"""Copy task: brings one target partition up to a source offset, with batches copied unchanged."""

from __future__ import annotations

from typing import Any, NamedTuple

from ottla.client.cluster import Cluster, TopicPartition, shared_cluster
from ottla.client.errors import ClientError
from ottla.client.fetch import FetchOptions, PartitionFetcher
from ottla.client.offsets import EARLIEST, READ_COMMITTED, EpochEnd, list_offsets
from ottla.client.settings import Settings
from ottla.mirror.errors import Gap
from ottla.mirror.link.append import NoRoom, check_appended, mirror_append
from ottla.mirror.link.history import check_ends, check_history
from ottla.protocol.batch_header import BATCH_OVERHEAD, read_header
from ottla.protocol.errors import ErrorCode

_FETCH_BYTES = 8 << 20


class LinkCopied(NamedTuple):
    partition: TopicPartition
    next_offset: int
    bytes: int


def copy_log(
    source: Settings, target: Settings, link: str, partition: TopicPartition, end: int, *, skip_gaps: bool
) -> LinkCopied:
    """Copy from the target's log end offset up to `end`, which is at most the source's last stable offset.

    Concurrent copies of the same partition are safe, because the target accepts each batch once.
    """
    with shared_cluster(source) as origin, shared_cluster(target) as destination:
        try:
            return destination.retrying(
                lambda: _copy(origin, destination, link, partition, end, skip_gaps), [partition.topic]
            )
        except NoRoom:
            destination.forget(partition.topic)  # a new leader may have room
            raise


def _copy(
    source: Cluster, target: Cluster, link: str, partition: TopicPartition, end: int, skip_gaps: bool
) -> LinkCopied:
    start = list_offsets(source, {partition: EARLIEST})[partition].offset
    there = mirror_append(target, link, partition)
    check_appended(partition, there)
    epoch = check_history(source, target, [partition])[partition]
    is_empty = there.log_end_offset == there.log_start_offset
    if there.log_end_offset < start and not is_empty and not skip_gaps:
        raise Gap(
            f"Offsets {there.log_end_offset} to {start - 1} of {partition} are gone from the source before they were "
            "copied. To continue without them, set ottla.gaps = skip."
        )
    if start > there.log_start_offset:
        there = mirror_append(target, link, partition, log_start_offset=start)
        check_appended(partition, there)
    offset, copied = there.log_end_offset, 0
    # Fetch only up to the last stable offset; aborted records and markers are included.
    options = FetchOptions(max_bytes=_FETCH_BYTES, isolation_level=READ_COMMITTED)
    fetcher = PartitionFetcher(source, partition, options)
    try:
        while offset < end:
            fetched = fetcher.fetch(offset)
            records, next_offset, first_epoch, last_epoch = _whole_batches(fetched.records)
            if not len(records):
                # The fetch waited and returned nothing: compaction may have emptied the end of the range.
                break
            if first_epoch != epoch:
                # A leader elected since the last check may lack records that the mirror already has.
                check_ends(source, {partition: EpochEnd(epoch, offset)})
            epoch = last_epoch
            fetcher.fetch_ahead(next_offset)
            result = mirror_append(target, link, partition, records, start)
            if result.error_code == ErrorCode.OFFSET_OUT_OF_RANGE and result.log_end_offset > offset:
                offset = result.log_end_offset  # another task has copied it
                continue
            check_appended(partition, result)
            copied += len(records)
            offset = result.log_end_offset
    except ClientError as error:
        if error.code == ErrorCode.OFFSET_OUT_OF_RANGE:
            check_history(source, target, [partition])
            raise Gap(
                f"Offset {offset} of {partition} is gone from the source before it was copied."
            ) from None
        raise
    finally:
        fetcher.close()
    return LinkCopied(partition, offset, copied)


def _whole_batches(records: Any) -> tuple[memoryview, int, int, int]:
    view = memoryview(records)
    at, next_offset, epochs = 0, -1, [-1]
    while at + BATCH_OVERHEAD <= len(view):
        header = read_header(view, at)
        if at + header.size > len(view):
            break
        epochs = [header.partition_leader_epoch] if not at else [epochs[0], header.partition_leader_epoch]
        next_offset = header.next_offset
        at += header.size
    return view[:at], next_offset, epochs[0], epochs[-1]
