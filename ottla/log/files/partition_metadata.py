"""`partition.metadata`: the topic id of a log directory, in the notation of Kafka's Uuid.

A third line contains a checksum, because a log with a wrong id would belong to another topic and be deleted. Kafka
reads two lines.
"""

from __future__ import annotations

import base64
import binascii
import os

from crc32c import crc32c

from ottla.log.errors import LogDirectoryError
from ottla.log.files.checkpoint import partition_of, replace_file

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
