"""`.ottla-live-ends`: the end of each log in a directory, updated with every append.

A recovery point trails behind the log, so after kill -9 it cannot reveal a missing end. This file can: it is mapped
into memory, and storing two numbers takes less than a microsecond. The system keeps the mapped pages of a killed
process. A power failure may keep them and lose the records, so the numbers are valid only until the next system boot.

Format, in native byte order: 64 bytes `OTTLA-ENDS`, version (1) and boot id, padded; then slots of 48 bytes: 16 bytes
of hash of `topic-partition`, the end offset twice, the base offset of the active segment, and the CRC of its first
batch with its complement. If the two ends differ, a write was interrupted: the smaller one counts.
"""

from __future__ import annotations

import mmap
import os
from collections.abc import Iterable
from contextlib import suppress
from hashlib import blake2b
from struct import Struct
from threading import Lock

from ottla.log.files.checkpoint import TopicPartition
from ottla.log.files.meta_properties import KnownLog

LIVE_ENDS_FILE = ".ottla-live-ends"

_HEAD = Struct("=16s H 46s")
_MAGIC = b"OTTLA-ENDS".ljust(16, b"\0")
_VERSION = 1
_SLOT = Struct("=16s Q Q Q Q")
_WORDS = _SLOT.size // 8
_CHUNK_SLOTS = 4096
_CHUNK_BYTES = _CHUNK_SLOTS * _SLOT.size  # a multiple of every page size up to 64 KB
_OFFSET_MAX = 2**63 - 1
_BOOT_ID = "/proc/sys/kernel/random/boot_id"

# Word indexes in a slot.
END, END_COPY, ACTIVE_BASE, FIRST_CRC = 2, 3, 4, 5


def mirrored(crc: int) -> int:
    """Combine a CRC with its complement: one flipped bit cannot yield another valid value."""
    return crc << 32 | (crc ^ 0xFFFF_FFFF)


def _boot_id() -> bytes | None:
    try:
        with open(_BOOT_ID, "rb") as file:
            return file.read().strip()[:46]
    except OSError:
        return None


def _key(name: TopicPartition) -> bytes:
    return blake2b(f"{name[0]}-{name[1]}".encode(), digest_size=16).digest()


def read_live_ends(directory: str, names: Iterable[TopicPartition]) -> dict[TopicPartition, KnownLog] | None:
    """Return the recorded ends of these logs: none after a reboot. None if the file is damaged."""
    try:
        with open(os.path.join(directory, LIVE_ENDS_FILE), "rb") as file:
            data = file.read()
    except OSError:
        return {}
    boot_id = _boot_id()
    if len(data) < _HEAD.size or data[: len(_MAGIC)] != _MAGIC:
        return None
    _, version, booted = _HEAD.unpack_from(data)
    if boot_id is None or (version, booted.rstrip(b"\0")) != (_VERSION, boot_id):
        return {}
    body = memoryview(data)[mmap.ALLOCATIONGRANULARITY :]
    slots = {slot[0]: slot for slot in _SLOT.iter_unpack(body[: len(body) - len(body) % _SLOT.size])}
    found = {}
    for name in names:
        slot = slots.get(_key(name))
        if slot is not None and min(slot[1], slot[2]) <= _OFFSET_MAX and slot[3] <= _OFFSET_MAX:
            crc = slot[4] >> 32
            found[name] = KnownLog(min(slot[1], slot[2]), slot[3], crc if slot[4] == mirrored(crc) else None)
    return found


class LiveEnds:
    """Invariant: a slot never exceeds its log. Owner: the log directory; each log writes to its own slot."""

    def __init__(self, directory: str, known: dict[TopicPartition, KnownLog]) -> None:
        """Create a new file with the known ends. Raises OSError, for example on a full disk."""
        self._path = os.path.join(directory, LIVE_ENDS_FILE)
        self._lock = Lock()  # several threads open logs
        self._slots: dict[TopicPartition, memoryview] = {}
        self._free: list[memoryview] = []
        self._fd = -1
        boot_id = _boot_id()
        if boot_id is None:
            return
        temporary = self._path + ".tmp"
        fd = os.open(temporary, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644)
        try:
            head = _HEAD.pack(_MAGIC, _VERSION, boot_id)
            os.write(fd, head.ljust(mmap.ALLOCATIONGRANULARITY, b"\0"))
            self._fd = fd
            for name, each in known.items():
                slot = self.slot(name)
                if slot is not None:
                    slot[END] = slot[END_COPY] = each.end_offset
                    slot[ACTIVE_BASE] = each.active_base
                    slot[FIRST_CRC] = 0 if each.active_first_crc is None else mirrored(each.active_first_crc)
            os.replace(temporary, self._path)
        except OSError:
            self.close()
            with suppress(OSError):
                os.unlink(temporary)
            raise

    def slot(self, name: TopicPartition) -> memoryview | None:
        """Return the six words of this log, or None if there is no room."""
        with self._lock:
            found = self._slots.get(name)
            if found is None and self._fd >= 0:
                if not self._free:
                    try:
                        self._add_chunk()
                    except OSError:
                        return None
                found = self._slots[name] = self._free.pop()
                key = memoryview(_key(name)).cast("Q")
                found[0], found[1] = key[0], key[1]
            return found

    def _add_chunk(self) -> None:
        start = os.fstat(self._fd).st_size
        # Allocate blocks first: a store to an unallocated page on a full disk would kill the process.
        os.posix_fallocate(self._fd, start, _CHUNK_BYTES)
        words = memoryview(mmap.mmap(self._fd, _CHUNK_BYTES, offset=start)).cast("Q")
        self._free = [words[at : at + _WORDS] for at in range(0, _CHUNK_SLOTS * _WORDS, _WORDS)]

    def forget(self, name: TopicPartition) -> None:
        slot = self._slots.pop(name, None)
        if slot is not None:
            for word in range(_WORDS):
                slot[word] = 0

    def known(self, name: TopicPartition) -> KnownLog:
        slot = self._slots.get(name)
        if slot is None:
            return KnownLog()
        crc = slot[FIRST_CRC] >> 32
        is_known = slot[FIRST_CRC] == mirrored(crc)
        return KnownLog(min(slot[END], slot[END_COPY]), slot[ACTIVE_BASE], crc if is_known else None)

    def remove(self) -> None:
        """Remove the file after a clean shutdown: recovery points suffice, and Apache Kafka may write next."""
        with suppress(FileNotFoundError):
            os.unlink(self._path)
        self.close()

    def close(self) -> None:
        self._slots.clear()
        self._free.clear()
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1
