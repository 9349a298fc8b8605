"""What was counted, and how two tiers compare. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from itertools import pairwise
from typing import Any, NamedTuple

_MASK = (1 << 64) - 1

LOSS, DUPLICATION, SUBSTITUTION = "loss", "duplication", "substitution"


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
    """What a tier has counted of some offsets of one partition. One record of the audit topic; never half of one."""

    topic: str  # as the books call it
    tier: str
    partition: int
    first: int  # offset
    end: int  # the offset after the last
    time_ms: int  # when it was counted
    host: str
    bucket_ms: int  # the length of a bucket
    buckets: dict[int, Counts] = field(default_factory=dict)  # by the time at which they begin

    def note(self, timestamp_ms: int, key: bytes | None, value: bytes | None) -> None:
        bucket = timestamp_ms // self.bucket_ms * self.bucket_ms
        counts = self.buckets.get(bucket)
        if counts is None:
            counts = self.buckets[bucket] = Counts()
        counts.add(1, len(key or b"") + len(value or b""), fingerprint(key, value))

    def to_json(self) -> dict[str, Any]:
        return {
            "topic": self.topic,
            "tier": self.tier,
            "partition": self.partition,
            "first": self.first,
            "end": self.end,
            "time": self.time_ms,
            "host": self.host,
            "bucket_ms": self.bucket_ms,
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
        )


class Finding(NamedTuple):
    """A bucket in which a tier has something else than the one before it."""

    topic: str
    bucket_ms: int
    tier: str
    before: str  # the tier that it is compared with
    kind: str
    missing: int  # records; negative if there are too many
    expected: int  # what the tier before has


class Books:
    """All pages. A page that was written twice, because a counter crashed in between, counts once."""

    def __init__(self) -> None:
        self.counts: dict[tuple[str, str], dict[int, Counts]] = {}  # by topic and tier, then by bucket
        self.positions: dict[tuple[str, str, int], int] = {}  # how far a tier has counted a partition
        self.began: dict[tuple[str, str], int] = {}  # when a tier counted first
        self.times: dict[tuple[str, str], int] = {}  # and last
        self.bucket_ms: dict[str, int] = {}

    def add(self, page: Page) -> None:
        place = (page.topic, page.tier, page.partition)
        tier = (page.topic, page.tier)
        self.times[tier] = max(self.times.get(tier, 0), page.time_ms)
        self.began[tier] = min(self.began.get(tier, page.time_ms), page.time_ms)
        if page.first < self.positions.get(place, 0):
            return
        self.positions[place] = page.end
        self.bucket_ms.setdefault(page.topic, page.bucket_ms)
        counts = self.counts.setdefault(tier, {})
        for at, each in page.buckets.items():
            counts.setdefault(at, Counts()).add(each.count, each.bytes, each.checksum)

    def tiers(self, topic: str) -> list[str]:
        """Those that counted a topic, the first one first."""
        known = [tier for name, tier in self.began if name == topic]
        return sorted(known, key=lambda tier: self.began[topic, tier])

    @property
    def topics(self) -> list[str]:
        return sorted({topic for topic, _ in self.times})

    def balance(
        self, topic: str, tiers: Sequence[str] = (), *, grace_ms: int = 600_000, counts_only: bool = False
    ) -> list[Finding]:
        """Each tier beside the one before it, in buckets that all of them have certainly counted."""
        order = list(tiers) or self.tiers(topic)
        length = self.bucket_ms.get(topic, 0)
        until = min((self.times.get((topic, tier), 0) for tier in order), default=0) - grace_ms
        found = []
        for before, tier in pairwise(order):
            theirs, ours = self.counts.get((topic, before), {}), self.counts.get((topic, tier), {})
            for at in sorted(theirs.keys() | ours.keys()):
                if at + length > until:
                    continue
                finding = _compare(theirs.get(at, Counts()), ours.get(at, Counts()), counts_only)
                if finding is not None:
                    kind, missing = finding
                    count = theirs.get(at, Counts()).count
                    found.append(Finding(topic, at, tier, before, kind, missing, count))
        return found


def _compare(before: Counts, now: Counts, counts_only: bool) -> tuple[str, int] | None:
    missing = before.count - now.count
    if missing > 0:
        return LOSS, missing
    if missing < 0:
        return DUPLICATION, missing
    # As many records, but not the same: one was changed, or a loss and a duplicate cancel each other.
    return None if counts_only or before.checksum == now.checksum else (SUBSTITUTION, 0)


def in_order(pages: Iterable[Page]) -> list[Page]:
    """Pages of several partitions of the audit topic: those of one tier and partition by their offsets."""
    return sorted(pages, key=lambda page: (page.topic, page.tier, page.partition, page.first, page.time_ms))
