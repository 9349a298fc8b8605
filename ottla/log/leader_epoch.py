"""Which leader epoch began at which offset: the `leader-epoch-checkpoint` of a partition."""

from __future__ import annotations

import os
from bisect import bisect_left, bisect_right

from ottla.log.checkpoint import CheckpointError, read_lines, write_lines

UNDEFINED_EPOCH = -1
UNDEFINED_OFFSET = -1
LEADER_EPOCH_CHECKPOINT = "leader-epoch-checkpoint"


class LeaderEpochCache:
    """Invariant: epochs and their start offsets both rise strictly, and the file holds what memory holds.

    The file is not synced on every change: epochs above the recovery point are found again in the batch
    headers, and a flush of the log syncs it. Owner: the log's owner.
    """

    def __init__(self, directory: str) -> None:
        self._path = os.path.join(directory, LEADER_EPOCH_CHECKPOINT)
        self._epochs: list[int] = []
        self._starts: list[int] = []

    def load(self) -> None:
        self._epochs.clear()
        self._starts.clear()
        for line in read_lines(self._path):
            try:
                epoch, start = map(int, line.split(" "))
            except ValueError:
                raise CheckpointError(
                    f"{self._path} has a line that is not 'epoch offset': {line!r}"
                ) from None
            self._insert(epoch, start)

    @property
    def latest(self) -> int:
        return self._epochs[-1] if self._epochs else UNDEFINED_EPOCH

    @property
    def entries(self) -> list[tuple[int, int]]:
        return list(zip(self._epochs, self._starts, strict=True))

    def assign(self, epoch: int, start_offset: int) -> None:
        if self._insert(epoch, start_offset):
            self.write()

    def assign_unwritten(self, epoch: int, start_offset: int) -> None:
        """For recovery, which meets many epochs and writes once at the end."""
        self._insert(epoch, start_offset)

    def _insert(self, epoch: int, start_offset: int) -> bool:
        if epoch < 0 or (self._epochs and epoch == self._epochs[-1] and start_offset >= self._starts[-1]):
            return False
        # A new entry overrules whatever contradicts it: later starts and later epochs.
        keep = min(bisect_left(self._epochs, epoch), bisect_left(self._starts, start_offset))
        del self._epochs[keep:], self._starts[keep:]
        self._epochs.append(epoch)
        self._starts.append(start_offset)
        return True

    def end_offset_for(self, epoch: int, log_end_offset: int) -> tuple[int, int]:
        """The largest epoch not above `epoch` and where it ended; undefined if nothing is known of it."""
        if epoch == UNDEFINED_EPOCH or not self._epochs:
            return UNDEFINED_EPOCH, UNDEFINED_OFFSET
        if epoch == self._epochs[-1]:
            return epoch, log_end_offset
        higher = bisect_right(self._epochs, epoch)
        if higher == len(self._epochs):
            return UNDEFINED_EPOCH, UNDEFINED_OFFSET
        return self._epochs[higher - 1] if higher else epoch, self._starts[higher]

    def epoch_of(self, offset: int) -> int:
        at = bisect_right(self._starts, offset)
        return self._epochs[at - 1] if at else UNDEFINED_EPOCH

    def truncate_from_end(self, end_offset: int) -> None:
        """Forget epochs that began at or after `end_offset`."""
        keep = bisect_left(self._starts, end_offset)
        if keep < len(self._starts):
            del self._epochs[keep:], self._starts[keep:]
            self.write()

    def truncate_from_start(self, start_offset: int) -> None:
        """Forget what lies below `start_offset`; the epoch of that offset then begins there."""
        drop = bisect_right(self._starts, start_offset) - 1
        if drop < 0 or (drop == 0 and self._starts[0] == start_offset):
            return
        del self._epochs[:drop], self._starts[:drop]
        self._starts[0] = start_offset
        self.write()

    def clear(self) -> None:
        if self._epochs:
            self._epochs.clear()
            self._starts.clear()
            self.write()

    def write(self) -> None:
        write_lines(self._path, (f"{epoch} {start}" for epoch, start in self.entries), sync=False)

    def sync(self) -> None:
        """May run in a thread: syncs the file that is there, touches no memory."""
        try:
            fd = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return
        try:
            os.fsync(fd)
        finally:
            os.close(fd)
