"""Files of changes and of snapshots: keys with their values, or with none where they were deleted.

A file is compressed with zstd. It ends with the number of its entries and a checksum, so that one that was cut short
is noticed. It gets its name when it is complete.
"""

from __future__ import annotations

import contextlib
import struct
import uuid
import zlib
from collections.abc import Iterable, Iterator
from typing import Any

_MAGIC = b"ottla state 1\n"
_ENTRY = struct.Struct("<Ii")  # length of the key; length of the value, -1 if it was deleted
_TRAILER = struct.Struct("<QI")  # how many entries, CRC-32 of them
_END = 0xFFFFFFFF
_BLOCK = 1 << 20

Entry = tuple[bytes, bytes | None]


class DamagedFile(Exception):
    """The file is not complete, or not what was written."""


def write(files: Any, path: str, entries: Iterable[Entry]) -> None:
    import pyarrow as pa

    temporary = f"{path}.{uuid.uuid4().hex}.tmp"
    count, checksum = 0, zlib.crc32(_MAGIC)
    block = bytearray(_MAGIC)
    try:
        with pa.CompressedOutputStream(files.open_output_stream(temporary), "zstd") as out:
            begin = len(_MAGIC)
            for key, value in entries:
                block += _ENTRY.pack(len(key), -1 if value is None else len(value))
                block += key
                if value is not None:
                    block += value
                count += 1
                if len(block) >= _BLOCK:
                    checksum = zlib.crc32(memoryview(block)[begin:], checksum)
                    out.write(bytes(block))
                    block.clear()
                    begin = 0
            checksum = zlib.crc32(bytes(block[begin:]), checksum)
            block += _ENTRY.pack(_END, 0) + _TRAILER.pack(count, checksum)
            out.write(bytes(block))
        _move(files, temporary, path)
    except BaseException:
        _delete(files, temporary)
        raise


def _move(files: Any, source: str, target: str) -> None:
    try:
        files.move(source, target)
    except OSError:
        # Not every file system replaces what is there, and the same batch may have been written before.
        _delete(files, target)
        files.move(source, target)


def _delete(files: Any, path: str) -> None:
    with contextlib.suppress(OSError):
        files.delete_file(path)


def read(files: Any, path: str) -> Iterator[Entry]:
    """Raises DamagedFile, possibly after some entries, and FileNotFoundError."""
    import pyarrow as pa

    with files.open_input_stream(path, compression=None) as raw:
        try:
            yield from _entries(_Blocks(pa.CompressedInputStream(raw, "zstd")))
        except (OSError, EOFError, struct.error, pa.ArrowException) as error:
            raise DamagedFile(path) from error


class _Blocks:
    def __init__(self, stream: Any) -> None:
        self._stream = stream
        self._block = b""
        self._at = 0

    def take(self, count: int) -> bytes:
        while len(self._block) - self._at < count:
            more = self._stream.read(max(_BLOCK, count))
            if not more:
                raise EOFError
            self._block = self._block[self._at :] + more
            self._at = 0
        found = self._block[self._at : self._at + count]
        self._at += count
        return found


def _entries(blocks: _Blocks) -> Iterator[Entry]:
    if blocks.take(len(_MAGIC)) != _MAGIC:
        raise EOFError
    count, checksum = 0, zlib.crc32(_MAGIC)
    while True:
        head = blocks.take(_ENTRY.size)
        key_length, value_length = _ENTRY.unpack(head)
        if key_length == _END:
            if _TRAILER.unpack(blocks.take(_TRAILER.size)) != (count, checksum):
                raise EOFError
            return
        body = blocks.take(key_length + max(value_length, 0))
        checksum = zlib.crc32(body, zlib.crc32(head, checksum))
        count += 1
        yield body[:key_length], None if value_length < 0 else body[key_length:]
