"""What was counted by all tiers, and how two of them compare. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from ottla.monitoring.audit.pages import NO_EPOCH, Counts, Entry, Page, Round

LOSS, DUPLICATION, SUBSTITUTION = "loss", "duplication", "substitution"

#: So many of the last pages of a partition can still be replaced by those of its next leader.
_REPLACEABLE = 16


class Finding(NamedTuple):
    """A bucket in which a tier has something else than the one before it."""

    topic: str
    bucket_ms: int
    tier: str
    before: str  # the tier that it is compared with
    kind: str
    missing: int  # records; negative if there are too many
    expected: int  # what the tier before has


class Place(NamedTuple):
    topic: str
    tier: str
    partition: int
    topic_id: str


class Position(NamedTuple):
    """How far a partition was counted: the offset after the last record, and the epoch that this one is of."""

    epoch: int
    end: int


class Accepted:
    """Which pages of one place count: each record once, whoever counted it and however often it was written.

    Pages come in the order in which they were written. A counter begins where the books end, so pages of one leader
    follow each other, and what overlaps is of two leaders that did not know of each other's last pages. The later
    leader is right: it goes on from what it counted itself.
    """

    def __init__(self) -> None:
        self.position: Position | None = None
        self._counter = (NO_EPOCH, 0)
        self._last: dict[int, list[Page]] = {}  # by epoch
        self._settled: dict[int, int] = {}  # the end of what cannot be replaced any more

    def take(self, page: Page) -> tuple[bool, list[Page]]:
        """Whether a page counts, and the pages that it takes the place of."""
        counter = (page.counted_in, page.counter)
        if counter < self._counter or page.first >= page.end:
            return False, []
        last = self._last.setdefault(page.epoch, [])
        overlapped = [each for each in last if each.first < page.end and page.first < each.end]
        same_counter = [each for each in overlapped if (each.counted_in, each.counter) == counter]
        if page.first < self._settled.get(page.epoch, 0) or any(
            each.first < page.first or each.end >= page.end for each in same_counter
        ):
            return False, []
        self._counter = counter
        # Of a page that began earlier nobody can tell which part was counted again: both count, as a duplication.
        replaced = [each for each in overlapped if each.first >= page.first]
        for each in replaced:
            last.remove(each)
        last.append(page)
        if len(last) > _REPLACEABLE:
            settled = last.pop(0)
            self._settled[page.epoch] = max(settled.end, self._settled.get(page.epoch, 0))
        if self.position is None or page.epoch >= self.position.epoch:
            self.position = Position(page.epoch, page.end)
        return True, replaced


class Books:
    """All pages, in the order in which they were written."""

    def __init__(self) -> None:
        self.counts: dict[tuple[str, str], dict[int, Counts]] = {}  # by topic and tier, then by bucket
        self.began: dict[tuple[str, str], int] = {}  # when a tier counted first
        self.bucket_ms: dict[str, int] = {}
        self._accepted: dict[Place, Accepted] = {}
        self._times: dict[tuple[str, str], dict[int, int]] = {}  # when a partition was counted last
        self._without_checksums: set[tuple[str, str]] = set()
        self._latest_counter = 0

    def add(self, entry: Entry) -> None:
        if isinstance(entry, Round):
            for topic, partitions in entry.counted.items():
                for partition in partitions:
                    self._note_time((topic, entry.tier), partition, entry.time_ms)
            return
        page = entry
        tier = (page.topic, page.tier)
        self._note_time(tier, page.partition, page.time_ms)
        self.bucket_ms.setdefault(page.topic, page.bucket_ms)
        if not page.has_checksums:
            self._without_checksums.add(tier)
        self._latest_counter = max(self._latest_counter, page.counter)
        if page.has_offsets:
            place = Place(page.topic, page.tier, page.partition, page.topic_id)
            counts, replaced = self._accepted.setdefault(place, Accepted()).take(page)
            if not counts:
                return
            for each in replaced:
                self._apply(each, -1)
        self._apply(page, 1)

    def _note_time(self, tier: tuple[str, str], partition: int, time_ms: int) -> None:
        times = self._times.setdefault(tier, {})
        times[partition] = max(times.get(partition, 0), time_ms)
        self.began[tier] = min(self.began.get(tier, time_ms), time_ms)

    def _apply(self, page: Page, sign: int) -> None:
        counts = self.counts.setdefault((page.topic, page.tier), {})
        for at, each in page.buckets.items():
            counts.setdefault(at, Counts()).add(sign * each.count, sign * each.bytes, sign * each.checksum)

    def position(self, topic: str, tier: str, partition: int, topic_id: str = "") -> Position | None:
        """How far a tier has counted a partition; None if it never has."""
        accepted = self._accepted.get(Place(topic, tier, partition, topic_id))
        return None if accepted is None else accepted.position

    def next_counter(self, now_ms: int) -> int:
        """A number for one that begins to count: higher than all before it, whatever clocks say."""
        return max(now_ms, self._latest_counter + 1)

    @property
    def times(self) -> dict[tuple[str, str], int]:
        """Up to when a tier has counted all of a topic."""
        return {tier: min(times.values()) for tier, times in self._times.items()}

    def tiers(self, topic: str) -> list[str]:
        """Those that counted a topic, the first one first."""
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
        """Each tier beside the one before it, in buckets that all of them have certainly counted.

        With `now_ms` up to then, also if a tier has been silent since: what it has not counted is missing.
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
    # As many records, but not the same: one was changed, or a loss and a duplicate cancel each other.
    return None if counts_only or before.checksum == now.checksum else (SUBSTITUTION, 0)
