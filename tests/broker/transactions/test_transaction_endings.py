"""Transactions on the wire: listing, ending from outside, timeouts, and survival of a crash."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest

from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.transactions import (
    DescribeProducersRequest,
    DescribeTransactionsRequest,
    ListTransactionsRequest,
    TopicRequest,
)
from ottla.testing import Broker
from tests.broker.transactions.wire_producer import (
    NONE,
    MakeProducer,
    WireProducer,
    begin,
    committed,
    end_offset,
    fetch,
    values,
    write_marker,
)
from tests.wire_client import WireClient


def test_transactions_are_described_and_listed(client: Any, producer: MakeProducer, topic: str) -> None:
    p = producer(v2=True)
    idle = producer()
    begin(p, topic, b"a")
    answer = client.call(
        DescribeTransactionsRequest(
            transactional_ids=[p.transactional_id, idle.transactional_id, "nobody", ""]
        )
    )
    ours, empty, missing, invalid = answer.transaction_states
    assert (ours.transaction_state, ours.producer_id, ours.producer_epoch) == ("Ongoing", p.producer_id, 0)
    assert [(t.topic, t.partitions) for t in ours.topics] == [(topic, [0])]
    assert ours.transaction_start_time_ms > 0
    assert (empty.transaction_state, empty.transaction_start_time_ms) == ("Empty", -1)
    assert (missing.error_code, missing.transactional_id) == (ErrorCode.TRANSACTIONAL_ID_NOT_FOUND, "nobody")
    assert invalid.error_code == ErrorCode.INVALID_REQUEST

    def listed(version: int = 2, **filters: Any) -> set[str]:
        found = client.call(ListTransactionsRequest(**filters), version)
        assert not found.error_code
        both = {p.transactional_id, idle.transactional_id}
        return {t.transactional_id for t in found.transaction_states} & both

    both = {p.transactional_id, idle.transactional_id}
    for version in range(3):
        assert listed(version) == both
    assert listed(state_filters=["Ongoing"]) == {p.transactional_id}
    assert listed(producer_id_filters=[idle.producer_id]) == {idle.transactional_id}
    assert listed(duration_filter=600_000) == set()
    assert listed(transactional_id_pattern=p.transactional_id[:12] + ".*") == {p.transactional_id}
    assert listed(transactional_id_pattern=p.transactional_id[:12]) == set()
    unknown = client.call(ListTransactionsRequest(state_filters=["Sleeping"]))
    assert (unknown.unknown_state_filters, unknown.transaction_states) == (["Sleeping"], [])
    for pattern in ("(*", "(a)\\1", "(?=a)"):
        broken = client.call(ListTransactionsRequest(transactional_id_pattern=pattern))
        assert broken.error_code == ErrorCode.INVALID_REGULAR_EXPRESSION
    assert p.end(commit=True) is NONE


def test_a_hanging_transaction_is_found_and_ended(client: Any, producer: MakeProducer, topic: str) -> None:
    p = producer()
    begin(p, topic, b"stuck")

    def start_offset() -> int:
        asked = TopicRequest(name=topic, partition_indexes=[0])
        answer = client.call(DescribeProducersRequest(topics=[asked]))
        (state,) = answer.topics[0].partitions[0].active_producers
        return int(state.current_txn_start_offset)

    assert start_offset() == 0
    assert write_marker(client, topic, p.producer_id, p.epoch) is NONE
    assert start_offset() == -1
    assert end_offset(client, topic, committed=True) == 2


def test_markers_are_refused_by_epoch_and_topic(client: Any, producer: MakeProducer, topic: str) -> None:
    p = producer(v2=True)
    begin(p, topic, b"a")
    late = ErrorCode.INVALID_PRODUCER_EPOCH
    assert write_marker(client, topic, p.producer_id, p.epoch, transaction_version=2) is late
    assert write_marker(client, topic, p.producer_id, p.epoch - 1) is late
    assert p.end(commit=True) is NONE
    fenced = ErrorCode.TRANSACTION_COORDINATOR_FENCED
    assert write_marker(client, topic, p.producer_id, p.epoch, coordinator_epoch=-1) is fenced
    assert write_marker(client, "missing", 1, 1) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


@pytest.fixture
def hasty() -> Iterator[Broker]:
    with Broker(config={"transaction.abort.timed.out.transaction.cleanup.interval.ms": "50"}) as running:
        yield running


def test_a_transaction_that_takes_too_long_is_aborted(hasty: Broker, v2: bool) -> None:
    hasty.create_topic("t")
    with WireClient(hasty.bootstrap_servers) as client:
        p = WireProducer(client, "x", v2=v2)
        assert p.init(timeout_ms=200) is NONE
        begin(p, "t", b"slow")
        deadline = time.monotonic() + 60
        while end_offset(client, "t", committed=True) == 0:
            assert time.monotonic() < deadline
            time.sleep(0.02)
        assert p.produce("t", b"later") is ErrorCode.INVALID_PRODUCER_EPOCH
        assert p.end(commit=True) is ErrorCode.PRODUCER_FENCED
        assert [a.first_offset for a in fetch(client, "t").aborted_transactions] == [0]
        assert p.init() is NONE


@pytest.mark.parametrize("commit", [True, False])
def test_a_transaction_goes_on_over_a_restart(tmp_path: Any, v2: bool, commit: bool) -> None:
    with Broker(data=tmp_path) as broker:
        broker.create_topic("t", 2)
        with WireClient(broker.bootstrap_servers) as client:
            p = WireProducer(client, "x", v2=v2)
            assert p.init() is NONE
            begin(p, "t", b"a")
        broker.restart()
        with WireClient(broker.bootstrap_servers) as client:
            p.client = client
            assert end_offset(client, "t", committed=True) == 0
            assert p.produce("t", b"b") is NONE
            assert p.end(commit=commit) is NONE
        broker.restart()
        with WireClient(broker.bootstrap_servers) as client:
            answer = fetch(client, "t")
            assert values(answer) == [b"a", b"b"]
            assert [a.first_offset for a in answer.aborted_transactions] == ([] if commit else [0])


def stop_markers(broker: Broker) -> None:
    """Block markers in every partition until the next start."""
    markers: Any = broker._running().broker.markers
    markers.write = lambda _, partitions: [ErrorCode.NOT_LEADER_OR_FOLLOWER] * len(partitions)


@pytest.mark.parametrize("commit", [True, False])
def test_what_was_decided_before_a_crash_is_carried_out_after_it(
    tmp_path: Any, v2: bool, commit: bool
) -> None:
    """Promise: the broker may die between the decision and the last marker; the decision remains in force."""
    with Broker(data=tmp_path) as broker:
        broker.create_topic("t", 2)
        broker.ensure_internal_topic("__consumer_offsets")
        with WireClient(broker.bootstrap_servers) as client:
            p = WireProducer(client, "x", v2=v2)
            assert p.init() is NONE
            begin(p, "t", b"a")
            if not v2:
                assert p.add_offsets("g") is NONE
            assert p.commit_offset("g", "t", 5) is NONE
            stop_markers(broker)
            epoch = p.epoch
            assert p.end(commit=commit) is NONE
            described = client.call(DescribeTransactionsRequest(transactional_ids=["x"]))
            state = described.transaction_states[0].transaction_state
            assert state == ("PrepareCommit" if commit else "PrepareAbort")
            assert p.produce("t", b"too early") in (
                ErrorCode.CONCURRENT_TRANSACTIONS,
                ErrorCode.NOT_ENOUGH_REPLICAS,
                NONE,  # version 1: its transaction is still open in the log
            )
            assert end_offset(client, "t", committed=True) == 0
        broker.restart()
        with WireClient(broker.bootstrap_servers) as client:
            deadline = time.monotonic() + 60
            state = ""
            while state != ("CompleteCommit" if commit else "CompleteAbort"):
                assert time.monotonic() < deadline, state
                described = client.call(DescribeTransactionsRequest(transactional_ids=["x"]))
                state = described.transaction_states[0].transaction_state
            assert end_offset(client, "t", committed=True) > 0
            assert bool(fetch(client, "t").aborted_transactions) is not commit
            assert committed(client, "g", "t", stable=True) == (NONE, 5 if commit else -1)
            p.client = client
            assert p.end(commit=commit, epoch=epoch) is NONE  # retry after a lost response
