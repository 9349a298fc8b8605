"""What one tier has counted of one place, as it is written to the audit topic. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any, NamedTuple

_MASK = (1 << 64) - 1

#: Of pages that say how much passed, and not which offsets.
NO_PARTITION = -1
NO_EPOCH = -1


def fingerprint(key: bytes | None, value: bytes | None) -> int:
    """64 bits of what a record says. Where it stands and when it was written is not in it: copies have that anew."""
    digest = blake2b(digest_size=8)
    for part in (key, value):
        digest.update(b"-" if part is None else b"%d:" % len(part) + part)
    return int.from_bytes(digest.digest(), "big")


@dataclass(slots=True)
class Counts:
    """`checksum` is the sum of fingerprints, which does not depend on their order."""

    count: int = 0
    bytes: int = 0
    checksum: int = 0

    def add(self, count: int, size: int, checksum: int) -> None:
        self.count += count
        self.bytes += size
        self.checksum = (self.checksum + checksum) & _MASK


@dataclass(slots=True)
class Page:
    """One record of the audit topic; never half of one.

    Either of some offsets of one partition, which the same leader appended: offsets come again after an unclean
    election, and the epoch then tells them apart. Or, with `first` below zero, of what has passed a pipeline: such a
    page is written together with the records, and counts each time that it is there.
    """

    topic: str  # as the books call it
    tier: str
    partition: int
    first: int  # offset
    end: int  # the offset after the last
    time_ms: int  # when it was counted
    host: str
    bucket_ms: int  # the length of a bucket
    buckets: dict[int, Counts] = field(default_factory=dict)  # by the time at which they begin
    epoch: int = NO_EPOCH  # of the leader that appended the records
    counted_in: int = NO_EPOCH  # the leader epoch of the partition when it was counted
    has_checksums: bool = True
    counter: int = 0  # of two that count in the same epoch, the one that began later has the higher number
    topic_id: str = ""  # another topic of the same name begins its offsets anew

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
        """Records of one bucket."""
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
    def from_json(cls, data: Mapping[str, Any]) -> Page:
        """ValueError, KeyError or TypeError if it is something else."""
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
    """Says up to when partitions were counted, also where nothing was new: one for all partitions of a counter."""

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


Entry = Page | Round


def entry_of(data: Mapping[str, Any]) -> Entry:
    """ValueError, KeyError or TypeError if it is something else."""
    return Round.from_json(data) if "counted" in data else Page.from_json(data)
