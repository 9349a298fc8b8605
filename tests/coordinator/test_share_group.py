from __future__ import annotations

from typing import Any

import pytest

from ottla.coordinator.groups.config import GroupConfig, Pace
from ottla.coordinator.groups.consumer.assignors import Subscriber, assign_simple
from ottla.coordinator.groups.consumer.state import ConsumerGroupState
from ottla.coordinator.groups.effects import TimerKey, TimerKind
from ottla.coordinator.groups.share.group import ShareGroup
from ottla.coordinator.groups.share.records import ShareGroupState, apply_share
from ottla.coordinator.groups.subscribing_group import HeartbeatRequest, HeartbeatResult
from ottla.coordinator.share.state_records import ShareKey
from ottla.protocol.errors import KafkaError
from tests.coordinator.consumer_machine import FakeTopics, partitions


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

    def store(self, records: list[Any]) -> None:
        self.group.stored()
        for key, value in records:
            apply_share(self.replayed, int.from_bytes(key[:2], "big"), key, value)
        assert self.replayed == self.group.state_now


def test_members_share_the_partitions() -> None:
    machine = Machine()
    first = machine.heartbeat("a", 0, topics=("t",))
    assert (first.member_epoch, partitions(first.assignment)) == (2, {0, 1})
    second = machine.heartbeat("b", 0, topics=("t",))
    assert (second.member_epoch, len(partitions(second.assignment))) == (3, 1)
    third = machine.heartbeat("c", 0, topics=("t",))
    assert len(partitions(third.assignment)) == 1
    told = machine.heartbeat("a", 2)
    assert (told.member_epoch, len(partitions(told.assignment))) == (4, 1)
    assert machine.heartbeat("a", 4).assignment is None
    assert machine.group.state is ConsumerGroupState.STABLE


def test_state_is_kept_of_what_is_subscribed_to_and_of_new_partitions() -> None:
    machine = Machine()
    topic = FakeTopics.id_of("t")
    join = HeartbeatRequest("a", 0, client_id="c", client_host="/h", topics=("t",))
    machine.group.check(join, 1_000)
    assert machine.group.uninitialized(join) == [(topic, 0), (topic, 1)]
    machine.heartbeat("a", 0, topics=("t",))
    stay = HeartbeatRequest("a", 2, client_id="c", client_host="/h")
    assert machine.group.uninitialized(stay) == []
    machine.topics.set("t", 3)
    assert machine.group.uninitialized(stay) == [(topic, 2)]
    machine.heartbeat("a", 2)
    assert machine.group.uninitialized(stay) == []
    assert machine.group.share_keys() == [ShareKey("g", topic, partition) for partition in range(3)]


def test_who_is_refused_makes_nobody_keep_state() -> None:
    machine = Machine()
    stranger = HeartbeatRequest("x", 7, client_id="c", client_host="/h", topics=("t",))
    with pytest.raises(KafkaError, match="UNKNOWN_MEMBER_ID"):
        machine.group.check(stranger, 1_000)
    assert machine.group.members == {}


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
