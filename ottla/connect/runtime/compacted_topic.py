"""Reads a compacted topic, such as the offsets topic: the latest committed value of each key.

A read_committed consumer would wait for every open transaction, including those of other producers. This reader tracks
transactions itself: if the caller can know that a record is committed, its marker is already in the log.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from struct import Struct
from typing import NamedTuple

from ottla.client.cluster import Cluster, Topic, TopicPartition
from ottla.client.errors import ClientError
from ottla.client.fetch import FetchOptions, PartitionFetcher
from ottla.client.offsets import EARLIEST, LATEST, FoundOffset, list_offsets
from ottla.protocol.codec import ZERO_UUID
from ottla.protocol.errors import ErrorCode
from ottla.protocol.records import read_records

#: The key of a control record: version and type.
_MARKER = Struct(">hh")
_COMMIT = 1

_FETCH = FetchOptions(max_bytes=8 << 20, max_wait_ms=100)

#: Read older state again, because tombstones may have come and gone since (delete.retention.ms).
_OLDEST_SECONDS = 3600.0


class _Value(NamedTuple):
    offset: int
    value: bytes | None


_Values = dict[bytes, _Value]


class _Partition:
    """The records read from a partition. A new leader invalidates them, because its log may lack some."""

    def __init__(self, topic_id: bytes, leader_epoch: int, start: int) -> None:
        self.topic_id = topic_id
        self.leader_epoch = leader_epoch
        self.position = start
        self.read_at = time.time()
        self.newest: _Values = {}
        self.pending: dict[int, _Values] = {}  # by producer id, for open transactions

    def is_valid(self, topic: Topic, end: FoundOffset) -> bool:
        return (
            self.topic_id == topic.topic_id != ZERO_UUID
            and self.leader_epoch == end.leader_epoch
            and self.position <= end.offset
            and time.time() - self.read_at < _OLDEST_SECONDS
        )

    def only(self, wanted: Callable[[bytes], bool]) -> _Partition:
        copy = _Partition(self.topic_id, self.leader_epoch, self.position)
        copy.read_at = self.read_at
        copy.newest = _only(self.newest, wanted)
        copy.pending = {producer: _only(values, wanted) for producer, values in self.pending.items()}
        return copy

    def take(self, records: memoryview | bytes) -> None:
        newest, pending = self.newest, self.pending
        for header, found in read_records(records):
            self.position = max(self.position, header.next_offset)
            if header.is_control:
                ended = pending.pop(header.producer_id, {})
                for record in found:
                    if record.key is not None and _MARKER.unpack_from(record.key)[1] == _COMMIT:
                        for key, value in ended.items():
                            _put(newest, key, value)
                continue
            held = pending.setdefault(header.producer_id, {}) if header.is_transactional else newest
            for record in found:
                if record.key is not None:
                    text = None if record.value is None else bytes(record.value)
                    _put(held, bytes(record.key), _Value(record.offset, text))


class CompactedTopic:
    """The state read so far. Reading can resume, even in another process after pickling."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._partitions: dict[int, _Partition] = {}

    def read(self, cluster: Cluster) -> dict[bytes, bytes]:
        """Read up to the current end of each partition. Return an empty dict if the topic does not exist."""
        found = cluster.retrying(lambda: cluster.topics([self.name]), [self.name]).get(self.name)
        if found is None:
            self._partitions = {}
            return {}
        ends = list_offsets(cluster, dict.fromkeys(found.partitions, LATEST))
        known, self._partitions = self._partitions, {}
        fresh = [
            each
            for each in found.partitions
            if each.partition not in known or not known[each.partition].is_valid(found, ends[each])
        ]
        starts = list_offsets(cluster, dict.fromkeys(fresh, EARLIEST)) if fresh else {}
        for each in found.partitions:
            end = ends[each]
            if each in starts:
                state = _Partition(found.topic_id, end.leader_epoch, starts[each].offset)
            else:
                state = known[each.partition]
            if state.position < end.offset:
                _read_on(cluster, each, state, end.offset)
            state.read_at = time.time()
            self._partitions[each.partition] = state
        newest: _Values = {}
        for state in self._partitions.values():
            for key, held in state.newest.items():
                _put(newest, key, held)
        return {key: held.value for key, held in newest.items() if held.value is not None}

    def only(self, wanted: Callable[[bytes], bool]) -> CompactedTopic:
        """Return an independent copy restricted to these keys."""
        copy = CompactedTopic(self.name)
        copy._partitions = {number: each.only(wanted) for number, each in self._partitions.items()}
        return copy


def read_topic(cluster: Cluster, topic: str) -> dict[bytes, bytes]:
    return CompactedTopic(topic).read(cluster)


def _read_on(cluster: Cluster, partition: TopicPartition, state: _Partition, end: int) -> None:
    fetcher = PartitionFetcher(cluster, partition, _FETCH)
    try:
        while state.position < end:
            try:
                fetched = cluster.retrying(lambda: fetcher.fetch(state.position), [partition.topic])
            except ClientError as error:
                if error.code != ErrorCode.OFFSET_OUT_OF_RANGE:
                    raise
                state.position = list_offsets(cluster, {partition: EARLIEST})[partition].offset
                continue
            state.take(fetched.records)
    finally:
        fetcher.close()


def _put(newest: _Values, key: bytes, value: _Value) -> None:
    known = newest.get(key)
    if known is None or known.offset < value.offset:
        newest[key] = value


def _only(values: _Values, wanted: Callable[[bytes], bool]) -> _Values:
    return {key: value for key, value in values.items() if wanted(key)}
