"""An in-memory `StateLog` that keeps real record batches, and can be slow or broken on demand."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import AsyncIterator, Awaitable, Sequence

from ottla.protocol.errors import KafkaError
from ottla.protocol.records import BatchHeader, Record, build_batch, build_marker, read_records


class FakeStateLog:
    def __init__(self) -> None:
        self.partitions: dict[int, bytearray] = {}
        self.error: KafkaError | None = None
        self.slow = False
        self.pending: list[asyncio.Future[None]] = []
        self.reading = asyncio.Event()
        self.reading.set()

    def append(
        self, partition: int, records: Sequence[tuple[bytes, bytes | None]], now_ms: int
    ) -> Awaitable[None] | None:
        batch = build_batch(
            [Record(0, now_ms, key, value) for key, value in records], base_offset=self._end(partition)
        )
        return self._append(partition, batch)

    def _end(self, partition: int) -> int:
        written = self.partitions.setdefault(partition, bytearray())
        return sum(header.record_count for header, _ in read_records(written))

    def _append(self, partition: int, batch: bytearray) -> Awaitable[None] | None:
        if self.error is not None:
            raise self.error
        self.partitions[partition] += batch
        if not self.slow:
            return None
        future = asyncio.get_running_loop().create_future()
        self.pending.append(future)
        return future

    def append_transactional(
        self,
        partition: int,
        records: Sequence[tuple[bytes, bytes | None]],
        now_ms: int,
        producer_id: int,
        producer_epoch: int,
    ) -> Awaitable[None] | None:
        return self._append(
            partition,
            build_batch(
                [Record(0, now_ms, key, value) for key, value in records],
                base_offset=self._end(partition),
                producer_id=producer_id,
                producer_epoch=producer_epoch,
                base_sequence=0,
                transactional=True,
            ),
        )

    def append_marker(self, partition: int, producer_id: int, producer_epoch: int, *, commit: bool) -> None:
        batch = build_marker(producer_id, producer_epoch, commit=commit, coordinator_epoch=0, timestamp=1)
        struct.pack_into(">q", batch, 0, self._end(partition))
        self._append(partition, batch)

    async def read(self, partition: int) -> AsyncIterator[tuple[BatchHeader, Sequence[Record]]]:
        for header, records in read_records(bytes(self.partitions.get(partition, b""))):
            await self.reading.wait()
            yield header, records
        await self.reading.wait()

    async def release(self, error: KafkaError | None = None) -> None:
        """Let all appends so far reach the in-sync replicas, or fail."""
        pending, self.pending = self.pending, []
        for future in pending:
            if future.done():
                continue
            if error is None:
                future.set_result(None)
            else:
                future.set_exception(error)
        for _ in range(5):
            await asyncio.sleep(0)

    def records(self) -> list[tuple[bytes | None, bytes | None]]:
        return [
            (record.key, record.value)
            for log in self.partitions.values()
            for _, records in read_records(bytes(log))
            for record in records
        ]
