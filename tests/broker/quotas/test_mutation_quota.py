"""The controller mutation quota (KIP-599), with the behaviour of Apache Kafka 4.3."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest

from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.cluster import ApiVersionsRequest, MetadataRequest, MetadataRequestTopic
from ottla.protocol.messages.configs import AlterClientQuotasRequest, AlterEntryData, EntityData, OpData
from ottla.protocol.messages.topics import (
    CreatableTopic,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
    CreateTopicsRequest,
    DeleteTopicsRequest,
    DeleteTopicState,
)
from ottla.testing import Broker
from tests.wire_client import WireClient

pytestmark = pytest.mark.timeout(60)

EXCEEDED = ErrorCode.THROTTLING_QUOTA_EXCEEDED
# Half a partition per second over ten seconds allows five creations at once.
WINDOWS = {"controller.quota.window.num": "10", "controller.quota.window.size.seconds": "1"}
RATE = 0.5


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker(config=WINDOWS) as running:
        running.create_topic("there", partitions=2)
        with WireClient(running.bootstrap_servers) as admin:
            limit(admin, RATE)
        yield running


@pytest.fixture
def client(broker: Broker) -> Iterator[WireClient]:
    with WireClient(broker.bootstrap_servers) as connected:
        yield connected


def limit(client: WireClient, rate: float | None) -> None:
    operation = OpData(key="controller_mutation_rate", value=rate or 0, remove=rate is None)
    everybody = [EntityData(entity_type="client-id", entity_name=None)]
    answer: Any = client.call(
        AlterClientQuotasRequest(entries=[AlterEntryData(entity=everybody, ops=[operation])])
    )
    assert answer.entries[0].error_code == ErrorCode.NONE


def create(client: WireClient, version: int = 7, *, validate_only: bool = False, **topics: int) -> Any:
    """Return the error by topic and the throttle time. A topic's name is its partition count."""
    wanted = [CreatableTopic(name=name, num_partitions=n, replication_factor=1) for name, n in topics.items()]
    request = CreateTopicsRequest(topics=wanted, timeout_ms=10_000, validate_only=validate_only)
    answer: Any = client.call(request, version)
    return {each.name: each.error_code for each in answer.topics}, answer.throttle_time_ms


def overdraw(client: WireClient) -> None:
    """Send the last request that the quota admits: a debt of one partition takes two seconds to repay."""
    assert create(client, big=6) == ({"big": ErrorCode.NONE}, 0)


def test_topics_are_refused_while_there_is_a_debt(broker: Broker, client: WireClient) -> None:
    codes, wait = create(client, one=1, big=5, more=1)
    assert codes == {"one": ErrorCode.NONE, "big": ErrorCode.NONE, "more": EXCEEDED}
    assert 0 < wait <= 2000
    begun = time.monotonic()
    client.call(ApiVersionsRequest(client_software_name="t", client_software_version="1"), 3)
    assert time.monotonic() - begun > wait / 1000 - 0.1, "the client is not heard until the debt is paid"
    assert create(client, more=1)[0] == {"more": ErrorCode.NONE}


def test_an_old_client_is_served_and_has_to_wait(client: WireClient) -> None:
    overdraw(client)
    codes, wait = create(client, 5, more=1)
    assert codes == {"more": ErrorCode.NONE}
    assert 2000 < wait <= 4000


def test_what_is_only_tried_counts_and_what_is_refused_for_another_reason_does_not(
    client: WireClient,
) -> None:
    for _ in range(10):
        assert create(client, there=1)[0] == {"there": ErrorCode.TOPIC_ALREADY_EXISTS}
    for _ in range(2):
        assert create(client, validate_only=True, more=3)[0] == {"more": ErrorCode.NONE}
    assert create(client, more=1)[0] == {"more": EXCEEDED}


def test_more_partitions_count_by_how_many_more_they_are(client: WireClient) -> None:
    def extend(count: int, version: int = 3) -> tuple[int, int]:
        wanted = CreatePartitionsTopic(name="there", count=count, assignments=None)
        answer: Any = client.call(CreatePartitionsRequest(topics=[wanted], timeout_ms=10_000), version)
        return answer.results[0].error_code, answer.throttle_time_ms

    assert extend(8) == (ErrorCode.NONE, 0)
    assert extend(9)[0] == EXCEEDED
    code, wait = extend(9, version=2)
    assert code == ErrorCode.NONE
    assert wait > 0


def test_deleted_partitions_count(client: WireClient) -> None:
    overdraw(client)
    request = DeleteTopicsRequest(topics=[DeleteTopicState(name="there")], timeout_ms=10_000)
    answer: Any = client.call(request, 6)
    assert (answer.responses[0].error_code, answer.responses[0].error_message) == (EXCEEDED, None)
    assert answer.throttle_time_ms > 0
    old: Any = client.call(DeleteTopicsRequest(topic_names=["there"], timeout_ms=10_000), 4)
    assert old.responses[0].error_code == ErrorCode.NONE
    assert old.throttle_time_ms > 2000


def test_topics_that_come_into_being_by_being_used_count_too(broker: Broker, client: WireClient) -> None:
    overdraw(client)
    request = MetadataRequest(topics=[MetadataRequestTopic(name="auto")], allow_auto_topic_creation=True)
    begun = time.monotonic()
    while True:
        answer: Any = client.call(request, 12)
        if answer.topics[0].error_code == ErrorCode.NONE:
            break
        assert time.monotonic() - begun < 20
        time.sleep(0.1)
    assert time.monotonic() - begun > 1


def test_without_a_quota_nothing_is_owed(client: WireClient) -> None:
    overdraw(client)
    limit(client, None)
    assert create(client, more=20) == ({"more": ErrorCode.NONE}, 0)
    limit(client, RATE)
    assert create(client, again=5) == ({"again": ErrorCode.NONE}, 0)
