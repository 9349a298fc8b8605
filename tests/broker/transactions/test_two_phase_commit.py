"""KIP-939: producers whose transactions another system decides. No client has calls for all of this yet."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, TopicPartition

from ottla.client.connection import Connection
from ottla.client.settings import Settings
from ottla.coordinator.runtime import decode_value
from ottla.coordinator.transactions.transaction import (
    NO_TIMEOUT_MS,
    ONGOING,
    Transaction,
    read_transaction_value,
    transaction_value,
)
from ottla.protocol.errors import ErrorCode
from ottla.protocol.internal_records import TransactionLogValue
from ottla.protocol.messages.transactions import (
    DescribeTransactionsRequest,
    InitProducerIdRequest,
    InitProducerIdResponse,
)
from ottla.testing import Broker
from ottla.testing.security import acl
from tests.broker.transactions.wire_producer import NONE, WireProducer, begin
from tests.wire_client import WireClient

DENIED = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
CONFIG = {
    "transaction.two.phase.commit.enable": "true",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "50",
}


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    with Broker(config=CONFIG, data=tmp_path) as broker:
        broker.create_topic("t")
        broker.ensure_internal_topic("__transaction_state")
        yield broker


@pytest.fixture
def client(broker: Broker) -> Iterator[WireClient]:
    with WireClient(broker.bootstrap_servers) as client:
        yield client


def start(client: WireClient, name: str = "x", *, keep: bool = False) -> WireProducer:
    producer = WireProducer(client, name, v2=True)
    assert producer.init(6, enable2_pc=True, keep_prepared_txn=keep) is NONE
    return producer


def visible(broker: Broker) -> list[bytes | None]:
    """Return the values that a consumer with read_committed gets."""
    consumer = Consumer(
        {
            "bootstrap.servers": broker.bootstrap_servers,
            "group.id": "reader",
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
        }
    )
    try:
        consumer.assign([TopicPartition("t", 0, 0)])
        found = []
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline:
            message = consumer.poll(0.5)
            if message is None:
                continue
            if message.error():
                assert message.error().code() == KafkaError._PARTITION_EOF
                return found
            found.append(message.value())
        raise AssertionError("the end of the partition was not reached")
    finally:
        consumer.close()


def described(client: WireClient, name: str) -> Any:
    answer: Any = client.call(DescribeTransactionsRequest(transactional_ids=[name]))
    [state] = answer.transaction_states
    return state


def test_a_broker_without_the_setting_refuses() -> None:
    with Broker() as broker, WireClient(broker.bootstrap_servers) as client:
        producer = WireProducer(client, "x", v2=True)
        assert producer.init(6) is NONE
        assert producer.ongoing == (-1, -1)
        assert producer.init(6, enable2_pc=True) is DENIED
        assert producer.init(6, keep_prepared_txn=True) is DENIED


def test_a_transaction_has_no_timeout(broker: Broker, client: WireClient) -> None:
    ordinary = WireProducer(client, "ordinary", v2=True)
    assert ordinary.init(6, timeout_ms=100) is NONE
    two_phase = WireProducer(client, "two-phase", v2=True)
    assert two_phase.init(6, timeout_ms=100, enable2_pc=True) is NONE
    begin(ordinary, "t", b"late")
    begin(two_phase, "t", b"in time")
    deadline = time.monotonic() + 20
    while described(client, "ordinary").transaction_state != "CompleteAbort":
        assert time.monotonic() < deadline
        time.sleep(0.02)
    time.sleep(0.2)  # several rounds in which the other could be aborted
    state = described(client, "two-phase")
    assert (state.transaction_state, state.transaction_timeout_ms) == ("Ongoing", NO_TIMEOUT_MS)
    assert two_phase.end(commit=True) is NONE
    assert visible(broker) == [b"in time"]


@pytest.mark.parametrize("commit", [True, False])
def test_a_later_producer_ends_what_a_dead_one_prepared(
    broker: Broker, client: WireClient, commit: bool
) -> None:
    dead = start(client)
    begin(dead, "t", b"prepared")
    prepared = (dead.producer_id, dead.epoch)
    heir = start(client, keep=True)
    assert heir.ongoing == prepared
    assert heir.epoch > dead.epoch
    assert dead.end(commit=True) is ErrorCode.PRODUCER_FENCED
    assert heir.add("t", 0) == [ErrorCode.INVALID_TXN_STATE], "it can only be ended"
    broker.restart()
    with WireClient(broker.bootstrap_servers) as after:
        second = start(after, keep=True)
        assert second.ongoing == prepared
        assert second.end(commit=commit) is NONE
        assert visible(broker) == ([b"prepared"] if commit else [])
        begin(second, "t", b"next")
        assert second.end(commit=True) is NONE
        assert visible(broker)[-1] == b"next"


def test_without_an_open_transaction_there_is_nothing_to_keep(client: WireClient) -> None:
    first = start(client, keep=True)
    assert first.ongoing == (-1, -1)
    begin(first, "t", b"a")
    assert first.end(commit=True) is NONE
    assert start(client, keep=True).ongoing == (-1, -1)


def test_a_producer_that_keeps_nothing_aborts(broker: Broker, client: WireClient) -> None:
    begin(start(client), "t", b"forgotten")
    assert start(client).ongoing == (-1, -1)
    assert visible(broker) == []


def test_the_right_is_needed(tmp_path: Path) -> None:
    rights = [acl("ann", "WRITE", transactional_id="x"), acl("bob", "WRITE", transactional_id="x")]
    rights.append(acl("bob", "TWO_PHASE_COMMIT", transactional_id="x"))
    users = {"ann": "ann-secret", "bob": "bob-secret"}
    with Broker(config=CONFIG, data=tmp_path, security="SASL_PLAINTEXT", users=users, acls=rights) as broker:
        broker.ensure_internal_topic("__transaction_state")
        host, _, port = broker.bootstrap_servers.rpartition(":")
        for user, expected in (("ann", DENIED), ("bob", NONE)):
            settings = Settings.from_properties(broker.client_config(user))
            with Connection(settings, host, int(port)) as connection:
                for enabled, wanted in ((False, NONE), (True, expected)):
                    request = InitProducerIdRequest(
                        transactional_id="x", transaction_timeout_ms=60_000, enable2_pc=enabled
                    )
                    answer = connection.request(request, InitProducerIdResponse)
                    assert answer.error_code == wanted


def test_the_record_has_both_epochs_as_in_kafka() -> None:
    kept = Transaction("x", 7, 5, NO_TIMEOUT_MS, ONGOING, frozenset({("t", 0)}), 10, 10, 2, 7, kept_epoch=4)
    data = transaction_value(kept)
    value = decode_value(TransactionLogValue, data)
    assert (value.producer_epoch, value.next_producer_epoch) == (4, 5)
    assert read_transaction_value("x", data) == kept
