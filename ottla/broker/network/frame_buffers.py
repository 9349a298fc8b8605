"""Buffers for requests that arrive in pieces."""

from __future__ import annotations

import mmap

_SMALL = 64 * 1024
_LARGE = 16 * 1024 * 1024
_KEPT_BYTES = 32 * 1024 * 1024


class FrameBuffers:
    """Provides buffers of the announced request size that use memory only for received bytes.

    Large buffers are anonymous mappings: untouched pages take no memory, so a client that announces a large request and
    sends nothing costs nothing. A few buffers, already backed by memory, are kept for the next request. Owner: the
    event loop.
    """

    def __init__(self) -> None:
        self._kept: list[memoryview] = []
        self._kept_bytes = 0

    def take(self, size: int) -> memoryview:
        """Return at least `size` bytes with arbitrary contents."""
        if size <= _SMALL:
            return memoryview(bytearray(size))
        for at, kept in enumerate(self._kept):
            if len(kept) >= size:
                self._kept_bytes -= len(kept)
                return self._kept.pop(at)
        return memoryview(mmap.mmap(-1, size))

    def give_back(self, buffer: memoryview) -> None:
        if _SMALL < len(buffer) <= _LARGE:
            self._kept.append(buffer)
            self._kept_bytes += len(buffer)
            while self._kept_bytes > _KEPT_BYTES:
                self._kept_bytes -= len(self._kept.pop(0))
