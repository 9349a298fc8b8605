"""Remote segments for the tests of this directory."""

from __future__ import annotations

import os
import uuid
from collections.abc import Mapping
from typing import Any

from ottla.log.partition_log import PartitionLog
from ottla.log.remote.segment_copy import SegmentFiles
from ottla.log.remote.segment_metadata import RemoteLogSegment, SegmentState, TopicIdPartition

T0 = TopicIdPartition("t", uuid.UUID(int=7).bytes, 0)


def remote_segment(
    start: int,
    end: int,
    epochs: Mapping[int, int] | None = None,
    partition: TopicIdPartition = T0,
    **fields: Any,
) -> RemoteLogSegment:
    values: dict[str, Any] = {
        "size": 100,
        "max_timestamp_ms": 1000,
        "broker_id": 1,
        "event_timestamp_ms": 5,
        "state": SegmentState.COPY_SEGMENT_FINISHED,
    } | fields
    return RemoteLogSegment(
        partition, uuid.uuid4().bytes, start, end, {0: start} if epochs is None else epochs, **values
    )


def sealed(log: PartitionLog, at: int = 0) -> tuple[RemoteLogSegment, SegmentFiles]:
    """Describe a sealed segment of a log as the leader does before it copies the segment."""
    segment, following = log.segments[at], log.segments[at + 1]
    end = following.base_offset
    with open(os.path.join(log.path, f"{end:020d}.snapshot"), "rb") as file:
        snapshot = file.read()
    epochs = [(epoch, start) for epoch, start in log.epochs.entries if start < end]
    within = {
        epoch: max(start, segment.base_offset)
        for (epoch, start), (_, stop) in zip(epochs, [*epochs[1:], (0, end)], strict=True)
        if stop > segment.base_offset
    }
    described = remote_segment(
        segment.base_offset,
        end - 1,
        within,
        size=segment.size,
        max_timestamp_ms=segment.largest_timestamp(),
        has_transaction_index=os.path.exists(segment.transaction_index.path),
    )
    files = SegmentFiles(
        segment.path,
        segment.size,
        segment.offset_index.path,
        segment.time_index.path,
        segment.transaction_index.path,
        snapshot,
        epochs,
    )
    return described, files
