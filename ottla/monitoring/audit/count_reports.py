"""Reports: one tier's counts for one place, as written to the audit topic. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any, NamedTuple

_MASK = (1 << 64) - 1

#: Partition of reports that count amounts instead of offsets.
NO_PARTITION = -1
NO_EPOCH = -1


def fingerprint(key: bytes | None, value: bytes | None) -> int:
    """Return 64 bits that identify a record's content. Offset and timestamp are excluded, since copies change them."""
    digest = blake2b(digest_size=8)
    for part in (key, value):
        digest.update(b"-" if part is None else b"%d:" % len(part) + part)
    return int.from_bytes(digest.digest(), "big")


@dataclass(slots=True)
class Counts:
    """Counts of a bucket. `checksum` is the sum of fingerprints, independent of their order."""

    count: int = 0
    bytes: int = 0
    checksum: int = 0

    def add(self, count: int, size: int, checksum: int) -> None:
        self.count += count
        self.bytes += size
        self.checksum = (self.checksum + checksum) & _MASK


@dataclass(slots=True)
class CountReport:
    """One record of the audit topic.

    A report covers either a range of offsets in one partition, appended by the same leader: after an unclean election
    offsets repeat, and the epoch distinguishes them. Or, with `first` below zero, it covers records that passed a
    pipeline: such a report is written together with the records, and counts each time it occurs.
    """

    topic: str  # name in the counts
    tier: str
    partition: int
    first: int  # first offset
    end: int  # the offset after the last
    time_ms: int  # time of the count
    host: str
    bucket_ms: int  # length of a bucket
    buckets: dict[int, Counts] = field(default_factory=dict)  # by start time
    epoch: int = NO_EPOCH  # epoch of the leader that appended the records
    counted_in: int = NO_EPOCH  # leader epoch of the partition at the time of the count
    has_checksums: bool = True
    counter: int = 0  # in the same epoch, a later counter has a higher number
    topic_id: str = ""  # a recreated topic starts its offsets over

    @property
    def has_offsets(self) -> bool:
        return self.first >= 0

    @property
    def records(self) -> int:
        return sum(each.count for each in self.buckets.values())

    def note(self, timestamp_ms: int, key: bytes | None, value: bytes | None) -> None:
        size = len(key or b"") + len(value or b"")
        self.add(timestamp_ms, 1, size, fingerprint(key, value) if self.has_checksums else 0)

    def add(self, timestamp_ms: int, count: int, size: int, checksum: int = 0) -> None:
        bucket = timestamp_ms // self.bucket_ms * self.bucket_ms
        counts = self.buckets.get(bucket)
        if counts is None:
            counts = self.buckets[bucket] = Counts()
        counts.add(count, size, checksum)

    @property
    def key(self) -> str:
        return f"{self.topic}/{self.tier}/{self.partition}/{self.epoch}/{self.first}"

    def to_json(self) -> dict[str, Any]:
        return {
            "topic": self.topic,
            "topic_id": self.topic_id,
            "tier": self.tier,
            "partition": self.partition,
            "first": self.first,
            "end": self.end,
            "epoch": self.epoch,
            "counted_in": self.counted_in,
            "counter": self.counter,
            "time": self.time_ms,
            "host": self.host,
            "bucket_ms": self.bucket_ms,
            "checksums": self.has_checksums,
            "buckets": {
                str(at): [each.count, each.bytes, each.checksum] for at, each in self.buckets.items()
            },
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> CountReport:
        """Raises ValueError, KeyError or TypeError for other data."""
        return cls(
            data["topic"],
            data["tier"],
            int(data["partition"]),
            int(data["first"]),
            int(data["end"]),
            int(data["time"]),
            data["host"],
            int(data["bucket_ms"]),
            {int(at): Counts(*map(int, each)) for at, each in data["buckets"].items()},
            int(data.get("epoch", NO_EPOCH)),
            int(data.get("counted_in", NO_EPOCH)),
            bool(data.get("checksums", True)),
            int(data.get("counter", 0)),
            str(data.get("topic_id", "")),
        )


class Round(NamedTuple):
    """Records the time of a count, even without new records: one entry for all partitions of a counter."""

    tier: str
    host: str
    time_ms: int
    counted: dict[str, list[int]]  # partitions by topic

    @property
    def key(self) -> str:
        return f"{self.tier}/{self.host}"

    def to_json(self) -> dict[str, Any]:
        return {"tier": self.tier, "host": self.host, "time": self.time_ms, "counted": self.counted}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Round:
        counted = {str(topic): [int(each) for each in found] for topic, found in data["counted"].items()}
        return cls(data["tier"], data["host"], int(data["time"]), counted)


Entry = CountReport | Round


def entry_of(data: Mapping[str, Any]) -> Entry:
    """Raises ValueError, KeyError or TypeError for other data."""
    return Round.from_json(data) if "counted" in data else CountReport.from_json(data)
