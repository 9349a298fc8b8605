"""A streams group scenario over the wire, with the responses of Apache Kafka 4.3.0.

`test_streams_group_apis` runs the steps against Ottla; `tests/peers` runs them against Apache Kafka.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.cluster import FindCoordinatorRequest, FindCoordinatorResponse
from ottla.protocol.messages.groups import DeleteGroupsRequest, ListGroupsRequest
from ottla.protocol.messages.offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from ottla.protocol.messages.streams_groups import (
    KeyValue,
    StreamsGroupDescribeRequest,
    StreamsGroupHeartbeatRequest,
    Subtopology,
    TaskIds,
    TopicInfo,
    Topology,
)
from tests.broker.transactions.wire_producer import WireProducer
from tests.wire_client import WireClient

Tasks = dict[str, list[int]]


def word_count(group: str, source: str, epoch: int = 0) -> Topology:
    return Topology(
        epoch=epoch,
        subtopologies=[
            Subtopology(
                subtopology_id="0", source_topics=[source], repartition_sink_topics=[f"{group}-repartition"]
            ),
            Subtopology(
                subtopology_id="1",
                repartition_source_topics=[
                    TopicInfo(
                        name=f"{group}-repartition",
                        topic_configs=[KeyValue(key="cleanup.policy", value="delete")],
                    )
                ],
                state_changelog_topics=[
                    TopicInfo(
                        name=f"{group}-changelog",
                        topic_configs=[KeyValue(key="cleanup.policy", value="compact")],
                    )
                ],
            ),
        ],
    )


def task_ids(tasks: Tasks) -> list[TaskIds]:
    return [TaskIds(subtopology_id=name, partitions=partitions) for name, partitions in tasks.items()]


def tasks_of(found: list[TaskIds] | None) -> Tasks | None:
    return None if found is None else {part.subtopology_id: part.partitions for part in found}


class StreamsWire:
    """The heartbeats of one group. A request carries only the fields that the test sets."""

    def __init__(self, client: WireClient, group: str, source: str) -> None:
        self.client = client
        self.group = group
        self.source = source
        request = FindCoordinatorRequest(key_type=0, coordinator_keys=[group])
        until(lambda: not self._coordinator(request).coordinators[0].error_code)
        # A broker may answer FindCoordinator before it has loaded the partition.
        until(lambda: self.heartbeat("nobody", 1)[0] in ("GROUP_ID_NOT_FOUND", "UNKNOWN_MEMBER_ID"))

    def _coordinator(self, request: FindCoordinatorRequest) -> FindCoordinatorResponse:
        answer = self.client.call(request)
        assert isinstance(answer, FindCoordinatorResponse)
        return answer

    def heartbeat(self, member_id: str, epoch: int, owned: Tasks | None = None, **fields: Any) -> Any:
        """Return (error, message), or (epoch, statuses, active tasks)."""
        if owned is not None:
            fields = {"active_tasks": task_ids(owned), "standby_tasks": [], "warmup_tasks": [], **fields}
        request = StreamsGroupHeartbeatRequest(
            **{"group_id": self.group, "member_id": member_id, "member_epoch": epoch, **fields}
        )
        answer: Any = self.client.call(request, 0)
        if answer.error_code:
            return ErrorCode(answer.error_code).name, answer.error_message
        statuses = [(status.status_code, status.status_detail) for status in answer.status]
        return answer.member_epoch, statuses, tasks_of(answer.active_tasks)

    def beat_until(self, member_id: str, epoch: int, condition: Callable[[Any], object]) -> Any:
        deadline = time.monotonic() + 30
        answer = self.heartbeat(member_id, epoch)
        while not condition(answer):
            assert time.monotonic() < deadline, answer
            time.sleep(0.05)
            answer = self.heartbeat(member_id, answer[0])
        return answer

    def join(self, member_id: str, **fields: Any) -> Any:
        usual = {
            "rebalance_timeout_ms": 60_000,
            "process_id": f"p-{member_id}",
            "client_tags": [],
            "topology": word_count(self.group, self.source),
        }
        return self.heartbeat(member_id, 0, {}, **{**usual, **fields})

    def describe(self) -> Any:
        request = StreamsGroupDescribeRequest(group_ids=[self.group], include_authorized_operations=False)
        answer: Any = self.client.call(request, 0)
        [group] = answer.groups
        return group

    def summary(self) -> Any:
        group = self.describe()
        if group.error_code:
            return ErrorCode(group.error_code).name, group.error_message
        members = {member.member_id: member.member_epoch for member in group.members}
        return group.group_state, group.group_epoch, group.assignment_epoch, members

    def listed(self) -> list[tuple[str, str, str]]:
        answer: Any = self.client.call(ListGroupsRequest(types_filter=["Streams"]))
        return [
            (group.group_type, group.protocol_type, group.group_state)
            for group in answer.groups
            if group.group_id == self.group
        ]

    def delete(self) -> str:
        answer: Any = self.client.call(DeleteGroupsRequest(groups_names=[self.group]))
        return ErrorCode(answer.results[0].error_code).name

    def commit(self, member_id: str, epoch: int, version: int = 9) -> str:
        partitions = [OffsetCommitRequestPartition(partition_index=0, committed_offset=3)]
        request = OffsetCommitRequest(
            group_id=self.group,
            member_id=member_id,
            generation_id_or_member_epoch=epoch,
            topics=[OffsetCommitRequestTopic(name=self.source, partitions=partitions)],
        )
        answer: Any = self.client.call(request, version)
        return ErrorCode(answer.topics[0].partitions[0].error_code).name

    def commit_in_transaction(self, member_id: str, epoch: int) -> str:
        producer = WireProducer(self.client, f"{self.group}-transaction", v2=True)
        until(lambda: producer.init() == ErrorCode.NONE)
        who = {"member_id": member_id, "generation_id": epoch}
        error = producer.commit_offset(self.group, self.source, 3, **who)
        producer.end(commit=False)
        return error.name

    def committed(self, member_id: str | None, epoch: int) -> Any:
        topics = [OffsetFetchRequestTopics(name=self.source, partition_indexes=[0])]
        group = OffsetFetchRequestGroup(
            group_id=self.group, member_id=member_id, member_epoch=epoch, topics=topics
        )
        answer: Any = self.client.call(OffsetFetchRequest(groups=[group]), 9)
        [found] = answer.groups
        if found.error_code:
            return ErrorCode(found.error_code).name
        return found.topics[0].partitions[0].committed_offset


def until(condition: Callable[[], object], seconds: float = 30) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def life_of_a_group(
    wire: StreamsWire, create_source: Callable[[], None], topics: Callable[[], set[str]]
) -> None:
    """Take two members from the first heartbeat to the deletion of the group. Requires assignments without delay."""
    group, source = wire.group, wire.source
    assert wire.heartbeat("m1", 3) == ("GROUP_ID_NOT_FOUND", f"Streams group {group} not found.")
    assert wire.heartbeat("m1", -1) == ("GROUP_ID_NOT_FOUND", f"Group {group} not found.")
    assert wire.summary() == ("GROUP_ID_NOT_FOUND", f"Group {group} not found.")

    # Topics: the user's topics first, then the topics that the broker creates.
    assert wire.join("m1") == (2, [(1, f"Source topics {source} are missing.")], {})
    assert wire.summary() == ("NotReady", 2, 2, {"m1": 2})
    create_source()
    internal = {f"{group}-repartition", f"{group}-changelog"}
    # Kafka's coordinator sees new topics slightly later than its clients.
    found = wire.beat_until("m1", 2, lambda answer: answer[0] == 3)
    [(code, detail)] = found[1]
    assert (code, found[2]) == (3, None)
    prefix, _, names = detail.partition(": ")
    assert (prefix, set(names.split(", "))) == ("Internal topics are missing", internal)
    until(lambda: topics() >= internal)
    # The topics become visible one by one, and each starts a new epoch.
    first, statuses, tasks = wire.beat_until("m1", 3, lambda answer: answer[2])
    assert (statuses, tasks) == ([], {"0": [0, 1], "1": [0, 1]})
    described = wire.describe().topology
    assert described.epoch == 0
    [_, counting] = described.subtopologies
    assert [(t.name, t.partitions) for t in counting.state_changelog_topics] == [(f"{group}-changelog", 2)]
    assert wire.heartbeat("m1", first) == (first, [], None)
    assert wire.listed() == [("streams", "streams", "Stable")]

    # A second member takes over tasks from the first.
    assert wire.join("m2") == (first + 1, [], {})
    assert wire.heartbeat("m1", first) == (first, [], {"0": [0], "1": [0]})
    assert wire.summary()[0] == "Reconciling"
    assert wire.heartbeat("m2", first + 1) == (first + 1, [], None)
    assert wire.heartbeat("m1", first, {"0": [0], "1": [0, 1]}) == (first, [], None)
    assert wire.heartbeat("m1", first, {"0": [0], "1": [0]}) == (first + 1, [], None)
    assert wire.heartbeat("m2", first + 1) == (first + 1, [], {"0": [1], "1": [1]})
    assert wire.summary() == ("Stable", first + 1, first + 1, {"m1": first + 1, "m2": first + 1})
    now = first + 1

    # Rejected members
    words = (
        "member epoch ({}) than the one known by the group coordinator ({}). The member must abandon all its "
    )
    fenced = "The streams group member has a {} " + words + "partitions and rejoin."
    assert wire.heartbeat("m2", first) == (
        "FENCED_MEMBER_EPOCH",
        fenced.format("smaller", first, now),
    )
    assert wire.heartbeat("m2", now + 1) == ("FENCED_MEMBER_EPOCH", fenced.format("greater", now + 1, now))
    unknown = ("UNKNOWN_MEMBER_ID", f"Member m9 is not a member of group {group}.")
    assert wire.heartbeat("m9", now) == wire.heartbeat("m9", -1) == unknown
    updated = ("INVALID_REQUEST", "Topology updates are not supported yet.")
    assert wire.join("m3", topology=word_count(group, source, epoch=1)) == updated
    assert wire.join("m3", topology=word_count(group, "other")) == updated
    assert wire.join("m2") == (now, [], {"0": [1], "1": [1]})

    # Offsets
    assert [wire.commit("m1", epoch) for epoch in (now, now + 1)] == ["NONE", "STALE_MEMBER_EPOCH"]
    assert wire.commit("m1", first) == "NONE", "it has had that task since then"
    assert wire.commit("m2", first) == "STALE_MEMBER_EPOCH"
    assert wire.commit("m9", now) == wire.commit("", -1) == "UNKNOWN_MEMBER_ID"
    assert wire.commit("m1", now, 8) == "UNSUPPORTED_VERSION"
    assert wire.committed("m1", now) == wire.committed(None, -1) == 3
    assert wire.committed("m1", first) == wire.committed("m1", -1) == "STALE_MEMBER_EPOCH"
    assert wire.committed("m9", now) == "UNKNOWN_MEMBER_ID"

    assert wire.commit_in_transaction("m1", now) == wire.commit_in_transaction("", -1) == "NONE"
    assert wire.commit_in_transaction("m1", first) == "NONE"
    assert wire.commit_in_transaction("m2", first) == "ILLEGAL_GENERATION"
    assert wire.commit_in_transaction("m1", now + 1) == "ILLEGAL_GENERATION"
    assert wire.commit_in_transaction("m9", now) == "UNKNOWN_MEMBER_ID"

    # The end
    assert wire.delete() == "NON_EMPTY_GROUP"
    shutdown = (
        4,
        "Streams group member m2 encountered a fatal error and requested a shutdown for the entire application.",
    )
    assert wire.heartbeat("m2", now, shutdown_application=True) == (now, [shutdown], None)
    assert wire.heartbeat("m1", now) == (now, [shutdown], None)
    assert wire.heartbeat("m2", -1) == (-1, [], None)
    assert wire.heartbeat("m1", now) == (now + 1, [shutdown], {"0": [0, 1], "1": [0, 1]})
    assert wire.heartbeat("m1", -1) == (-1, [], None)
    assert wire.summary() == ("Empty", now + 2, now + 1, {})
    assert wire.commit("", -1) == "NONE"
    assert wire.delete() == "NONE"
    assert wire.summary() == ("GROUP_ID_NOT_FOUND", f"Group {group} not found.")


# Invalid first heartbeats and their responses
WRONG_JOINS = [
    ({"member_id": ""}, "MemberId can't be empty."),
    ({"group_id": ""}, "GroupId can't be empty."),
    ({"topology": None}, "Topology must be non-null when (re-)joining."),
    ({"rebalance_timeout_ms": -1}, "RebalanceTimeoutMs must be provided in first request."),
    ({"active_tasks": None}, "ActiveTasks must be empty when (re-)joining."),
    ({"standby_tasks": None}, "StandbyTasks must be empty when (re-)joining."),
    ({"warmup_tasks": None}, "WarmupTasks must be empty when (re-)joining."),
    ({"active_tasks": task_ids({"0": [0]})}, "ActiveTasks must be empty when (re-)joining."),
    ({"instance_id": "i"}, "Static membership is not yet supported."),
    ({"instance_id": ""}, "Static membership is not yet supported."),
    ({"rack_id": ""}, "RackId can't be empty."),
    ({"member_epoch": -2, "instance_id": "i"}, "Static membership is not yet supported."),
    ({"member_epoch": -2}, "InstanceId can't be null."),
    ({"member_epoch": -3}, "MemberEpoch is -3, but must be greater than or equal to -2."),
    ({"member_epoch": 3}, "Topology can only be provided when (re-)joining."),
    (
        {"topology": Topology(subtopologies=[Subtopology(subtopology_id="0", source_topic_regex=["a.*"])])},
        "Regular expressions for source topics are not supported yet.",
    ),
    ({"task_offsets": []}, "TaskOffsets are not supported yet."),
    ({"task_end_offsets": []}, "TaskEndOffsets are not supported yet."),
]
