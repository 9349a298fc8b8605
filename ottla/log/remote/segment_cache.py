"""The remote segments of one partition, by leader epoch and offset (Kafka's RemoteLogMetadataCache)."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterable, Iterator, Sequence

from ottla.log.remote.segment_metadata import RemoteLogSegment, SegmentState, may_follow

_LATEST = 100


class RemoteSegments:
    """Invariant: holds every segment whose objects may exist, each in its newest state. Owner: the event loop.

    Records arrive in the order of the metadata topic. A change of state that may not follow is dropped: it comes from a
    leader that was replaced.
    """

    def __init__(self) -> None:
        self._segments: dict[bytes, RemoteLogSegment] = {}
        # Finished segments by epoch, sorted by the first offset of that epoch in the segment.
        self._of_epoch: dict[int, list[tuple[int, bytes]]] = {}

    def __iter__(self) -> Iterator[RemoteLogSegment]:
        return iter(sorted(self._segments.values(), key=lambda each: (each.start_offset, each.end_offset)))

    def __len__(self) -> int:
        return len(self._segments)

    def get(self, segment_id: bytes) -> RemoteLogSegment | None:
        return self._segments.get(segment_id)

    def add(self, segment: RemoteLogSegment) -> None:
        if segment.id not in self._segments:
            self._segments[segment.id] = segment
            if segment.state is SegmentState.COPY_SEGMENT_FINISHED:
                self._index(segment)

    def _index(self, segment: RemoteLogSegment) -> None:
        for epoch in segment.leader_epochs:
            insort(self._of_epoch.setdefault(epoch, []), (segment.epoch_range(epoch)[0], segment.id))

    def _drop(self, segment: RemoteLogSegment) -> None:
        for epoch in segment.leader_epochs:
            starts = self._of_epoch[epoch]
            starts.remove((segment.epoch_range(epoch)[0], segment.id))
            if not starts:
                del self._of_epoch[epoch]

    def update(
        self,
        segment_id: bytes,
        state: SegmentState,
        broker_id: int,
        timestamp_ms: int,
    ) -> bool:
        """Return False if the segment is unknown or may not take this state."""
        segment = self._segments.get(segment_id)
        if segment is None or not may_follow(segment.state, state):
            return False
        was_finished = segment.state is SegmentState.COPY_SEGMENT_FINISHED
        is_finished = state is SegmentState.COPY_SEGMENT_FINISHED
        if was_finished and not is_finished:
            self._drop(segment)
        elif is_finished and not was_finished:
            self._index(segment)
        if state is SegmentState.DELETE_SEGMENT_FINISHED:
            del self._segments[segment_id]
        else:
            self._segments[segment_id] = segment.in_state(state, broker_id, timestamp_ms)
        return True

    @property
    def finished(self) -> list[RemoteLogSegment]:
        """Return the readable segments in the order of their offsets."""
        return [each for each in self if each.state is SegmentState.COPY_SEGMENT_FINISHED]

    @property
    def unfinished(self) -> list[RemoteLogSegment]:
        """Return the segments whose copy or deletion was interrupted."""
        return [each for each in self if each.state is not SegmentState.COPY_SEGMENT_FINISHED]

    def _by_epoch(self, epoch: int) -> Sequence[tuple[int, bytes]]:
        return self._of_epoch.get(epoch, ())

    def find(self, epoch: int, offset: int) -> RemoteLogSegment | None:
        """Return a segment with the records of `epoch` at `offset`."""
        starts = self._by_epoch(epoch)
        # Leaders cut segments at different offsets, so an earlier, longer one may reach further.
        for _, segment_id in reversed(starts[: bisect_right(starts, (offset, b"\xff" * 16))]):
            segment = self._segments[segment_id]
            if offset <= segment.epoch_range(epoch)[1]:
                return segment
        return None

    def find_at_or_after(self, epochs: Sequence[tuple[int, int]], offset: int) -> RemoteLogSegment | None:
        """Return the segment with the first copied record at or after `offset`, in the log's lineage of epochs."""
        for at, (epoch, start) in enumerate(epochs):
            end = epochs[at + 1][1] if at + 1 < len(epochs) else None
            if end is not None and end <= offset:
                continue
            found = self.find(epoch, max(offset, start))
            if found is not None:
                return found
            starts = self._by_epoch(epoch)
            at_or_after = bisect_left(starts, (offset, b""))
            if at_or_after < len(starts) and (end is None or starts[at_or_after][0] < end):
                return self._segments[starts[at_or_after][1]]
        return None

    def highest_offset(self, epochs: Iterable[tuple[int, int]]) -> int:
        """Return the last copied offset in the log's lineage of epochs, or -1."""
        highest, end = -1, None
        for epoch, start in sorted(epochs, reverse=True):
            # A longer segment of another leader may begin before the last one, and reach further.
            latest = self._by_epoch(epoch)[-_LATEST:]
            ranges = [self._segments[segment_id].epoch_range(epoch)[1] for _, segment_id in latest]
            if ranges:
                last = max(ranges) if end is None else min(max(ranges), end - 1)
                if last >= start:
                    return max(highest, last)
            end = start
        return highest
