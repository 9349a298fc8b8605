"""Small text files that are replaced as a whole: either the old content survives a crash or the new one."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from contextlib import suppress

TopicPartition = tuple[str, int]

RECOVERY_POINT_CHECKPOINT = "recovery-point-offset-checkpoint"
HIGH_WATERMARK_CHECKPOINT = "replication-offset-checkpoint"
LOG_START_CHECKPOINT = "log-start-offset-checkpoint"
CLEANER_CHECKPOINT = "cleaner-offset-checkpoint"

_VERSION = "0"


class CheckpointError(ValueError):
    """A checkpoint file that does not follow the format; the text names the file."""


def replace_file(path: str, data: bytes, *, sync: bool = True) -> None:
    """Write beside the file and rename over it. `sync` makes the new content survive a power cut."""
    temporary = path + ".tmp"
    fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644)
    try:
        written = os.write(fd, data)
        while written < len(data):  # a disk that is about to be full takes a part first
            written += os.write(fd, data[written:])
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


def write_lines(path: str, lines: Iterable[str], *, sync: bool = True) -> None:
    body = list(lines)
    replace_file(path, "\n".join([_VERSION, str(len(body)), *body, ""]).encode(), sync=sync)


def read_lines(path: str) -> list[str]:
    """The entries of a checkpoint; a missing or empty file has none."""
    try:
        with open(path, encoding="utf-8") as file:
            lines = file.read().split("\n")
    except FileNotFoundError:
        return []
    except UnicodeDecodeError:
        raise CheckpointError(f"{path} is not a text file") from None
    if lines == [""]:
        return []
    entries = lines[2:-1] if lines[-1] == "" else lines[2:]
    if lines[0] != _VERSION:
        raise CheckpointError(f"{path} has checkpoint version {lines[0]!r}, only {_VERSION} is known")
    if len(lines) < 2 or lines[1] != str(len(entries)):
        raise CheckpointError(f"{path} does not hold the number of entries it announces")
    return entries


def write_offsets(path: str, offsets: Mapping[TopicPartition, int]) -> None:
    write_lines(path, (f"{topic} {partition} {offset}" for (topic, partition), offset in offsets.items()))


def read_offsets(path: str) -> dict[TopicPartition, int]:
    offsets: dict[TopicPartition, int] = {}
    for line in read_lines(path):
        try:
            topic, partition, offset = line.split(" ")
            offsets[topic, int(partition)] = int(offset)
        except ValueError:
            raise CheckpointError(
                f"{path} has a line that is not 'topic partition offset': {line!r}"
            ) from None
    return offsets
