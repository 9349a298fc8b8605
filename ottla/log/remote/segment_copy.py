"""Copy a finished segment to remote storage, and delete it there. Blocks; runs in threads."""

from __future__ import annotations

from dataclasses import dataclass

from ottla.log.remote.objects import (
    INDEXES,
    LEADER_EPOCH,
    LOG,
    MANIFEST,
    OFFSET,
    PRODUCER_SNAPSHOT,
    SUFFIXES,
    TIMESTAMP,
    TRANSACTION,
    SegmentManifest,
    encode_leader_epochs,
    object_key,
    pack_indexes,
)
from ottla.log.remote.segment_metadata import RemoteLogSegment
from ottla.log.remote.storage import RemoteStorage
from ottla.log.segments.index import read_file


@dataclass(frozen=True, slots=True)
class SegmentFiles:
    """The files of a sealed segment, and the state of the log at its end."""

    log: str
    size: int
    offset_index: str
    time_index: str
    transaction_index: str
    producer_snapshot: bytes
    leader_epochs: list[tuple[int, int]]  # of the log up to the segment's end


def copy_segment(storage: RemoteStorage, segment: RemoteLogSegment, files: SegmentFiles) -> None:
    """Raises RemoteStorageError or OSError. Objects of a failed copy are deleted with the segment's metadata."""
    indexes = {
        OFFSET: read_file(files.offset_index),
        TIMESTAMP: read_file(files.time_index),
        PRODUCER_SNAPSHOT: files.producer_snapshot,
        LEADER_EPOCH: encode_leader_epochs(files.leader_epochs),
    }
    aborted = read_file(files.transaction_index)
    if aborted:
        indexes[TRANSACTION] = aborted
    packed, places = pack_indexes(indexes)
    storage.put_file(object_key(segment, LOG), files.log, files.size)
    storage.put(object_key(segment, INDEXES), packed)
    manifest = SegmentManifest(files.size, places).encode(segment)
    storage.put(object_key(segment, MANIFEST), manifest)


def delete_segment(storage: RemoteStorage, segment: RemoteLogSegment) -> None:
    for suffix in reversed(SUFFIXES):  # without its manifest nobody starts to read a segment
        storage.delete(object_key(segment, suffix))
