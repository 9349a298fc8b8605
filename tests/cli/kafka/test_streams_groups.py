"""kafka-streams-groups, compared with the tables that Apache Kafka 4.3.0 prints."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from ottla.testing import Broker
from tests.broker.apis.streams_wire import StreamsWire
from tests.cli.kafka.conftest import Tools
from tests.wire_client import WireClient


@pytest.fixture
def wire(kafka_broker: Broker, unique: Callable[[str], str]) -> Iterator[StreamsWire]:
    """The first of two members has half of the tasks and the second waits for the rest. One offset is committed."""
    group = unique("s")
    with WireClient(kafka_broker.bootstrap_servers) as client:
        wire = StreamsWire(client, group, f"{group}-in")
        for name in (wire.source, f"{group}-repartition", f"{group}-changelog"):
            kafka_broker.create_topic(name, partitions=2)
        for number in range(5):
            kafka_broker.produce(wire.source, str(number).encode(), partition=0)
        wire.join("m1")
        wire.join("m2")
        wire.heartbeat("m1", 2)
        wire.commit("m1", 2)
        yield wire
        for member_id in ("m1", "m2"):
            wire.heartbeat(member_id, -1)
        wire.delete()


def test_groups_are_listed_with_their_state(tools: Tools, wire: StreamsWire) -> None:
    assert wire.group in tools("streams-groups", "--list").lines
    listed = [line.split() for line in tools("groups", "--list", "--streams").lines]
    assert [wire.group, "Streams", "streams"] in listed
    heading, *rows = [line.split() for line in tools("streams-groups", "--list", "--state").lines]
    assert heading == ["GROUP", "STATE"]
    assert [wire.group, "Reconciling"] in rows
    stable = tools("streams-groups", "--list", "--state", "Stable,Empty").lines
    assert [wire.group, "Reconciling"] not in [line.split() for line in stable]
    wrong = tools("streams-groups", "--list", "--state", "bogus", code=1)
    assert wrong.err.startswith(
        "Invalid state list 'bogus'. Valid states are: NotReady, Empty, Dead, Stable, Assigning, Reconciling"
    )


def test_groups_are_described(tools: Tools, wire: StreamsWire) -> None:
    describe = ("streams-groups", "--describe", "--group", wire.group)
    rows = [line.split() for line in tools(*describe).lines]
    assert rows == [
        ["GROUP", "TOPIC", "PARTITION", "OFFSET-LAG"],
        [wire.group, wire.source, "0", "2"],
        [wire.group, f"{wire.group}-repartition", "0", "0"],
    ]
    heading, first, _ = [line.split() for line in tools(*describe, "--offsets", "--verbose").lines]
    assert heading[3:] == ["CURRENT-OFFSET", "LEADER-EPOCH", "LOG-END-OFFSET", "OFFSET-LAG"]
    assert first[3:] == ["3", "-", "5", "2"]
    lines = tools(*describe, "--members").lines
    assert [line.split(maxsplit=4) for line in lines] == [
        ["GROUP", "MEMBER", "PROCESS", "CLIENT-ID", "ASSIGNMENTS"],
        [wire.group, "m1", "p-m1", "test", "ACTIVE: 0:[0]; 1:[0]; "],
        [wire.group, "m2", "p-m2", "test"],
    ]
    verbose = tools(*describe, "--members", "--verbose").lines
    assert verbose[0].split() == [
        "GROUP",
        "TARGET-ASSIGNMENT-EPOCH",
        "TOPOLOGY-EPOCH",
        "MEMBER",
        "MEMBER-PROTOCOL",
        "MEMBER-EPOCH",
        "PROCESS",
        "CLIENT-ID",
        "ASSIGNMENTS",
    ]
    assert verbose[2].split(maxsplit=8)[1:] == [
        "3", "0", "m2", "streams", "3", "p-m2", "test", "TARGET-ACTIVE: 0:[1]; 1:[1]; ",
    ]  # fmt: skip
    state = [line.split() for line in tools(*describe, "--state", "--verbose").lines]
    assert state[1][-4:] == ["Reconciling", "3", "3", "2"]


def test_a_group_without_members_is_deleted(tools: Tools, wire: StreamsWire) -> None:
    delete = ("streams-groups", "--delete", "--group", wire.group)
    refused = tools(*delete, code=1)
    assert refused.lines[-1] == (
        f"* Group '{wire.group}' could not be deleted due to: org.apache.kafka.common.errors.GroupNotEmptyException: "
        f"Streams group '{wire.group}' is not EMPTY."
    )
    wire.heartbeat("m1", -1)
    wire.heartbeat("m2", -1)
    describe = ("streams-groups", "--describe", "--group", wire.group)
    assert tools(*describe).out == ""
    assert (
        tools(*describe, "--state").lines[1] == f"Error: Streams group '{wire.group}' has no active members."
    )
    done = tools(*delete, "--delete-all-internal-topics")
    assert done.lines == [f"Deletion of requested streams groups ('{wire.group}') was successful."]
    left = tools("topics", "--list").lines
    assert wire.source in left
    assert f"{wire.group}-changelog" not in left
    assert tools(*delete, code=1).lines[-1] == (
        f"* Group '{wire.group}' could not be deleted due to: java.lang.IllegalArgumentException: Group "
        f"'{wire.group}' does not exist or is not a streams group."
    )


def test_offsets_are_deleted_once_nobody_reads_the_topic(tools: Tools, wire: StreamsWire) -> None:
    delete = (
        "streams-groups",
        "--delete-offsets",
        "--group",
        wire.group,
        "--input-topic",
        f"{wire.source}:0",
    )
    refused = tools(*delete, code=1)
    assert refused.lines[1] == "Error: Encountered some partition-level error, see the follow-up details."
    assert "GroupSubscribedToTopicException" in refused.out
    wire.heartbeat("m1", -1)
    wire.heartbeat("m2", -1)
    done = tools(*delete).lines
    assert done[0] == f"Request succeeded for deleting offsets from group {wire.group}."
    assert [line.split() for line in done[2:]] == [
        ["TOPIC", "PARTITION", "STATUS"],
        [wire.source, "0", "Successful"],
    ]
    assert wire.committed(None, -1) == -1
    wire.commit("", -1)
    every = ("streams-groups", "--delete-offsets", "--group", wire.group, "--all-input-topics")
    assert tools(*every).lines[-1].split() == [wire.source, "0", "Successful"]
    assert tools(*every[:-1], code=1).err.startswith(
        "Option [delete-offsets] takes the [group] and one of these "
    )


def test_an_application_that_runs_as_a_streams_group_is_not_reset(tools: Tools, wire: StreamsWire) -> None:
    reset = ("streams-application-reset", "--application-id", wire.group, "--force", "--internal-topics", "x")
    refused = tools(*reset, code=1)
    assert refused.err.startswith(f"ERROR: Streams group '{wire.group}' is still active and has following ")
    assert f"{wire.group}-changelog" in tools("topics", "--list").lines


def test_what_is_wrong_is_said(tools: Tools) -> None:
    assert tools("streams-groups", code=1).err.startswith(
        "Command must include exactly one action: --list, --describe, --delete, --reset-offsets, or --delete-offsets."
    )
    assert tools("streams-groups", "--describe", code=1).err.startswith(
        "Option [describe] takes one of these options: [all-groups], [group]"
    )
    assert tools("streams-groups", "--list", "--group", "g", code=1).err.startswith(
        'Option "[group]" can\'t be used with option "[list]"'
    )
    missing = tools("streams-groups", "--describe", "--group", "nobody", code=1)
    assert missing.out == (
        "\nError: Executing streams group command failed due to "
        "org.apache.kafka.common.errors.GroupIdNotFoundException: Group nobody not found.\n"
    )
