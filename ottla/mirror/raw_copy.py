"""Copy task: copies a range of one partition to the other cluster, in a transaction that the driver ends.

Most batches are forwarded without decoding. The task overwrites the producer id and sequence number in the header, in
the receive buffer, and sends the batch. Three kinds of batches are decoded and encoded again: many small batches, which
would cost a request each; batches with gaps, markers or aborted records; and batches in a format or with a timestamp
type that brokers do not accept from producers.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator, Sequence
from struct import Struct
from typing import Any, NamedTuple

import numpy as np

from ottla.client.cluster import Cluster, TopicPartition, shared_cluster
from ottla.client.connection import Connection, Sent
from ottla.client.errors import ClientError, error_code
from ottla.client.fetch import Fetched, FetchOptions, PartitionFetcher
from ottla.client.offsets import EARLIEST, READ_COMMITTED, list_offsets
from ottla.client.settings import Settings
from ottla.client.transactions import Transaction, TransactionClient
from ottla.mirror.errors import Gap
from ottla.mirror.formats import Run
from ottla.monitoring.audit.count_reports import CountReport
from ottla.monitoring.audit.counting import PipelineCounter, Tier
from ottla.protocol.batch_header import (
    ATTRIBUTES_AT,
    CODEC_MASK,
    LENGTH_AT,
    LOG_OVERHEAD,
    MAGIC,
    TRANSACTIONAL_FLAG,
    BatchHeader,
    check_crc,
    read_header,
)
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from ottla.records import kernels
from ottla.records.kernels.sealing import Seal, restamp

#: Last version in which a produce request does not add its partition to the transaction.
_PRODUCE_VERSION = 11
#: Kafka preserves the order of an idempotent producer with up to five requests in flight.
_IN_FLIGHT = 5
#: Join `_MANY` or more batches below this size: a request each would cost more than decoding them.
_SMALL = 16 << 10
_MANY = 8
_BATCH_BYTES = 900_000
_INT16 = Struct(">h")
_INT32 = Struct(">i")
_INT64 = Struct(">q")
#: Batches whose attributes contain only these bits are forwarded without decoding.
_PLAIN = CODEC_MASK | TRANSACTIONAL_FLAG

#: A batch header with its position in the fetched data.
Placed = tuple[int, BatchHeader]


class CopyRange(NamedTuple):
    partition: TopicPartition
    start: int
    end: int  # exclusive
    target: TopicPartition
    #: Gaps in a compacted topic are not data loss.
    compacted: bool


class Copied(NamedTuple):
    partition: TopicPartition
    next_offset: int
    runs: tuple[Run, ...]
    bytes: int
    reports: tuple[CountReport, ...] = ()  # for the audit


def copy_range(
    source: Settings,
    target: Settings,
    transaction: Transaction,
    wanted: CopyRange,
    *,
    skip_gaps: bool,
    audit: Tier | None = None,
) -> Copied:
    counter = None if audit is None or wanted.compacted else PipelineCounter(audit, str(wanted.target))
    with shared_cluster(source) as origin, shared_cluster(target) as destination:
        TransactionClient(destination).add_partitions(transaction, [wanted.target])
        writer = _Writer(destination, wanted.target, transaction)
        reader = _Reader(origin, wanted, skip_gaps)
        try:
            for fetched in reader.fetches():
                for batch, header, offsets in _batches(fetched, reader):
                    if counter is not None:
                        counter.note_batch(wanted.partition.topic, batch, header)
                    writer.send(batch, header, offsets)
            writer.flush()
        finally:
            reader.close()
            writer.close()
    reports = () if counter is None else tuple(counter.take())
    return Copied(wanted.partition, wanted.end, tuple(writer.runs), writer.bytes, reports)


class _Reader:
    """Fetches a range of offsets and detects missing records."""

    def __init__(self, cluster: Cluster, wanted: CopyRange, skip_gaps: bool) -> None:
        self._cluster = cluster
        self._wanted = wanted
        self._skip_gaps = skip_gaps
        self._fetcher = PartitionFetcher(
            cluster, wanted.partition, FetchOptions(max_bytes=8 << 20, isolation_level=READ_COMMITTED)
        )
        #: All records before this offset have been copied.
        self.offset = wanted.start
        #: Batches of the last fetch.
        self.batches: list[Placed] = []
        self._progress_at = time.monotonic()

    @property
    def end(self) -> int:
        return self._wanted.end

    def close(self) -> None:
        self._fetcher.close()

    def fetches(self) -> Iterator[Fetched]:
        """Yield fetches, and request the next one while the caller processes the current one."""
        while self.offset < self.end:
            before = self.offset
            try:
                fetched = self._fetcher.fetch(self.offset)
                self.batches = _whole_batches(memoryview(fetched.records))
                if self.batches and before < (ahead := self.batches[-1][1].next_offset) < self.end:
                    self._fetcher.fetch_ahead(ahead)
            except ClientError as error:
                if error.code != ErrorCode.OFFSET_OUT_OF_RANGE:
                    raise
                first = list_offsets(self._cluster, {self._wanted.partition: EARLIEST})[
                    self._wanted.partition
                ]
                if first.offset <= self.offset:
                    raise
                self._missing(min(first.offset, self.end))
                self.offset = min(first.offset, self.end)
                continue
            yield fetched
            if self.offset > before:
                self._progress_at = time.monotonic()
            elif time.monotonic() - self._progress_at > self._cluster.settings.api_timeout:
                raise ClientError(
                    f"Partition {self._wanted.partition} of the source gave nothing at offset {self.offset} for "
                    f"{self._cluster.settings.api_timeout:g} seconds."
                )

    def reached(self, base_offset: int, next_offset: int) -> None:
        if base_offset > self.offset and not self._wanted.compacted:
            self._missing(base_offset)
        self.offset = min(next_offset, self.end)

    def _missing(self, until: int) -> None:
        if not self._skip_gaps:
            raise Gap(
                f"Offsets {self.offset} to {until - 1} of {self._wanted.partition} are gone from the source before "
                "they were copied. To continue without them, set ottla.gaps = skip."
            )


def _whole_batches(data: memoryview) -> list[Placed]:
    """Return the position of each complete batch. The next fetch returns a truncated last batch again."""
    found = []
    position = 0
    while position + LOG_OVERHEAD <= len(data):
        [length] = _INT32.unpack_from(data, position + LENGTH_AT)
        if position + LOG_OVERHEAD + length > len(data):
            break
        header = read_header(data, position)
        found.append((position, header))
        position += header.size
    return found


def _batches(fetched: Fetched, reader: _Reader) -> Iterator[tuple[Any, BatchHeader, Any]]:
    data = memoryview(fetched.records)
    # Consecutive small batches, and batches that need decoding.
    waiting: list[Placed] = []
    for position, header in reader.batches:
        if reader.offset >= reader.end:
            break
        if header.size >= _SMALL and not fetched.aborted and _is_plain(header, reader):
            yield from _joined(data, waiting, fetched, reader)
            waiting = []
            yield _raw(data, position, header, reader)
        else:
            waiting.append((position, header))
    yield from _joined(data, waiting, fetched, reader)


def _joined(
    data: memoryview, batches: Sequence[Placed], fetched: Fetched, reader: _Reader
) -> Iterator[tuple[Any, BatchHeader, Any]]:
    """Join small batches. A few plain batches are forwarded as they are, which is faster than loading the decoder.

    Markers of committed transactions are left out.
    """
    simple = not fetched.aborted and all(each.is_control or _is_plain(each, reader) for _, each in batches)
    if simple and len(batches) < _MANY:
        for position, header in batches:
            if header.is_control:
                reader.reached(header.base_offset, header.next_offset)
            else:
                yield _raw(data, position, header, reader)
    elif batches:
        last_position, last = batches[-1]
        yield from _again(data[batches[0][0] : last_position + last.size], fetched, reader)


def _raw(
    data: memoryview, position: int, header: BatchHeader, reader: _Reader
) -> tuple[Any, BatchHeader, Any]:
    if not check_crc(data, position, header):
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, f"the batch at offset {header.base_offset} is corrupt")
    reader.reached(header.base_offset, header.next_offset)
    return data[position : position + header.size], header, header.base_offset


def _is_plain(header: BatchHeader, reader: _Reader) -> bool:
    return (
        header.magic == MAGIC
        and not header.attributes & ~_PLAIN
        and header.record_count == header.last_offset_delta + 1
        and header.base_offset >= reader.offset
        and header.next_offset <= reader.end
    )


def _again(
    data: memoryview, fetched: Fetched, reader: _Reader
) -> Iterator[tuple[bytearray, BatchHeader, Any]]:
    if reader.offset >= reader.end:
        return
    first = read_header(data)
    last = first
    position = 0
    while position < len(data):
        last = read_header(data, position)
        position += last.size
    columns, next_offset = kernels.decode(
        data, start=reader.offset, end=reader.end, with_headers=True, aborted=fetched.aborted
    )
    # Headers of magic 0 and 1 contain only the last offset.
    reader.reached(
        first.base_offset if first.magic == MAGIC else reader.offset, max(next_offset, reader.offset)
    )
    count = len(columns.offsets)
    if not count:
        return
    codec = last.attributes & CODEC_MASK if last.magic == MAGIC else first.attributes & CODEC_MASK
    encoder = kernels.Encoder(columns.keys, columns.values, columns.headers, columns.timestamps)
    seal = Seal(codec, None, -1, -1, -1, True)
    offsets = columns.offsets.to_numpy()
    done = 0
    for batch in encoder.encode(np.arange(count), _BATCH_BYTES, seal):
        header = read_header(batch)
        yield batch, header, offsets[done : done + header.record_count]
        done += header.record_count


class _InFlight(NamedTuple):
    connection: Connection
    sent: Sent[ProduceResponse]
    records: int
    offsets: Any


class _Writer:
    """Sends batches to one partition. Any failure fails the task, and the driver aborts the transaction."""

    def __init__(self, cluster: Cluster, partition: TopicPartition, transaction: Transaction) -> None:
        self._cluster = cluster
        self._partition = partition
        self._transaction = transaction
        self._sequence = 0
        self._in_flight: deque[_InFlight] = deque()
        self.runs: list[Run] = []
        self.bytes = 0

    def send(self, batch: Any, header: BatchHeader, offsets: Any) -> None:
        """Send one batch. `offsets` holds the source offset of the first record, or an array with all of them."""
        _INT64.pack_into(batch, 0, 0)  # brokers accept only base offset 0 from producers
        _INT16.pack_into(batch, ATTRIBUTES_AT, header.attributes | TRANSACTIONAL_FLAG)
        restamp(batch, self._transaction.producer_id, self._transaction.producer_epoch, self._sequence)
        self._sequence = (self._sequence + header.record_count) & 0x7FFFFFFF
        connection = self._cluster.leader(self._partition)
        request = ProduceRequest(
            transactional_id=self._transaction.transactional_id,
            acks=-1,
            timeout_ms=int(self._cluster.settings.request_timeout * 1000),
            topic_data=[
                TopicProduceData(
                    name=self._partition.topic,
                    partition_data=[PartitionProduceData(index=self._partition.partition, records=batch)],
                )
            ],
        )
        if len(self._in_flight) >= _IN_FLIGHT:
            self._receive()
        sent = connection.send(request, ProduceResponse, max_version=_PRODUCE_VERSION)
        self._in_flight.append(_InFlight(connection, sent, header.record_count, offsets))
        self.bytes += len(batch)

    def flush(self) -> None:
        while self._in_flight:
            self._receive()

    def close(self) -> None:
        for request in self._in_flight:  # nobody reads these responses
            request.connection.close()

    def _receive(self) -> None:
        request = self._in_flight[0]
        answer = request.connection.receive(request.sent)
        self._in_flight.popleft()
        part = answer.responses[0].partition_responses[0]
        code = error_code(part.error_code)
        if code != ErrorCode.NONE:
            self._cluster.forget(self._partition.topic)
            said = f" {part.error_message}" if part.error_message else ""
            raise ClientError(
                f"Partition {self._partition} of the target cannot be written: {code.name}{said}.", code
            )
        self._copied(request, part.base_offset)

    def _copied(self, request: _InFlight, target: int) -> None:
        if isinstance(request.offsets, int):
            self._add(Run(request.offsets, target, request.records))
            return
        cuts = np.flatnonzero(np.diff(request.offsets) != 1) + 1
        for part in np.split(np.arange(request.records), cuts):
            self._add(Run(int(request.offsets[part[0]]), target + int(part[0]), len(part)))

    def _add(self, run: Run) -> None:
        last = self.runs[-1] if self.runs else None
        if last is not None and last.end == run.start and last.target_end == run.target_start:
            self.runs[-1] = Run(last.start, last.target_start, last.length + run.length)
        else:
            self.runs.append(run)
