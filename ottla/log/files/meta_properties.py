"""Files of a log directory and its partitions: `meta.properties`, `.lock`, `partition.metadata`, the mark of damage."""

from __future__ import annotations

import base64
import binascii
import fcntl
import os
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from threading import Lock
from typing import NamedTuple

from crc32c import crc32c

from ottla.log.config import LogDirectoryError
from ottla.log.files.checkpoint import CheckpointError, partition_of, read_lines, replace_file, write_lines

# Files that identify a log directory: `meta.properties` (broker and cluster) and the mark `.ottla`.

META_PROPERTIES = "meta.properties"
_CHECKSUM = "#crc32c "  # checksum of the lines below; a comment for Kafka


@dataclass(frozen=True, slots=True)
class MetaProperties:
    broker_id: int | None
    cluster_id: str | None


def read_meta_properties(directory: str) -> MetaProperties | None:
    """Read the file. Version 0 is from a ZooKeeper broker; version 1, with node.id, from KRaft."""
    path = os.path.join(directory, META_PROPERTIES)
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            text = file.read()
    except FileNotFoundError:
        if os.path.lexists(path):
            raise LogDirectoryError(
                f"{path} is a link to nowhere: restore the file, or remove the link"
            ) from None
        return None
    first, _, body = text.partition("\n")
    if first.startswith("#crc") and first != f"{_CHECKSUM}{crc32c(body.encode()):08x}":
        raise LogDirectoryError(
            f"{path} is damaged: its checksum does not match. Restore it, or write broker.id, version=0 and cluster.id "
            "into it again, without the line of the checksum"
        )
    lines = text.splitlines()
    fields = dict(line.split("=", 1) for line in lines if "=" in line and not line.startswith("#"))
    if fields.get("version", "").isdecimal() and int(fields["version"]) > 1:
        raise LogDirectoryError(
            f"{path} has version {fields['version']} of a newer broker, and this one reads versions up to 1: start the "
            "version that the directory was used with"
        )
    if fields.get("version") not in ("0", "1"):
        raise LogDirectoryError(f"{path} has an unknown version: is {directory} a log directory?")
    broker_id = fields.get("broker.id", fields.get("node.id"))
    try:
        return MetaProperties(None if broker_id is None else int(broker_id), fields.get("cluster.id"))
    except ValueError:
        raise LogDirectoryError(f"{path} has the broker id {broker_id!r}, which is not a number") from None


def write_meta_properties(directory: str, broker_id: int, cluster_id: str) -> None:
    body = f"broker.id={broker_id}\nversion=0\ncluster.id={cluster_id}\n"
    text = f"{_CHECKSUM}{crc32c(body.encode()):08x}\n{body}"
    replace_file(os.path.join(directory, META_PROPERTIES), text.encode())


_MARK_FILE = ".ottla"


def mark(directory: str) -> None:
    """Mark the directory as used by Ottla. An existing mark stays."""
    with open(os.path.join(directory, _MARK_FILE), "ab"):
        pass


def read_mark(directory: str) -> frozenset[str] | None:
    """Return the recorded directories, or None if Ottla has never used this one."""
    try:
        with open(os.path.join(directory, _MARK_FILE), encoding="utf-8", errors="surrogateescape") as file:
            return frozenset(file.read().splitlines())
    except FileNotFoundError:
        return None


def write_mark(directory: str, log_dirs: Iterable[str]) -> None:
    """Mark the directory and list all directories of its broker."""
    text = "".join(f"{each}\n" for each in log_dirs)
    replace_file(os.path.join(directory, _MARK_FILE), text.encode(errors="surrogateescape"))


# `.lock`: one broker per log directory, whether Ottla or Apache Kafka.

LOCK_FILE = ".lock"

# These locks belong to the process, so two brokers in one process would not exclude each other.
_held: set[str] = set()
_guard = Lock()


class DirectoryLock:
    """Lock held from construction to `release`. Owner: the log directory."""

    def __init__(self, directory: str) -> None:
        self._key = os.path.realpath(directory)
        with _guard:
            if self._key in _held:
                raise _in_use(directory)
            self._fd = os.open(
                os.path.join(directory, LOCK_FILE), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644
            )
            try:
                fcntl.lockf(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                os.close(self._fd)
                raise _in_use(directory) from None
            _held.add(self._key)

    def release(self) -> None:
        with _guard:
            if self._key in _held:
                _held.discard(self._key)
                os.close(self._fd)


def _in_use(directory: str) -> LogDirectoryError:
    return LogDirectoryError(
        f"{directory} is in use by another broker: stop that one or choose another directory"
    )


# `partition.metadata`: the topic id of a log directory, in the notation of Kafka's Uuid.
#
# A third line contains a checksum, because a log with a wrong id would belong to another topic and be deleted. Kafka
# reads two lines.

PARTITION_METADATA = "partition.metadata"
ZERO_UUID = bytes(16)


def uuid_text(uuid: bytes) -> str:
    return base64.urlsafe_b64encode(uuid).rstrip(b"=").decode()


def parse_uuid(text: str) -> bytes:
    uuid = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
    if len(uuid) != 16:
        raise ValueError(text)
    return uuid


def write_partition_metadata(directory: str, topic_id: bytes) -> None:
    """Write the file without a sync: the cluster metadata contains the id, too."""
    text = f"version: 0\ntopic_id: {uuid_text(topic_id)}\ncrc: {_checksum(directory, uuid_text(topic_id))}"
    replace_file(os.path.join(directory, PARTITION_METADATA), text.encode(), sync=False)


def read_partition_metadata(directory: str) -> bytes | None:
    """Return the topic id, or None if the file is missing or empty."""
    path = os.path.join(directory, PARTITION_METADATA)
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            lines = file.read().split("\n")
    except FileNotFoundError:
        return None
    fields = dict(line.split(": ", 1) for line in lines if ": " in line)
    if lines == [""]:
        return None
    try:
        # A file without the checksum is Kafka's and has two lines.
        if fields.get("crc", "" if len(lines) > 2 else None) not in (
            None,
            _checksum(directory, fields["topic_id"]),
        ):
            raise ValueError(path)
        return parse_uuid(fields["topic_id"])
    except (KeyError, ValueError, binascii.Error):
        raise LogDirectoryError(
            f"{path} is damaged and does not name the topic id. Restore it, or remove the file if the log is that of "
            "the topic: the id is written again"
        ) from None


def _checksum(directory: str, topic_id: str) -> str:
    return f"{crc32c(f'{partition_of(directory)} {topic_id}'.encode()):08x}"


# `ottla-damaged`: marks a partition that went offline because of damage, and keeps the evidence.
#
# The next start rereads the whole log and removes the file if the log is intact. The evidence is the log's length and
# first batch, because every stop rewrites checkpoints and live ends.

DAMAGE_MARK = "ottla-damaged"


class KnownLog(NamedTuple):
    """Facts about a log known before reading it; zeros where unknown."""

    end_offset: int = 0  # minimum end offset
    active_base: int = 0
    active_first_crc: int | None = None  # CRC of the first batch in the segment at `active_base`


NOTHING_KNOWN = KnownLog()


def mark_damaged(directory: str, known: KnownLog, reason: str) -> None:
    """Write the mark. A failure is harmless: the next start merely knows less."""
    crc = "-" if known.active_first_crc is None else str(known.active_first_crc)
    lines = [f"known {known.end_offset} {known.active_base} {crc}", "reason " + " ".join(reason.split())]
    with suppress(OSError):
        write_lines(os.path.join(directory, DAMAGE_MARK), lines, owner=partition_of(directory))


def read_damage_mark(directory: str) -> KnownLog | None:
    """Return None without a mark. A damaged mark only tells that the log has to be read."""
    path = os.path.join(directory, DAMAGE_MARK)
    if not os.path.lexists(path):
        return None
    try:
        lines, is_sealed = read_lines(path, owner=partition_of(directory))
        _, end, base, crc = lines[0].split(" ")
        if is_sealed:
            return KnownLog(int(end), int(base), None if crc == "-" else int(crc))
    except (CheckpointError, ValueError, IndexError):
        pass
    return KnownLog()


def remove_damage_mark(directory: str) -> None:
    with suppress(FileNotFoundError):
        os.unlink(os.path.join(directory, DAMAGE_MARK))
