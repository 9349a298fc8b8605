"""Files that identify a log directory: `meta.properties` (broker and cluster) and the mark `.ottla`."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass

from crc32c import crc32c

from ottla.log.errors import LogDirectoryError
from ottla.log.files.checkpoint import replace_file

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
