"""Reading partitions into one response, within its limits."""

from __future__ import annotations

from ottla.cluster.partitions.partition import Partition
from ottla.log.cold_reads import ColdRange, cold_range
from ottla.log.errors import CorruptSegmentError, StorageError
from ottla.log.files.file_region import FileRegion


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
        size = region.size
        if size:
            self.size += size
            self.left = max(self.left - size, 0)
        return region

    def release(self, size: int) -> None:
        """Return room for bytes that were read and are not part of the response."""
        self.size -= size
        self.left += size
