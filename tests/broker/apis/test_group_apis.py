"""The group APIs, version by version. The expected values are Apache Kafka 4.3.0's responses."""

from __future__ import annotations

import asyncio

import pytest

from ottla.protocol.codec import ZERO_UUID
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.messages.cluster import FindCoordinatorRequest
from ottla.protocol.messages.groups import (
    DeleteGroupsRequest,
    DescribeGroupsRequest,
    HeartbeatRequest,
    JoinGroupRequest,
    LeaveGroupRequest,
    ListGroupsRequest,
    MemberIdentity,
    SyncGroupRequest,
    SyncGroupRequestAssignment,
)
from ottla.protocol.messages.offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)

from .group_wire import NONE, TOPIC_ID, UNKNOWN_ID, Wire, run, versions


def commit(name: str, *partitions: int, topic_id: bytes = ZERO_UUID) -> OffsetCommitRequestTopic:
    return OffsetCommitRequestTopic(
        name=name,
        topic_id=topic_id,
        partitions=[
            OffsetCommitRequestPartition(
                partition_index=p, committed_offset=7, committed_leader_epoch=0, committed_metadata="m"
            )
            for p in partitions
        ],
    )


@versions(2, 9)
@run
async def test_offsets_are_committed_by_name(version: int) -> None:
    call = await Wire.open()
    response = await call(
        OffsetCommitRequest(group_id="g", topics=[commit("t", 0, 99), commit("nope", 0, 1)]), version
    )
    assert [(t.name, [(p.partition_index, p.error_code) for p in t.partitions]) for t in response.topics] == [
        ("t", [(0, 0), (99, 3)]),
        ("nope", [(0, 3), (1, 3)]),
    ]


@run
async def test_offsets_are_committed_by_id() -> None:
    call = await Wire.open()
    topics = [commit("", 1, topic_id=TOPIC_ID), commit("", 0, topic_id=UNKNOWN_ID), commit("", 0)]
    response = await call(OffsetCommitRequest(group_id="g", topics=topics), 10)
    assert [(t.topic_id, [p.error_code for p in t.partitions]) for t in response.topics] == [
        (TOPIC_ID, [0]),
        (UNKNOWN_ID, [ErrorCode.UNKNOWN_TOPIC_ID]),
        (ZERO_UUID, [ErrorCode.UNKNOWN_TOPIC_ID]),
    ]


@versions(2, 10)
@run
async def test_a_commit_of_a_member_of_an_unknown_group(version: int) -> None:
    call = await Wire.open()
    request = OffsetCommitRequest(
        group_id="g",
        generation_id_or_member_epoch=5,
        member_id="m",
        topics=[commit("t" if version < 10 else "", 0, topic_id=TOPIC_ID if version >= 10 else ZERO_UUID)],
    )
    expected = ErrorCode.GROUP_ID_NOT_FOUND if version >= 9 else ErrorCode.ILLEGAL_GENERATION
    assert (await call(request, version)).topics[0].partitions[0].error_code == expected


@run
async def test_a_commit_that_waits_for_replicas() -> None:
    call = await Wire.open()
    future = asyncio.get_running_loop().create_future()
    call.broker.groups.runtime._log.append = lambda *_: future  # type: ignore[method-assign]
    asyncio.get_running_loop().call_later(0.01, future.set_result, None)
    response = await call(OffsetCommitRequest(group_id="g", topics=[commit("t", 0)]), 9)
    assert response.topics[0].partitions[0].error_code == NONE


@versions(1, 7)
@run
async def test_offsets_of_one_group_are_fetched(version: int) -> None:
    call = await Wire.open()
    await call(OffsetCommitRequest(group_id="g", topics=[commit("t", 0)]), 9)
    asked = [
        OffsetFetchRequestTopic(name="t", partition_indexes=[0, 5]),
        OffsetFetchRequestTopic(name="nope", partition_indexes=[0]),
    ]
    response = await call(OffsetFetchRequest(group_id="g", topics=asked), version)
    (zero, five), (nope,) = (t.partitions for t in response.topics)
    assert (zero.committed_offset, zero.metadata, zero.error_code) == (7, "m", 0)
    assert zero.committed_leader_epoch == (0 if version >= 5 else -1)
    for missing in (five, nope):
        assert (missing.committed_offset, missing.committed_leader_epoch, missing.metadata) == (-1, -1, "")
        assert missing.error_code == NONE
    if version >= 2:
        everything = await call(OffsetFetchRequest(group_id="g", topics=None), version)
        assert [(t.name, len(t.partitions)) for t in everything.topics] == [("t", 1)]


@versions(8, 10)
@run
async def test_offsets_of_several_groups_are_fetched(version: int) -> None:
    call = await Wire.open()
    await call(OffsetCommitRequest(group_id="g", topics=[commit("t", 0)]), 9)
    name, topic_id = ("t", ZERO_UUID) if version < 10 else ("", TOPIC_ID)
    one = [OffsetFetchRequestTopics(name=name, topic_id=topic_id, partition_indexes=[0, 1])]
    request = OffsetFetchRequest(
        groups=[
            OffsetFetchRequestGroup(group_id="g", topics=one),
            OffsetFetchRequestGroup(group_id="missing", topics=one),
            OffsetFetchRequestGroup(group_id="g", topics=None),
            OffsetFetchRequestGroup(group_id="missing", topics=None),
        ],
        require_stable=True,
    )
    response = await call(request, version)
    found = [
        (g.group_id, [(t.name, t.topic_id, [p.committed_offset for p in t.partitions]) for t in g.topics])
        for g in response.groups
    ]
    assert found == [
        ("g", [(name, topic_id, [7, -1])]),
        ("missing", [(name, topic_id, [-1, -1])]),
        ("g", [(name, topic_id, [7])]),
        ("missing", []),
    ]
    assert [g.error_code for g in response.groups] == [NONE] * 4


@run
async def test_offsets_of_unknown_topic_ids() -> None:
    call = await Wire.open()
    topics = [
        OffsetFetchRequestTopics(topic_id=UNKNOWN_ID, partition_indexes=[3]),
        OffsetFetchRequestTopics(topic_id=TOPIC_ID, partition_indexes=[0]),
    ]
    response = await call(
        OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id="g", topics=topics)]), 10
    )
    unknown, known = response.groups[0].topics
    (partition,) = unknown.partitions
    assert (unknown.topic_id, partition.partition_index) == (UNKNOWN_ID, 3)
    assert (partition.committed_offset, partition.error_code) == (-1, ErrorCode.UNKNOWN_TOPIC_ID)
    assert (known.topic_id, known.partitions[0].error_code) == (TOPIC_ID, NONE)


@versions(1, 10)
@run
async def test_an_error_of_the_group_finds_its_place_in_every_version(version: int) -> None:
    call = await Wire.open()
    for partition in range(50):
        call.broker.groups.runtime.resign(partition)
    if version < 8:
        asked = [OffsetFetchRequestTopic(name="t", partition_indexes=[0])]
        response = await call(OffsetFetchRequest(group_id="g", topics=asked), version)
        error = response.error_code if version >= 2 else response.topics[0].partitions[0].error_code
    else:
        response = await call(
            OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id="g", topics=[])]), version
        )
        error = response.groups[0].error_code
    assert error == ErrorCode.NOT_COORDINATOR


@versions(0, 6)
@run
async def test_the_coordinator_of_a_group_is_found(version: int) -> None:
    call = await Wire.open()
    # "a" maps to partition 47 and "b" to partition 48, which has no leader.
    if version < 4:
        found = await call(FindCoordinatorRequest(key="a"), version)
        assert (found.error_code, found.node_id, found.host, found.port) == (0, 7, "here", 9092)
        missing = await call(FindCoordinatorRequest(key="b"), version)
    else:
        response = await call(FindCoordinatorRequest(coordinator_keys=["a", "b"]), version)
        found, missing = response.coordinators
        assert (found.key, found.error_code, found.node_id, found.host) == ("a", 0, 7, "here")
        assert missing.key == "b"
    assert missing.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert (missing.node_id, missing.host, missing.port) == (-1, "", -1)


@pytest.mark.parametrize("key_type", [9])
@run
async def test_other_kinds_of_coordinator_are_not_here(key_type: int) -> None:
    call = await Wire.open()
    old = await call(FindCoordinatorRequest(key="a", key_type=key_type), 3)
    assert (old.error_code, old.node_id) == (ErrorCode.INVALID_REQUEST, -1)
    assert "does not coordinate" in old.error_message
    new = await call(FindCoordinatorRequest(coordinator_keys=["a"], key_type=key_type), 6)
    assert new.coordinators[0].error_code == ErrorCode.INVALID_REQUEST


@run
async def test_without_the_internal_topic_there_is_no_coordinator() -> None:
    call = await Wire.open()
    call.broker.failing = ErrorCode.INVALID_REPLICATION_FACTOR
    response = await call(FindCoordinatorRequest(key="a"), 2)
    assert response.error_code == ErrorCode.INVALID_REPLICATION_FACTOR


@versions(0, 9)
@run
async def test_a_group_is_joined(version: int) -> None:
    call = await Wire.open()
    joined = await call.join(version, **({"group_instance_id": "one"} if version >= 5 else {}))
    assert (joined.error_code, joined.generation_id, joined.leader) == (0, 1, joined.member_id)
    assert joined.protocol_name == "range"
    assert joined.protocol_type == ("consumer" if version >= 7 else None)
    assert joined.member_id.startswith("one-" if version >= 5 else "client-")
    assert [m.group_instance_id for m in joined.members] == ["one" if version >= 5 else None]


@versions(0, 9)
@run
async def test_a_refused_join(version: int) -> None:
    call = await Wire.open()
    request = JoinGroupRequest(group_id="", session_timeout_ms=10_000, protocol_type="consumer")
    refused = await call(request, version)
    assert (refused.error_code, refused.generation_id) == (ErrorCode.INVALID_GROUP_ID, -1)
    assert refused.protocol_name == (None if version >= 7 else "")
    assert refused.members == []


@run
async def test_a_returning_static_leader_skips_the_assignment() -> None:
    call = await Wire.open()
    await call.member(group_instance_id="one")
    back = await call.join(9, group_instance_id="one")
    assert back.skip_assignment
    assert len(back.members) == 1


@versions(0, 5)
@run
async def test_groups_are_synchronised(version: int) -> None:
    call = await Wire.open()
    joined = await call.join()
    request = SyncGroupRequest(
        group_id="g",
        generation_id=1,
        member_id=joined.member_id,
        assignments=[SyncGroupRequestAssignment(member_id=joined.member_id, assignment=b"mine")],
    )
    if version >= 5:
        refused = await call(request, version)
        assert refused.error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        request.protocol_type, request.protocol_name = "consumer", "range"
    synced = await call(request, version)
    assert (synced.error_code, synced.assignment) == (NONE, b"mine")
    assert synced.protocol_name == ("range" if version >= 5 else None)


@versions(0, 4)
@run
async def test_heartbeats(version: int) -> None:
    call = await Wire.open()
    member = await call.member()
    assert (
        await call(HeartbeatRequest(group_id="g", generation_id=1, member_id=member), version)
    ).error_code == NONE
    for group_id, error in (("", ErrorCode.INVALID_GROUP_ID), ("missing", ErrorCode.UNKNOWN_MEMBER_ID)):
        request = HeartbeatRequest(group_id=group_id, generation_id=1, member_id="m")
        assert (await call(request, version)).error_code == error


@versions(0, 5)
@run
async def test_members_leave(version: int) -> None:
    call = await Wire.open()
    member = await call.member()

    async def leave(group_id: str, member_id: str) -> tuple[int, list[int]]:
        if version < 3:
            request = LeaveGroupRequest(group_id=group_id, member_id=member_id)
        else:
            request = LeaveGroupRequest(group_id=group_id, members=[MemberIdentity(member_id=member_id)])
        response = await call(request, version)
        return response.error_code, [m.error_code for m in response.members]

    unknown = ErrorCode.UNKNOWN_MEMBER_ID
    for group_id in ("missing", "g"):
        assert await leave(group_id, "m") == ((unknown, []) if version < 3 else (NONE, [unknown]))
    assert await leave("g", member) == ((NONE, []) if version < 3 else (NONE, [NONE]))
    with pytest.raises(KafkaError, match="INVALID_GROUP_ID"):  # the dispatcher has a field for the error
        await leave("", "m")


@versions(0, 6)
@run
async def test_groups_are_described(version: int) -> None:
    call = await Wire.open()
    member = await call.member(group_instance_id="one")
    request = DescribeGroupsRequest(groups=["g", "missing", ""], include_authorized_operations=version >= 3)
    response = await call(request, version)
    assert [g.group_id for g in response.groups] == ["g", "missing", ""], "librdkafka aborts otherwise"
    stable, missing, _ = response.groups
    assert (stable.error_code, stable.group_state) == (NONE, "Stable")
    assert (stable.protocol_type, stable.protocol_data) == ("consumer", "range")
    assert stable.authorized_operations == (3400 if version >= 3 else -(2**31))
    (described,) = stable.members
    assert (described.member_id, described.client_id, described.client_host) == (
        member,
        "client",
        "/127.0.0.1",
    )
    assert described.group_instance_id == ("one" if version >= 4 else None)
    assert described.member_assignment == b"mine"
    assert missing.group_state == "Dead"
    assert missing.error_code == (ErrorCode.GROUP_ID_NOT_FOUND if version >= 6 else NONE)
    assert missing.error_message == ("Group missing not found." if version >= 6 else None)


@versions(0, 5)
@run
async def test_groups_are_listed(version: int) -> None:
    call = await Wire.open()
    await call.member()
    (listed,) = (await call(ListGroupsRequest(), version)).groups
    assert (listed.group_id, listed.protocol_type) == ("g", "consumer")
    assert listed.group_state == ("Stable" if version >= 4 else "")
    assert listed.group_type == ("classic" if version >= 5 else "")
    if version >= 4:
        assert (await call(ListGroupsRequest(states_filter=["EMPTY"]), version)).groups == []
        assert len((await call(ListGroupsRequest(states_filter=["STABLE"]), version)).groups) == 1
    if version >= 5:
        assert (await call(ListGroupsRequest(types_filter=["consumer"]), version)).groups == []


@versions(0, 3)
@run
async def test_groups_are_deleted(version: int) -> None:
    call = await Wire.open()
    await call.member()
    await call(OffsetCommitRequest(group_id="simple", topics=[commit("t", 0)]), 9)
    response = await call(DeleteGroupsRequest(groups_names=["simple", "g", "missing"]), version)
    assert [(r.group_id, r.error_code) for r in response.results] == [
        ("simple", NONE),
        ("g", ErrorCode.NON_EMPTY_GROUP),
        ("missing", ErrorCode.GROUP_ID_NOT_FOUND),
    ]
    messages = [None, "Group g is not empty.", "Group missing not found."]
    assert [r.error_message for r in response.results] == (messages if version >= 3 else [None] * 3)


@run
async def test_offsets_are_deleted() -> None:
    call = await Wire.open()
    await call(OffsetCommitRequest(group_id="g", topics=[commit("t", 0)]), 9)

    def topic(name: str, *partitions: int) -> OffsetDeleteRequestTopic:
        return OffsetDeleteRequestTopic(
            name=name, partitions=[OffsetDeleteRequestPartition(partition_index=p) for p in partitions]
        )

    response = await call(OffsetDeleteRequest(group_id="g", topics=[topic("t", 0, 77), topic("nope", 0)]), 0)
    assert [(t.name, [p.error_code for p in t.partitions]) for t in response.topics] == [
        ("t", [0, 3]),
        ("nope", [3]),
    ]
    everything = await call(OffsetFetchRequest(group_id="g", topics=None), 7)
    assert everything.topics == []
    with pytest.raises(KafkaError, match="GROUP_ID_NOT_FOUND"):
        await call(OffsetDeleteRequest(group_id="missing", topics=[topic("t", 0)]), 0)
