"""Transactions on the wire: the broker fences old producers and lets current ones continue."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.protocol.errors import ErrorCode
from tests.broker.transactions.wire_producer import (
    NONE,
    MakeProducer,
    begin,
    fetch,
    find_transaction_coordinator,
    values,
)


def test_who_comes_second_fences_the_first(client: Any, producer: MakeProducer, topic: str, v2: bool) -> None:
    first = producer(v2=v2)
    begin(first, topic, b"zombie")
    second = producer(first.transactional_id, v2=v2)
    assert second.producer_id == first.producer_id
    assert second.epoch > first.epoch
    assert first.produce(topic, b"late") is ErrorCode.INVALID_PRODUCER_EPOCH
    assert first.end(commit=True) is ErrorCode.PRODUCER_FENCED
    begin(second, topic, b"alive")
    assert second.end(commit=True) is NONE
    answer = fetch(client, topic)
    assert values(answer) == [b"zombie", b"alive"]
    assert [a.first_offset for a in answer.aborted_transactions] == [0]


def test_old_versions_know_fencing_by_another_name(client: Any, producer: MakeProducer, topic: str) -> None:
    first = producer()
    begin(first, topic, b"a")
    producer(first.transactional_id)
    fenced, invalid = ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH
    for version in range(6):
        assert first.end(commit=True, version=version) is (invalid if version < 2 else fenced)
    for version in range(4):
        assert first.add(topic, 1, version=version) == [invalid if version < 2 else fenced]
    for version in range(5):
        assert first.add_offsets("g", version) is (invalid if version < 2 else fenced)
    expected = (first.producer_id, first.epoch)
    for version in range(3, 6):
        assert first.init(version, expected=expected) is (invalid if version < 4 else fenced)


@pytest.mark.parametrize("version", range(6))
def test_ids_are_kept_in_every_version(producer: MakeProducer, version: int) -> None:
    p = producer(init=False)
    assert p.init(version) is NONE
    first = p.producer_id
    assert p.epoch == 0
    assert p.init(version) is NONE
    assert (p.producer_id, p.epoch) == (first, 1)


def test_a_producer_goes_on_with_its_own_epoch(producer: MakeProducer) -> None:
    p = producer()
    expected = (p.producer_id, p.epoch)
    assert p.init(expected=expected) is NONE
    assert p.epoch == 1
    assert p.init(expected=expected) is NONE  # retry after a lost response
    assert p.epoch == 1


def test_timeouts_have_a_limit(producer: MakeProducer) -> None:
    p = producer(init=False)
    assert p.init(timeout_ms=900_001) is ErrorCode.INVALID_TRANSACTION_TIMEOUT
    assert p.init(timeout_ms=0) is ErrorCode.INVALID_TRANSACTION_TIMEOUT
    assert p.init(timeout_ms=900_000) is NONE


def test_ids_that_nobody_has_began_with(producer: MakeProducer, topic: str) -> None:
    p = producer(init=False)
    find_transaction_coordinator(p.client, p.transactional_id)
    assert p.end(commit=True) is ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert p.add(topic, 0) == [ErrorCode.INVALID_PRODUCER_ID_MAPPING]
    p.transactional_id = ""
    assert p.end(commit=True) is ErrorCode.INVALID_REQUEST
    assert p.add(topic, 0) == [ErrorCode.INVALID_REQUEST]


def test_ends_again_and_ends_of_nothing(producer: MakeProducer, topic: str) -> None:
    p = producer()
    assert p.end(commit=True) is ErrorCode.INVALID_TXN_STATE
    begin(p, topic, b"a")
    for version in range(5):
        assert p.end(commit=True, version=version) is NONE
        assert p.end(commit=False, version=version) is ErrorCode.INVALID_TXN_STATE
    new = producer(v2=True)
    assert new.end(commit=True) is ErrorCode.INVALID_TXN_STATE
    assert new.end(commit=False) is NONE
    assert new.epoch == 1
    assert new.end(commit=False, epoch=0) is NONE
    assert new.epoch == 1
