from __future__ import annotations

from typing import Any

import pytest

from ottla.coordinator.groups.base.base_group import GroupConfig, Pace
from ottla.coordinator.groups.base.effects import TimerKey, TimerKind
from ottla.coordinator.groups.modern.consumer_state import ConsumerGroupState
from ottla.coordinator.groups.modern.subscribing_group import HeartbeatRequest, HeartbeatResult
from ottla.coordinator.groups.modern.target_assignment import Subscriber, assign_simple
from ottla.coordinator.groups.share_group import ShareGroup, ShareGroupState, apply_share
from ottla.coordinator.share.share_coordinator import ShareKey
from ottla.protocol.errors import KafkaError
from tests.coordinator.groups.consumer.consumer_machine import FakeTopics, partitions


class Machine:
    def __init__(self, **config: int) -> None:
        self.topics = FakeTopics(t=2)
        settings = GroupConfig(pace_of=lambda *_: Pace(assignment_interval_ms=0), **config)  # type: ignore[arg-type]
        self.group = ShareGroup("g", settings, self.topics)
        self.replayed = ShareGroupState()

    def heartbeat(self, member_id: str, epoch: int, **fields: Any) -> HeartbeatResult:
        request = HeartbeatRequest(member_id, epoch, client_id="c", client_host="/h", **fields)
        result, records, _ = self.group.share_heartbeat(request, 1_000)
        self.store(records)
        return result

    def initialize(self) -> None:
        """Initialize the partitions like the background driver."""
        records, _ = self.group.add_initialized(self.group.uninitialized())
        self.store(records)

    def store(self, records: list[Any]) -> None:
        self.group.stored()
        for key, value in records:
            apply_share(self.replayed, int.from_bytes(key[:2], "big"), key, value)
        assert self.replayed == self.group.state_now


def test_members_join_with_nothing_and_then_share_the_partitions() -> None:
    machine = Machine()
    first = machine.heartbeat("a", 0, topics=("t",))
    assert (first.member_epoch, partitions(first.assignment)) == (2, set())
    second = machine.heartbeat("b", 0, topics=("t",))
    assert (second.member_epoch, partitions(second.assignment)) == (3, set())
    machine.initialize()
    first = machine.heartbeat("a", 2)
    second = machine.heartbeat("b", 3)
    assert (first.member_epoch, second.member_epoch) == (4, 4)
    assert len(partitions(first.assignment)) == len(partitions(second.assignment)) == 1
    assert partitions(first.assignment) | partitions(second.assignment) == {0, 1}
    third = machine.heartbeat("c", 0, topics=("t",))
    assert len(partitions(third.assignment)) == 1
    for member in "ab":
        machine.heartbeat(member, 4)
    assert machine.heartbeat("a", 5).assignment is None
    assert machine.group.state is ConsumerGroupState.STABLE


def test_a_member_that_says_everything_is_told_everything() -> None:
    machine = Machine()
    machine.heartbeat("a", 0, topics=("t",))
    machine.initialize()
    machine.heartbeat("a", 2)
    assert machine.heartbeat("a", 3).assignment is None
    assert partitions(machine.heartbeat("a", 3, topics=("t",)).assignment) == {0, 1}


def test_a_member_that_waits_for_its_assignment_asks_again_soon() -> None:
    machine = Machine()
    assert machine.heartbeat("a", 0, topics=("t",)).heartbeat_interval_ms == 500
    machine.initialize()
    assert machine.heartbeat("a", 2).heartbeat_interval_ms == 5_000


def test_state_is_kept_of_what_is_subscribed_to_and_of_new_partitions() -> None:
    machine = Machine()
    topic = FakeTopics.id_of("t")
    machine.heartbeat("a", 0, topics=("t",))
    assert machine.group.uninitialized() == [(topic, 0), (topic, 1)]
    machine.initialize()
    assert machine.group.uninitialized() == []
    assert partitions(machine.heartbeat("a", 2).assignment) == {0, 1}
    machine.topics.set("t", 3)
    assert machine.group.uninitialized() == [(topic, 2)]
    assert machine.heartbeat("a", 3).assignment is None  # a new epoch, with the same partitions
    machine.initialize()
    assert partitions(machine.heartbeat("a", 4).assignment) == {0, 1, 2}
    assert machine.group.uninitialized() == []
    assert machine.group.share_keys() == [ShareKey("g", topic, partition) for partition in range(3)]


def test_who_is_refused_makes_nobody_keep_state() -> None:
    machine = Machine()
    with pytest.raises(KafkaError, match="UNKNOWN_MEMBER_ID"):
        machine.heartbeat("x", 7, topics=("t",))
    assert machine.group.members == {}
    assert machine.group.uninitialized() == []


def test_offsets_that_are_set_begin_a_new_epoch() -> None:
    machine = Machine()
    machine.heartbeat("a", 0, topics=("t",))
    machine.heartbeat("a", -1)
    before = machine.group.epoch
    records, _ = machine.group.set_initialized(FakeTopics.id_of("t"), "t", frozenset((0,)))
    machine.store(records)
    assert machine.group.epoch == before + 1


@pytest.mark.parametrize(("epoch", "error"), [(9, "FENCED_MEMBER_EPOCH"), (1, "FENCED_MEMBER_EPOCH")])
def test_epochs_that_are_not_the_members_are_fenced(epoch: int, error: str) -> None:
    machine = Machine()
    machine.heartbeat("a", 0, topics=("t",))
    with pytest.raises(KafkaError, match=error):
        machine.heartbeat("a", epoch)


def test_members_leave_and_lapse() -> None:
    machine = Machine()
    machine.heartbeat("a", 0, topics=("t",))
    machine.heartbeat("b", 0, topics=("t",))
    assert machine.heartbeat("a", -1).member_epoch == -1
    records, _ = machine.group.on_timer(TimerKey(TimerKind.SESSION, "b"), 2_000)
    machine.store(records)
    assert machine.group.state is ConsumerGroupState.EMPTY
    with pytest.raises(KafkaError, match="UNKNOWN_MEMBER_ID"):
        machine.heartbeat("b", 3)


def test_a_full_group_takes_nobody() -> None:
    machine = Machine(share_max_size=1)
    machine.heartbeat("a", 0, topics=("t",))
    with pytest.raises(KafkaError, match="GROUP_MAX_SIZE_REACHED"):
        machine.heartbeat("b", 0, topics=("t",))


def test_nobody_who_subscribes_goes_without_and_nothing_moves_without_need() -> None:
    topic = b"t" * 16
    members = {name: Subscriber(frozenset((topic,)), {}) for name in "abcde"}
    found = assign_simple(members, {topic: 2})
    assert sorted(len(parts[topic]) for parts in found.values()) == [1] * 5
    assert {p for parts in found.values() for p in parts[topic]} == {0, 1}
    again = assign_simple({m: Subscriber(frozenset((topic,)), found[m]) for m in members}, {topic: 2})
    assert again == found
