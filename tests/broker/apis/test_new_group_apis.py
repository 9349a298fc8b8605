"""The consumer group and share group APIs, field by field. The expected values are Apache Kafka 4.3.0's responses."""

from __future__ import annotations

import base64
import socket
import struct
from collections.abc import Iterator
from typing import Any

import pytest

from ottla.protocol.codec import Request
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages import configs as config_messages
from ottla.protocol.messages import response_type, share_fetch, share_groups
from ottla.protocol.messages.cluster import FindCoordinatorRequest
from ottla.protocol.messages.consumer_groups import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupHeartbeatRequest,
)
from ottla.protocol.messages.groups import (
    DeleteGroupsRequest,
    DescribeGroupsRequest,
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    ListGroupsRequest,
)
from ottla.protocol.messages.share_groups import ShareGroupDescribeRequest, ShareGroupHeartbeatRequest
from ottla.testing import Broker

pytestmark = pytest.mark.timeout(300)

NONE = ErrorCode.NONE


class Client:
    """A connection that sends requests unchanged."""

    def __init__(self, broker: Broker) -> None:
        host, port = broker.bootstrap_servers.split(":")
        self._socket = socket.create_connection((host, int(port)), timeout=20)

    def __call__(self, request: Request, version: int | None = None) -> Any:
        version = type(request).versions[1] if version is None else version
        tags = b"\0" if request.header_version(version) == 2 else b""
        frame = struct.pack(">hhih", request.api_key, version, 1, 1) + b"c" + tags + request.encode(version)
        self._socket.sendall(struct.pack(">i", len(frame)) + frame)
        [size] = struct.unpack(">i", self._read(4))
        answer = response_type(request.api_key)
        return answer.decode(self._read(size), version, 5 if answer.header_version(version) == 1 else 4)

    def _read(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            part = self._socket.recv(size - len(data))
            assert part
            data += part
        return data

    def close(self) -> None:
        self._socket.close()


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker() as broker:
        broker.create_topic("t", partitions=2)
        yield broker


@pytest.fixture
def client(broker: Broker) -> Iterator[Client]:
    client = Client(broker)
    client(FindCoordinatorRequest(key_type=0, coordinator_keys=["g"]))
    yield client
    client.close()


JOIN = {
    "member_id": "m",
    "member_epoch": 0,
    "rebalance_timeout_ms": 1000,
    "subscribed_topic_names": ["t"],
    "topic_partitions": [],
}


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"member_id": ""}, 42, "MemberId can't be empty."),
        ({"group_id": ""}, 42, "GroupId can't be empty."),
        ({"rebalance_timeout_ms": -1}, 42, "RebalanceTimeoutMs must be provided in first request."),
        ({"topic_partitions": None}, 42, "TopicPartitions must be empty when (re-)joining."),
        (
            {"subscribed_topic_names": None},
            42,
            "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining.",
        ),
        ({"member_epoch": -3}, 42, "MemberEpoch is invalid."),
        ({"member_epoch": -2}, 42, "InstanceId can't be null."),
        ({"instance_id": ""}, 42, "InstanceId can't be empty."),
        ({"rack_id": ""}, 42, "RackId can't be empty."),
        (
            {"server_assignor": "x"},
            112,
            "ServerAssignor x is not supported. Supported assignors: uniform, range.",
        ),
        ({"member_epoch": 1}, 69, "Consumer group g not found."),
        ({"member_epoch": -1}, 69, "Group g not found."),
    ],
)
def test_heartbeats_that_kafka_refuses(
    client: Client, change: dict[str, Any], error: int, message: str
) -> None:
    answer = client(ConsumerGroupHeartbeatRequest(**{"group_id": "g", **JOIN, **change}))
    assert (answer.error_code, answer.error_message) == (error, message)


def test_a_pattern_matches_internal_topics_too(client: Client) -> None:
    """Clients that want to exclude internal topics filter them on their side."""
    first = client(
        ConsumerGroupHeartbeatRequest(
            **{
                **JOIN,
                "group_id": "g",
                "subscribed_topic_names": None,
                "subscribed_topic_regex": "t|__cons.*",
            }
        )
    )
    assert first.error_code == NONE
    assert sorted(len(topic.partitions) for topic in first.assignment.topic_partitions) == [2, 5]


def test_a_consumer_group_through_its_apis(client: Client) -> None:
    first = client(ConsumerGroupHeartbeatRequest(**{**JOIN, "group_id": "g", "member_id": ""}), 0)
    assert (first.error_code, first.member_epoch, len(first.member_id)) == (NONE, 2, 22)
    [topic] = first.assignment.topic_partitions
    assert topic.partitions == [0, 1]
    found, missing = client(ConsumerGroupDescribeRequest(group_ids=["g", "nope"])).groups
    assert (found.group_state, found.group_epoch, found.assignment_epoch, found.assignor_name) == (
        "Stable",
        2,
        2,
        "uniform",
    )
    [member] = found.members
    assert (member.member_epoch, member.subscribed_topic_regex, member.member_type) == (2, "", 1)
    assert member.assignment.topic_partitions[0].topic_name == "t"
    assert (missing.error_code, missing.error_message) == (69, "Group nope not found.")
    [listed] = client(ListGroupsRequest(types_filter=["consumer"])).groups
    assert (listed.protocol_type, listed.group_state, listed.group_type) == ("consumer", "Stable", "consumer")
    assert client(ListGroupsRequest(types_filter=["classic"])).groups == []
    [described] = client(DescribeGroupsRequest(groups=["g"])).groups
    assert (described.error_code, described.error_message) == (69, "Group g is not a classic group.")
    other = JoinGroupRequestProtocol(name="x", metadata=b"")
    join = JoinGroupRequest(
        group_id="g",
        protocol_type="connect",
        session_timeout_ms=10_000,
        rebalance_timeout_ms=10_000,
        protocols=[other],
    )
    assert client(join).error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL


# Share groups


class Share:
    """A share group member that sends each request explicitly."""

    def __init__(self, client: Client) -> None:
        self.client = client
        answer = client(
            ShareGroupHeartbeatRequest(
                group_id="g", member_id="m", member_epoch=0, subscribed_topic_names=["t"]
            )
        )
        assert (answer.error_code, answer.member_epoch) == (NONE, 2)
        assert answer.assignment.topic_partitions == []
        while answer.assignment is None or not answer.assignment.topic_partitions:
            epoch = answer.member_epoch
            answer = client(ShareGroupHeartbeatRequest(group_id="g", member_id="m", member_epoch=epoch))
            assert answer.error_code == NONE
        self.topic_id = answer.assignment.topic_partitions[0].topic_id
        self.epoch = 0

    def fetch(self, acks: Any = (), **fields: Any) -> Any:
        batches = [
            share_fetch.AcknowledgementBatch(first_offset=f, last_offset=last, acknowledge_types=types)
            for f, last, types in acks
        ]
        partitions = [
            share_fetch.FetchPartition(partition_index=0, acknowledgement_batches=batches),
        ]
        topics = [share_fetch.FetchTopic(topic_id=self.topic_id, partitions=partitions)]
        request = {
            "group_id": "g",
            "member_id": "m",
            "share_session_epoch": self.epoch,
            "max_wait_ms": 100,
            "min_bytes": 1,
            "max_records": 500,
            "batch_size": 500,
            "topics": topics if acks or self.epoch == 0 else [],
            **fields,
        }
        answer = self.client(share_fetch.ShareFetchRequest(**request))
        self.epoch += 1
        return answer

    def acquired(self, acks: Any = (), **fields: Any) -> list[tuple[int, int, int]]:
        answer = self.fetch(acks, **fields)
        assert answer.error_code == NONE
        return [
            (a.first_offset, a.last_offset, a.delivery_count)
            for topic in answer.responses
            for partition in topic.partitions
            for a in partition.acquired_records
        ]

    def acknowledge(self, *acks: tuple[int, int, list[int]]) -> int:
        batches = [
            share_fetch.AcknowledgementBatch(first_offset=f, last_offset=last, acknowledge_types=types)
            for f, last, types in acks
        ]
        partition = share_fetch.AcknowledgePartition(partition_index=0, acknowledgement_batches=batches)
        answer = self.client(
            share_fetch.ShareAcknowledgeRequest(
                group_id="g",
                member_id="m",
                share_session_epoch=self.epoch,
                topics=[share_fetch.AcknowledgeTopic(topic_id=self.topic_id, partitions=[partition])],
            )
        )
        self.epoch += 1
        assert (answer.error_code, answer.acquisition_lock_timeout_ms) == (NONE, 30_000)
        code: int = answer.responses[0].partitions[0].error_code
        return code

    def offsets(self) -> list[tuple[int, int, int]]:
        [group] = self.client(
            share_groups.DescribeShareGroupOffsetsRequest(
                groups=[share_groups.DescribeShareGroupOffsetsRequestGroup(group_id="g", topics=None)]
            )
        ).groups
        return [(p.partition_index, p.start_offset, p.lag) for t in group.topics for p in t.partitions]


def test_share_heartbeats_that_kafka_refuses(client: Client) -> None:
    def error(**fields: Any) -> tuple[int, str | None]:
        answer = client(ShareGroupHeartbeatRequest(**{"group_id": "g", "member_id": "m", **fields}))
        return answer.error_code, answer.error_message

    assert error(member_id="", member_epoch=0)[0] == 42
    for topics in (None, []):
        refused = error(member_epoch=0, subscribed_topic_names=topics)
        assert refused == (42, "SubscribedTopicNames must be set in first request.")
    assert error(member_epoch=3) == (69, "Share group g not found.")
    assert error(member_epoch=-2) == (42, "MemberEpoch is invalid.")


def test_a_share_session_from_its_opening_to_its_end(broker: Broker, client: Client) -> None:
    share = Share(client)
    assert share.fetch(share_session_epoch=5).error_code == ErrorCode.SHARE_SESSION_NOT_FOUND
    share.epoch = 0
    opened = share.fetch()
    assert (opened.acquisition_lock_timeout_ms, opened.responses) == (30_000, [])
    for number in range(5):
        broker.produce("t", str(number).encode())
    taken = share.acquired()
    assert (taken[0][0], taken[-1][1], {count for *_, count in taken}) == (0, 4, {1})
    assert share.fetch().responses == [], "nothing is free, so there is no news"
    # One response acknowledges records and redelivers the released ones.
    assert share.acquired([(0, 1, [1]), (2, 2, [2]), (3, 3, [3])]) == [(2, 2, 2)]
    assert share.offsets() == [(0, 0, 2), (1, -1, -1)]
    assert share.acknowledge((0, 0, [1])) == NONE, "done already"
    assert share.acknowledge((2, 2, [1]), (4, 4, [2])) == NONE
    assert share.offsets()[0] == (0, 2, 1)
    stale = share.fetch(share_session_epoch=2)
    assert stale.error_code == ErrorCode.INVALID_SHARE_SESSION_EPOCH
    share.epoch -= 1
    for deliveries in (2, 3, 4, 5):
        assert share.acquired() == [(4, 4, deliveries)]
        assert share.acknowledge((4, 4, [2])) == NONE
    assert share.acquired() == [], "five deliveries are enough"
    for number in range(3):
        broker.produce("t", str(number).encode())
    share.acquired()
    assert share.acknowledge((5, 5, [9])) == ErrorCode.INVALID_REQUEST
    assert share.acknowledge((6, 6, [1]), (5, 5, [1])) == ErrorCode.INVALID_REQUEST
    assert share.acknowledge((5, 7, [1, 1])) == ErrorCode.INVALID_REQUEST
    assert share.acknowledge((5, 7, [4])) == NONE, "renewed"
    assert share.acknowledge((5, 7, [1, 0, 2])) == NONE
    assert share.offsets()[0] == (0, 5, 1)
    assert share.fetch(share_session_epoch=-1, max_records=0).error_code == NONE
    assert share.fetch().error_code == ErrorCode.SHARE_SESSION_NOT_FOUND


def test_a_share_group_has_limits_of_its_own(broker: Broker, client: Client) -> None:
    limits = {"share.delivery.count.limit": "2", "share.partition.max.record.locks": "100"}
    configure(client, **limits)
    share = Share(client)
    share.fetch()
    for _ in range(120):
        broker.produce("t", b"x")
    taken = share.acquired()
    assert sum(last - first + 1 for first, last, _ in taken) == 100, "no more is locked at once"
    configure(client, **limits, **{"share.renew.acknowledge.enable": "false"})
    assert share.acknowledge((0, 0, [4])) == ErrorCode.INVALID_RECORD_STATE, "not to be renewed"
    assert share.acknowledge((0, 99, [2])) == NONE
    assert {count for *_, count in share.acquired()} == {2}
    assert share.acknowledge((0, 99, [2])) == NONE
    assert share.acquired()[0][0] == 100, "two deliveries are enough"
    configure(client, **{"share.record.lock.duration.ms": "20000"})
    assert share.fetch(min_bytes=0).acquisition_lock_timeout_ms == 20_000


def configure(client: Client, **configs: str) -> None:
    entries = [config_messages.AlterableConfig(name=name, value=value) for name, value in configs.items()]
    resource = config_messages.AlterConfigsResource(resource_type=32, resource_name="g", configs=entries)
    [answer] = client(config_messages.AlterConfigsRequest(resources=[resource])).responses
    assert (answer.error_code, answer.error_message) == (NONE, None)


def test_a_share_fetch_of_no_bytes_gets_nothing_at_once(broker: Broker, client: Client) -> None:
    share = Share(client)
    share.fetch()
    broker.produce("t", b"x")
    answer = share.fetch(max_bytes=0, max_wait_ms=60_000)
    assert (answer.error_code, answer.responses) == (NONE, [])
    assert share.acquired(max_bytes=1) == [(0, 0, 1)], "the first batch always comes whole"


def test_who_has_left_a_share_group_may_still_say_what_came_of_its_records(
    broker: Broker, client: Client
) -> None:
    share = Share(client)
    share.fetch()
    broker.produce("t", b"x")
    assert share.acquired() == [(0, 0, 1)]
    left = client(ShareGroupHeartbeatRequest(group_id="g", member_id="m", member_epoch=-1))
    assert (left.error_code, left.member_epoch) == (NONE, -1)
    share.epoch = -1
    assert share.acknowledge((0, 0, [1])) == NONE
    assert share.offsets()[0][2] == 0, "nothing is left to deliver"


def test_locks_go_with_the_connection(broker: Broker, client: Client) -> None:
    other = Client(broker)
    first = Share(other)
    first.fetch()
    broker.produce("t", b"x")
    assert first.acquired() == [(0, 0, 1)]
    other.close()
    share = Share.__new__(Share)
    share.client, share.topic_id, share.epoch = client, first.topic_id, 0
    assert share.acquired(member_id="n", max_wait_ms=5_000) == [(0, 0, 2)]


def test_share_groups_are_administered(client: Client) -> None:
    share = Share(client)
    [found, missing] = client(ShareGroupDescribeRequest(group_ids=["g", "nope"])).groups
    assert (found.group_state, found.assignor_name, len(found.members)) == ("Stable", "simple", 1)
    assert (missing.error_code, missing.error_message) == (69, "Group nope not found.")
    [listed] = client(ListGroupsRequest(types_filter=["share"])).groups
    assert (listed.protocol_type, listed.group_type) == ("share", "share")
    part = share_groups.AlterShareGroupOffsetsRequestPartition(partition_index=0, start_offset=0)
    change = share_groups.AlterShareGroupOffsetsRequest(
        group_id="g",
        topics=[
            share_groups.AlterShareGroupOffsetsRequestTopic(topic_name=name, partitions=[part])
            for name in ("t", "nope")
        ],
    )
    forget = share_groups.DeleteShareGroupOffsetsRequest(
        group_id="g", topics=[share_groups.DeleteShareGroupOffsetsRequestTopic(topic_name="t")]
    )
    refused = (ErrorCode.NON_EMPTY_GROUP, "The group is not empty.")
    for request in (change, forget):
        answer = client(request)
        assert (answer.error_code, answer.error_message) == refused
    assert client(DeleteGroupsRequest(groups_names=["g"])).results[0].error_code == refused[0]
    client(ShareGroupHeartbeatRequest(group_id="g", member_id="m", member_epoch=-1))
    answer = client(change)
    assert [t.partitions[0].error_code for t in answer.responses] == [
        NONE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ]
    assert share.offsets() == [(0, 0, 0), (1, -1, -1)]
    assert client(forget).responses[0].error_code == NONE
    assert share.offsets() == []
    [again] = client(forget).responses
    assert (again.error_code, again.error_message) == (3, "There is no offset information to delete.")
    assert client(DeleteGroupsRequest(groups_names=["g"])).results[0].error_code == NONE
    assert client(ListGroupsRequest()).groups == []


def test_a_share_group_that_is_not_there_stands_nowhere(client: Client) -> None:
    wanted = share_groups.DescribeShareGroupOffsetsRequestTopic(topic_name="t", partitions=[0])
    groups = [
        share_groups.DescribeShareGroupOffsetsRequestGroup(group_id="nope", topics=topics)
        for topics in (None, [wanted])
    ]
    everything, named = client(share_groups.DescribeShareGroupOffsetsRequest(groups=groups)).groups
    assert (everything.error_code, everything.topics) == (NONE, [])
    [partition] = named.topics[0].partitions
    assert (named.error_code, partition.error_code, partition.start_offset) == (NONE, NONE, -1)


def test_the_start_of_a_share_group_is_set_before_anybody_joins(client: Client) -> None:
    part = share_groups.AlterShareGroupOffsetsRequestPartition(partition_index=0, start_offset=0)
    topic = share_groups.AlterShareGroupOffsetsRequestTopic(topic_name="t", partitions=[part])
    answer = client(share_groups.AlterShareGroupOffsetsRequest(group_id="g", topics=[topic]))
    assert (answer.error_code, answer.responses[0].partitions[0].error_code) == (NONE, NONE)
    [group] = client(ShareGroupDescribeRequest(group_ids=["g"])).groups
    assert (group.error_code, group.group_state) == (NONE, "Empty")
    asked = share_groups.DescribeShareGroupOffsetsRequestGroup(group_id="g", topics=None)
    [group] = client(share_groups.DescribeShareGroupOffsetsRequest(groups=[asked])).groups
    [partition] = group.topics[0].partitions
    assert (partition.partition_index, partition.start_offset, partition.lag) == (0, 0, 0)


def test_a_share_key_has_a_coordinator(client: Client) -> None:
    topic_id = base64.urlsafe_b64encode(bytes(16)).decode().rstrip("=")
    found = client(FindCoordinatorRequest(key_type=2, coordinator_keys=[f"g:{topic_id}:0", "g"])).coordinators
    assert [c.error_code for c in found] == [NONE, ErrorCode.INVALID_REQUEST]


def test_a_group_is_of_one_kind(client: Client) -> None:
    Share(client)
    heartbeat = client(ConsumerGroupHeartbeatRequest(group_id="g", **JOIN))
    assert (heartbeat.error_code, heartbeat.error_message) == (69, "Group g is not a consumer group.")
    join = JoinGroupRequest(
        group_id="g",
        protocol_type="consumer",
        session_timeout_ms=10_000,
        rebalance_timeout_ms=10_000,
        protocols=[JoinGroupRequestProtocol(name="range", metadata=b"")],
    )
    assert client(join).error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
