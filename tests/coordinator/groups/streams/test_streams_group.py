"""The life of a streams group, step by step, with the epochs, states and messages of Kafka 4.3.0."""

from __future__ import annotations

import pytest

from ottla.coordinator.groups.base.effects import JOIN_TIMER, TimerKind, rebalance_timer, session_timer
from ottla.coordinator.groups.streams.streams_state import (
    Endpoint,
    MemberState,
    StreamsGroupState,
    StreamsHeartbeatResult,
    Tasks,
)
from ottla.coordinator.groups.streams.topology import Status, StatusCode, Subtopology, Topology
from ottla.protocol.errors import ErrorCode, KafkaError
from tests.coordinator.groups.consumer.consumer_machine import FakeTopics
from tests.coordinator.groups.streams.machine import WORD_COUNT, StreamsMachine, active

ALL = active(_0=[0, 1], _1=[0, 1])


def two_members() -> tuple[StreamsMachine, StreamsHeartbeatResult, StreamsHeartbeatResult]:
    """The first member has all tasks; the second has joined and waits for its half."""
    machine = StreamsMachine()
    first = machine.join("m1")
    return machine, first, machine.join("m2")


def test_the_first_member_gets_all_tasks() -> None:
    machine = StreamsMachine()
    joined = machine.join("m1")
    assert (joined.member_epoch, joined.tasks, joined.statuses) == (2, ALL, [])
    assert machine.group.state is StreamsGroupState.STABLE
    again = machine.heartbeat("m1", 2)
    assert (again.member_epoch, again.tasks) == (2, None)


def test_a_task_is_given_to_another_member_only_when_it_was_given_up() -> None:
    machine, first, second = two_members()
    assert (second.member_epoch, second.tasks) == (3, Tasks())
    assert machine.group.members["m2"].state is MemberState.UNRELEASED_TASKS
    first = machine.heartbeat("m1", 2)
    assert (first.member_epoch, first.tasks) == (2, active(_0=[0], _1=[0]))
    assert machine.group.members["m1"].state is MemberState.UNREVOKED_TASKS
    assert machine.heartbeat("m2", 3).tasks is None
    partly = machine.heartbeat("m1", 2, owned=active(_0=[0, 1], _1=[0]))
    assert partly.member_epoch == 2
    done = machine.heartbeat("m1", 2, owned=active(_0=[0], _1=[0]))
    assert (done.member_epoch, done.tasks) == (3, None)
    second = machine.heartbeat("m2", 3)
    assert (second.member_epoch, second.tasks) == (3, active(_0=[1], _1=[1]))
    assert machine.group.state is StreamsGroupState.STABLE


def test_a_member_that_does_not_give_up_tasks_in_time_is_fenced() -> None:
    machine, _, _ = two_members()
    machine.heartbeat("m1", 2)
    assert machine.timers[rebalance_timer("m1")] == 30_000
    machine.fire(rebalance_timer("m1"))
    assert machine.error("m1", 2) is ErrorCode.UNKNOWN_MEMBER_ID
    assert machine.heartbeat("m2", 3).tasks == ALL


def test_a_silent_member_is_forgotten_and_its_tasks_go_to_the_others() -> None:
    machine, _, _ = two_members()
    assert machine.timers[session_timer("m1")] == 45_000
    machine.fire(session_timer("m1"))
    assert (machine.heartbeat("m2", 3).tasks, machine.group.epoch) == (ALL, 4)


def test_who_leaves_is_gone_at_once() -> None:
    machine, _, _ = two_members()
    left = machine.heartbeat("m1", -1)
    assert (left.member_epoch, left.tasks, left.heartbeat_interval_ms) == (-1, None, 0)
    assert machine.heartbeat("m2", 3).tasks == ALL
    machine.heartbeat("m2", -1)
    assert machine.group.state is StreamsGroupState.EMPTY
    assert machine.error("m2", -1) is ErrorCode.UNKNOWN_MEMBER_ID
    assert TimerKind.SESSION not in {key.kind for key in machine.timers}


def test_epochs_that_are_not_the_members_are_fenced() -> None:
    machine = StreamsMachine()
    machine.join("m1")
    assert machine.error("m1", 3) is ErrorCode.FENCED_MEMBER_EPOCH
    assert machine.error("m1", 1) is ErrorCode.FENCED_MEMBER_EPOCH
    assert machine.error("m9", 2) is ErrorCode.UNKNOWN_MEMBER_ID
    with pytest.raises(
        KafkaError,
        match=r"The streams group member has a smaller member epoch \(1\) than the one known by the group coordinator "
        r"\(2\)\. The member must abandon all its partitions and rejoin\.",
    ):
        machine.heartbeat("m1", 1)


def test_a_member_that_missed_an_answer_goes_on_with_its_previous_epoch() -> None:
    machine, _, _ = two_members()
    machine.heartbeat("m1", 2)
    machine.heartbeat("m1", 2, owned=active(_0=[0], _1=[0]))  # the response with epoch 3 is lost
    again = machine.heartbeat("m1", 2, owned=active(_0=[0], _1=[0]))
    assert again.member_epoch == 3
    assert machine.error("m1", 2, owned=ALL) is ErrorCode.FENCED_MEMBER_EPOCH


def test_a_member_that_missed_its_tasks_is_told_again_when_it_says_everything() -> None:
    machine, _, _ = two_members()
    machine.heartbeat("m1", 2)
    machine.heartbeat("m1", 2, owned=active(_0=[0], _1=[0]))
    assert machine.heartbeat("m2", 3).tasks is not None  # lost; the epoch is unchanged
    again = machine.heartbeat("m2", 3, owned=Tasks(), rebalance_timeout_ms=30_000)
    assert again.tasks == active(_0=[1], _1=[1])


def test_a_member_that_joins_again_keeps_its_tasks() -> None:
    machine = StreamsMachine()
    machine.join("m1")
    again = machine.join("m1")
    assert (again.member_epoch, again.tasks) == (2, ALL)


def test_without_its_source_topics_a_group_is_not_ready() -> None:
    machine = StreamsMachine(FakeTopics())
    joined = machine.join("m1")
    missing = Status(StatusCode.MISSING_SOURCE_TOPICS, "Source topics lines are missing.")
    assert (joined.member_epoch, joined.tasks, joined.statuses) == (2, Tasks(), [missing])
    assert machine.group.state is StreamsGroupState.NOT_READY
    machine.topics.set("lines", 2)
    found = machine.heartbeat("m1", 2)
    internal = Status(StatusCode.MISSING_INTERNAL_TOPICS, "Internal topics are missing: c, r")
    assert (found.member_epoch, found.statuses) == (3, [internal])
    assert [(topic.name, topic.partitions) for topic in found.to_create] == [("c", 2), ("r", 2)]
    machine.topics.set("c", 2)
    machine.topics.set("r", 2)
    ready = machine.heartbeat("m1", 3)
    assert (ready.member_epoch, ready.tasks, ready.statuses, ready.to_create) == (4, ALL, [], ())
    assert machine.group.state_now.validated_topology_epoch == 0


def test_more_partitions_of_a_source_topic_are_a_mismatch_until_the_internal_topics_follow() -> None:
    machine = StreamsMachine()
    machine.join("m1")
    machine.topics.set("lines", 3)
    changed = machine.heartbeat("m1", 2)
    assert [status.code for status in changed.statuses] == [StatusCode.INCORRECTLY_PARTITIONED_TOPICS]
    assert changed.tasks == Tasks(), "until it is mended nobody works"


def test_a_member_with_an_older_topology_is_told_so_and_works() -> None:
    machine = StreamsMachine(topology=Topology(1, WORD_COUNT.subtopologies))
    machine.join("m1")
    stale = machine.join("m2", topology=WORD_COUNT)
    detail = "The member's topology epoch 0 is behind the group's topology epoch 1."
    assert stale.statuses == [Status(StatusCode.STALE_TOPOLOGY, detail)]


@pytest.mark.parametrize(
    "topology", [Topology(1, WORD_COUNT.subtopologies), Topology(0, (Subtopology("0", ("lines",)),))]
)
def test_another_topology_is_refused(topology: Topology) -> None:
    machine = StreamsMachine()
    machine.join("m1")
    with pytest.raises(KafkaError, match=r"Topology updates are not supported yet\."):
        machine.join("m2", topology=topology)
    assert list(machine.group.members) == ["m1"]


def test_the_order_of_subtopologies_does_not_matter() -> None:
    machine = StreamsMachine()
    machine.join("m1")
    assert machine.join("m2", topology=Topology(0, WORD_COUNT.subtopologies[::-1])).member_epoch == 3


def test_everybody_is_told_that_one_asked_for_the_end() -> None:
    machine, _, _ = two_members()
    machine.heartbeat("m2", 3, shutdown_application=True)
    detail = "Streams group member m2 encountered a fatal error and requested a shutdown for the entire application."
    assert machine.heartbeat("m1", 2).statuses == [Status(StatusCode.SHUTDOWN_APPLICATION, detail)]
    machine.heartbeat("m2", -1)
    machine.heartbeat("m1", -1)
    assert machine.join("m3").statuses == [], "that was another life of the application"


def test_a_new_group_waits_for_more_members() -> None:
    machine = StreamsMachine(initial_rebalance_delay_ms=3_000)
    delayed = [
        Status(
            StatusCode.ASSIGNMENT_DELAYED, "Assignment delayed due to the configured initial rebalance delay."
        )
    ]
    first = machine.join("m1")
    assert (first.member_epoch, first.tasks, first.statuses) == (1, Tasks(), delayed)
    assert machine.group.state is StreamsGroupState.ASSIGNING
    assert machine.timers[JOIN_TIMER] == 3_000
    machine.now += 1_000
    assert machine.join("m2").statuses == delayed
    machine.now += 2_000
    machine.fire(JOIN_TIMER)
    assert machine.heartbeat("m1", 1).tasks == active(_0=[0], _1=[0])
    assert machine.heartbeat("m2", 1).tasks == active(_0=[1], _1=[1])


def test_if_the_timer_was_lost_the_delay_ends_all_the_same() -> None:
    machine = StreamsMachine(initial_rebalance_delay_ms=3_000)
    machine.join("m1")
    machine.now += 3_000
    assert machine.heartbeat("m1", 1).tasks == ALL


def test_targets_are_not_computed_more_often_than_the_assignment_interval() -> None:
    machine = StreamsMachine()
    machine.pace = machine.pace._replace(assignment_interval_ms=1_000)
    machine.join("m1")
    machine.now += 999
    joined = machine.join("m2")
    detail = "Assignment delayed due to the configured assignment interval."
    assert (joined.member_epoch, joined.statuses) == (2, [Status(StatusCode.ASSIGNMENT_DELAYED, detail)])
    machine.now += 1
    assert machine.heartbeat("m2", 2).member_epoch == 3


def test_what_a_member_says_of_itself_starts_a_new_epoch() -> None:
    machine = StreamsMachine()
    epoch = machine.join("m1").member_epoch
    for change in (
        {"rack_id": "r"},
        {"client_tags": (("zone", "a"),)},
        {"user_endpoint": Endpoint("h", 1)},
        {"rebalance_timeout_ms": 7},
        {"process_id": "other"},
    ):
        epoch += 1
        assert machine.heartbeat("m1", epoch - 1, **change).member_epoch == epoch


def test_more_standby_replicas_start_a_new_epoch() -> None:
    machine, _, _ = two_members()
    machine.settings = machine.settings._replace(num_standby_replicas=1)
    machine.heartbeat("m1", 2)
    assert machine.group.epoch == 4
    assert machine.group.state_now.assignment_configs == (("num.standby.replicas", "1"),)


def test_a_standby_is_not_opened_while_its_process_has_the_task_as_active() -> None:
    machine = StreamsMachine(num_standby_replicas=1)
    machine.join("m1")
    second = machine.join("m2")
    assert second.tasks == Tasks(standby={"1": frozenset({0})}), "nobody of its process has that one"
    machine.heartbeat("m1", 2)
    kept = active(_0=[0], _1=[0])
    gave_up = machine.heartbeat("m1", 2, owned=kept)
    assert (gave_up.member_epoch, gave_up.tasks) == (3, None)
    assert machine.group.members["m1"].state is MemberState.UNRELEASED_TASKS
    assert machine.heartbeat("m1", 3).tasks == Tasks(kept.active, {"1": frozenset({1})})


def test_an_instance_learns_where_the_others_have_their_state() -> None:
    machine = StreamsMachine()
    first = machine.join("m1", user_endpoint=Endpoint("a", 1))
    assert first.endpoint_epoch == 0
    [one] = first.endpoints or []
    assert (one.endpoint, one.active) == (("a", 1), {"lines": [0, 1], "r": [0, 1]})
    assert machine.heartbeat("m1", 2, endpoint_epoch=0).endpoints is None
    second = machine.join("m2", user_endpoint=Endpoint("b", 2))
    assert second.endpoint_epoch == 1
    assert [one.endpoint.host for one in second.endpoints or []] == ["a", "b"]
    assert machine.heartbeat("m1", 2, endpoint_epoch=0).endpoint_epoch == 2, "it has given up tasks"
    without = machine.join("m3", endpoint_epoch=2)
    assert (without.endpoint_epoch, without.endpoints) == (2, None)


def test_a_group_is_full_at_its_maximum_size() -> None:
    machine = StreamsMachine()
    for number in range(5):
        machine.join(f"m{number}")
    with pytest.raises(
        KafkaError, match=r"The streams group has reached its maximum capacity of 5 members\."
    ):
        machine.join("one more")
    assert machine.join("m1").member_epoch == 6, "who is in it may join again"


def test_another_coordinator_goes_on_where_the_first_was() -> None:
    machine, _, _ = two_members()
    machine.heartbeat("m1", 2)
    machine.fail_over()
    assert machine.group.state is StreamsGroupState.RECONCILING
    effects = machine.group.start_sessions(machine.now)
    assert {effect.key for effect in effects} >= {session_timer("m1"), rebalance_timer("m1")}
    assert machine.heartbeat("m1", 2, owned=active(_0=[0], _1=[0])).member_epoch == 3
    assert machine.heartbeat("m2", 3).tasks == active(_0=[1], _1=[1])


def test_a_heartbeat_that_cannot_be_stored_has_not_been() -> None:
    machine, _, _ = two_members()
    before = machine.group.state_now.copy()
    request = machine.group.members["m1"]
    machine.group.remove(request)
    machine.group.rollback()
    assert machine.group.state_now == before
    assert machine.heartbeat("m2", 3).tasks is None, "the first still has its tasks"


def test_members_commit_in_their_epoch_or_for_what_they_have_had_since() -> None:
    machine, _, _ = two_members()
    machine.heartbeat("m1", 2)
    machine.heartbeat("m1", 2, owned=active(_0=[0], _1=[0]))
    machine.heartbeat("m2", 3)

    def commit(member_id: str, epoch: int, *partitions: int, knows_epochs: bool = True) -> ErrorCode:
        wanted = {FakeTopics.id_of("lines"): frozenset(partitions)}
        error, _ = machine.group.commit(member_id, None, epoch, lambda: wanted, knows_epochs=knows_epochs)
        return error

    assert commit("m1", 3, 0) is ErrorCode.NONE
    assert commit("m1", 2, 0) is ErrorCode.NONE, "it has had that task since epoch 2"
    assert commit("m1", 2, 0, 1) is ErrorCode.STALE_MEMBER_EPOCH
    assert commit("m2", 2, 1) is ErrorCode.STALE_MEMBER_EPOCH
    assert commit("m1", 4, 0) is ErrorCode.STALE_MEMBER_EPOCH
    assert commit("m9", 3, 0) is ErrorCode.UNKNOWN_MEMBER_ID
    assert commit("", -1, 0) is ErrorCode.UNKNOWN_MEMBER_ID
    assert commit("m1", 3, 0, knows_epochs=False) is ErrorCode.UNSUPPORTED_VERSION

    def commit_in_transaction(member_id: str, epoch: int, *partitions: int) -> ErrorCode:
        wanted = {FakeTopics.id_of("lines"): frozenset(partitions)}
        return machine.group.check_transactional_commit(member_id, None, epoch, lambda: wanted)

    assert commit_in_transaction("m1", 3, 0) is commit_in_transaction("m1", 2, 0) is ErrorCode.NONE
    assert commit_in_transaction("m1", 2, 1) is ErrorCode.ILLEGAL_GENERATION
    assert commit_in_transaction("m1", 4, 0) is ErrorCode.ILLEGAL_GENERATION
    assert commit_in_transaction("", -1, 0) is ErrorCode.NONE
    assert machine.group.is_subscribed_to("lines")
    assert machine.group.is_subscribed_to("r")
    assert not machine.group.is_subscribed_to("c")
    machine.heartbeat("m1", -1)
    machine.heartbeat("m2", -1)
    assert commit("", -1, 0) is ErrorCode.NONE
    assert not machine.group.is_subscribed_to("lines")
