"""Start offsets of leader epochs: the `leader-epoch-checkpoint` of a partition."""

from __future__ import annotations

import os
from bisect import bisect_left, bisect_right
from threading import Lock

from ottla.log.files.checkpoint import CheckpointError, partition_of, read_lines, sync_path, write_lines

UNDEFINED_EPOCH = -1
UNDEFINED_OFFSET = -1
LEADER_EPOCH_CHECKPOINT = "leader-epoch-checkpoint"


class LeaderEpochCache:
    """Invariant: epochs and their start offsets both rise strictly.

    A new epoch is written with the next flush or roll. Until then, recovery finds it in the batch headers, which it
    reads from the recovery point. Removals are written at once. Owner: the log's owner; `write` may run in a thread.
    """

    def __init__(self, directory: str) -> None:
        self._path = os.path.join(directory, LEADER_EPOCH_CHECKPOINT)
        self._owner = partition_of(directory)
        self.is_sealed = False
        self.latest = UNDEFINED_EPOCH  # epoch of the last entry; every append compares it
        self._entries: list[tuple[int, int]] = []
        self._on_disk: list[tuple[int, int]] = []
        self._lock = Lock()  # a flush in a thread and a roll on the loop may both write

    def load(self) -> None:
        """Read the file. Raises CheckpointError if it is damaged; `is_sealed` tells
        whether its checksum was verified.
        """
        entries: list[tuple[int, int]] = []
        lines, self.is_sealed = read_lines(self._path, owner=self._owner)
        for line in lines:
            try:
                epoch, start = map(int, line.split(" "))
            except ValueError:
                raise CheckpointError(
                    f"{self._path} has a line that is not 'epoch offset': {line!r}"
                ) from None
            if (
                epoch < 0
                or start < 0
                or (entries and not (entries[-1] < (epoch, start) and start > entries[-1][1]))
            ):
                raise CheckpointError(f"{self._path} is damaged: its epochs do not rise")
            entries.append((epoch, start))
        self._entries = entries
        self.latest = entries[-1][0] if entries else UNDEFINED_EPOCH
        self._on_disk = entries.copy()

    def moved_to(self, directory: str) -> None:
        with self._lock:
            self._path = os.path.join(directory, LEADER_EPOCH_CHECKPOINT)

    @property
    def path(self) -> str:
        return self._path

    def forget_from(self, offset: int) -> list[tuple[int, int]]:
        """Drop epochs that start at or after `offset`, to be reread from the batches. The file stays unchanged."""
        keep = bisect_left(self._entries, offset, key=_start)
        gone = self._entries[keep:]
        del self._entries[keep:]
        self.latest = self._entries[-1][0] if self._entries else UNDEFINED_EPOCH
        return gone

    @property
    def entries(self) -> list[tuple[int, int]]:
        return self._entries.copy()

    def assign(self, epoch: int, start_offset: int) -> None:
        """Start `epoch` at `start_offset`, overriding later starts and later epochs."""
        entries = self._entries
        if epoch < 0 or (entries and epoch == entries[-1][0] and start_offset >= entries[-1][1]):
            return
        keep = min(bisect_left(entries, epoch, key=_epoch), bisect_left(entries, start_offset, key=_start))
        entries[keep:] = [(epoch, start_offset)]
        self.latest = epoch

    def end_offset_for(self, epoch: int, log_end_offset: int) -> tuple[int, int]:
        """Return the largest epoch at or below `epoch` and its end offset; undefined if unknown."""
        entries = self._entries
        if epoch == UNDEFINED_EPOCH or not entries:
            return UNDEFINED_EPOCH, UNDEFINED_OFFSET
        if epoch == entries[-1][0]:
            return epoch, log_end_offset
        higher = bisect_right(entries, epoch, key=_epoch)
        if higher == len(entries):
            return UNDEFINED_EPOCH, UNDEFINED_OFFSET
        return entries[higher - 1][0] if higher else epoch, entries[higher][1]

    def epoch_of(self, offset: int) -> int:
        at = bisect_right(self._entries, offset, key=_start)
        return self._entries[at - 1][0] if at else UNDEFINED_EPOCH

    def truncate_from_end(self, end_offset: int) -> None:
        """Remove epochs that start at or after `end_offset`."""
        keep = bisect_left(self._entries, end_offset, key=_start)
        if keep < len(self._entries):
            del self._entries[keep:]
            self.latest = self._entries[-1][0] if self._entries else UNDEFINED_EPOCH
            self.write()

    def truncate_from_start(self, start_offset: int) -> None:
        """Remove everything below `start_offset`; the epoch of that offset then starts there."""
        drop = bisect_right(self._entries, start_offset, key=_start) - 1
        if drop >= 0 and self._entries[drop] != (self._entries[0][0], start_offset):
            self._entries[: drop + 1] = [(self._entries[drop][0], start_offset)]
            self.write()

    def clear(self) -> None:
        self._entries.clear()
        self.latest = UNDEFINED_EPOCH
        self.write()

    def write(self, *, sync: bool = False) -> None:
        """Write the file if it is outdated."""
        with self._lock:
            entries = self._entries.copy()
            if entries != self._on_disk:
                lines = (f"{epoch} {start}" for epoch, start in entries)
                write_lines(self._path, lines, owner=self._owner, sync=False)
                self._on_disk = entries
        if sync and entries:
            sync_path(self._path)


def _epoch(entry: tuple[int, int]) -> int:
    return entry[0]


def _start(entry: tuple[int, int]) -> int:
    return entry[1]
