"""Topology descriptions of streams groups (KIP-1331), with the errors and messages of Apache Kafka 4.4."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.streams_groups import (
    StreamsGroupDescribeRequest,
    StreamsGroupHeartbeatRequest,
    StreamsGroupTopologyDescriptionUpdateRequest,
    TaskOffset,
    TopologyDescription,
    TopologyDescriptionGlobalStore,
    TopologyDescriptionNode,
    TopologyDescriptionSubtopology,
)
from ottla.testing import Broker
from tests.broker.apis.streams_wire import word_count
from tests.wire_client import WireClient

PLUGIN_CLASS = "org.apache.kafka.server.streams.InMemoryTopologyDescriptionPlugin"
PLUGIN = {
    "group.streams.topology.description.plugin.class": PLUGIN_CLASS,
    "group.streams.initial.rebalance.delay.ms": "0",
}
NOT_REQUESTED, NOT_STORED, AVAILABLE = 0, 1, 3
SOURCE = TopologyDescriptionNode(name="source", node_type=1, source_topics=["in"], successors=["sink"])
SINK = TopologyDescriptionNode(name="sink", node_type=3, sink_topic="out")
GLOBAL = TopologyDescriptionGlobalStore(
    source=TopologyDescriptionNode(name="all", node_type=1, source_topics=["in"], successors=["keeps"]),
    processor=TopologyDescriptionNode(name="keeps", node_type=2, stores=["table"]),
)
DESCRIPTION = TopologyDescription(
    subtopologies=[TopologyDescriptionSubtopology(subtopology_id="0", nodes=[SOURCE, SINK])],
    global_stores=[GLOBAL],
)


@pytest.fixture
def client() -> Iterator[WireClient]:
    with Broker(config=PLUGIN) as broker, WireClient(broker.bootstrap_servers) as client:
        prepare(broker)
        yield client


def prepare(broker: Broker) -> None:
    broker.create_topic("in", 2)
    broker.ensure_internal_topic("__consumer_offsets")


def join(client: WireClient, member: str = "m", version: int = 1) -> Any:
    request = StreamsGroupHeartbeatRequest(
        group_id="g",
        member_id=member,
        member_epoch=0,
        rebalance_timeout_ms=60_000,
        process_id="p",
        client_tags=[],
        topology=word_count("g", "in", epoch=1),
        active_tasks=[],
        standby_tasks=[],
        warmup_tasks=[],
    )
    answer = client.call(request, version)
    assert not answer.error_code, answer.error_message
    return answer


def update(
    client: WireClient, group: str = "g", member: str = "m", epoch: int = 1
) -> tuple[ErrorCode, str | None]:
    request = StreamsGroupTopologyDescriptionUpdateRequest(
        group_id=group, member_id=member, topology_epoch=epoch, topology_description=DESCRIPTION
    )
    answer: Any = client.call(request, 0)
    return ErrorCode(answer.error_code), answer.error_message


def describe(client: WireClient, *, included: bool = True) -> Any:
    request = StreamsGroupDescribeRequest(group_ids=["g"], include_topology_description=included)
    [group] = client.call(request, 1).groups
    return group


def test_a_member_is_asked_for_the_description_until_one_is_there(client: WireClient) -> None:
    joined = join(client)
    assert joined.topology_description_required
    assert (joined.task_offset_interval_ms, joined.acceptable_recovery_lag) == (60_000, 10_000)
    assert not join(client, "n").topology_description_required, "one member at a time is enough"
    assert describe(client).topology_description_status == NOT_STORED
    assert update(client) == (ErrorCode.NONE, None)
    shown = describe(client)
    assert shown.topology_description_status == AVAILABLE
    assert shown.topology_description == DESCRIPTION
    assert shown.assignor_name == "sticky"
    hidden = describe(client, included=False)
    assert (hidden.topology_description_status, hidden.topology_description) == (NOT_REQUESTED, None)


def test_old_members_are_not_asked(client: WireClient) -> None:
    join(client, version=0)
    assert join(client, "n").topology_description_required


@pytest.mark.parametrize(
    ("wrong", "error"),
    [
        ({"group": ""}, (ErrorCode.INVALID_REQUEST, "GroupId can't be empty.")),
        ({"member": ""}, (ErrorCode.INVALID_REQUEST, "MemberId can't be empty.")),
        ({"group": "nowhere"}, (ErrorCode.GROUP_ID_NOT_FOUND, None)),
        ({"member": "stranger"}, (ErrorCode.UNKNOWN_MEMBER_ID, None)),
        (
            {"epoch": 42},
            (
                ErrorCode.INVALID_REQUEST,
                "Topology epoch 42 does not match the group's current topology epoch 1.",
            ),
        ),
    ],
)
def test_a_description_that_fits_no_group_is_refused(
    client: WireClient, wrong: dict[str, Any], error: tuple[ErrorCode, str | None]
) -> None:
    join(client)
    code, message = update(client, **wrong)
    assert code == error[0]
    assert error[1] in (None, message)


def test_without_the_setting_nobody_is_asked() -> None:
    with Broker() as broker, WireClient(broker.bootstrap_servers) as client:
        prepare(broker)
        assert not join(client).topology_description_required
        assert update(client) == (
            ErrorCode.UNSUPPORTED_VERSION,
            "The broker has no streams group topology description plugin configured.",
        )
        assert describe(client).topology_description_status == NOT_STORED


def test_task_offsets_are_taken_since_version_1(client: WireClient) -> None:
    epoch = join(client).member_epoch
    request = StreamsGroupHeartbeatRequest(
        group_id="g",
        member_id="m",
        member_epoch=epoch,
        task_offsets=[TaskOffset(subtopology_id="0", partition=0, offset=7)],
    )
    assert client.call(request, 1).error_code == ErrorCode.NONE
    assert client.call(request, 0).error_code == ErrorCode.INVALID_REQUEST
