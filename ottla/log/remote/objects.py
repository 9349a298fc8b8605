"""Objects of a remote segment: names and contents, as Aiven's tiered storage plugin for Apache Kafka lays them out.

    <prefix><topic>-<topic id>/<partition>/<start offset, 20 digits>-<segment id>.log
    <prefix><topic>-<topic id>/<partition>/<start offset, 20 digits>-<segment id>.indexes
    <prefix><topic>-<topic id>/<partition>/<start offset, 20 digits>-<segment id>.rsm-manifest

`.log` has the bytes of the segment. `.indexes` has all index files, one after the other. The manifest, version 1, is
JSON: it names the place of each index. Objects are neither compressed nor encrypted. docs/reference/remote-log.md
describes the format.
"""

from __future__ import annotations

import json
from base64 import urlsafe_b64encode
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from ottla.log.remote.segment_metadata import RemoteLogSegment, TopicIdPartition

LOG, INDEXES, MANIFEST = "log", "indexes", "rsm-manifest"
SUFFIXES = (LOG, INDEXES, MANIFEST)

# Names of the indexes in a manifest, in the order in which they are stored.
OFFSET, TIMESTAMP, PRODUCER_SNAPSHOT, LEADER_EPOCH, TRANSACTION = (
    "offset",
    "timestamp",
    "producerSnapshot",
    "leaderEpoch",
    "transaction",
)
_ORDER = (OFFSET, TIMESTAMP, PRODUCER_SNAPSHOT, LEADER_EPOCH, TRANSACTION)
_VERSION = "1"
MANIFEST_CHUNK_BYTES = 4 * 1024 * 1024


class RemoteSegmentError(Exception):
    """Objects of a remote segment are missing or cannot be used. The message is for an operator."""


def uuid_text(value: bytes) -> str:
    """Kafka's form of a UUID."""
    return urlsafe_b64encode(value).decode().rstrip("=")


def partition_prefix(partition: TopicIdPartition) -> str:
    return f"{partition.topic}-{uuid_text(partition.topic_id)}/{partition.partition}/"


def object_key(segment: RemoteLogSegment, suffix: str) -> str:
    name = f"{segment.start_offset:020d}-{uuid_text(segment.id)}.{suffix}"
    return partition_prefix(segment.partition) + name


class Place(NamedTuple):
    position: int
    size: int


@dataclass(frozen=True, slots=True)
class SegmentManifest:
    """Where the parts of a segment's objects are."""

    size: int
    indexes: Mapping[str, Place]

    def encode(self, segment: RemoteLogSegment) -> bytes:
        chunk = MANIFEST_CHUNK_BYTES
        last = self.size - (self.size - 1) // chunk * chunk if self.size else 0
        manifest = {
            "version": _VERSION,
            "chunkIndex": {
                "type": "fixed",
                "originalChunkSize": chunk,
                "originalFileSize": self.size,
                "transformedChunkSize": chunk,
                "finalTransformedChunkSize": last,
            },
            "segmentIndexes": {
                name: self.indexes[name]._asdict() if name in self.indexes else None for name in _ORDER
            },
            "compression": False,
            "remoteLogSegmentMetadata": _described(segment),
        }
        return json.dumps(manifest).encode()


def _described(segment: RemoteLogSegment) -> dict[str, Any]:
    partition = segment.partition
    return {
        "remoteLogSegmentId": {
            "topicIdPartition": {
                "topicId": uuid_text(partition.topic_id),
                "topicPartition": {"topic": partition.topic, "partition": partition.partition},
            },
            "id": uuid_text(segment.id),
        },
        "startOffset": segment.start_offset,
        "endOffset": segment.end_offset,
        "maxTimestampMs": segment.max_timestamp_ms,
        "brokerId": segment.broker_id,
        "eventTimestampMs": segment.event_timestamp_ms,
        "segmentLeaderEpochs": {str(epoch): str(start) for epoch, start in segment.leader_epochs.items()},
    }


def pack_indexes(indexes: Mapping[str, bytes]) -> tuple[bytes, dict[str, Place]]:
    """Return the content of the `.indexes` object, and the place of each index."""
    parts: list[bytes] = []
    places: dict[str, Place] = {}
    position = 0
    for name in _ORDER:
        if name in indexes:
            places[name] = Place(position, len(indexes[name]))
            parts.append(indexes[name])
            position += len(indexes[name])
    return b"".join(parts), places


def parse_manifest(data: bytes, key: str) -> SegmentManifest:
    """Raises RemoteSegmentError for a manifest that is damaged or names transformations."""
    try:
        manifest = json.loads(data)
        version = manifest["version"]
        is_transformed = bool(manifest["compression"]) or manifest.get("encryption") is not None
        size = int(manifest["chunkIndex"]["originalFileSize"])
        places = {
            name: Place(int(place["position"]), int(place["size"]))
            for name, place in manifest["segmentIndexes"].items()
            if place is not None
        }
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise RemoteSegmentError(f"{key} is damaged: {error!r}") from None
    if version != _VERSION:
        raise RemoteSegmentError(f"{key} has version {version}; this broker reads version {_VERSION}")
    if is_transformed:
        raise RemoteSegmentError(f"{key} describes a compressed or encrypted segment, which is not supported")
    return SegmentManifest(size, places)


# Content of the leader epoch index: Kafka's checkpoint file.


def encode_leader_epochs(entries: list[tuple[int, int]]) -> bytes:
    lines = ["0", str(len(entries)), *(f"{epoch} {start}" for epoch, start in entries)]
    return ("\n".join(lines) + "\n").encode()


def decode_leader_epochs(data: bytes) -> list[tuple[int, int]]:
    """Raises ValueError."""
    lines = data.decode().splitlines()
    if len(lines) < 2 or lines[0].strip() != "0" or int(lines[1]) != len(lines) - 2:
        raise ValueError("not a checkpoint of leader epochs")
    return [(int(epoch), int(start)) for epoch, start in (line.split() for line in lines[2:])]
