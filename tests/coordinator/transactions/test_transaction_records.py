"""The records of `__transaction_state` match Kafka's."""

from __future__ import annotations

import pytest

from ottla.coordinator.transactions.transaction import (
    EMPTY,
    PREPARE_COMMIT,
    Transaction,
    TransactionState,
    read_transaction_key,
    read_transaction_value,
    transaction_key,
    transaction_value,
)

PREPARED = Transaction(
    "x", 7, 5, 60_000, PREPARE_COMMIT, frozenset({("t", 1), ("t", 0), ("u", 2)}), 10, 20, 2, 7, 9
)


def test_a_key_has_a_version_and_the_id() -> None:
    assert transaction_key("abc") == bytes.fromhex("0000 0003 616263")
    assert read_transaction_key(transaction_key("abc")) == "abc"


def test_a_value_is_version_1_with_tagged_fields() -> None:
    assert transaction_value(PREPARED).hex(" ") == bytes.fromhex(
        "0001 0000000000000007 0005 0000ea60 02"
        "03 02 74 03 00000000 00000001 00 02 75 02 00000002 00"
        "0000000000000014 000000000000000a"
        "03 00 08 0000000000000007 01 08 0000000000000009 02 02 0002"
    ).hex(" ")


def test_values_are_read_as_they_were_written() -> None:
    assert read_transaction_value("x", transaction_value(PREPARED)) == PREPARED
    empty = Transaction("x", 7, 0, 1000, EMPTY, updated_ms=3)
    assert read_transaction_value("x", transaction_value(empty)) == empty
    assert b"\x00\x00\x03\xe8\x00\x00" in transaction_value(empty)  # no partitions: null


def test_values_of_older_brokers_are_read() -> None:
    old = bytes.fromhex("0000 0000000000000007 0005 0000ea60 01 00000001 0001 74 00000001 00000004")
    old += bytes.fromhex("0000000000000014 000000000000000a")
    read = read_transaction_value("x", old)
    assert (read.state, read.partitions, read.client_version) == (
        TransactionState.ONGOING,
        frozenset({("t", 4)}),
        0,
    )


@pytest.mark.parametrize(
    "data", [b"", b"\0", b"\0\2", b"\0\1" + b"\0" * 10, transaction_value(PREPARED)[:-5]]
)
def test_what_is_no_value_is_said_to_be_none(data: bytes) -> None:
    with pytest.raises(ValueError, match="value"):
        read_transaction_value("x", data)


def test_keys_of_a_later_kind_are_passed_over() -> None:
    assert read_transaction_key(b"\0\1whatever") is None
    with pytest.raises(ValueError, match="key"):
        read_transaction_key(b"\0\0\0\x09ab")
