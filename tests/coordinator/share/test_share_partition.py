"""Share partitions: record ownership, and the state after a restart. The expected values are Apache Kafka 4.3's."""

from __future__ import annotations

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from ottla.coordinator.share.share_partition import (
    Acknowledgement,
    AcknowledgeType,
    AcquiredBatch,
    Acquisition,
    Change,
    DeliveryRules,
    DeliveryState,
    SharePartition,
    StateBatch,
    Undelivered,
    check_acknowledgements,
)
from ottla.protocol.errors import KafkaError

GAP, ACCEPT, RELEASE, REJECT, RENEW = (
    AcknowledgeType.GAP,
    AcknowledgeType.ACCEPT,
    AcknowledgeType.RELEASE,
    AcknowledgeType.REJECT,
    AcknowledgeType.RENEW,
)
LIMIT = 3
RULES = DeliveryRules(LIMIT)
DEAD_LETTERS = DeliveryRules(LIMIT, dead_letters=True)


def say(first: int, last: int, *types: int) -> Acknowledgement:
    return Acknowledgement(first, last, types)


def take(
    share: SharePartition,
    member: str,
    first: int,
    last: int,
    most: int,
    deadline_ms: int,
    *,
    strict: bool = True,
    batch_size: int = 500,
    log_batch: int | None = None,
    limit: int = LIMIT,
) -> list[AcquiredBatch]:
    """Acquire records from a log with these offsets, in one batch or in batches of `log_batch`."""
    wanted = Acquisition(member, most, deadline_ms, limit, batch_size=batch_size, strict=strict)
    step = log_batch or last - first + 1
    for start in range(first, last + 1, step):
        if not wanted.may_go_on_at(start) or not share.acquire(wanted, start, min(start + step - 1, last)):
            break
    return wanted.taken


def settle(share: SharePartition, change: Change) -> None:
    """Complete the write."""
    change.commit()
    share.settle()


def test_a_record_goes_to_one_member_only() -> None:
    share = SharePartition(0)
    assert take(share, "a", 0, 4, 3, 100) == [AcquiredBatch(0, 2, 1)]
    assert take(share, "b", 0, 4, 10, 100) == [AcquiredBatch(3, 4, 1)]
    assert share.next_offset == 5
    with pytest.raises(KafkaError, match="INVALID_RECORD_STATE"):
        share.acknowledge("b", [say(0, 0, ACCEPT)], RULES, 0)


def test_what_is_released_comes_again_with_a_higher_count() -> None:
    share = SharePartition(0)
    take(share, "a", 0, 4, 10, 100)
    changed = share.acknowledge("a", [say(0, 1, ACCEPT), say(2, 2, RELEASE), say(3, 3, REJECT)], RULES, 0)
    assert changed.batches == [
        StateBatch(0, 1, DeliveryState.ACKNOWLEDGED, 1),
        StateBatch(2, 2, DeliveryState.AVAILABLE, 1),
        StateBatch(3, 3, DeliveryState.ARCHIVED, 1),
    ]
    assert (share.start_offset, changed.done) == (0, 3)
    assert share.next_offset == 5, "what is released is not free before it is written"
    settle(share, changed)
    assert share.start_offset == 2
    assert take(share, "b", 2, 4, 10, 100) == [AcquiredBatch(2, 2, 2)]


def test_who_released_too_often_is_not_asked_again() -> None:
    share = SharePartition(0)
    for _ in range(LIMIT):
        assert take(share, "a", 0, 0, 1, 100)
        settle(share, share.acknowledge("a", [say(0, 0, RELEASE)], RULES, 0))
    assert share.start_offset == share.next_offset == 1


def test_locks_time_out_and_can_be_renewed() -> None:
    share = SharePartition(0)
    take(share, "a", 0, 1, 10, 100)
    assert not share.acknowledge("a", [say(1, 1, RENEW)], RULES, 200)
    assert share.next_deadline() == 100
    expired = share.expire(100, RULES)
    assert expired.batches == [StateBatch(0, 0, DeliveryState.AVAILABLE, 1)]
    assert share.next_deadline() == 200
    settle(share, expired)
    assert take(share, "b", 0, 1, 10, 300) == [AcquiredBatch(0, 0, 2)]


def test_a_member_that_goes_frees_its_own() -> None:
    share = SharePartition(0)
    take(share, "a", 0, 0, 1, 100)
    take(share, "b", 0, 1, 1, 100)
    released = share.release("a", RULES)
    assert released.batches == [StateBatch(0, 0, DeliveryState.AVAILABLE, 1)]
    settle(share, released)
    assert share.locked == 1


def test_what_could_not_be_written_is_still_locked_and_can_be_said_again() -> None:
    share = SharePartition(0)
    take(share, "a", 0, 1, 10, 100)
    accepted = share.acknowledge("a", [say(0, 0, ACCEPT)], RULES, 0)
    with pytest.raises(KafkaError, match="INVALID_RECORD_STATE"):
        share.acknowledge("a", [say(0, 0, RELEASE)], RULES, 0)
    assert share.expire(100, RULES).batches == [StateBatch(1, 1, DeliveryState.AVAILABLE, 1)]
    accepted.roll_back()
    assert share.next_deadline() == 100
    settle(share, share.acknowledge("a", [say(0, 0, ACCEPT)], RULES, 0))
    assert share.start_offset == 1


def test_all_or_nothing() -> None:
    share = SharePartition(0)
    take(share, "a", 0, 1, 10, 100)
    with pytest.raises(KafkaError):
        share.acknowledge("a", [say(0, 2, ACCEPT)], RULES, 0)
    assert share.acknowledge("a", [say(0, 1, ACCEPT)], RULES, 0)


def test_what_is_done_already_may_be_acknowledged_again() -> None:
    share = SharePartition(5)
    assert not share.acknowledge("a", [say(0, 4, ACCEPT)], RULES, 0)


def test_records_that_are_deleted_are_not_waited_for() -> None:
    share = SharePartition(0)
    take(share, "a", 0, 4, 10, 100)
    share.log_starts_at(3)
    assert (share.start_offset, share.end_offset) == (3, 5)
    share.log_starts_at(9)
    assert (share.start_offset, share.next_offset) == (9, 9)


def test_gaps_are_skipped_however_wide_they_are() -> None:
    share = SharePartition(0)
    assert share.skip_to(10**12)
    assert take(share, "a", 10**12, 10**12, 1, 100) == [AcquiredBatch(10**12, 10**12, 1)]
    assert share.skip_to(10**12 + 5)
    assert take(share, "a", 10**12 + 1, 10**12 + 5, 9, 100) == [AcquiredBatch(10**12 + 5, 10**12 + 5, 1)]
    assert not share.skip_to(2 * 10**12), "not while something is in flight"
    settle(share, share.acknowledge("a", [say(10**12, 10**12, ACCEPT)], RULES, 0))
    assert share.start_offset == 10**12 + 5
    share.log_starts_at(3 * 10**12)
    assert share.next_offset == 3 * 10**12


@pytest.mark.parametrize(
    ("log_batch", "most", "batch_size", "taken"),
    [
        (1, 500, 500, [(0, 19)]),
        (1, 500, 6, [(0, 5), (6, 11), (12, 17), (18, 19)]),
        (1, 7, 3, [(0, 2), (3, 5), (6, 6)]),
        (5, 500, 2, [(0, 4), (5, 9), (10, 14), (15, 19)]),
        (5, 500, 6, [(0, 9), (10, 19)]),
        (5, 7, 500, [(0, 9)]),
        (5, 1, 1, [(0, 4)]),
        (5, 12, 5, [(0, 4), (5, 9), (10, 14)]),
    ],
)
def test_batches_of_the_log_go_out_whole_and_several_together(
    log_batch: int, most: int, batch_size: int, taken: list[tuple[int, int]]
) -> None:
    found = take(
        SharePartition(0), "a", 0, 19, most, 100, strict=False, batch_size=batch_size, log_batch=log_batch
    )
    assert [(first, last) for first, last, _ in found] == taken


def test_a_strict_limit_is_kept_and_makes_one_batch() -> None:
    share = SharePartition(0)
    assert take(share, "a", 0, 19, 12, 100, batch_size=5, log_batch=5) == [AcquiredBatch(0, 11, 1)]
    assert share.end_offset == 12


def test_what_went_out_together_comes_again_together() -> None:
    share = SharePartition(0)
    take(share, "a", 0, 19, 500, 100, strict=False, log_batch=5)
    settle(share, share.acknowledge("a", [say(0, 19, RELEASE)], RULES, 0))
    assert take(share, "b", 0, 19, 3, 100, strict=False, log_batch=5) == [AcquiredBatch(0, 19, 2)]


def test_a_record_that_is_given_up_waits_for_its_dead_letter() -> None:
    share = SharePartition(0)
    take(share, "a", 0, 2, 10, 100)
    changed = share.acknowledge("a", [say(0, 0, REJECT), say(1, 1, GAP), say(2, 2, ACCEPT)], DEAD_LETTERS, 0)
    assert changed.batches == [
        StateBatch(0, 0, DeliveryState.ARCHIVING, 1),
        StateBatch(1, 1, DeliveryState.ARCHIVED, 1),
        StateBatch(2, 2, DeliveryState.ACKNOWLEDGED, 1),
    ]
    settle(share, changed)
    assert changed.undelivered == share.undelivered() == [Undelivered(0, 1, True)]
    assert (share.start_offset, share.locked, share.delivery_complete) == (0, 1, 2)
    assert share.expire(10**9, DEAD_LETTERS).batches == [], "no lock is left that could expire"
    settle(share, share.bury([0]))
    assert (share.start_offset, share.locked) == (3, 0)


def test_a_record_that_was_delivered_too_often_waits_for_its_dead_letter() -> None:
    share = SharePartition(0)
    for _ in range(LIMIT):
        assert take(share, "a", 0, 0, 1, 100)
        settle(share, share.expire(100, DEAD_LETTERS))
    assert share.undelivered() == [Undelivered(0, LIMIT, False)]


def test_the_next_leader_finds_the_records_without_dead_letters() -> None:
    share = SharePartition(4, [StateBatch(4, 5, DeliveryState.ARCHIVING, 2)])
    assert share.undelivered() == [Undelivered(4, 2, None), Undelivered(5, 2, None)]
    assert share.start_offset == 4
    settle(share, share.bury([4, 5, 6]))
    assert share.start_offset == 6


def deliveries(size: int, limit: int) -> list[tuple[int, int, int]]:
    """Return successive deliveries of a batch that is released each time all of it is acquired."""
    share = SharePartition(0)
    found: list[tuple[int, int, int]] = []
    while share.next_offset < size:
        while share.next_offset < size:
            found += take(share, "a", share.next_offset, size - 1, 500, 100, strict=False, limit=limit)
        settle(share, share.release("a", DeliveryRules(limit)))
    assert share.start_offset == size
    return found


def test_records_that_come_back_again_and_again_go_out_with_ever_fewer_others() -> None:
    found = deliveries(7, 5)
    assert found[:3] == [(0, 6, 1), (0, 6, 2), (0, 6, 3)]
    fourth = [(first, last) for first, last, count in found if count == 4]
    assert fourth == [(0, 2), (3, 5), (6, 6)]
    assert [(first, last) for first, last, count in found if count == 5] == [(n, n) for n in range(7)]


@pytest.mark.parametrize(("limit", "sizes"), [(2, [8, 8]), (10, [8, 8, 8, 8, 8, 4, 2, 1, 1, 1])])
def test_doubt_begins_with_half_of_the_deliveries(limit: int, sizes: list[int]) -> None:
    largest = {count: last - first + 1 for first, last, count in reversed(deliveries(8, limit))}
    assert [largest[count] for count in sorted(largest)] == sizes


@pytest.mark.parametrize(
    "batches",
    [
        [say(0, 0, 9)],
        [say(1, 1, 1), say(0, 0, 1)],
        [say(0, 2, 1, 1)],
        [say(2, 1, 1)],
        [say(0, 0)],
        [say(0, 0, RENEW)],
    ],
)
def test_acknowledgements_that_cannot_be_meant_are_refused(batches: list[Acknowledgement]) -> None:
    with pytest.raises(KafkaError, match="INVALID_REQUEST"):
        check_acknowledgements(batches, may_renew=False)


class ShareMachine(RuleBasedStateMachine):
    """Members acquire, acknowledge, time out and die, and the broker restarts: no record is lost or held twice."""

    of_group = RULES

    @initialize(end=st.integers(1, 30))
    def begin(self, end: int) -> None:
        self.end = end
        self.share = SharePartition(0)
        self.stored: dict[int, tuple[int, int]] = {}
        self.stored_start = 0
        self.held: dict[int, str] = {}
        self.done: set[int] = set()
        self.now = 0
        self.highest_start = 0

    def write(self, change: Change) -> None:
        if change:
            self.stored_start = self.share.start_offset
        for first, last, state, count in change.batches:
            for offset in range(first, last + 1):
                self.stored[offset] = (state, count)
                self.held.pop(offset, None)
                if state not in (DeliveryState.AVAILABLE, DeliveryState.ARCHIVING):
                    self.done.add(offset)
        settle(self.share, change)

    @rule()
    def bury(self) -> None:
        self.write(self.share.bury([each.offset for each in self.share.undelivered()]))

    @rule(member=st.sampled_from("abc"), most=st.integers(1, 9), strict=st.booleans())
    def take(self, member: str, most: int, strict: bool) -> None:
        first = self.share.next_offset
        if first >= self.end:
            return
        for batch in take(self.share, member, first, self.end - 1, most, self.now + 10, strict=strict):
            for offset in range(batch.first, batch.last + 1):
                assert offset not in self.held, "two members have it"
                assert offset not in self.done, "it was done already"
                self.held[offset] = member

    @precondition(lambda self: self.held)
    @rule(data=st.data(), kind=st.sampled_from([0, 1, 2, 3]))
    def acknowledge(self, data: st.DataObject, kind: int) -> None:
        offset = data.draw(st.sampled_from(sorted(self.held)))
        self.write(self.share.acknowledge(self.held[offset], [say(offset, offset, kind)], self.of_group, 0))

    @precondition(lambda self: self.held)
    @rule(data=st.data(), kind=st.sampled_from([0, 1, 2, 3]))
    def fail_to_write(self, data: st.DataObject, kind: int) -> None:
        offset = data.draw(st.sampled_from(sorted(self.held)))
        self.share.acknowledge(self.held[offset], [say(offset, offset, kind)], self.of_group, 0).roll_back()

    @rule(ms=st.integers(1, 12))
    def time_passes(self, ms: int) -> None:
        self.now += ms
        self.write(self.share.expire(self.now, self.of_group))

    @rule(member=st.sampled_from("abc"))
    def leave(self, member: str) -> None:
        self.write(self.share.release(member, self.of_group))
        assert member not in self.held.values()

    @rule()
    def restart(self) -> None:
        batches = [StateBatch(o, o, *self.stored[o]) for o in sorted(self.stored) if o >= self.stored_start]
        self.share = SharePartition(self.stored_start, batches)
        self.held.clear()

    @invariant()
    def the_start_never_passes_what_is_not_done(self) -> None:
        assert all(offset in self.done for offset in range(self.share.start_offset))

    def teardown(self) -> None:
        """A member that keeps acquiring and accepting gets every unfinished record."""
        if not hasattr(self, "share"):
            return
        self.write(self.share.expire(self.now + 100, self.of_group))
        while self.share.next_offset < self.end:
            self.take("z", 100, False)
        for offset in sorted(self.held):
            self.write(
                self.share.acknowledge(self.held[offset], [say(offset, offset, ACCEPT)], self.of_group, 0)
            )
        self.bury()
        assert self.share.start_offset == self.end == len(self.done)


class DeadLetterMachine(ShareMachine):
    """The same for a group with a dead-letter topic."""

    of_group = DEAD_LETTERS


ShareMachine.TestCase.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)
DeadLetterMachine.TestCase.settings = ShareMachine.TestCase.settings
test_share_partition = ShareMachine.TestCase
test_share_partition_with_dead_letters = DeadLetterMachine.TestCase
