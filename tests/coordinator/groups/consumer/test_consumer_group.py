"""The KIP-848 consumer group, transition by transition, with the errors and epochs of Apache Kafka 4.3."""

from __future__ import annotations

import pytest

from ottla.coordinator.groups.base.base_group import Pace
from ottla.coordinator.groups.base.effects import TimerKey, TimerKind, session_timer
from ottla.coordinator.groups.modern.consumer_state import ConsumerGroupState, MemberState
from ottla.protocol.errors import ErrorCode, KafkaError
from tests.coordinator.groups.consumer.consumer_machine import ConsumerMachine, FakeTopics, owned, partitions

SESSION, REBALANCE = TimerKind.SESSION, TimerKind.REBALANCE


def test_the_first_member_gets_everything_at_once() -> None:
    machine = ConsumerMachine()
    result = machine.join("a")
    assert (result.member_epoch, partitions(result.assignment)) == (2, {0, 1, 2, 3})
    assert result.heartbeat_interval_ms == 5_000
    assert machine.group.state is ConsumerGroupState.STABLE
    assert machine.timers == {TimerKey(SESSION, "a"): 45_000}


def test_a_heartbeat_that_changes_nothing_writes_nothing_and_answers_no_assignment() -> None:
    machine = ConsumerMachine()
    machine.join("a")
    written = len(machine.log)
    result = machine.heartbeat("a", 2)
    assert (result.member_epoch, result.assignment) == (2, None)
    assert len(machine.log) == written


def test_a_partition_moves_only_after_its_owner_has_given_it_up() -> None:
    machine = ConsumerMachine()
    machine.join("a")
    second = machine.join("b")
    assert (second.member_epoch, partitions(second.assignment)) == (3, set())
    assert machine.group.state is ConsumerGroupState.RECONCILING
    # The first member must keep two partitions, and stays in its epoch until it owns only those.
    told = machine.heartbeat("a", 2)
    assert told.member_epoch == 2
    kept = partitions(told.assignment)
    assert len(kept) == 2
    assert machine.timers[TimerKey(REBALANCE, "a")] == 30_000
    assert machine.heartbeat("b", 3).assignment is None
    assert machine.heartbeat("a", 2, owned=owned(0, 1, 2, 3)).member_epoch == 2
    done = machine.heartbeat("a", 2, owned=owned(*kept))
    assert (done.member_epoch, done.assignment) == (3, None)
    assert TimerKey(REBALANCE, "a") not in machine.timers
    received = machine.heartbeat("b", 3)
    assert partitions(received.assignment) == {0, 1, 2, 3} - kept
    assert machine.group.state is ConsumerGroupState.STABLE


def test_who_does_not_give_up_in_time_is_removed() -> None:
    machine = ConsumerMachine()
    machine.join("a")
    machine.join("b")
    machine.heartbeat("a", 2)
    machine.fire(REBALANCE, "a")
    assert set(machine.group.members) == {"b"}
    assert machine.group.epoch == 4
    assert partitions(machine.heartbeat("b", 3).assignment) == {0, 1, 2, 3}


def test_a_session_that_lapses_removes_the_member() -> None:
    machine = ConsumerMachine()
    machine.join("a")
    machine.fire(SESSION, "a")
    assert machine.group.state is ConsumerGroupState.EMPTY
    assert machine.error("a", 2) is ErrorCode.UNKNOWN_MEMBER_ID


def test_epochs_that_are_not_the_members_are_fenced() -> None:
    machine = ConsumerMachine()
    machine.join("a")
    assert machine.error("a", 3) is ErrorCode.FENCED_MEMBER_EPOCH
    assert machine.error("a", 1) is ErrorCode.FENCED_MEMBER_EPOCH
    assert machine.error("x", 1) is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_member_that_missed_the_answer_may_repeat_its_old_epoch() -> None:
    machine = ConsumerMachine()
    machine.join("a")
    machine.topics.set("t", 5)
    assert machine.heartbeat("a", 2).member_epoch == 3
    repeated = machine.heartbeat("a", 2, rebalance_timeout_ms=30_000, topics=("t",), owned=owned(0, 1, 2, 3))
    assert (repeated.member_epoch, partitions(repeated.assignment)) == (3, {0, 1, 2, 3, 4})


def test_joining_again_with_epoch_zero_keeps_the_assignment() -> None:
    machine = ConsumerMachine()
    machine.join("a")
    again = machine.join("a")
    assert (again.member_epoch, partitions(again.assignment)) == (2, {0, 1, 2, 3})


def test_new_partitions_and_new_topics_start_a_new_epoch() -> None:
    machine = ConsumerMachine(FakeTopics(t=1))
    machine.join("a", "t", "later")
    machine.topics.set("other", 1)
    assert machine.heartbeat("a", 2).member_epoch == 2
    machine.topics.set("t", 2)
    assert partitions(machine.heartbeat("a", 2).assignment) == {0, 1}
    machine.topics.set("later", 1)
    result = machine.heartbeat("a", 3)
    assert (result.member_epoch, partitions(result.assignment, "later")) == (4, {0})


def test_a_deleted_topic_is_taken_away() -> None:
    machine = ConsumerMachine(FakeTopics(t=1, u=1))
    machine.join("a", "t", "u")
    machine.topics.remove("u")
    told = machine.heartbeat("a", 2)
    assert partitions(told.assignment, "u") == set()
    assert machine.heartbeat("a", 2, owned=owned(0)).member_epoch == 3


def test_assignments_are_not_made_more_often_than_the_interval() -> None:
    machine = ConsumerMachine()
    machine.pace = Pace(assignment_interval_ms=1_000)
    machine.join("a")
    second = machine.join("b")
    assert (second.member_epoch, machine.group.state) == (2, ConsumerGroupState.ASSIGNING)
    machine.now += 1_000
    machine.heartbeat("b", 2)
    assert machine.group.state_now.target_epoch == 3


def test_what_a_group_sets_for_itself_counts_from_the_next_heartbeat_on() -> None:
    machine = ConsumerMachine()
    machine.join("a")
    machine.pace = Pace(heartbeat_interval_ms=7_000, session_timeout_ms=50_000, assignment_interval_ms=0)
    assert machine.heartbeat("a", 2).heartbeat_interval_ms == 7_000
    assert machine.timers[session_timer("a")] == 50_000


# Static members


def test_a_static_member_comes_back_to_its_partitions_under_another_id() -> None:
    machine = ConsumerMachine()
    machine.join("a", instance_id="i")
    assert machine.error("b", 0, instance_id="i", rebalance_timeout_ms=1, topics=("t",), owned={}) is (
        ErrorCode.UNRELEASED_INSTANCE_ID
    )
    left = machine.heartbeat("a", -2, instance_id="i")
    assert left.member_epoch == -2
    epoch = machine.group.epoch
    back = machine.join("b", instance_id="i")
    assert partitions(back.assignment) == {0, 1, 2, 3}
    assert machine.group.epoch == epoch, "nobody else is disturbed"
    assert machine.error("a", 2, instance_id="i") is ErrorCode.FENCED_INSTANCE_ID
    assert machine.error("a", 2, instance_id="unknown") is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_static_member_that_does_not_come_back_loses_its_partitions_with_its_session() -> None:
    machine = ConsumerMachine()
    machine.join("a", instance_id="i")
    machine.join("b")
    machine.heartbeat("a", -2, instance_id="i")
    assert machine.heartbeat("b", 3).assignment is None
    machine.fire(SESSION, "a")
    assert partitions(machine.heartbeat("b", 3).assignment) == {0, 1, 2, 3}


def test_a_static_member_can_leave_for_good() -> None:
    machine = ConsumerMachine()
    machine.join("a", instance_id="i")
    assert machine.error("x", -1, instance_id="i") is ErrorCode.FENCED_INSTANCE_ID
    machine.heartbeat("a", -1, instance_id="i")
    assert machine.group.state is ConsumerGroupState.EMPTY


# Limits and subscriptions


def test_a_full_group_takes_nobody() -> None:
    machine = ConsumerMachine(consumer_max_size=1)
    machine.join("a")
    full = ErrorCode.GROUP_MAX_SIZE_REACHED
    assert machine.error("b", 0, rebalance_timeout_ms=1, topics=("t",), owned={}) is full


def test_a_regular_expression_follows_the_topics_that_appear() -> None:
    machine = ConsumerMachine(FakeTopics(logs_a=1, other=1))
    first = machine.join("a", topics=None, regex="logs_.*")
    assert partitions(first.assignment, "logs_a") == {0}
    machine.topics.set("logs_b", 1)
    assert partitions(machine.heartbeat("a", 2).assignment, "logs_b") == {0}
    assert machine.group.is_subscribed_to("logs_b")
    assert not machine.group.is_subscribed_to("other")
    machine.heartbeat("a", 3, regex="", topics=("other",))
    assert machine.group.state_now.regexes == {}


def test_a_regular_expression_that_is_none_is_refused() -> None:
    machine = ConsumerMachine()
    bad = ErrorCode.INVALID_REGULAR_EXPRESSION
    assert machine.error("a", 0, rebalance_timeout_ms=1, regex="(t", owned={}) is bad


def test_the_assignor_is_the_one_that_most_members_ask_for() -> None:
    machine = ConsumerMachine(FakeTopics(t=4, u=4))
    machine.join("a", "t", "u", server_assignor="range")
    machine.join("b", "t", "u", server_assignor="range")
    machine.join("c", "t", "u")
    assert machine.group.assignor == "range"
    assert partitions(machine.target("a")) == partitions(machine.target("a"), "u") == {0, 1}


# Offsets


def test_commits_need_the_epoch_or_a_partition_held_since() -> None:
    machine = ConsumerMachine(FakeTopics(t=1))
    machine.join("a")
    machine.topics.set("t", 2)
    machine.heartbeat("a", 2)
    group = machine.group

    def commit(member_id: str, epoch: int, partition: int, *, knows_epochs: bool = True) -> ErrorCode:
        try:
            group.check_commit(member_id, epoch, lambda: owned(partition), knows_epochs=knows_epochs)
        except KafkaError as error:
            return error.code
        return ErrorCode.NONE

    assert commit("a", 3, 1) is ErrorCode.NONE
    assert commit("a", 2, 0) is ErrorCode.NONE, "held since epoch 2 (KIP-1251)"
    assert commit("a", 2, 1) is ErrorCode.STALE_MEMBER_EPOCH
    assert commit("a", 4, 0) is ErrorCode.STALE_MEMBER_EPOCH
    assert commit("a", -1, 0) is ErrorCode.STALE_MEMBER_EPOCH
    assert commit("", -1, 0) is ErrorCode.UNKNOWN_MEMBER_ID
    assert commit("a", 3, 0, knows_epochs=False) is ErrorCode.UNSUPPORTED_VERSION
    assert group.check_transactional_commit("a", None, 3) is ErrorCode.NONE
    assert group.check_transactional_commit("a", None, 2, lambda: owned(0)) is ErrorCode.NONE
    assert group.check_transactional_commit("a", None, 2, lambda: owned(1)) is ErrorCode.ILLEGAL_GENERATION
    assert group.check_transactional_commit("", None, -1) is ErrorCode.NONE
    with pytest.raises(KafkaError, match="STALE_MEMBER_EPOCH"):
        group.check_fetch("a", 2)
    group.check_fetch("a", 3)
    group.check_fetch(None, -1)
    machine.heartbeat("a", -1)
    assert commit("", -1, 0) is ErrorCode.NONE
    assert commit("a", 3, 0) is ErrorCode.UNKNOWN_MEMBER_ID


def test_what_could_not_be_written_has_not_happened() -> None:
    machine = ConsumerMachine()
    machine.join("a")
    before = machine.group.state_now.copy()
    from ottla.coordinator.groups.modern.subscribing_group import HeartbeatRequest

    machine.group.consumer_heartbeat(
        HeartbeatRequest("b", 0, rebalance_timeout_ms=1, topics=("t",), owned={}), machine.now
    )
    machine.group.rollback()
    assert machine.group.state_now == before
    assert machine.join("b").member_epoch == 3
    assert machine.group.members["a"].state is MemberState.STABLE
