"""Producer state and transactions of a partition, and the `.snapshot` files that persist them."""

from __future__ import annotations

import logging
import os
from bisect import bisect_right, insort
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from struct import Struct
from struct import error as StructError
from typing import NamedTuple

from crc32c import crc32c

from ottla.log.files.checkpoint import replace_file
from ottla.log.segments.index import AbortedTransaction, CompletedTransaction
from ottla.protocol.batch_header import BatchHeader
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.records import read_marker

logger = logging.getLogger(__name__)

SEQUENCE_MAX = 2**31 - 1
REMEMBERED_BATCHES = 5  # maximum requests in flight per producer, any of which may be repeated
NO_SEQUENCE = -1

SNAPSHOT_SUFFIX = ".snapshot"
_SNAPSHOT_VERSION = 1
_SNAPSHOT_HEAD = Struct(">hI")
_COUNT = Struct(">i")
_ENTRY = Struct(">qhiqiqiq")

# first sequence, last sequence, first offset, last offset, timestamp
BatchMetadata = tuple[int, int, int, int, int]


class CorruptSnapshotError(Exception):
    """An untrustworthy snapshot. An older one and a longer scan replace it."""


class ProducerEntry:
    """The last batches of one producer id in its current epoch, oldest first."""

    __slots__ = (
        "batches",
        "coordinator_epoch",
        "epoch",
        "last_timestamp",
        "marker_offset",
        "txn_first_offset",
    )

    def __init__(self, epoch: int) -> None:
        self.epoch = epoch
        self.batches: deque[BatchMetadata] = deque(maxlen=REMEMBERED_BATCHES)
        self.last_timestamp = -1
        self.coordinator_epoch = -1
        self.txn_first_offset = -1
        self.marker_offset = -1  # offset of the last marker since the log was opened

    @property
    def last_sequence(self) -> int:
        return self.batches[-1][1] if self.batches else NO_SEQUENCE


class ProducerDescription(NamedTuple):
    """An entry of DescribeProducers."""

    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_timestamp: int
    coordinator_epoch: int
    current_txn_start_offset: int


def sequence_after(sequence: int, steps: int) -> int:
    """Add to a sequence number. Sequences run from 0 to 2^31-1 and wrap to 0."""
    return (sequence + steps) & SEQUENCE_MAX


class ProducerStates:
    """Invariant: the map reflects exactly the batches below the log end offset, and a snapshot file with offset X
    exactly those below X. Owner: the log's owner.
    """

    def __init__(
        self, directory: str, snapshots: Iterable[int] = (), checksums: Mapping[int, int] | None = None
    ) -> None:
        self._directory = directory
        self.snapshots = sorted(snapshots)
        # Known checksums of snapshot files: a snapshot of another partition would look just as valid.
        self.checksums = dict(checksums or {})
        self.producers: dict[int, ProducerEntry] = {}
        # First offsets of open transactions by producer, in log order.
        self.open_transactions: dict[int, int] = {}
        # Marker and first offset of ended transactions, until the marker is committed.
        self.ended_transactions: deque[tuple[int, int]] = deque()
        self.markers = 0  # number of markers so far, to detect new ones after a wait

    # Transactions

    def first_unstable_offset(self, high_watermark: int) -> int | None:
        """Return the first offset of the earliest transaction that is open or whose end is not yet committed."""
        ended = self.ended_transactions
        while ended and ended[0][0] < high_watermark:
            ended.popleft()
        first = next(iter(self.open_transactions.values()), None)
        if ended:
            earliest = min(offset for _, offset in ended)
            return earliest if first is None else min(first, earliest)
        return first

    def has_open_transaction(self, producer_id: int, epoch: int) -> bool:
        entry = self.producers.get(producer_id)
        return entry is not None and entry.epoch == epoch and entry.txn_first_offset >= 0

    def check_marker(self, producer_id: int, epoch: int, coordinator_epoch: int, version: int) -> None:
        """Refuse markers that do not match the open transaction (KIP-890, KIP-1228).

        Since transaction version 2 every transaction ends with a raised epoch, so a marker without one is late. Without
        an open transaction it may be a repetition, which is harmless.
        """
        entry = self.producers.get(producer_id)
        if entry is None:
            return
        late = epoch < entry.epoch
        if version >= 2 and epoch == entry.epoch:
            late = entry.txn_first_offset >= 0
        if late:
            raise KafkaError(
                ErrorCode.INVALID_PRODUCER_EPOCH,
                f"a marker of producer {producer_id} has epoch {epoch}, the producer has {entry.epoch}",
            )
        if coordinator_epoch < entry.coordinator_epoch:
            raise KafkaError(
                ErrorCode.TRANSACTION_COORDINATOR_FENCED,
                f"a marker of producer {producer_id} comes from coordinator epoch {coordinator_epoch}, "
                f"epoch {entry.coordinator_epoch} has written since",
            )

    def end_transaction(
        self, header: BatchHeader, coordinator_epoch: int, aborted: bool
    ) -> CompletedTransaction | None:
        """Process a marker. Return None if the producer had no open transaction here."""
        self.markers += 1
        entry = self._entry(header.producer_id, header.producer_epoch)
        entry.last_timestamp = header.max_timestamp
        entry.coordinator_epoch = coordinator_epoch
        entry.txn_first_offset = -1
        entry.marker_offset = header.base_offset
        first_offset = self.open_transactions.pop(header.producer_id, None)
        if first_offset is None:
            return None
        self.ended_transactions.append((header.base_offset, first_offset))
        return CompletedTransaction(header.producer_id, first_offset, header.base_offset, aborted)

    def aborted(self, completed: CompletedTransaction) -> AbortedTransaction:
        """Return the index entry of a transaction that was just aborted."""
        stable = next(iter(self.open_transactions.values()), completed.last_offset + 1)
        return AbortedTransaction(
            completed.producer_id, completed.first_offset, completed.last_offset, stable
        )

    def _find_open_transactions(self) -> None:
        """Rebuild the open transactions after reading a snapshot."""
        found = [(e.txn_first_offset, pid) for pid, e in self.producers.items() if e.txn_first_offset >= 0]
        self.open_transactions = {producer_id: offset for offset, producer_id in sorted(found)}
        self.ended_transactions.clear()

    # Batches

    def check_epoch(self, producer_id: int, epoch: int) -> None:
        """Check the epoch, the only requirement for a coordinator's own batches."""
        entry = self.producers.get(producer_id)
        if entry is not None and epoch < entry.epoch:
            raise _fenced(producer_id, epoch, entry.epoch)

    def check(
        self, producer_id: int, epoch: int, first: int, last: int, transactional: bool = False
    ) -> BatchMetadata | None:
        """Return None for an acceptable batch, or the metadata of the batch it repeats. Raises KafkaError otherwise."""
        entry = self.producers.get(producer_id)
        if entry is None:
            # The producer is unknown, perhaps because its records were deleted: any sequence may follow.
            return None
        if epoch == entry.epoch:
            batches = entry.batches
            expected = sequence_after(batches[-1][1], 1) if batches else 0
            if first == expected:
                if entry.txn_first_offset >= 0 and not transactional:
                    raise KafkaError(
                        ErrorCode.INVALID_TXN_STATE,
                        f"producer {producer_id} wrote outside of the transaction that it has open here",
                    )
                return None
            for batch in batches:
                if batch[0] == first and batch[1] == last:
                    return batch
            raise KafkaError(
                ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
                f"producer {producer_id} sent sequence {first} where {expected} was expected",
            )
        if epoch < entry.epoch:
            raise _fenced(producer_id, epoch, entry.epoch)
        if first != 0:
            raise KafkaError(
                ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
                f"producer {producer_id} began epoch {epoch} with sequence {first} instead of 0",
            )
        return None

    def forget_below(self, producer_id: int, offset: int) -> bool:
        """Forget a producer without writes at or after `offset` and without an open transaction. Return True if
        forgotten.
        """
        entry = self.producers.get(producer_id)
        if entry is None or entry.txn_first_offset >= 0:
            return False
        last = max(entry.marker_offset, entry.batches[-1][3] if entry.batches else -1)
        if not 0 <= last < offset:
            return False
        del self.producers[producer_id]
        return True

    def update(self, producer_id: int, epoch: int, batch: BatchMetadata, transactional: bool) -> None:
        entry = self._entry(producer_id, epoch)
        entry.batches.append(batch)
        entry.last_timestamp = batch[4]
        if transactional and entry.txn_first_offset < 0:
            entry.txn_first_offset = self.open_transactions[producer_id] = batch[2]

    def _entry(self, producer_id: int, epoch: int) -> ProducerEntry:
        """Return the entry of a producer for this epoch."""
        entry = self.producers.get(producer_id)
        if entry is None:
            entry = self.producers[producer_id] = ProducerEntry(epoch)
        elif entry.epoch != epoch:
            entry.epoch = epoch
            entry.batches.clear()
        return entry

    def replay(self, header: BatchHeader, load: Callable[[], bytes]) -> CompletedTransaction | None:
        """Process a batch already in the log or checked by the leader."""
        if header.producer_id < 0:
            return None
        if header.is_control:
            marker = read_marker(load())
            return None if marker is None else self.end_transaction(header, *marker)
        first, delta = header.base_sequence, header.last_offset_delta
        batch = (
            first,
            sequence_after(first, delta),
            header.base_offset,
            header.last_offset,
            header.max_timestamp,
        )
        self.update(header.producer_id, header.producer_epoch, batch, header.is_transactional)
        return None

    def remember_older(self, header: BatchHeader) -> None:
        """Extend the history of a producer restored from a snapshot with only its last batch."""
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

    # Snapshots. Their checksum reveals torn files, so they need no fsync.

    def moved_to(self, directory: str) -> None:
        self._directory = directory

    def take_over(self, other: ProducerStates) -> None:
        """Copy the state of another log with the same batches: it knows more than the batches tell."""
        self.producers = other.producers
        self.open_transactions = other.open_transactions
        self.ended_transactions = other.ended_transactions
        self.markers = other.markers

    def _path(self, offset: int) -> str:
        return os.path.join(self._directory, f"{offset:020d}{SNAPSHOT_SUFFIX}")

    def take_snapshot(self, offset: int) -> None:
        if self.snapshots and self.snapshots[-1] == offset:
            return
        data = encode_snapshot(self.producers)
        replace_file(self._path(offset), data, sync=False)
        self.checksums[offset] = crc32c(data)
        insort(self.snapshots, offset)

    def load_latest(self, offset: int, start: int) -> int:
        """Load the newest readable snapshot at or below `offset`. Return the offset to replay from."""
        self.producers = {}
        self._find_open_transactions()
        for snapshot in reversed(self.snapshots[: bisect_right(self.snapshots, offset)]):
            path = self._path(snapshot)
            try:
                with open(path, "rb") as file:
                    data = file.read()
                if self.checksums.get(snapshot, crc := crc32c(data)) != crc:
                    raise CorruptSnapshotError("it is not the file that was written")
                self.producers = decode_snapshot(data)
                self._find_open_transactions()
                return snapshot
            except (OSError, CorruptSnapshotError) as error:
                logger.warning("%s is not usable (%s): producers are read from the log instead", path, error)
                self._remove(snapshot)
        return start

    def _remove(self, offset: int) -> None:
        self.snapshots.remove(offset)
        self.checksums.pop(offset, None)
        with suppress(FileNotFoundError):
            os.unlink(self._path(offset))

    def remove_snapshot(self, offset: int) -> None:
        """Remove the snapshot of a segment merged into the previous one."""
        if offset in self.snapshots:
            self._remove(offset)

    def restore(self, producers: dict[int, ProducerEntry]) -> None:
        self.producers = producers
        self._find_open_transactions()

    def clear(self) -> None:
        self.remove_snapshots_after(-1)
        self.producers = {}
        self._find_open_transactions()

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


def _fenced(producer_id: int, epoch: int, newer: int) -> KafkaError:
    return KafkaError(
        ErrorCode.INVALID_PRODUCER_EPOCH,
        f"producer {producer_id} has epoch {epoch}, but epoch {newer} has written since",
    )
