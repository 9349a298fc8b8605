"""Group configs on the wire. The expected values are Apache Kafka 4.3's responses."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest

from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.cluster import FindCoordinatorRequest
from ottla.protocol.messages.configs import ListConfigResourcesRequest
from ottla.protocol.messages.consumer_groups import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupHeartbeatRequest,
)
from ottla.protocol.messages.share_groups import ShareGroupHeartbeatRequest
from ottla.testing import Broker
from tests.broker.apis.test_config_apis import (
    APPEND,
    BROKER,
    DELETE,
    GROUP,
    SET,
    change,
    config,
    describe,
    replace,
)
from tests.wire_client import WireClient

pytestmark = pytest.mark.timeout(60)

BOUNDS = {"group.consumer.min.session.timeout.ms": "600", "group.consumer.min.heartbeat.interval.ms": "100"}


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker(config={**BOUNDS, "group.share.session.timeout.ms": "46000"}) as running:
        running.create_topic("t")
        yield running


@pytest.fixture
def client(broker: Broker) -> Iterator[WireClient]:
    with WireClient(broker.bootstrap_servers) as connected:
        connected.call(FindCoordinatorRequest(key_type=0, coordinator_keys=["g"]))
        yield connected


def listed(client: WireClient) -> list[str]:
    answer: Any = client.call(ListConfigResourcesRequest(resource_types=[GROUP]))
    return [each.resource_name for each in answer.config_resources]


def test_a_group_has_all_that_kafka_knows(client: WireClient) -> None:
    names = {each.name for each in describe(client, GROUP, "anything").configs}
    common = {"session.timeout.ms", "heartbeat.interval.ms", "assignment.interval.ms"}
    assert names == {
        *(f"{kind}.{name}" for kind in ("consumer", "share", "streams") for name in common),
        "errors.deadletterqueue.topic.name",
        "errors.deadletterqueue.copy.record.enable",
        "share.record.lock.duration.ms",
        "share.delivery.count.limit",
        "share.partition.max.record.locks",
        "share.auto.offset.reset",
        "share.isolation.level",
        "share.renew.acknowledge.enable",
        "streams.num.standby.replicas",
        "streams.initial.rebalance.delay.ms",
    }


def test_values_say_where_they_come_from(client: WireClient) -> None:
    key = "share.session.timeout.ms"
    found = config(client, GROUP, "shown", key, include_synonyms=True)
    assert (found.value, found.config_source, found.config_type) == ("46000", 4, 3)
    assert change(client, GROUP, "shown", (SET, key, " 50000 ")) == (0, None)
    found = config(client, GROUP, "shown", key, include_synonyms=True)
    assert (found.value, found.config_source, found.read_only) == ("50000", 8, False)
    assert [(each.name, each.value, each.source) for each in found.synonyms] == [
        (key, "50000", 8),
        (f"group.{key}", "46000", 4),
        (f"group.{key}", "45000", 5),
    ]
    found = config(client, GROUP, "shown", "share.isolation.level", include_synonyms=True)
    assert [(each.name, each.value, each.source) for each in found.synonyms] == [
        ("share.isolation.level", "read_uncommitted", 5)
    ]


def test_what_a_broker_changes_while_running_is_the_default_of_groups(client: WireClient) -> None:
    broker_key, key = "group.consumer.assignment.interval.ms", "consumer.assignment.interval.ms"
    assert change(client, BROKER, "", (SET, broker_key, "3000")) == (0, None)
    found = config(client, GROUP, "other", key)
    assert (found.value, found.config_source) == ("3000", 3)
    assert change(client, BROKER, "", (DELETE, broker_key, None)) == (0, None)


def test_only_groups_that_have_settings_are_listed(client: WireClient) -> None:
    assert "listed" not in listed(client)
    assert replace(client, GROUP, "listed", {"share.isolation.level": "read_committed"}) == (0, None)
    assert "listed" in listed(client)
    assert change(client, GROUP, "listed", (DELETE, "share.isolation.level", None)) == (0, None)
    assert "listed" not in listed(client)


@pytest.mark.parametrize(
    ("key", "value", "reason"),
    [
        ("nonsense", "1", "Unknown group config name: nonsense"),
        (
            "consumer.session.timeout.ms",
            "60001",
            "consumer.session.timeout.ms must be less than or equal to group.consumer.max.session.timeout.ms",
        ),
        (
            "share.heartbeat.interval.ms",
            "4999",
            "share.heartbeat.interval.ms must be greater than or equal to group.share.min.heartbeat.interval.ms",
        ),
        (
            "share.delivery.count.limit",
            "1",
            "Invalid value 1 for configuration share.delivery.count.limit: Value must be at least 2",
        ),
        (
            "share.partition.max.record.locks",
            "4001",
            "share.partition.max.record.locks must be less than or equal to "
            "group.share.max.partition.max.record.locks",
        ),
        (
            "share.auto.offset.reset",
            "none",
            "Invalid value none for configuration share.auto.offset.reset: Invalid value `none` for configuration "
            "share.auto.offset.reset. The value must be either 'earliest', 'latest' or of the format "
            "'by_duration:<PnDTnHnMn.nS>'.",
        ),
        (
            "share.renew.acknowledge.enable",
            "x",
            "Invalid value x for configuration share.renew.acknowledge.enable: "
            "Expected value to be either true or false",
        ),
        (
            "streams.num.standby.replicas",
            "3",
            "streams.num.standby.replicas must be less than or equal to group.streams.max.standby.replicas",
        ),
    ],
)
def test_what_a_group_may_not_set(client: WireClient, key: str, value: str, reason: str) -> None:
    assert change(client, GROUP, "g", (SET, key, value)) == (ErrorCode.INVALID_CONFIG, reason)
    assert replace(client, GROUP, "g", {key: value}) == (ErrorCode.INVALID_CONFIG, reason)


def test_a_session_is_longer_than_the_time_between_heartbeats(client: WireClient) -> None:
    session, heartbeat = "consumer.session.timeout.ms", "consumer.heartbeat.interval.ms"
    reason = f"{session} must be greater than {heartbeat}"
    code = ErrorCode.INVALID_CONFIG
    assert change(client, GROUP, "g", (SET, session, "700"), (SET, heartbeat, "700")) == (code, reason)
    assert change(client, GROUP, "g", (SET, session, "5000"), (SET, heartbeat, "5001")) == (code, reason)


def test_a_group_has_a_name_and_no_lists(client: WireClient) -> None:
    refused = describe(client, GROUP, "")
    assert (refused.error_code, refused.error_message) == (
        ErrorCode.INVALID_REQUEST,
        "Group name must not be empty",
    )
    key = "share.isolation.level"
    assert change(client, GROUP, "", (SET, key, "read_committed")) == (
        ErrorCode.INVALID_REQUEST,
        "Default group resources are not allowed.",
    )
    assert change(client, GROUP, "g", (APPEND, key, "read_committed")) == (
        ErrorCode.INVALID_CONFIG,
        f"Can't APPEND to key {key} because its type is not LIST.",
    )
    assert change(client, GROUP, "g", (DELETE, "nonsense", None)) == (0, None)


# Effect of the configs


def heartbeat(client: WireClient, group_id: str, **fields: Any) -> Any:
    joining = {
        "member_epoch": 0,
        "rebalance_timeout_ms": 1000,
        "subscribed_topic_names": ["t"],
        "topic_partitions": [],
    }
    answer: Any = client.call(
        ConsumerGroupHeartbeatRequest(group_id=group_id, member_id="m", **(fields or joining))
    )
    assert answer.error_code == ErrorCode.NONE
    return answer


def test_members_of_a_living_group_are_told_of_a_new_heartbeat_interval(client: WireClient) -> None:
    epoch = heartbeat(client, "living").member_epoch
    assert change(client, GROUP, "living", (SET, "consumer.heartbeat.interval.ms", "7777")) == (0, None)
    assert heartbeat(client, "living", member_epoch=epoch).heartbeat_interval_ms == 7777
    assert change(client, GROUP, "living", (DELETE, "consumer.heartbeat.interval.ms", None)) == (0, None)
    assert heartbeat(client, "living", member_epoch=epoch).heartbeat_interval_ms == 500

    assert change(client, GROUP, "shared", (SET, "share.heartbeat.interval.ms", "8888")) == (0, None)
    answer: Any = client.call(
        ShareGroupHeartbeatRequest(
            group_id="shared", member_id="m", member_epoch=0, subscribed_topic_names=["nosuch"]
        )
    )
    # If the topic existed, the interval would be shorter until the member has its assignment.
    assert answer.heartbeat_interval_ms == 8888


def test_a_member_that_is_silent_for_the_groups_own_session_timeout_is_gone(client: WireClient) -> None:
    def members() -> int:
        answer: Any = client.call(ConsumerGroupDescribeRequest(group_ids=["impatient", "patient"]))
        impatient, patient = answer.groups
        assert len(patient.members) == 1, "the broker's own session timeout is 45 seconds"
        return len(impatient.members)

    changes = [(SET, "consumer.session.timeout.ms", "700"), (SET, "consumer.heartbeat.interval.ms", "200")]
    assert change(client, GROUP, "impatient", *changes) == (0, None)
    heartbeat(client, "patient")
    heartbeat(client, "impatient")
    deadline = time.monotonic() + 20
    while members():
        assert time.monotonic() < deadline
        time.sleep(0.1)
