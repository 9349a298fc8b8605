"""Promise: a user quota applies to clients logged in as that user, with any client id, and to nobody else."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ottla.protocol.messages.configs import AlterClientQuotasRequest, AlterEntryData, EntityData, OpData
from ottla.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.protocol.records import Record, build_batch
from tests.security.sasl_broker import AuthorizedBroker, logged_in
from tests.wire_client import WireClient

pytestmark = pytest.mark.timeout(120)


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AuthorizedBroker]:
    directory: Path = tmp_path_factory.mktemp("quotas")
    made = AuthorizedBroker(directory, **{"allow.everyone.if.no.acl.found": "true"})
    with made.broker:
        made.broker.create_topic("t", partitions=1)
        yield made


def set_quota(broker: AuthorizedBroker, rate: float | None, **entity: str) -> None:
    change = OpData(key="producer_byte_rate", value=rate or 0.0, remove=rate is None)
    parts = [
        EntityData(entity_type=kind.replace("_", "-"), entity_name=name) for kind, name in entity.items()
    ]
    with WireClient(broker.plain) as client:
        request = AlterClientQuotasRequest(entries=[AlterEntryData(entity=parts, ops=[change])])
        answer: Any = client.call(request)
    assert answer.entries[0].error_code == 0, answer


def throttled(broker: AuthorizedBroker, user: str) -> bool:
    """Return True if the broker throttles a user after 100 KB on a new connection."""
    records = bytes(build_batch([Record(0, 0, None, bytes(100_000))]))
    data = TopicProduceData(name="t", partition_data=[PartitionProduceData(index=0, records=records)])
    with logged_in(broker.sasl, user) as client:
        answer: Any = client.call(ProduceRequest(acks=-1, timeout_ms=10_000, topic_data=[data]), 9)
    assert answer.responses[0].partition_responses[0].error_code == 0, answer
    return bool(answer.throttle_time_ms > 0)


def test_a_quota_of_a_user_holds_for_that_user_only(broker: AuthorizedBroker) -> None:
    set_quota(broker, 1000, user="ann")
    try:
        assert throttled(broker, "ann")
        assert not throttled(broker, "bob")
    finally:
        set_quota(broker, None, user="ann")


def test_a_quota_of_a_user_with_a_client_id_wins_over_the_users(broker: AuthorizedBroker) -> None:
    set_quota(broker, 1000, user="bob")
    set_quota(broker, 1e12, user="bob", client_id="test")  # the wire client's client id
    try:
        assert not throttled(broker, "bob")
        set_quota(broker, None, user="bob", client_id="test")
        assert throttled(broker, "bob")
    finally:
        set_quota(broker, None, user="bob")
