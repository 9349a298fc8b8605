"""What a partition remembers of its idempotent producers, and the `.snapshot` files that keep it."""

from __future__ import annotations

import logging
import os
from bisect import bisect_right, insort
from collections import deque
from collections.abc import Callable, Iterable
from contextlib import suppress
from struct import Struct
from struct import error as StructError
from typing import NamedTuple

from crc32c import crc32c

from ottla.log.batch import BatchHeader
from ottla.log.checkpoint import replace_file
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.records import read_batch

logger = logging.getLogger(__name__)

SEQUENCE_MAX = 2**31 - 1
REMEMBERED_BATCHES = 5  # producers may have this many requests in flight, so any of them can come twice
NO_SEQUENCE = -1

SNAPSHOT_SUFFIX = ".snapshot"
_SNAPSHOT_VERSION = 1
_SNAPSHOT_HEAD = Struct(">hI")
_COUNT = Struct(">i")
_ENTRY = Struct(">qhiqiqiq")

# first sequence, last sequence, first offset, last offset, timestamp
BatchMetadata = tuple[int, int, int, int, int]


class CorruptSnapshotError(Exception):
    """A snapshot that cannot be trusted; an older one and a longer scan take its place."""


class ProducerEntry:
    """The last batches of one producer id in its current epoch, oldest first."""

    __slots__ = ("batches", "coordinator_epoch", "epoch", "last_timestamp", "txn_first_offset")

    def __init__(self, epoch: int) -> None:
        self.epoch = epoch
        self.batches: deque[BatchMetadata] = deque(maxlen=REMEMBERED_BATCHES)
        self.last_timestamp = -1
        self.coordinator_epoch = -1
        self.txn_first_offset = -1

    @property
    def last_sequence(self) -> int:
        return self.batches[-1][1] if self.batches else NO_SEQUENCE


class ProducerDescription(NamedTuple):
    """A line of DescribeProducers."""

    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_timestamp: int
    coordinator_epoch: int
    current_txn_start_offset: int


def sequence_after(sequence: int, steps: int) -> int:
    """Sequences run from 0 to 2^31-1 and begin again at 0."""
    return (sequence + steps) & SEQUENCE_MAX


class ProducerStates:
    """Invariant: the map reflects exactly the batches below the log end offset, and every snapshot file with
    offset X reflects exactly those below X. Owner: the log's owner.
    """

    def __init__(self, directory: str, snapshots: Iterable[int] = ()) -> None:
        self._directory = directory
        self.snapshots = sorted(snapshots)
        self.producers: dict[int, ProducerEntry] = {}

    def check(self, producer_id: int, epoch: int, first: int, last: int) -> BatchMetadata | None:
        """Accept the batch with these sequences (None), recognise it as a repetition, or refuse it."""
        entry = self.producers.get(producer_id)
        if entry is None:
            # Nothing is known, perhaps because all it wrote has been deleted: any sequence may follow.
            return None
        if epoch == entry.epoch:
            batches = entry.batches
            expected = sequence_after(batches[-1][1], 1) if batches else 0
            if first == expected:
                return None
            for batch in batches:
                if batch[0] == first and batch[1] == last:
                    return batch
            raise KafkaError(
                ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
                f"producer {producer_id} sent sequence {first} where {expected} was expected",
            )
        if epoch < entry.epoch:
            raise KafkaError(
                ErrorCode.INVALID_PRODUCER_EPOCH,
                f"producer {producer_id} has epoch {epoch}, but epoch {entry.epoch} has written since",
            )
        if first != 0:
            raise KafkaError(
                ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
                f"producer {producer_id} began epoch {epoch} with sequence {first} instead of 0",
            )
        return None

    def update(self, producer_id: int, epoch: int, batch: BatchMetadata, transactional: bool) -> None:
        entry = self.producers.get(producer_id)
        if entry is None:
            entry = self.producers[producer_id] = ProducerEntry(epoch)
        elif entry.epoch != epoch:
            entry.epoch = epoch
            entry.batches.clear()
        entry.batches.append(batch)
        entry.last_timestamp = batch[4]
        if transactional and entry.txn_first_offset < 0:
            entry.txn_first_offset = batch[2]

    def replay(self, header: BatchHeader, load: Callable[[], bytes]) -> None:
        """Take in a batch that is in the log already, or was checked by the leader."""
        if header.producer_id < 0:
            return
        if header.is_control:
            self._end_transaction(header, load)
            return
        first, delta = header.base_sequence, header.last_offset_delta
        batch = (
            first,
            sequence_after(first, delta),
            header.base_offset,
            header.last_offset,
            header.max_timestamp,
        )
        self.update(header.producer_id, header.producer_epoch, batch, header.is_transactional)

    def _end_transaction(self, header: BatchHeader, load: Callable[[], bytes]) -> None:
        entry = self.producers.get(header.producer_id)
        if entry is None:
            entry = self.producers[header.producer_id] = ProducerEntry(header.producer_epoch)
        elif entry.epoch != header.producer_epoch:
            entry.epoch = header.producer_epoch
            entry.batches.clear()
        entry.txn_first_offset = -1
        entry.last_timestamp = header.max_timestamp
        coordinator_epoch = _marker_coordinator_epoch(load())
        if coordinator_epoch is not None:
            entry.coordinator_epoch = coordinator_epoch

    def remember_older(self, header: BatchHeader) -> None:
        """Lengthen the memory of a producer that a snapshot brought back with its last batch only."""
        entry = self.producers.get(header.producer_id)
        if (
            entry is None
            or entry.epoch != header.producer_epoch
            or header.is_control
            or len(entry.batches) == REMEMBERED_BATCHES
            or not entry.batches
            or header.last_offset >= entry.batches[0][2]
        ):
            return
        first, last = header.base_sequence, sequence_after(header.base_sequence, header.last_offset_delta)
        if sequence_after(last, 1) == entry.batches[0][0]:
            entry.batches.appendleft(
                (first, last, header.base_offset, header.last_offset, header.max_timestamp)
            )

    def remove_expired(self, now_ms: int, expiration_ms: int) -> int:
        expired = [
            producer_id
            for producer_id, entry in self.producers.items()
            if entry.txn_first_offset < 0 and now_ms - entry.last_timestamp >= expiration_ms
        ]
        for producer_id in expired:
            del self.producers[producer_id]
        return len(expired)

    def describe(self) -> list[ProducerDescription]:
        return [
            ProducerDescription(
                producer_id,
                entry.epoch,
                entry.last_sequence,
                entry.last_timestamp,
                entry.coordinator_epoch,
                entry.txn_first_offset,
            )
            for producer_id, entry in self.producers.items()
        ]

    # Snapshots. They carry a checksum, so a torn one is noticed and needs no fsync.

    def _path(self, offset: int) -> str:
        return os.path.join(self._directory, f"{offset:020d}{SNAPSHOT_SUFFIX}")

    def take_snapshot(self, offset: int) -> None:
        if self.snapshots and self.snapshots[-1] == offset:
            return
        replace_file(self._path(offset), encode_snapshot(self.producers), sync=False)
        insort(self.snapshots, offset)

    def load_latest(self, offset: int, start: int) -> int:
        """Become the newest readable snapshot at or below `offset`; says from which offset on to replay."""
        self.producers = {}
        for snapshot in reversed(self.snapshots[: bisect_right(self.snapshots, offset)]):
            path = self._path(snapshot)
            try:
                with open(path, "rb") as file:
                    self.producers = decode_snapshot(file.read())
                return snapshot
            except (OSError, CorruptSnapshotError) as error:
                logger.warning("%s is not usable (%s): producers are read from the log instead", path, error)
                self._remove(snapshot)
        return start

    def _remove(self, offset: int) -> None:
        self.snapshots.remove(offset)
        with suppress(FileNotFoundError):
            os.unlink(self._path(offset))

    def remove_snapshot(self, offset: int) -> None:
        """For a segment that has become part of the one before it."""
        if offset in self.snapshots:
            self._remove(offset)

    def clear(self) -> None:
        self.remove_snapshots_after(-1)
        self.producers = {}

    def remove_snapshots_after(self, offset: int) -> None:
        for snapshot in self.snapshots[bisect_right(self.snapshots, offset) :]:
            self._remove(snapshot)

    def remove_snapshots_before(self, offset: int) -> None:
        for snapshot in [s for s in self.snapshots if s < offset]:
            self._remove(snapshot)


def encode_snapshot(producers: dict[int, ProducerEntry]) -> bytes:
    parts = [_COUNT.pack(len(producers))]
    for producer_id, entry in producers.items():
        _, last_sequence, first_offset, last_offset, _ = (
            entry.batches[-1] if entry.batches else (0, -1, -1, -1, -1)
        )
        parts.append(
            _ENTRY.pack(
                producer_id,
                entry.epoch,
                last_sequence,
                last_offset,
                last_offset - first_offset,
                entry.last_timestamp,
                entry.coordinator_epoch,
                entry.txn_first_offset,
            )
        )
    body = b"".join(parts)
    return _SNAPSHOT_HEAD.pack(_SNAPSHOT_VERSION, crc32c(body)) + body


def decode_snapshot(data: bytes) -> dict[int, ProducerEntry]:
    producers: dict[int, ProducerEntry] = {}
    try:
        version, crc = _SNAPSHOT_HEAD.unpack_from(data)
        (count,) = _COUNT.unpack_from(data, _SNAPSHOT_HEAD.size)
    except StructError:
        raise CorruptSnapshotError("it is cut short") from None
    if version != _SNAPSHOT_VERSION:
        raise CorruptSnapshotError(f"version {version}")
    body = memoryview(data)[_SNAPSHOT_HEAD.size :]
    if crc32c(body) != crc:
        raise CorruptSnapshotError("the checksum does not match")
    if len(body) != _COUNT.size + count * _ENTRY.size:
        raise CorruptSnapshotError("it does not hold the entries it announces")
    for producer_id, epoch, last_seq, last_offset, delta, timestamp, coordinator, txn in _ENTRY.iter_unpack(
        body[_COUNT.size :]
    ):
        entry = ProducerEntry(epoch)
        if last_offset >= 0:
            first_seq = sequence_after(last_seq, -delta)
            entry.batches.append((first_seq, last_seq, last_offset - delta, last_offset, timestamp))
        entry.last_timestamp = timestamp
        entry.coordinator_epoch = coordinator
        entry.txn_first_offset = txn
        producers[producer_id] = entry
    return producers


def _marker_coordinator_epoch(batch: bytes) -> int | None:
    """From the value of a commit or abort marker; control batches of other kinds have none."""
    records = read_batch(batch)
    if not records or records[0].value is None or len(records[0].value) < 6:
        return None
    return int.from_bytes(records[0].value[2:6], "big", signed=True)
