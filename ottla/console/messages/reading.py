"""Read records over the wire: a range of a partition, or the newest of all partitions.

All functions block, and limit the number of records and bytes. Pages have their own limits, because a batch of a few
kilobytes may decompress to a hundred megabytes.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from struct import Struct
from typing import NamedTuple

from ottla.client.admin.offsets import Partition, earliest_offsets, latest_offsets
from ottla.client.cluster import Cluster, TopicPartition
from ottla.client.errors import ClientError
from ottla.client.fetch import Fetched, FetchOptions, PartitionFetcher
from ottla.client.offsets import READ_COMMITTED, READ_UNCOMMITTED
from ottla.protocol.batch_header import LENGTH_AT, LOG_APPEND_TIME, LOG_OVERHEAD, BatchHeader, read_header
from ottla.protocol.errors import KafkaError
from ottla.protocol.record_format import Header, Record
from ottla.protocol.records import read_batch, read_marker

_INT32 = Struct(">i")
_PAGE_BYTES = 64 << 20
_MESSAGE_BYTES = 8 << 20
_PAGE_SECONDS = 10.0
#: Bytes kept of key and value if a message is too large for a page.
_BEGINNING = 4096
_LOOK_AT_CLOCK = 1000


class Message(NamedTuple):
    topic: str
    partition: int
    offset: int
    timestamp: int
    timestamp_type: str
    key: bytes | None
    value: bytes | None
    headers: Sequence[Header] = ()
    #: Full size of a truncated message.
    whole_size: int = 0
    #: Reason why the batch at this offset cannot be read.
    problem: str = ""


class PageBounds:
    """Limits for one page of messages: bytes and time."""

    def __init__(self) -> None:
        self._deadline = time.monotonic() + _PAGE_SECONDS
        self._left = _PAGE_BYTES

    def check_time(self) -> None:
        """Raises ClientError after the deadline."""
        if time.monotonic() > self._deadline:
            raise ClientError(
                f"Reading these messages took longer than {_PAGE_SECONDS:.0f} s: ask for fewer of them, or for one "
                "partition from an offset on."
            )

    def kept(self, message: Message) -> Message:
        size = len(message.key or b"") + len(message.value or b"")
        size += sum(len(name) + len(value or b"") for name, value in message.headers)
        if size <= _BEGINNING:
            return message
        if size <= min(self._left, _MESSAGE_BYTES):
            self._left -= size
            return message
        return message._replace(
            key=None if message.key is None else message.key[:_BEGINNING],
            value=None if message.value is None else message.value[:_BEGINNING],
            headers=(),
            whole_size=size,
        )


class Batch(NamedTuple):
    """One undecoded batch of a fetch."""

    buffer: memoryview
    position: int
    header: BatchHeader


def batches(fetched: Fetched, committed_only: bool) -> Iterator[Batch]:
    """Yield complete batches with user records: no transaction markers and, with
    `committed_only`, no aborted records.
    """
    view = memoryview(fetched.records)
    coming = sorted(fetched.aborted, key=lambda pair: pair[1], reverse=True) if committed_only else []
    aborted: set[int] = set()
    position = 0
    while position + LOG_OVERHEAD <= len(view):
        (length,) = _INT32.unpack_from(view, position + LENGTH_AT)
        if position + LOG_OVERHEAD + length > len(view):
            return
        header = read_header(view, position)
        first, position = position, position + header.size
        while coming and coming[-1][1] <= header.last_offset:
            aborted.add(coming.pop()[0])
        if header.is_control:
            marker = read_marker(view[first:position]) if header.producer_id in aborted else None
            if marker is not None and marker[1]:
                aborted.discard(header.producer_id)
        elif not (header.is_transactional and header.producer_id in aborted):
            yield Batch(view, first, header)


def messages_of(topic: str, partition: int, batch: Batch, start: int) -> Iterator[Message]:
    """Yield the messages from `start`: a fetch returns the whole batch that contains an offset."""
    for record in read_batch(batch.buffer, batch.position):
        if record.offset >= start:
            yield message_of(topic, partition, batch, record)


def message_of(topic: str, partition: int, batch: Batch, record: Record) -> Message:
    kind = "LogAppendTime" if batch.header.timestamp_type == LOG_APPEND_TIME else "CreateTime"
    return Message(
        topic,
        partition,
        record.offset,
        record.timestamp,
        kind,
        record.key,
        record.value,
        record.headers,
    )


def next_offset(fetched: Fetched, offset: int) -> int:
    view = memoryview(fetched.records)
    position, following = 0, offset
    while position + LOG_OVERHEAD <= len(view):
        (length,) = _INT32.unpack_from(view, position + LENGTH_AT)
        if position + LOG_OVERHEAD + length > len(view):
            break
        header = read_header(view, position)
        following = max(following, header.next_offset)
        position += header.size
    return following


def read_range(
    cluster: Cluster,
    partition: Partition,
    start: int,
    end: int,
    *,
    committed_only: bool = False,
    max_bytes: int = 1 << 20,
    stop: Callable[[], bool] = lambda: False,
    page: PageBounds | None = None,
) -> Iterator[Message]:
    """Yield the messages in [start, end), in order.

    An unreadable batch raises ClientError. On a page one message takes its place, so that the others are shown.
    """
    options = FetchOptions(
        max_bytes=max_bytes,
        max_wait_ms=100,
        isolation_level=READ_COMMITTED if committed_only else READ_UNCOMMITTED,
    )
    fetcher = PartitionFetcher(cluster, TopicPartition(*partition), options)
    try:
        while start < end and not stop():
            position = start
            fetched = cluster.retrying(lambda at=position: fetcher.fetch(at), [partition[0]])  # type: ignore[misc]
            for batch in batches(fetched, committed_only):
                for message in _readable(partition, batch, position, page):
                    if message.offset >= end:
                        return
                    yield message
            start = next_offset(fetched, position)
            if start == position:
                return  # the end has moved back: an open transaction, or deleted records
    finally:
        fetcher.close()


def _readable(partition: Partition, batch: Batch, start: int, page: PageBounds | None) -> Iterator[Message]:
    try:
        if page is None:
            yield from messages_of(*partition, batch, start)
            return
        for number, message in enumerate(messages_of(*partition, batch, start)):
            if number % _LOOK_AT_CLOCK == 0:
                page.check_time()
            yield page.kept(message)
    except KafkaError as error:
        first = max(batch.header.base_offset, start)
        problem = f"The batch from offset {first} on cannot be read: {error}."
        if page is None:
            raise ClientError(f"{partition[0]}-{partition[1]}: {problem}") from None
        yield Message(*partition, first, batch.header.max_timestamp, "", None, None, problem=problem)


def timestamp_at(cluster: Cluster, partition: Partition, offset: int) -> int | None:
    """Return the time of the first record at or after an offset, or None."""
    start = max(offset, 0)
    found = read_range(cluster, partition, start, start + 1_000, max_bytes=1)
    first = next(found, None)
    found.close()  # type: ignore[attr-defined]
    return None if first is None else first.timestamp


def newest(
    cluster: Cluster,
    topic: str,
    partitions: Iterable[int],
    limit: int,
    *,
    before: Mapping[int, int] | None = None,
    committed_only: bool = False,
    page: PageBounds | None = None,
) -> tuple[list[Message], dict[int, int]]:
    """Return the newest messages of all partitions, newest first, and the ends of the older rest by partition.

    `before` contains such ends, for the next page. It lacks partitions without an older rest.
    """
    keys = [(topic, number) for number in partitions]
    starts = earliest_offsets(cluster, keys)
    ends = latest_offsets(cluster, keys)
    if before is not None:
        ends = {key: min(ends[key], before.get(key[1], starts[key])) for key in keys}
    shown: list[Message] = []
    left: list[tuple[int, int]] = []  # partition and offset
    for key in keys:
        shown += last_of_partition(
            cluster, key, starts[key], ends[key], limit, committed_only=committed_only, page=page
        )
        shown.sort(key=lambda each: (each.timestamp, each.offset), reverse=True)
        left += [(each.partition, each.offset) for each in shown[limit:]]
        del shown[limit:]
    older = {}
    for key in keys:
        not_shown = [offset + 1 for number, offset in left if number == key[1]]
        here = [each.offset for each in shown if each.partition == key[1]]
        older[key[1]] = max(not_shown) if not_shown else min(here, default=starts[key])
    return shown, {number: end for number, end in older.items() if end > starts[topic, number]}


def last_of_partition(
    cluster: Cluster,
    partition: Partition,
    start: int,
    end: int,
    limit: int,
    *,
    committed_only: bool = False,
    page: PageBounds | None = None,
) -> list[Message]:
    """Return the last messages before `end`. Searches further back if compaction and markers leave too few."""
    width = limit
    while True:
        first = max(start, end - width)
        found = deque(
            read_range(cluster, partition, first, end, committed_only=committed_only, page=page), limit
        )
        if len(found) >= limit or first == start or width > 64 * limit:
            return list(found)
        width *= 4
