"""Interface to a coordinator's internal topic, and the mapping of keys to partitions."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Sequence
from functools import lru_cache
from typing import Protocol

from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.records import BatchHeader, Record

KeyValue = tuple[bytes, bytes | None]


class StateLog(Protocol):
    """Partitions of one internal topic led by this broker."""

    def append(self, partition: int, records: Sequence[KeyValue], now_ms: int) -> Awaitable[None] | None:
        """Append one batch with these records and this timestamp, like a producer with acks=all.

        The batch is in the local log when the call returns, so calls and log have the same order. None means that every
        in-sync replica has the batch; otherwise the awaitables finish in call order. Failures, raised or awaited, are
        KafkaErrors with the codes of Produce.
        """
        ...

    def append_transactional(
        self,
        partition: int,
        records: Sequence[KeyValue],
        now_ms: int,
        producer_id: int,
        producer_epoch: int,
    ) -> Awaitable[None] | None:
        """Append as part of a transaction: a later marker decides whether the records count."""
        ...

    def read(self, partition: int) -> AsyncIterator[tuple[BatchHeader, Sequence[Record]]]:
        """Yield every batch from the log start offset to the end, including control batches."""
        ...


def java_string_hash(text: str) -> int:
    """Return Java's `String.hashCode`: computed over UTF-16 units, signed 32 bits."""
    data = text.encode("utf-16-be", "surrogatepass")
    value = 0
    for i in range(0, len(data), 2):
        value = (31 * value + (data[i] << 8 | data[i + 1])) & 0xFFFFFFFF
    return value - (1 << 32) if value & 0x80000000 else value


# Called with every request of every member, and the loop over characters is slow.
@lru_cache(maxsize=8_192)
def partition_for(key: str, partitions: int) -> int:
    """Return the partition for a group, transactional id or share-partition; its leader is the coordinator."""
    value = java_string_hash(key)
    return 0 if value == -(1 << 31) else abs(value) % partitions


_APPEND_ERRORS = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.REQUEST_TIMED_OUT: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: ErrorCode.NOT_COORDINATOR,
    ErrorCode.KAFKA_STORAGE_ERROR: ErrorCode.NOT_COORDINATOR,
    ErrorCode.MESSAGE_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.RECORD_LIST_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.INVALID_FETCH_SIZE: ErrorCode.UNKNOWN_SERVER_ERROR,
}


def append_error(error: KafkaError) -> KafkaError:
    """Translate an append error for clients, which know coordinators but not their partitions."""
    return KafkaError(_APPEND_ERRORS.get(error.code, error.code), error.message)
