"""Reading partitions into one response, and a fetch that waits for data or a disk (Kafka's DelayedFetch)."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from ottla.broker.network.error_responses import error_response
from ottla.cluster.partitions.partition import Partition
from ottla.cluster.partitions.purgatory import DelayedOperation, Purgatory
from ottla.log.cold_reads import ColdRange, cold_range, read_cold
from ottla.log.config import CorruptSegmentError, StorageError
from ottla.log.files.descriptors import FileRegion
from ottla.protocol.codec import Request, Response
from ottla.protocol.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from ottla.broker.network.request_context import PendingResponse, RequestContext

# Reading partitions into one response, within its limits.


class PartitionReader:
    """Reads for one response of at most `max_bytes`. The first batch is returned whole, however large it is.

    `whole` is for readers that look at all bytes, not only at their position.
    """

    __slots__ = ("_whole", "cold", "left", "size")

    def __init__(self, max_bytes: int, *, whole: bool = False) -> None:
        self.left = max_bytes
        self.size = 0
        self.cold: list[ColdRange] = []  # ranges to read from disk first
        self._whole = whole

    def is_cold(self, partition: Partition, offset: int, max_bytes: int) -> bool:
        """Return True if a read would wait for the disk, and note the range in `cold`."""
        cold = cold_range(partition.log, offset, min(max_bytes, self.left), whole=self._whole)
        if cold is None:
            return False
        self.cold.append(cold)
        return True

    def read(
        self, partition: Partition, offset: int, max_bytes: int, *, upto: int, min_one: bool | None = None
    ) -> FileRegion:
        """Read records below `upto`. `min_one` replaces the rule for the first batch."""
        if min_one is None:
            min_one = not self.size
        try:
            region = partition.log.read(offset, min(max_bytes, self.left), upto=upto, min_one=min_one)
        except (StorageError, CorruptSegmentError) as error:
            partition.storage_failed(error)
            raise
        if region.size:
            self.take(region.size)
        return region

    def take(self, size: int) -> None:
        self.size += size
        self.left = max(self.left - size, 0)

    def release(self, size: int) -> None:
        """Return room for bytes that were read and are not part of the response."""
        self.size -= size
        self.left += size


# A fetch that waits: for data, or for a disk (Kafka's DelayedFetch).

logger = logging.getLogger(__name__)


class DelayedFetch(DelayedOperation):
    """One fetch request of a consumer, a follower or a share consumer, from its first read to its response.

    Progress of a watched partition makes it read again. A thread first reads data that is not in memory, so that no
    other client waits for the disk.
    """

    __slots__ = ("_context", "_deadline", "_is_final", "_is_reading", "_pending", "_reader", "_request")

    kind = "Fetch"
    blocks = True  # no later request of the connection is handled meanwhile

    def __init__(
        self, purgatory: Purgatory, request: Request, context: RequestContext, max_wait_ms: int
    ) -> None:
        super().__init__(purgatory)
        self._request = request
        self._context = context
        self._deadline = purgatory.loop.time() + max_wait_ms / 1000
        self._is_final = max_wait_ms <= 0  # answer with whatever the next read returns
        self._is_reading = False  # a thread is reading from disk
        self._pending: PendingResponse | None = None
        self._reader: PartitionReader  # of the last read

    # For subclasses

    def read(self, *, look_for_cold: bool) -> bool:
        """Read all partitions. Return True if there is enough to answer.

        With `look_for_cold`, ranges that are not in memory go to the reader's list instead.
        """
        raise NotImplementedError

    def response(self) -> Response:
        raise NotImplementedError

    def watch(self) -> None:
        raise NotImplementedError

    def unwatch(self) -> None:
        raise NotImplementedError

    # Steps

    @property
    def waits_for_disk(self) -> bool:
        return bool(self._reader.cold)

    def start(self) -> Response | PendingResponse:
        is_satisfied = self.read(look_for_cold=True)
        if self.waits_for_disk or not (is_satisfied or self._is_final):
            return self.delay()
        self.is_complete = True
        return self.response()

    def delay(self) -> PendingResponse:
        """Enter the purgatory."""
        if self._pending is None:
            self._pending = self._context.pending_response(blocks=self.blocks, on_abandon=self.cancel)
        self._purgatory.add(self, self._deadline)
        if self.waits_for_disk:
            self.read_from_disk()
        else:
            self.watch()
        return self._pending

    def complete(self) -> None:
        """Read again, and answer unless another reader was faster."""
        if not self._is_reading:
            self._leave()
            self.read_again(look_for_cold=True)

    def expire(self) -> None:
        self._is_final = True
        self.complete()

    def cancel(self) -> None:
        super().cancel()
        self.unwatch()

    def _leave(self) -> None:
        self._purgatory.remove(self)
        self.unwatch()

    def read_again(self, *, look_for_cold: bool) -> None:
        response: Response
        try:
            is_satisfied = self.read(look_for_cold=look_for_cold)
            if self.waits_for_disk or not (is_satisfied or self._is_final):
                self.delay()
                return
            response = self.response()
        except Exception as error:
            response = self.failure(error)
        self.answer(response)

    def answer(self, response: Response) -> None:
        self.cancel()
        assert self._pending is not None
        self._pending.complete_now(response)

    def failure(self, error: BaseException) -> Response:
        shown = "many partitions" if self._context.is_large else repr(self._request)
        name = self._context.api.name
        logger.error("%s v%d failed: %s", name, self._context.version, shown, exc_info=error)
        return error_response(self._request, KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR))

    def read_from_disk(self) -> None:
        self._is_reading = True
        reading = self._purgatory.loop.run_in_executor(None, read_cold, self._reader.cold)
        reading.add_done_callback(self.on_read)

    def on_read(self, reading: asyncio.Future[None]) -> None:
        """Continue as if the data had been in memory."""
        if not reading.cancelled():
            reading.exception()  # the read below reports errors
        self._is_reading = False
        if not self.is_complete:  # otherwise the client has disconnected
            self._leave()
            self.read_again(look_for_cold=False)
