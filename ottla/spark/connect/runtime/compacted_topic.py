"""Reads a whole compacted topic, such as that with the offsets of sources: the newest committed value of each key."""

from __future__ import annotations

from struct import Struct
from typing import NamedTuple

from ottla.client.cluster import Cluster, TopicPartition
from ottla.client.errors import ClientError
from ottla.client.fetch import FetchOptions, PartitionFetcher
from ottla.client.offsets import EARLIEST, LATEST, list_offsets
from ottla.protocol.errors import ErrorCode
from ottla.protocol.records import read_records

#: The key of a control record: its version and its type.
_MARKER = Struct(">hh")
_COMMIT = 1

_FETCH = FetchOptions(max_bytes=8 << 20, max_wait_ms=100)


class _Value(NamedTuple):
    offset: int
    value: bytes | None


def read_topic(cluster: Cluster, topic: str) -> dict[bytes, bytes]:
    """Up to the end that each partition has now. Empty if the topic does not exist.

    A consumer that reads what is committed would wait here for every transaction that is open, also of others. We sort
    the records out by ourselves: all that the caller can know to be committed has its marker in the log already.
    """
    found = cluster.retrying(lambda: cluster.topics([topic]), [topic]).get(topic)
    newest: dict[bytes, _Value] = {}
    if found is None:
        return {}
    ends = list_offsets(cluster, dict.fromkeys(found.partitions, LATEST))
    starts = list_offsets(cluster, dict.fromkeys(found.partitions, EARLIEST))
    for partition in found.partitions:
        if starts[partition].offset < ends[partition].offset:
            _read_partition(cluster, partition, starts[partition].offset, ends[partition].offset, newest)
    return {key: held.value for key, held in newest.items() if held.value is not None}


def _read_partition(
    cluster: Cluster, partition: TopicPartition, start: int, end: int, newest: dict[bytes, _Value]
) -> None:
    fetcher = PartitionFetcher(cluster, partition, _FETCH)
    pending: dict[int, dict[bytes, _Value]] = {}
    position = start
    try:
        while position < end:
            try:
                fetched = cluster.retrying(lambda: fetcher.fetch(position), [partition.topic])  # noqa: B023
            except ClientError as error:
                if error.code != ErrorCode.OFFSET_OUT_OF_RANGE:
                    raise
                position = list_offsets(cluster, {partition: EARLIEST})[partition].offset
                continue
            for header, records in read_records(fetched.records):
                position = max(position, header.next_offset)
                if header.is_control:
                    for record in records:
                        committed = pending.pop(header.producer_id, {})
                        if record.key is not None and _MARKER.unpack_from(record.key)[1] == _COMMIT:
                            _merge(newest, committed)
                    continue
                held = pending.setdefault(header.producer_id, {}) if header.is_transactional else newest
                for record in records:
                    if record.key is not None:
                        value = None if record.value is None else bytes(record.value)
                        _merge(held, {bytes(record.key): _Value(record.offset, value)})
    finally:
        fetcher.close()


def _merge(newest: dict[bytes, _Value], more: dict[bytes, _Value]) -> None:
    for key, value in more.items():
        if key not in newest or newest[key].offset < value.offset:
            newest[key] = value
