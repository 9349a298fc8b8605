"""A coordinator's internal topic: what the coordinator needs of it, and which partition keeps what."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Sequence
from functools import lru_cache
from typing import Protocol

from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.records import BatchHeader, Record

KeyValue = tuple[bytes, bytes | None]


class StateLog(Protocol):
    """The partitions of one internal topic that this broker leads."""

    def append(self, partition: int, records: Sequence[KeyValue], now_ms: int) -> Awaitable[None] | None:
        """Write one batch with these records and this timestamp, as a producer with acks=all would.

        The batch is in the local log when the call returns, so that calls and log have the same order.
        None: it is on every in-sync replica already. Else the awaitable ends when it is, in the order of
        the calls. What fails is a KafkaError with the code that Produce would answer, raised or awaited.
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
        """The same, as part of a transaction: a marker decides later whether the records count."""
        ...

    def read(self, partition: int) -> AsyncIterator[tuple[BatchHeader, Sequence[Record]]]:
        """Every batch of a partition from its log start to its end, control batches too."""
        ...


def java_string_hash(text: str) -> int:
    """`String.hashCode` of Java: over UTF-16 units, 32 bits with sign."""
    data = text.encode("utf-16-be", "surrogatepass")
    value = 0
    for i in range(0, len(data), 2):
        value = (31 * value + (data[i] << 8 | data[i + 1])) & 0xFFFFFFFF
    return value - (1 << 32) if value & 0x80000000 else value


# Asked with every request of every member, and a loop over characters is slow.
@lru_cache(maxsize=8_192)
def partition_for(key: str, partitions: int) -> int:
    """The partition that keeps a group, a transactional id or a share-partition; its leader is the coordinator."""
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
    """The error of an append as clients of a coordinator know it: they know coordinators, not partitions."""
    return KafkaError(_APPEND_ERRORS.get(error.code, error.code), error.message)
