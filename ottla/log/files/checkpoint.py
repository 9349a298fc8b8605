"""Small text files with atomic replacement: a crash leaves either the old or the new content.

Kafka's format has no checksum: a flipped bit yields another valid offset. Ottla therefore writes a CRC32C as 32 spaces
and tabs after the first entry, where Kafka's readers (and people) skip white space. Kafka rewrites its files without
it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import NamedTuple

from crc32c import crc32c

TopicPartition = tuple[str, int]

RECOVERY_POINT_CHECKPOINT = "recovery-point-offset-checkpoint"
HIGH_WATERMARK_CHECKPOINT = "replication-offset-checkpoint"
LOG_START_CHECKPOINT = "log-start-offset-checkpoint"
CLEANER_CHECKPOINT = "cleaner-offset-checkpoint"

_VERSION = "0"
_SUFFIXED = re.compile(r"\.[0-9a-f]{32}-(future|delete|stray)$")
_SEAL = re.compile(r"[ \t]+$")
_SEAL_BITS = 32


class CheckpointError(ValueError):
    """A malformed checkpoint file. The message names the file."""


def partition_of(directory: str) -> str:
    """Return the `topic-partition` of a directory, including `-future` directories."""
    name = os.path.basename(directory)
    return _SUFFIXED.sub("", name)


def replace_file(path: str, data: bytes, *, sync: bool = True) -> None:
    """Write a new file and rename it over the old one. `sync` makes the content survive a power failure."""
    temporary = path + ".tmp"
    fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644)
    try:
        done = os.write(fd, data)
        while done < len(data):  # an almost full disk accepts a part first
            done += os.write(fd, data[done:])
        if sync:
            os.fsync(fd)
    except OSError:
        with suppress(OSError):
            os.unlink(temporary)
        raise
    finally:
        os.close(fd)
    os.replace(temporary, path)
    if sync:
        sync_path(os.path.dirname(path))


def sync_path(path: str) -> None:
    """fsync a file or a directory by name."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


class Checkpoint(NamedTuple):
    entries: list[str]
    is_sealed: bool  # written by Ottla, with a matching checksum


def write_lines(path: str, lines: Iterable[str], *, owner: str = "", sync: bool = True) -> None:
    """Write a checkpoint. The checksum covers file name and `owner`, so that a misplaced file is detected."""
    body = list(lines)
    if body:
        body[0] += _seal(path, owner, body)
    replace_file(path, "\n".join([_VERSION, str(len(body)), *body, ""]).encode(), sync=sync)


def _seal(path: str, owner: str, body: list[str]) -> str:
    crc = crc32c("\n".join([os.path.basename(path), owner, *body]).encode())
    return "".join("\t" if crc >> bit & 1 else " " for bit in range(_SEAL_BITS))


def read_lines(path: str, *, owner: str = "") -> Checkpoint:
    """Read a checkpoint; a missing or empty file has no entries. Raises CheckpointError naming a damaged file."""
    try:
        with open(path, encoding="utf-8", newline="") as file:
            lines = file.read().split("\n")
    except FileNotFoundError:
        return Checkpoint([], False)
    except UnicodeDecodeError:
        raise CheckpointError(f"{path} is damaged: it is not a text file") from None
    if lines == [""]:
        return Checkpoint([], False)
    entries = lines[2:-1] if lines[-1] == "" else lines[2:]
    if lines[0] != _VERSION:
        raise CheckpointError(f"{path} has checkpoint version {lines[0]!r}, only {_VERSION} is known")
    if len(lines) < 2 or lines[1] != str(len(entries)):
        raise CheckpointError(f"{path} is damaged: it does not hold the number of entries it announces")
    if not entries or (found := _SEAL.search(entries[0])) is None:
        return Checkpoint(entries, False)
    entries[0] = entries[0][: found.start()]
    if found[0] != _seal(path, owner, entries):
        raise CheckpointError(f"{path} is damaged: its checksum does not match")
    return Checkpoint(entries, True)


def write_offsets(path: str, offsets: Mapping[TopicPartition, int]) -> None:
    write_lines(path, (f"{topic} {partition} {offset}" for (topic, partition), offset in offsets.items()))


class Offsets(NamedTuple):
    by_partition: dict[TopicPartition, int]
    is_sealed: bool


def read_offsets(path: str) -> Offsets:
    offsets: dict[TopicPartition, int] = {}
    entries, is_sealed = read_lines(path)
    for line in entries:
        try:
            topic, partition, offset = line.split(" ")
            offsets[topic, int(partition)] = int(offset)
        except ValueError:
            raise CheckpointError(
                f"{path} has a line that is not 'topic partition offset': {line!r}"
            ) from None
    return Offsets(offsets, is_sealed)
