"""`partition.metadata`: the topic id a directory belongs to, in the notation of Kafka's Uuid."""

from __future__ import annotations

import base64
import binascii
import os

from ottla.log.errors import LogDirectoryError
from ottla.log.files.checkpoint import replace_file

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
    """Not synced: the cluster's metadata has the id too."""
    text = f"version: 0\ntopic_id: {uuid_text(topic_id)}"
    replace_file(os.path.join(directory, PARTITION_METADATA), text.encode(), sync=False)


def read_partition_metadata(directory: str) -> bytes | None:
    """The topic id, or None if the file is missing or empty."""
    path = os.path.join(directory, PARTITION_METADATA)
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            lines = file.read().split("\n")
    except FileNotFoundError:
        return None
    fields = dict(line.split(": ", 1) for line in lines if ": " in line)
    if not fields:
        return None
    try:
        return parse_uuid(fields["topic_id"])
    except (KeyError, ValueError, binascii.Error):
        raise LogDirectoryError(
            f"{path} does not name a topic id; restore it or remove the file and it is written again"
        ) from None
