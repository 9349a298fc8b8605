"""Transactions on the wire, version by version: records, and the partitions to add before writing them."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest

from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.cluster import ApiVersionsRequest
from ottla.protocol.messages.transactions import DescribeTransactionsRequest
from ottla.testing import Broker
from tests.broker.transactions.wire_producer import (
    NONE,
    MakeProducer,
    WireProducer,
    begin,
    end_offset,
    fetch,
    find_transaction_coordinator,
    values,
)
from tests.wire_client import WireClient


def test_features_are_finalized(client: Any) -> None:
    for version, lowest in ((3, 1), (4, 0)):
        answer = client.call(
            ApiVersionsRequest(client_software_name="x", client_software_version="1"), version
        )
        levels = {
            "group.version": 1,
            "metadata.version": 33,
            "share.version": 2,
            "streams.version": 1,
            "transaction.version": 2,
        }
        supported = {f.name: (f.min_version, f.max_version) for f in answer.supported_features}
        assert supported.pop("metadata.version") == (7, 33)
        assert supported == {name: (lowest, levels[name]) for name in levels if name != "metadata.version"}
        finalized = {f.name: (f.min_version_level, f.max_version_level) for f in answer.finalized_features}
        assert finalized == {name: (level, level) for name, level in levels.items()}
        assert answer.finalized_features_epoch >= 0


@pytest.mark.parametrize("version", range(1, 7))
def test_every_version_finds_the_coordinator(client: Any, broker: Broker, version: int) -> None:
    found = find_transaction_coordinator(client, "x", version)
    assert (found.error_code, f"{found.host}:{found.port}") == (NONE, broker.bootstrap_servers)


def test_records_are_committed_when_the_transaction_is(
    client: Any, producer: MakeProducer, topic: str, v2: bool
) -> None:
    p = producer(v2=v2)
    begin(p, topic, b"a", b"b")
    assert end_offset(client, topic, committed=True) == 0
    assert end_offset(client, topic, committed=False) == 2
    before = fetch(client, topic)
    assert (before.high_watermark, before.last_stable_offset, bytes(before.records)) == (2, 0, b"")
    assert p.end(commit=True) is NONE
    after = fetch(client, topic)
    assert (values(after), after.aborted_transactions) == ([b"a", b"b"], [])
    assert end_offset(client, topic, committed=True) == end_offset(client, topic, committed=False) == 3


def test_aborted_transactions_are_listed_for_those_who_ask(
    client: Any, producer: MakeProducer, topic: str, v2: bool
) -> None:
    p = producer(v2=v2)
    begin(p, topic, b"a")
    aborted_by = p.producer_id
    assert p.end(commit=False) is NONE
    answer = fetch(client, topic)
    assert [(a.producer_id, a.first_offset) for a in answer.aborted_transactions] == [(aborted_by, 0)]
    assert fetch(client, topic, committed=False).aborted_transactions is None
    assert fetch(client, topic, 2).aborted_transactions == []


def test_version_1_keeps_its_epoch_and_version_2_raises_it(producer: MakeProducer, topic: str) -> None:
    old, new = producer(), producer(v2=True)
    for number in range(3):
        begin(old, topic, b"a")
        begin(new, topic, b"b")
        assert old.end(commit=number != 1) is NONE
        assert new.end(commit=number != 1) is NONE
    assert (old.epoch, new.epoch) == (0, 3)


def test_a_waiting_committed_fetch_is_woken_by_the_marker(
    broker: Broker, client: Any, producer: MakeProducer, topic: str
) -> None:
    p = producer(v2=True)
    got: list[Any] = []

    def consume() -> None:
        with WireClient(broker.bootstrap_servers) as other:
            got.append((fetch(other, topic, max_wait_ms=15_000, min_bytes=100), time.monotonic()))

    waiting = threading.Thread(target=consume)
    waiting.start()
    while not broker.waiting_fetches(topic):
        time.sleep(0.005)
    begin(p, topic, b"a" * 200)
    time.sleep(0.2)
    assert not got, "an open transaction was shown"
    ended = time.monotonic()
    assert p.end(commit=True) is NONE
    waiting.join()
    answer, when = got[0]
    assert values(answer) == [b"a" * 200]
    assert when - ended < 5


@pytest.mark.parametrize(
    ("version", "code"),
    [
        (3, ErrorCode.INVALID_TXN_STATE),
        (9, ErrorCode.INVALID_TXN_STATE),
        (10, ErrorCode.INVALID_TXN_STATE),
        (11, ErrorCode.TRANSACTION_ABORTABLE),
    ],
)
def test_version_1_must_add_before_it_writes(
    client: Any, producer: MakeProducer, topic: str, version: int, code: ErrorCode
) -> None:
    p = producer()
    assert p.produce(topic, b"a", version=version) is code
    assert p.add(topic, 1) == [NONE]
    assert p.produce(topic, b"a", version=version) is code
    assert end_offset(client, topic, committed=False) == 0


def test_a_late_produce_does_not_open_a_transaction_that_nobody_ends(
    client: Any, producer: MakeProducer, topic: str, v2: bool
) -> None:
    """Promise of KIP-890: the broker rejects a batch that arrives after the end, so no transaction hangs."""
    p = producer(v2=v2)
    begin(p, topic, b"a")
    late_epoch, late_sequences = p.epoch, dict(p.sequences)
    assert p.end(commit=True) is NONE
    late = WireProducer(client, p.transactional_id, v2=v2)
    late.producer_id, late.epoch, late.sequences = p.producer_id, late_epoch, late_sequences
    expected = ErrorCode.INVALID_PRODUCER_EPOCH if v2 else ErrorCode.INVALID_TXN_STATE
    assert late.produce(topic, b"late") is expected
    assert end_offset(client, topic, committed=True) == end_offset(client, topic, committed=False)


def test_a_late_end_does_not_reach_the_next_transaction(
    client: Any, producer: MakeProducer, topic: str
) -> None:
    p = producer(v2=True)
    begin(p, topic, b"a")
    late_epoch = p.epoch
    assert p.end(commit=True) is NONE
    begin(p, topic, b"b")
    for commit in (True, False):
        assert p.end(commit=commit, epoch=late_epoch) is ErrorCode.PRODUCER_FENCED
    assert end_offset(client, topic, committed=True) == 2
    assert p.end(commit=True) is NONE


def test_transactional_batches_need_a_transactional_id(producer: MakeProducer, topic: str) -> None:
    p = producer(v2=True)
    refused = p.produce(topic, b"a", transactional_id=None)
    assert refused is ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED


def test_clients_do_not_write_to_internal_topics(client: Any, producer: MakeProducer) -> None:
    p = producer(v2=True)
    assert p.produce("__transaction_state", b"a") is ErrorCode.INVALID_TOPIC_EXCEPTION
    described = client.call(DescribeTransactionsRequest(transactional_ids=[p.transactional_id]))
    assert described.transaction_states[0].transaction_state == "Empty"


def test_a_batch_that_overtook_the_first_is_refused(producer: MakeProducer, topic: str) -> None:
    p = producer(v2=True)
    p.sequences[topic, 0] = 5
    assert p.produce(topic, b"a") is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_several_partitions_are_added_or_none(producer: MakeProducer, topic: str) -> None:
    p = producer()
    missing, left = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.OPERATION_NOT_ATTEMPTED
    for version in range(4):
        assert p.add(topic, 0, 7, version=version) == [left, missing]
    for version in range(4):
        assert p.add(topic, 0, 1, version=version) == [NONE, NONE]


def test_brokers_add_and_verify_in_batches(producer: MakeProducer, topic: str) -> None:
    p = producer()
    assert p.add_as_broker(topic, 0, verify_only=True) == [ErrorCode.TRANSACTION_ABORTABLE]
    assert p.add_as_broker(topic, 0, verify_only=True, version=4) == [ErrorCode.INVALID_TXN_STATE]
    assert p.add_as_broker(topic, 0, verify_only=False) == [NONE]
    assert p.add_as_broker(topic, 0, 1, verify_only=True) == [NONE, ErrorCode.TRANSACTION_ABORTABLE]
