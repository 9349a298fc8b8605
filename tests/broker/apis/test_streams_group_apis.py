"""The streams group APIs (KIP-1071) over sockets. The expected values are Apache Kafka 4.3.0's responses."""

from __future__ import annotations

import uuid
from typing import Any

import pytest

from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages import configs
from ottla.protocol.messages.cluster import MetadataRequest
from ottla.protocol.messages.groups import JoinGroupRequest, JoinGroupRequestProtocol, LeaveGroupRequest
from ottla.protocol.messages.groups import MemberIdentity as Leaving
from ottla.protocol.messages.streams_groups import (
    Endpoint,
    StreamsGroupDescribeRequest,
    StreamsGroupHeartbeatRequest,
    Subtopology,
    TopicInfo,
    Topology,
)
from ottla.testing import Broker
from tests.broker.apis.streams_wire import WRONG_JOINS, StreamsWire, life_of_a_group, until
from tests.wire_client import WireClient


@pytest.fixture
def wire(client: WireClient) -> StreamsWire:
    name = uuid.uuid4().hex[:8]
    return StreamsWire(client, f"g-{name}", f"in-{name}")


def topics(client: WireClient) -> set[str]:
    answer: Any = client.call(MetadataRequest(topics=None))
    return {topic.name for topic in answer.topics}


def test_the_life_of_a_group(broker: Broker, client: WireClient, wire: StreamsWire) -> None:
    life_of_a_group(wire, lambda: broker.create_topic(wire.source, 2), lambda: topics(client))


@pytest.mark.parametrize(("change", "message"), WRONG_JOINS)
def test_a_request_that_is_wrong_by_itself_is_refused(
    wire: StreamsWire, change: dict[str, Any], message: str
) -> None:
    change = dict(change)
    assert wire.join(change.pop("member_id", "m1"), **change) == ("INVALID_REQUEST", message)


def test_internal_topics_have_the_configs_that_the_application_wants(
    broker: Broker, client: WireClient, wire: StreamsWire
) -> None:
    broker.create_topic(wire.source, 3)
    wire.join("m1")
    changelog = f"{wire.group}-changelog"
    until(lambda: changelog in topics(client))
    resource = configs.DescribeConfigsResource(
        resource_type=2, resource_name=changelog, configuration_keys=["cleanup.policy"]
    )
    answer: Any = client.call(configs.DescribeConfigsRequest(resources=[resource]))
    assert [entry.value for entry in answer.results[0].configs] == ["compact"]


def test_why_an_internal_topic_cannot_be_created_is_said_with_a_later_heartbeat(
    broker: Broker, wire: StreamsWire
) -> None:
    broker.create_topic(wire.source, 1)
    name = f"{wire.group}-changelog"
    subtopology = Subtopology(
        subtopology_id="0",
        source_topics=[wire.source],
        state_changelog_topics=[TopicInfo(name=name, replication_factor=3)],
    )
    missing = f"Internal topics are missing: {name}"
    assert wire.join("m1", topology=Topology(subtopologies=[subtopology])) == (2, [(3, missing)], {})

    def said() -> str:
        _, [(code, detail)], _ = wire.heartbeat("m1", 2)
        assert code == 3
        return str(detail)

    until(lambda: said() != missing)
    assert said().startswith(
        f"{missing}; Creation failed: {name} (Unable to replicate the partition 3 time(s)"
    )


def test_an_empty_classic_group_becomes_a_streams_group_and_back_and_keeps_its_offsets(
    broker: Broker, client: WireClient, wire: StreamsWire
) -> None:
    broker.create_topic(wire.source, 1)
    request = JoinGroupRequest(
        group_id=wire.group,
        session_timeout_ms=10_000,
        rebalance_timeout_ms=10_000,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=b"\0\0\0\0\0\0\xff\xff\xff\xff")],
    )

    def join_as_classic() -> str:
        request.member_id = ""
        answer: Any = client.call(request)
        request.member_id = answer.member_id
        answer = client.call(request)
        return ErrorCode(answer.error_code).name

    assert wire.commit("", -1) == "NONE"
    assert wire.join("m1")[0] == 2
    assert wire.committed(None, -1) == 3
    assert join_as_classic() == "INCONSISTENT_GROUP_PROTOCOL"
    wire.heartbeat("m1", -1)
    assert join_as_classic() == "NONE"
    assert wire.join("m1") == ("GROUP_ID_NOT_FOUND", f"Group {wire.group} is not a streams group.")
    client.call(LeaveGroupRequest(group_id=wire.group, members=[Leaving(member_id=request.member_id)]))
    assert wire.join("m1")[0] == 2
    assert wire.committed(None, -1) == 3


def test_standbys_and_endpoints_are_answered(broker: Broker, client: WireClient, wire: StreamsWire) -> None:
    for name in (wire.source, f"{wire.group}-repartition", f"{wire.group}-changelog"):
        broker.create_topic(name, 2)
    setting = configs.IncrementalConfig(name="streams.num.standby.replicas", config_operation=0, value="1")
    resource = configs.IncrementalConfigsResource(
        resource_type=32, resource_name=wire.group, configs=[setting]
    )
    altered: Any = client.call(configs.IncrementalAlterConfigsRequest(resources=[resource]))
    assert altered.responses[0].error_code == 0
    wire.join("m1", user_endpoint=Endpoint(host="a", port=1))
    joined = wire.join("m2", user_endpoint=Endpoint(host="b", port=2), endpoint_information_epoch=-1)
    assert joined == (3, [], {})
    request = StreamsGroupHeartbeatRequest(
        group_id=wire.group, member_id="m2", member_epoch=3, endpoint_information_epoch=-1
    )
    answer: Any = client.call(request)
    assert answer.endpoint_information_epoch == 1
    by_host = {one.user_endpoint.host: one for one in answer.partitions_by_user_endpoint}
    repartition = f"{wire.group}-repartition"
    assert {p.topic: p.partitions for p in by_host["a"].active_partitions} == {
        repartition: [0, 1],
        wire.source: [0, 1],
    }
    assert [(p.topic, p.partitions) for p in by_host["b"].standby_partitions] == [(repartition, [0])]
    described = {member.member_id: member for member in wire.describe().members}
    second = described["m2"]
    assert (second.user_endpoint.host, second.process_id, second.is_classic) == ("b", "p-m2", False)
    assert [(part.subtopology_id, part.partitions) for part in second.assignment.standby_tasks] == [
        ("1", [0])
    ]
    assert [part.partitions for part in second.target_assignment.active_tasks] == [[1], [1]]


def test_every_group_that_is_asked_for_is_described(client: WireClient, wire: StreamsWire) -> None:
    wire.join("m1")
    request = StreamsGroupDescribeRequest(
        group_ids=[wire.group, "nowhere"], include_authorized_operations=True
    )
    answer: Any = client.call(request)
    found, missing = answer.groups
    assert (found.error_code, found.authorized_operations > 0) == (0, True)
    assert (ErrorCode(missing.error_code), missing.topology) == (ErrorCode.GROUP_ID_NOT_FOUND, None)


def test_a_group_survives_a_restart(tmp_path: Any) -> None:
    """The restart keeps the epochs, the tasks and the pending revocations."""
    broker = Broker(data=tmp_path)
    with broker, WireClient(broker.bootstrap_servers) as client:
        wire = StreamsWire(client, "g", "in")
        for name in ("in", "g-repartition", "g-changelog"):
            broker.create_topic(name, 2)
        wire.join("m1")
        wire.join("m2")
        wire.heartbeat("m1", 2)
    with broker, WireClient(broker.bootstrap_servers) as client:
        wire = StreamsWire(client, "g", "in")
        assert wire.summary() == ("Reconciling", 3, 3, {"m1": 2, "m2": 3})
        assert wire.heartbeat("m1", 2, {"0": [0], "1": [0]}) == (3, [], None)
        assert wire.heartbeat("m2", 3) == (3, [], {"0": [1], "1": [1]})
