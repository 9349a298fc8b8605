"""Delivery state of one partition in one share group (KIP-932): available, acquired and finished records. Pure.

    Available ──acquire──▶ Acquired ──accept──▶ Acknowledged
        ▲                     │  └────reject, too many deliveries──▶ Archived
        └──release, lock timeout──┘

A record leaves Acquired in two steps: the new state is written first and takes effect afterwards. In between no other
member can acquire the record. All records before the start offset are finished; records from the end offset on have
never been delivered.

If the group has a dead-letter topic (KIP-1191), a record passes Archiving on its way to Archived. It stays there until
its dead letter is written. Archiving is written to the state, so that the next leader can finish the work.

Members acquire and return records in batches of the log, or in several batches combined. A member that acquires one
record of such a batch usually acquires all of it, even beyond its limit. Repeated redelivery suggests that no member
can process a record. Each further delivery therefore halves the number of neighbours delivered with it. The last
delivery contains only that record, so that its neighbours are not archived with it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from enum import IntEnum
from typing import NamedTuple

from ottla.protocol.errors import ErrorCode, KafkaError


class DeliveryState(IntEnum):
    """States with the values used in the records. Acquired is never written because locks do not survive the broker."""

    AVAILABLE = 0
    ACQUIRED = 1
    ACKNOWLEDGED = 2
    ARCHIVING = 3
    ARCHIVED = 4


class AcknowledgeType(IntEnum):
    GAP = 0
    ACCEPT = 1
    RELEASE = 2
    REJECT = 3
    RENEW = 4


_WIDEST_GAP = 10_000
_LEAST_DOUBTFUL = 2
_DONE = (DeliveryState.ACKNOWLEDGED, DeliveryState.ARCHIVED)
_IN_FLIGHT = (DeliveryState.ACQUIRED, DeliveryState.ARCHIVING)


class DeliveryRules(NamedTuple):
    """Settings of the group that decide where a record goes after a failed delivery."""

    count_limit: int
    dead_letters: bool = False

    def given_up(self) -> DeliveryState:
        return DeliveryState.ARCHIVING if self.dead_letters else DeliveryState.ARCHIVED

    def freed(self, count: int) -> DeliveryState:
        return DeliveryState.AVAILABLE if count < self.count_limit else self.given_up()


class Undelivered(NamedTuple):
    """A record that waits for its dead letter. `rejected` is None if an earlier leader gave the record up."""

    offset: int
    deliveries: int
    rejected: bool | None


class StateBatch(NamedTuple):
    """Adjacent offsets with the same state and delivery count."""

    first: int
    last: int
    state: int
    deliveries: int


class AcquiredBatch(NamedTuple):
    first: int
    last: int
    deliveries: int


class Acknowledgement(NamedTuple):
    """`types` has one entry for all offsets, or one per offset."""

    first: int
    last: int
    types: Sequence[int]


class _Batch:
    """Records that were first delivered together."""

    __slots__ = ("first", "last")

    def __init__(self, first: int, last: int) -> None:
        self.first = first
        self.last = last

    @property
    def size(self) -> int:
        return self.last - self.first + 1


class _Record:
    __slots__ = ("batch", "count", "deadline_ms", "decided", "member_id", "rejected", "state")

    def __init__(self, batch: _Batch, state: DeliveryState = DeliveryState.AVAILABLE, count: int = 0) -> None:
        self.batch = batch
        self.state = state
        self.count = count
        self.member_id = ""
        self.deadline_ms = 0
        self.decided = False  # True while the record's new state is being written
        self.rejected: bool | None = None


class Change:
    """New states for records: written first, then committed or rolled back."""

    __slots__ = ("_records", "batches", "undelivered")

    def __init__(self, decided: Sequence[tuple[int, _Record, DeliveryState]]) -> None:
        self._records = [(record, state) for _, record, state in decided]
        self.undelivered = [
            Undelivered(offset, record.count, record.rejected)
            for offset, record, state in decided
            if state is DeliveryState.ARCHIVING
        ]
        self.batches = list(merged((offset, state, record.count) for offset, record, state in decided))
        for _, record, _ in decided:
            record.decided = True

    def __bool__(self) -> bool:
        return bool(self.batches)

    @property
    def done(self) -> int:
        return sum(state in _DONE for _, state in self._records)

    @property
    def frees(self) -> bool:
        return any(state is DeliveryState.AVAILABLE for _, state in self._records)

    def commit(self) -> None:
        for record, state in self._records:
            record.state, record.decided, record.member_id = state, False, ""

    def roll_back(self) -> None:
        """Keep the locks because the write failed."""
        for record, _ in self._records:
            record.decided = False


class Acquisition:
    """Records acquired by one member from one partition for one request.

    The batch that reaches `most` is acquired completely unless the limit is `strict`. Records delivered for the first
    time form batches of at least `batch_size` records if available, or a single batch with a strict limit.
    """

    def __init__(
        self,
        member_id: str,
        most: int,
        deadline_ms: int,
        delivery_limit: int,
        *,
        batch_size: int,
        strict: bool,
    ) -> None:
        self.member_id = member_id
        self.deadline_ms = deadline_ms
        self.taken: list[AcquiredBatch] = []
        self.count = 0
        self._most = most
        self._delivery_limit = delivery_limit
        self._batch_size = batch_size
        self._strict = strict
        # A record becomes doubtful after half of its allowed deliveries.
        self._doubtful = max(_LEAST_DOUBTFUL, -(-delivery_limit // 2))
        self._batch: _Batch | None = None
        self._taken_of_batch = 0
        self._allowed: int | None = None  # limit on records delivered together from this batch

    @property
    def is_complete(self) -> bool:
        return self.count >= self._most

    def may_go_on_at(self, offset: int) -> bool:
        if self._strict or self._batch is None:
            return not self.is_complete
        return not self.is_complete or offset <= self._batch.last

    def may_enter(self, batch: _Batch, free: Iterable[_Record]) -> bool:
        """Return True if records of this batch may be acquired; `free` yields its available records."""
        if batch is self._batch:
            return True
        if self.is_complete or self._allowed is not None:
            return False
        is_doubtful = any(record.count >= self._doubtful for record in free)
        if is_doubtful and self.count:
            return False
        self._enter(batch, batch.size if is_doubtful else None)
        return True

    def new_batch(self, offset: int) -> _Batch | None:
        """Return the batch for records delivered for the first time, or None if no more may be acquired."""
        if self.is_complete or self._allowed is not None:
            return None
        batch = self._batch
        is_new = batch is not None and batch.last == offset - 1 and batch.size == self._taken_of_batch
        if batch is None or not is_new or (not self._strict and batch.size >= self._batch_size):
            batch = _Batch(offset, offset - 1)
            self._enter(batch, None)
        return batch

    def may_take(self, record: _Record) -> bool:
        if self._strict and self.is_complete:
            return False
        if self._allowed is not None:
            self._allowed = min(self._allowed, self._together(record))
            return self._taken_of_batch < self._allowed
        return True

    def take(self, offset: int, record: _Record) -> None:
        record.state = DeliveryState.ACQUIRED
        record.member_id = self.member_id
        record.count += 1
        record.deadline_ms = self.deadline_ms
        last = self.taken[-1] if self._taken_of_batch else None
        if last is not None and last.last == offset - 1 and last.deliveries == record.count:
            self.taken[-1] = last._replace(last=offset)
        else:
            self.taken.append(AcquiredBatch(offset, offset, record.count))
        self.count += 1
        self._taken_of_batch += 1

    def _enter(self, batch: _Batch, allowed: int | None) -> None:
        self._batch, self._taken_of_batch, self._allowed = batch, 0, allowed

    def _together(self, record: _Record) -> int:
        """Return how many records of the batch may be delivered with this record."""
        assert self._batch is not None
        if record.count >= self._delivery_limit - 1:
            return 1
        return max(self._batch.size >> max(record.count - self._doubtful + 1, 0), 1)


class SharePartition:
    """Invariant: `_records` covers exactly the offsets from the start offset to the end offset (exclusive), and its
    first record is unfinished. Owner: the event loop.
    """

    def __init__(self, start_offset: int, batches: Iterable[StateBatch] = ()) -> None:
        self.start_offset = start_offset
        self.end_offset = start_offset
        self._records: dict[int, _Record] = {}
        for first, last, state, count in batches:
            batch = _Batch(first, last)
            self._extend(max(first, start_offset))
            for offset in range(self.end_offset, last + 1):
                self._records[offset] = _Record(batch, DeliveryState(state), count)
            self.end_offset = max(self.end_offset, last + 1)
        self._advance()

    # Delivery

    @property
    def next_offset(self) -> int:
        """Return the first available offset, or the end offset."""
        for offset, record in self._records.items():
            if record.state is DeliveryState.AVAILABLE:
                return offset
        return self.end_offset

    @property
    def locked(self) -> int:
        """Return the number of records that a member holds, or whose dead letters are not written yet."""
        return sum(record.state in _IN_FLIGHT for record in self._records.values())

    @property
    def in_flight(self) -> int:
        return self.end_offset - self.start_offset

    @property
    def delivery_complete(self) -> int:
        return sum(record.state in _DONE for record in self._records.values())

    def acquire(self, wanted: Acquisition, first: int, last: int) -> bool:
        """Acquire the available records of a log batch from `first` to `last`. Return False to stop acquiring."""
        new: _Batch | None = None
        for offset in range(max(first, self.start_offset), last + 1):
            if offset < self.end_offset:
                record = self._records[offset]
                if record.state is not DeliveryState.AVAILABLE:
                    continue
                if not wanted.may_enter(record.batch, self._free(record.batch)):
                    return False
            else:
                new = new or wanted.new_batch(offset)
                if new is None:
                    return False
                record = _Record(new)
            if not wanted.may_take(record):
                return False
            if offset == self.end_offset:
                self._records[offset] = record
                record.batch.last = offset
                self.end_offset = offset + 1
            wanted.take(offset, record)
        return True

    def _free(self, batch: _Batch) -> Iterator[_Record]:
        for offset in range(max(batch.first, self.start_offset), batch.last + 1):
            record = self._records[offset]
            if record.state is DeliveryState.AVAILABLE:
                yield record

    def archive(self, first: int, last: int) -> list[StateBatch]:
        changed = []
        self._extend(last + 1)
        for offset in range(max(first, self.start_offset), last + 1):
            record = self._records[offset]
            if record.state is DeliveryState.AVAILABLE:
                record.state = DeliveryState.ARCHIVED
                changed.append(offset)
        return self._batches(changed)

    # Acknowledgement

    def acknowledge(
        self, member_id: str, batches: Sequence[Acknowledgement], rules: DeliveryRules, deadline_ms: int
    ) -> Change:
        """Apply all acknowledgements or none. Raises KafkaError(INVALID_RECORD_STATE) for records not locked."""
        decided: list[tuple[int, _Record, int]] = []
        for first, last, types in batches:
            for offset in range(max(first, self.start_offset), last + 1):
                record = self._records.get(offset)
                kind = types[0] if len(types) == 1 else types[offset - first]
                if record is None or not _is_locked(record) or record.member_id != member_id:
                    raise KafkaError(
                        ErrorCode.INVALID_RECORD_STATE,
                        "The record cannot be acknowledged. It is not acquired.",
                    )
                decided.append((offset, record, kind))
        changed = []
        for offset, record, kind in decided:
            if kind == AcknowledgeType.RENEW:
                record.deadline_ms = deadline_ms
            elif kind == AcknowledgeType.ACCEPT:
                changed.append((offset, record, DeliveryState.ACKNOWLEDGED))
            elif kind == AcknowledgeType.RELEASE:
                record.rejected = False
                changed.append((offset, record, rules.freed(record.count)))
            elif kind == AcknowledgeType.REJECT:
                record.rejected = True
                changed.append((offset, record, rules.given_up()))
            else:
                changed.append((offset, record, DeliveryState.ARCHIVED))
        return Change(changed)

    def release(self, member_id: str, rules: DeliveryRules) -> Change:
        return self._release(rules, lambda record: record.member_id == member_id)

    def expire(self, now_ms: int, rules: DeliveryRules) -> Change:
        return self._release(rules, lambda record: record.deadline_ms <= now_ms)

    # Dead letters

    def undelivered(self) -> list[Undelivered]:
        return [
            Undelivered(offset, record.count, record.rejected)
            for offset, record in self._records.items()
            if record.state is DeliveryState.ARCHIVING
        ]

    def bury(self, offsets: Iterable[int]) -> Change:
        """Finish records whose dead letters are written."""
        return Change(
            [
                (offset, record, DeliveryState.ARCHIVED)
                for offset in offsets
                if (record := self._records.get(offset)) is not None
                and record.state is DeliveryState.ARCHIVING
            ]
        )

    def next_deadline(self) -> int | None:
        return min((r.deadline_ms for r in self._records.values() if _is_locked(r)), default=None)

    def settle(self) -> None:
        """Advance the start offset past finished records after committing a change."""
        self._advance()

    def log_starts_at(self, offset: int) -> None:
        if offset >= self.end_offset:
            self._records.clear()
            self.start_offset = self.end_offset = max(offset, self.end_offset)
        elif offset > self.start_offset:
            for gone in range(self.start_offset, offset):
                del self._records[gone]
            self.start_offset = offset
            self._advance()

    def skip_to(self, offset: int) -> bool:
        """Skip a gap in the log after the end offset, for example after compaction.

        Return False if the gap is too wide to track offset by offset. It can be skipped once all earlier records are
        finished.
        """
        if offset > self.end_offset:
            if self.start_offset == self.end_offset:
                self.start_offset = self.end_offset = offset
                return True
            if offset - self.end_offset > _WIDEST_GAP:
                return False
            self._extend(offset, DeliveryState.ARCHIVED)
        return True

    # Internals

    def _release(self, rules: DeliveryRules, wanted: Callable[[_Record], bool]) -> Change:
        decided = []
        for offset, record in self._records.items():
            if _is_locked(record) and wanted(record):
                record.rejected = False
                decided.append((offset, record, rules.freed(record.count)))
        return Change(decided)

    def _extend(self, end: int, state: DeliveryState = DeliveryState.AVAILABLE) -> None:
        batch = _Batch(self.end_offset, end - 1)
        for offset in range(self.end_offset, end):
            self._records[offset] = _Record(batch, state)
        self.end_offset = max(self.end_offset, end)

    def _advance(self) -> None:
        while self.start_offset < self.end_offset and self._records[self.start_offset].state in _DONE:
            del self._records[self.start_offset]
            self.start_offset += 1

    def _batches(self, offsets: Iterable[int]) -> list[StateBatch]:
        return list(merged((o, self._records[o].state, self._records[o].count) for o in offsets))


def _is_locked(record: _Record) -> bool:
    return record.state is DeliveryState.ACQUIRED and not record.decided


def merged(records: Iterable[tuple[int, int, int]]) -> Iterator[StateBatch]:
    """Merge consecutive (offset, state, delivery count) triples into batches."""
    batch: StateBatch | None = None
    for offset, state, count in records:
        if (
            batch is not None
            and batch.last + 1 == offset
            and (batch.state, batch.deliveries) == (state, count)
        ):
            batch = batch._replace(last=offset)
            continue
        if batch is not None:
            yield batch
        batch = StateBatch(offset, offset, int(state), count)
    if batch is not None:
        yield batch


def check_acknowledgements(batches: Sequence[Acknowledgement], *, may_renew: bool) -> None:
    """Raise KafkaError(INVALID_REQUEST) for malformed acknowledgements."""
    end = -1
    known = {kind.value for kind in AcknowledgeType}
    if not may_renew:
        known.discard(AcknowledgeType.RENEW)
    for first, last, types in batches:
        if first <= end or last < first or first < 0:
            raise KafkaError(ErrorCode.INVALID_REQUEST)
        if len(types) not in (1, last - first + 1) or not known.issuperset(types):
            raise KafkaError(ErrorCode.INVALID_REQUEST)
        end = last
