"""Records of `__transaction_state`, byte for byte as in Kafka: key 0, values 0 and 1. A null value is a tombstone.

The coordinator reads both versions and writes version 1, with the tagged fields of transactions version 2.
"""

from __future__ import annotations

from ottla.coordinator.runtime.record_codec import decode_key, decode_value, encode_key, encode_value
from ottla.coordinator.transactions.transaction import EMPTY, Transaction, TransactionState
from ottla.protocol.internal_records import PartitionsSchema, TransactionLogKey, TransactionLogValue

_KEY_KIND = 0
_VALUE_VERSION = 1


def transaction_key(transactional_id: str) -> bytes:
    return encode_key(_KEY_KIND, TransactionLogKey(transactional_id=transactional_id))


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
    return encode_value(value, _VALUE_VERSION)


def read_transaction_key(data: bytes) -> str | None:
    """Return the transactional id, or None for a newer key type. Raises ValueError if malformed."""
    if int.from_bytes(data[:2], "big") != _KEY_KIND:
        return None
    return decode_key(TransactionLogKey, data).transactional_id


def read_transaction_value(transactional_id: str, data: bytes) -> Transaction:
    """Raises ValueError if malformed."""
    value = decode_value(TransactionLogValue, data)
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
