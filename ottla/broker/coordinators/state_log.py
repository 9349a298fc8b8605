"""A coordinator's internal topic, stored in this broker's own partitions."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Sequence
from typing import TYPE_CHECKING

from ottla.cluster.partitions.delayed_operations import when_committed
from ottla.coordinator.runtime.state_log import KeyValue
from ottla.log.cold_reads import cold_range
from ottla.log.files.file_region import FileRegion
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.records import BatchHeader, Record, build_batch, read_records

if TYPE_CHECKING:
    from ottla.cluster.partitions.partition import Partition
    from ottla.cluster.replicas import Replicas

_READ_BYTES = 1024 * 1024


class PartitionStateLog:
    """Implements `StateLog` and `PrunableLog`. Owner: the event loop."""

    def __init__(self, replicas: Replicas, topic: str, timeout_ms: int = 5_000) -> None:
        self._replicas = replicas
        self._topic = topic
        self._timeout_ms = timeout_ms

    def append(self, partition: int, records: Sequence[KeyValue], now_ms: int) -> Awaitable[None] | None:
        batch = build_batch([Record(0, now_ms, key, value) for key, value in records])
        return self._append(partition, batch, now_ms)

    def _append(self, partition: int, batch: bytearray, now_ms: int) -> Awaitable[None] | None:
        held = self._replicas.leader(self._topic, partition)
        held.check_min_isr()
        info = held.append(batch, now_ms, from_client=False)
        return self._wait(held, info.last_offset + 1)

    def wait_committed(self, partition: int) -> Awaitable[None] | None:
        held = self._replicas.leader(self._topic, partition)
        return self._wait(held, held.log.log_end_offset)

    def _wait(self, held: Partition, offset: int) -> Awaitable[None] | None:
        return when_committed(held, offset, self._timeout_ms)

    def append_transactional(
        self,
        partition: int,
        records: Sequence[KeyValue],
        now_ms: int,
        producer_id: int,
        producer_epoch: int,
    ) -> Awaitable[None] | None:
        batch = build_batch(
            [Record(0, now_ms, key, value) for key, value in records],
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            base_sequence=0,  # Coordinator batches have no sequence; Kafka writes 0 as well.
            transactional=True,
        )
        return self._append(partition, batch, now_ms)

    def end_offset(self, partition: int) -> int:
        return self._led(partition).log.log_end_offset

    def _led(self, partition: int) -> Partition:
        """Return a partition for reading, without checking the lease. Writes check the lease themselves."""
        held = self._replicas.topic(self._topic).get(partition)
        if held is None or not held.is_leader:
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        return held

    def delete_before(self, partition: int, offset: int) -> None:
        held = self._replicas.leader(self._topic, partition)
        if offset > held.log.log_start_offset:
            held.delete_records(offset)

    async def read(self, partition: int) -> AsyncIterator[tuple[BatchHeader, Sequence[Record]]]:
        held = self._led(partition)
        offset, end = held.log.log_start_offset, held.log.log_end_offset
        while offset < end:
            cold = cold_range(held.log, offset, _READ_BYTES)
            if cold is not None:
                await asyncio.to_thread(cold.read)
            region = held.log.read(offset, _READ_BYTES, upto=end, min_one=True)
            batches = await asyncio.to_thread(_decode, region)
            if not batches:
                return  # compaction has removed the last records
            for header, records in batches:
                yield header, records
                offset = header.next_offset


def _decode(region: FileRegion) -> list[tuple[BatchHeader, list[Record]]]:
    """Decode batches in a thread. The region keeps its file open, and no log state is touched."""
    return list(read_records(region.read()))
