"""A partition as one share group sees it (KIP-932): which records are free, locked by whom, done. Pure.

    Available ──acquire──▶ Acquired ──accept──▶ Acknowledged
        ▲                     │  └────reject, too many deliveries──▶ Archived
        └──release, lock timeout──┘

What leaves Acquired is first decided and written, and then happens: until then nobody else gets the record.
Everything before the start offset is done; from the end offset on nothing has been handed out yet.
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


class _Record:
    __slots__ = ("count", "deadline_ms", "decided", "member_id", "state")

    def __init__(self, state: DeliveryState = DeliveryState.AVAILABLE, count: int = 0) -> None:
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


class SharePartition:
    """Invariant: `_records` has exactly the offsets from the start offset up to the end offset, and the first of them
    is not done. Owned by the event loop.
    """

    def __init__(self, start_offset: int, batches: Iterable[StateBatch] = ()) -> None:
        self.start_offset = start_offset
        self.end_offset = start_offset
        self._records: dict[int, _Record] = {}
        for first, last, state, count in batches:
            for offset in range(max(first, start_offset), last + 1):
                self._extend(offset + 1)
                self._records[offset] = _Record(DeliveryState(state), count)
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

    def acquire(
        self, member_id: str, first: int, last: int, most: int, deadline_ms: int
    ) -> list[AcquiredBatch]:
        """Lock what is free of the offsets `first` to `last`, which the log has, but no more than `most`."""
        taken: list[AcquiredBatch] = []
        for offset in range(max(first, self.start_offset), last + 1):
            if most <= 0:
                break
            self._extend(offset + 1)
            record = self._records[offset]
            if record.state is not DeliveryState.AVAILABLE:
                continue
            record.state = DeliveryState.ACQUIRED
            record.member_id = member_id
            record.count += 1
            record.deadline_ms = deadline_ms
            most -= 1
            if taken and taken[-1].last == offset - 1 and taken[-1].deliveries == record.count:
                taken[-1] = taken[-1]._replace(last=offset)
            else:
                taken.append(AcquiredBatch(offset, offset, record.count))
        return taken

    def archive(self, first: int, last: int) -> list[StateBatch]:
        """These records are not for anybody: what is free of them is done."""
        changed = []
        for offset in range(max(first, self.start_offset), last + 1):
            self._extend(offset + 1)
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
            for missing in range(self.end_offset, offset):
                self._records[missing] = _Record(DeliveryState.ARCHIVED)
            self.end_offset = offset
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

    def _extend(self, end: int) -> None:
        for offset in range(self.end_offset, end):
            self._records[offset] = _Record()
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
