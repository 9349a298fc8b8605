"""Transactions on the wire: group offsets."""

from __future__ import annotations

import uuid
from typing import Any

import pytest

from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.cluster import MetadataRequest, MetadataRequestTopic
from ottla.testing import Broker
from tests.broker.transactions.wire_producer import (
    NONE,
    MakeProducer,
    WireProducer,
    committed,
)
from tests.wire_client import WireClient


def test_offsets_count_when_the_transaction_commits(
    broker: Broker, client: Any, producer: MakeProducer, topic: str, v2: bool
) -> None:
    broker.ensure_internal_topic("__consumer_offsets")
    group = f"g-{uuid.uuid4()}"
    p = producer(v2=v2)
    for offset, commit, seen in ((5, True, 5), (9, False, 5), (7, True, 7)):
        if not v2:
            assert p.add_offsets(group) is NONE
        before = committed(client, group, topic, stable=False)
        assert p.commit_offset(group, topic, offset) is NONE
        assert committed(client, group, topic, stable=False) == before
        for version in (7, 8, 9):
            unstable = (ErrorCode.UNSTABLE_OFFSET_COMMIT, -1)
            assert committed(client, group, topic, stable=True, version=version) == unstable
        assert p.end(commit=commit) is NONE
        assert committed(client, group, topic, stable=True) == (NONE, seen)


@pytest.mark.parametrize(
    ("version", "code"),
    [
        (0, ErrorCode.INVALID_TXN_STATE),
        (3, ErrorCode.INVALID_TXN_STATE),
        (4, ErrorCode.TRANSACTION_ABORTABLE),
    ],
)
def test_offsets_of_version_1_must_have_been_added(
    broker: Broker, producer: MakeProducer, topic: str, version: int, code: ErrorCode
) -> None:
    broker.ensure_internal_topic("__consumer_offsets")
    p = producer()
    assert p.commit_offset("g", topic, 1, version=version) is code
    assert p.add_offsets("g") is NONE
    assert p.commit_offset("g", topic, 1, version=version) is NONE
    assert p.end(commit=False) is NONE


def test_offsets_are_checked_against_the_group(broker: Broker, producer: MakeProducer, topic: str) -> None:
    broker.ensure_internal_topic("__consumer_offsets")
    p = producer(v2=True)
    nobody = f"g-{uuid.uuid4()}"
    assert p.commit_offset(nobody, topic, 1, generation_id=3, member_id="m") is ErrorCode.ILLEGAL_GENERATION
    assert p.commit_offset("", topic, 1) is ErrorCode.INVALID_GROUP_ID
    assert p.commit_offset(nobody, "missing", 1) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert p.commit_offset(nobody, topic, 1) is NONE
    assert p.end(commit=True) is NONE


def test_offsets_of_version_6_name_topics_by_id(
    broker: Broker, client: Any, producer: MakeProducer, topic: str
) -> None:
    broker.ensure_internal_topic("__consumer_offsets")
    group = f"g-{uuid.uuid4()}"
    (described,) = client.call(MetadataRequest(topics=[MetadataRequestTopic(name=topic)]), 12).topics
    p = producer(v2=True)
    assert p.commit_offset(group, uuid.uuid4().bytes, 4, version=6) is ErrorCode.UNKNOWN_TOPIC_ID
    assert p.commit_offset(group, described.topic_id, 4, version=6) is NONE
    assert p.end(commit=True) is NONE
    assert committed(client, group, topic, stable=True) == (NONE, 4)


def test_pending_offsets_survive_a_restart(tmp_path: Any) -> None:
    with Broker(data=tmp_path) as broker:
        broker.create_topic("t")
        broker.ensure_internal_topic("__consumer_offsets")
        with WireClient(broker.bootstrap_servers) as client:
            p = WireProducer(client, "x", v2=True)
            assert p.init() is NONE
            assert p.commit_offset("g", "t", 5) is NONE
        broker.restart()
        with WireClient(broker.bootstrap_servers) as client:
            unstable = (ErrorCode.UNSTABLE_OFFSET_COMMIT, -1)
            assert committed(client, "g", "t", stable=True) == unstable
            p.client = client
            assert p.end(commit=True) is NONE
            assert committed(client, "g", "t", stable=True) == (NONE, 5)
        broker.restart()
        with WireClient(broker.bootstrap_servers) as client:
            assert committed(client, "g", "t", stable=True) == (NONE, 5)
