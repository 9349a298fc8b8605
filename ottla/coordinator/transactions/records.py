"""The records of `__transaction_state`, byte for byte Kafka's: key 0, values 0 and 1. A null value deletes.

Version 1 is written, which has the tagged fields of transactions version 2; both are read.
"""

from __future__ import annotations

import struct

from ottla.coordinator.transactions.transaction import EMPTY, Transaction, TransactionState
from ottla.protocol.codec import MalformedMessage
from ottla.protocol.transaction_records import PartitionsSchema, TransactionLogKey, TransactionLogValue

_KEY_VERSION = 0
_VALUE_VERSION = 1
_VERSION = struct.Struct(">h")


def transaction_key(transactional_id: str) -> bytes:
    return _VERSION.pack(_KEY_VERSION) + TransactionLogKey(transactional_id=transactional_id).encode(0)


def transaction_value(transaction: Transaction) -> bytes:
    partitions: list[PartitionsSchema] | None = None
    if transaction.state is not EMPTY:
        by_topic: dict[str, list[int]] = {}
        for topic, partition in sorted(transaction.partitions):
            by_topic.setdefault(topic, []).append(partition)
        partitions = [PartitionsSchema(topic=topic, partition_ids=ids) for topic, ids in by_topic.items()]
    value = TransactionLogValue(
        producer_id=transaction.producer_id,
        previous_producer_id=transaction.previous_producer_id,
        next_producer_id=transaction.next_producer_id,
        producer_epoch=transaction.producer_epoch,
        transaction_timeout_ms=transaction.timeout_ms,
        transaction_status=int(transaction.state),
        transaction_partitions=partitions,
        transaction_last_update_timestamp_ms=transaction.updated_ms,
        transaction_start_timestamp_ms=transaction.start_ms,
        client_transaction_version=transaction.client_version,
    )
    return _VERSION.pack(_VALUE_VERSION) + value.encode(_VALUE_VERSION)


def read_transaction_key(data: bytes) -> str | None:
    """The transactional id; None for a key of a later kind. Raises ValueError for bytes that are no key."""
    try:
        (version,) = _VERSION.unpack_from(data)
        if version != _KEY_VERSION:
            return None
        return TransactionLogKey.decode(data, _KEY_VERSION, _VERSION.size).transactional_id
    except (MalformedMessage, struct.error, IndexError, UnicodeDecodeError) as error:
        raise ValueError(f"its key cannot be read: {error}") from None


def read_transaction_value(transactional_id: str, data: bytes) -> Transaction:
    try:
        (version,) = _VERSION.unpack_from(data)
        if not 0 <= version <= _VALUE_VERSION:
            raise ValueError(f"version {version} of its value is not known")
        value = TransactionLogValue.decode(data, version, _VERSION.size)
        partitions = frozenset(
            (topic.topic, partition)
            for topic in value.transaction_partitions or ()
            for partition in topic.partition_ids
        )
        return Transaction(
            transactional_id,
            value.producer_id,
            value.producer_epoch,
            value.transaction_timeout_ms,
            TransactionState(value.transaction_status),
            partitions,
            value.transaction_start_timestamp_ms,
            value.transaction_last_update_timestamp_ms,
            value.client_transaction_version,
            value.previous_producer_id,
            value.next_producer_id,
        )
    except (MalformedMessage, struct.error, IndexError, UnicodeDecodeError) as error:
        raise ValueError(f"its value cannot be read: {error}") from None
