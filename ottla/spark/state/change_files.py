"""Change and snapshot files: keys with their values, or without one for deleted keys.

A file is compressed with zstd. It ends with the number of its entries and a checksum, which reveal truncated or
modified files. A file gets its name when it is complete.

The first line names the format of the keys and values. Format 1 has pickled values; `value_codec` wrote format 2.
"""

from __future__ import annotations

import contextlib
import re
import struct
import uuid
import zlib
from collections.abc import Iterable, Iterator
from typing import Any

FORMAT = 2
#: Every format's first line has this length.
_MAGIC = b"ottla state 2\n"
_ENTRY = struct.Struct("<Ii")  # length of the key; length of the value, or -1 if deleted
_TRAILER = struct.Struct("<QI")  # number of entries and their CRC-32
_END = 0xFFFFFFFF
_NUMBER = re.compile(rb"ottla state ([1-9])\n")
_BLOCK = 1 << 20
_LARGEST_READ = 64 << 20

Entry = tuple[bytes, bytes | None]


class DamagedFile(Exception):
    """The file is incomplete, or its bytes have changed."""


class NewerFormat(Exception):
    """A later version of Ottla wrote the file."""

    def __init__(self, path: str, number: int) -> None:
        super().__init__(
            f"{path} has state format {number} of a newer version of Ottla; this one reads formats up to {FORMAT}"
        )


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
        # Some file systems cannot replace an existing file, and an earlier attempt may have written the same batch.
        _delete(files, target)
        files.move(source, target)


def _delete(files: Any, path: str) -> None:
    with contextlib.suppress(OSError):
        files.delete_file(path)


@contextlib.contextmanager
def opened(files: Any, path: str) -> Iterator[tuple[int, Iterator[Entry]]]:
    """Yield the format of a file and its entries.

    Raises DamagedFile, possibly after some entries, NewerFormat and FileNotFoundError.
    """
    import pyarrow as pa

    with files.open_input_stream(path, compression=None) as raw:
        try:
            blocks = _Blocks(pa.CompressedInputStream(raw, "zstd"))
            magic = blocks.take(len(_MAGIC))
        except (OSError, EOFError, pa.ArrowException) as error:
            raise DamagedFile(path) from error
        number = _NUMBER.fullmatch(magic)
        if number is None:
            raise DamagedFile(path)
        if int(number[1]) > FORMAT:
            raise NewerFormat(path, int(number[1]))
        yield int(number[1]), _entries(blocks, magic, path)


class _Blocks:
    def __init__(self, stream: Any) -> None:
        self._stream = stream
        self._block = b""
        self._at = 0

    def take(self, count: int) -> bytes:
        while len(self._block) - self._at < count:
            more = self._stream.read(min(max(_BLOCK, count), _LARGEST_READ))
            if not more:
                raise EOFError
            self._block = self._block[self._at :] + more
            self._at = 0
        found = self._block[self._at : self._at + count]
        self._at += count
        return found


def _entries(blocks: _Blocks, magic: bytes, path: str) -> Iterator[Entry]:
    import pyarrow as pa

    try:
        yield from _checked(blocks, zlib.crc32(magic))
    except (OSError, EOFError, struct.error, pa.ArrowException) as error:
        raise DamagedFile(path) from error


def _checked(blocks: _Blocks, checksum: int) -> Iterator[Entry]:
    count = 0
    while True:
        head = blocks.take(_ENTRY.size)
        key_length, value_length = _ENTRY.unpack(head)
        if key_length == _END:
            if _TRAILER.unpack(blocks.take(_TRAILER.size)) != (count, checksum):
                raise EOFError
            return
        if value_length < -1:
            raise EOFError
        body = blocks.take(key_length + max(value_length, 0))
        checksum = zlib.crc32(body, zlib.crc32(head, checksum))
        count += 1
        yield body[:key_length], None if value_length < 0 else body[key_length:]
