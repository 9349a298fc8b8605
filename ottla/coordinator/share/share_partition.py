"""A partition as one share group sees it (KIP-932): which records are free, locked by whom, done. Pure.

    Available ──acquire──▶ Acquired ──accept──▶ Acknowledged
        ▲                     │  └────reject, too many deliveries──▶ Archived
        └──release, lock timeout──┘

What leaves Acquired is first decided and written, and then happens: until then nobody else gets the record.
Everything before the start offset is done; from the end offset on nothing has been handed out yet.

Records are handed out, and taken back, in the batches of the log or in several of them together: as a rule a member
that gets one record of such a batch gets the others too, even if they are more than it asked for. A record that came
back often may be one that nobody can process. With each further delivery it goes out with half as many of its
neighbours, and the last time alone, so that the others are not given up with it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from enum import IntEnum
from typing import NamedTuple

from ottla.protocol.errors import ErrorCode, KafkaError


class DeliveryState(IntEnum):
    """As in the records; Acquired is never written, because a lock does not survive its broker."""

    AVAILABLE = 0
    ACQUIRED = 1
    ACKNOWLEDGED = 2
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


class StateBatch(NamedTuple):
    """Neighbouring offsets of one state and delivery count."""

    first: int
    last: int
    state: int
    deliveries: int


class AcquiredBatch(NamedTuple):
    first: int
    last: int
    deliveries: int


class Acknowledgement(NamedTuple):
    """`types` has one entry for all offsets or one for each."""

    first: int
    last: int
    types: Sequence[int]


class _Batch:
    """Records that were handed out together for the first time."""

    __slots__ = ("first", "last")

    def __init__(self, first: int, last: int) -> None:
        self.first = first
        self.last = last

    @property
    def size(self) -> int:
        return self.last - self.first + 1


class _Record:
    __slots__ = ("batch", "count", "deadline_ms", "decided", "member_id", "state")

    def __init__(self, batch: _Batch, state: DeliveryState = DeliveryState.AVAILABLE, count: int = 0) -> None:
        self.batch = batch
        self.state = state
        self.count = count
        self.member_id = ""
        self.deadline_ms = 0
        self.decided = False  # what becomes of it is being written


class Change:
    """What has been decided of records that are locked: to be written, and then to be made so or forgotten."""

    __slots__ = ("_records", "batches")

    def __init__(self, decided: Sequence[tuple[int, _Record, DeliveryState]]) -> None:
        self._records = [(record, state) for _, record, state in decided]
        self.batches = list(merged((offset, state, record.count) for offset, record, state in decided))
        for _, record, _ in decided:
            record.decided = True

    def __bool__(self) -> bool:
        return bool(self.batches)

    @property
    def done(self) -> int:
        """How many records it is the end of."""
        return sum(state in _DONE for _, state in self._records)

    @property
    def frees(self) -> bool:
        return any(state is DeliveryState.AVAILABLE for _, state in self._records)

    def commit(self) -> None:
        for record, state in self._records:
            record.state, record.decided, record.member_id = state, False, ""

    def roll_back(self) -> None:
        """It could not be written: the locks are as they were."""
        for record, _ in self._records:
            record.decided = False


class Acquisition:
    """What one member gets of one partition with one request.

    The batch in which `most` is reached is taken to its end, unless the limit is `strict`. Records that go out for the
    first time make batches of at least `batch_size` where there are enough, with a strict limit a single one.
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
        # From half of the deliveries on there is doubt about a record.
        self._doubtful = max(_LEAST_DOUBTFUL, -(-delivery_limit // 2))
        self._batch: _Batch | None = None
        self._taken_of_batch = 0
        self._allowed: int | None = (
            None  # how many records of the batch may go out together, if that is limited
        )

    @property
    def is_complete(self) -> bool:
        return self.count >= self._most

    def may_go_on_at(self, offset: int) -> bool:
        if self._strict or self._batch is None:
            return not self.is_complete
        return not self.is_complete or offset <= self._batch.last

    def may_enter(self, batch: _Batch, free: Iterable[_Record]) -> bool:
        """Whether records of this batch may be taken; `free` are those that are free."""
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
        """The batch for records of the log that go out for the first time, if they may be taken."""
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
        """With how many of its batch a record goes out that was delivered that often."""
        assert self._batch is not None
        if record.count >= self._delivery_limit - 1:
            return 1
        return max(self._batch.size >> max(record.count - self._doubtful + 1, 0), 1)


class SharePartition:
    """Invariant: `_records` has exactly the offsets from the start offset up to the end offset, and the first of them
    is not done. Owned by the event loop.
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

    # Handing out

    @property
    def next_offset(self) -> int:
        """Where the next record to hand out is, if there is one: the first free one, or the end."""
        for offset, record in self._records.items():
            if record.state is DeliveryState.AVAILABLE:
                return offset
        return self.end_offset

    @property
    def locked(self) -> int:
        return sum(record.state is DeliveryState.ACQUIRED for record in self._records.values())

    @property
    def in_flight(self) -> int:
        return self.end_offset - self.start_offset

    @property
    def delivery_complete(self) -> int:
        return sum(record.state in _DONE for record in self._records.values())

    def acquire(self, wanted: Acquisition, first: int, last: int) -> bool:
        """Lock what is free of a batch of the log, from `first` to `last`. False: nothing more is to be taken."""
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
        """These records are not for anybody: what is free of them is done."""
        changed = []
        self._extend(last + 1)
        for offset in range(max(first, self.start_offset), last + 1):
            record = self._records[offset]
            if record.state is DeliveryState.AVAILABLE:
                record.state = DeliveryState.ARCHIVED
                changed.append(offset)
        return self._batches(changed)

    # Taking back

    def acknowledge(
        self, member_id: str, batches: Sequence[Acknowledgement], count_limit: int, deadline_ms: int
    ) -> Change:
        """All of it or nothing: KafkaError(INVALID_RECORD_STATE) if a record is not locked by this member."""
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
                changed.append((offset, record, _freed(record, count_limit)))
            else:
                changed.append((offset, record, DeliveryState.ARCHIVED))
        return Change(changed)

    def release(self, member_id: str, count_limit: int) -> Change:
        """The member is gone: what it had locked is free."""
        return self._release(count_limit, lambda record: record.member_id == member_id)

    def expire(self, now_ms: int, count_limit: int) -> Change:
        """Locks whose time is over go."""
        return self._release(count_limit, lambda record: record.deadline_ms <= now_ms)

    def next_deadline(self) -> int | None:
        return min((r.deadline_ms for r in self._records.values() if _is_locked(r)), default=None)

    def settle(self) -> None:
        """After a change was committed: the start offset moves past what is done."""
        self._advance()

    def log_starts_at(self, offset: int) -> None:
        """Records before that are deleted; nobody can read them any more."""
        if offset >= self.end_offset:
            self._records.clear()
            self.start_offset = self.end_offset = max(offset, self.end_offset)
        elif offset > self.start_offset:
            for gone in range(self.start_offset, offset):
                del self._records[gone]
            self.start_offset = offset
            self._advance()

    def skip_to(self, offset: int) -> bool:
        """The log has nothing between the end offset and this one, as after compaction: nobody waits for that.

        False: the gap is too wide to note offset by offset. It can be skipped once everything before it is done.
        """
        if offset > self.end_offset:
            if self.start_offset == self.end_offset:
                self.start_offset = self.end_offset = offset
                return True
            if offset - self.end_offset > _WIDEST_GAP:
                return False
            self._extend(offset, DeliveryState.ARCHIVED)
        return True

    # Steps

    def _release(self, count_limit: int, wanted: Callable[[_Record], bool]) -> Change:
        return Change(
            [
                (offset, record, _freed(record, count_limit))
                for offset, record in self._records.items()
                if _is_locked(record) and wanted(record)
            ]
        )

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


def _freed(record: _Record, count_limit: int) -> DeliveryState:
    return DeliveryState.ARCHIVED if record.count >= count_limit else DeliveryState.AVAILABLE


def merged(records: Iterable[tuple[int, int, int]]) -> Iterator[StateBatch]:
    """Offset, state and delivery count, one by one and in order, as batches."""
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
    """KafkaError(INVALID_REQUEST) for what cannot be meant."""
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
