"""Counts of all tiers, and their comparison. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from ottla.monitoring.audit.count_reports import NO_EPOCH, CountReport, Counts, Entry, Round

LOSS, DUPLICATION, SUBSTITUTION = "loss", "duplication", "substitution"

#: Number of last reports of a partition that its next leader can still replace.
_REPLACEABLE = 16


class Finding(NamedTuple):
    """A bucket in which a tier differs from the previous one."""

    topic: str
    bucket_ms: int
    tier: str
    before: str  # tier to compare with
    kind: str
    missing: int  # records; negative if there are too many
    expected: int  # records in the previous tier


class Place(NamedTuple):
    topic: str
    tier: str
    partition: int
    topic_id: str


class Position(NamedTuple):
    """End of a partition's counted part: the offset after the last record, and that record's epoch."""

    epoch: int
    end: int


class Accepted:
    """Decides which reports of one place count: each record once, regardless of counters and repetitions.

    Reports arrive in the order of writing. A counter starts where the stored counts end, so the reports of one leader
    follow each other. Overlapping reports come from two leaders that did not know each other's last reports. The later
    leader is right: it continues from its own count.
    """

    def __init__(self) -> None:
        self.position: Position | None = None
        self._counter = (NO_EPOCH, 0)
        self._last: dict[int, list[CountReport]] = {}  # by epoch
        self._settled: dict[int, int] = {}  # end of the irreplaceable part

    def take(self, report: CountReport) -> tuple[bool, list[CountReport]]:
        counter = (report.counted_in, report.counter)
        if counter < self._counter or report.first >= report.end:
            return False, []
        last = self._last.setdefault(report.epoch, [])
        overlapped = [each for each in last if each.first < report.end and report.first < each.end]
        same_counter = [each for each in overlapped if (each.counted_in, each.counter) == counter]
        if report.first < self._settled.get(report.epoch, 0) or any(
            each.first < report.first or each.end >= report.end for each in same_counter
        ):
            return False, []
        self._counter = counter
        # The recounted part of an earlier report is unknown: both count, as a duplication.
        replaced = [each for each in overlapped if each.first >= report.first]
        for each in replaced:
            last.remove(each)
        last.append(report)
        if len(last) > _REPLACEABLE:
            settled = last.pop(0)
            self._settled[report.epoch] = max(settled.end, self._settled.get(report.epoch, 0))
        if self.position is None or report.epoch >= self.position.epoch:
            self.position = Position(report.epoch, report.end)
        return True, replaced


class TierCounts:
    """All reports, in the order of writing."""

    def __init__(self) -> None:
        self.counts: dict[tuple[str, str], dict[int, Counts]] = {}  # by topic and tier, then by bucket
        self.began: dict[tuple[str, str], int] = {}  # time of a tier's first count
        self.bucket_ms: dict[str, int] = {}
        self._accepted: dict[Place, Accepted] = {}
        self._times: dict[tuple[str, str], dict[int, int]] = {}  # time of a partition's last count
        self._without_checksums: set[tuple[str, str]] = set()
        self._latest_counter = 0

    def add(self, entry: Entry) -> None:
        if isinstance(entry, Round):
            for topic, partitions in entry.counted.items():
                for partition in partitions:
                    self._note_time((topic, entry.tier), partition, entry.time_ms)
            return
        report = entry
        tier = (report.topic, report.tier)
        self._note_time(tier, report.partition, report.time_ms)
        self.bucket_ms.setdefault(report.topic, report.bucket_ms)
        if not report.has_checksums:
            self._without_checksums.add(tier)
        self._latest_counter = max(self._latest_counter, report.counter)
        if report.has_offsets:
            place = Place(report.topic, report.tier, report.partition, report.topic_id)
            counts, replaced = self._accepted.setdefault(place, Accepted()).take(report)
            if not counts:
                return
            for each in replaced:
                self._apply(each, -1)
        self._apply(report, 1)

    def _note_time(self, tier: tuple[str, str], partition: int, time_ms: int) -> None:
        times = self._times.setdefault(tier, {})
        times[partition] = max(times.get(partition, 0), time_ms)
        self.began[tier] = min(self.began.get(tier, time_ms), time_ms)

    def _apply(self, report: CountReport, sign: int) -> None:
        counts = self.counts.setdefault((report.topic, report.tier), {})
        for at, each in report.buckets.items():
            counts.setdefault(at, Counts()).add(sign * each.count, sign * each.bytes, sign * each.checksum)

    def position(self, topic: str, tier: str, partition: int, topic_id: str = "") -> Position | None:
        """Return the position of a tier in a partition, or None if it has never counted it."""
        accepted = self._accepted.get(Place(topic, tier, partition, topic_id))
        return None if accepted is None else accepted.position

    def next_counter(self, now_ms: int) -> int:
        """Return a number for a new counter, higher than all earlier ones regardless of clocks."""
        return max(now_ms, self._latest_counter + 1)

    @property
    def times(self) -> dict[tuple[str, str], int]:
        return {tier: min(times.values()) for tier, times in self._times.items()}

    def tiers(self, topic: str) -> list[str]:
        known = [tier for name, tier in self.began if name == topic]
        return sorted(known, key=lambda tier: self.began[topic, tier])

    @property
    def topics(self) -> list[str]:
        return sorted({topic for topic, _ in self._times})

    def balance(
        self,
        topic: str,
        tiers: Sequence[str] = (),
        *,
        grace_ms: int = 600_000,
        counts_only: bool = False,
        now_ms: int | None = None,
    ) -> list[Finding]:
        """Compare each tier with the previous one, in buckets that all tiers have completely counted.

        `now_ms` sets the end instead, even for silent tiers: uncounted records are then missing.
        """
        order = list(tiers) or self.tiers(topic)
        length = self.bucket_ms.get(topic, 0)
        times = self.times
        counted = min((times.get((topic, tier), 0) for tier in order), default=0)
        until = (counted if now_ms is None else now_ms) - grace_ms
        found = []
        for before, tier in pairwise(order):
            theirs, ours = self.counts.get((topic, before), {}), self.counts.get((topic, tier), {})
            without = counts_only or not self._without_checksums.isdisjoint({(topic, before), (topic, tier)})
            for at in sorted(theirs.keys() | ours.keys()):
                if at + length > until:
                    continue
                finding = _compare(theirs.get(at, Counts()), ours.get(at, Counts()), without)
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
    # Equal counts with different records: one was changed, or a loss and a duplicate cancel out.
    return None if counts_only or before.checksum == now.checksum else (SUBSTITUTION, 0)
