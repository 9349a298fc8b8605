"""Promise: whatever happens to leaders and to their reports, a committed record counts once."""

from __future__ import annotations

import random

from ottla.monitoring.audit.count_reports import CountReport
from ottla.monitoring.audit.tier_counts import TierCounts

BUCKET = 1000
TIER = ("orders", "broker")


class Model:
    """One partition: its committed records, their epochs, and counters that may be late, crash, or write twice."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.epochs = [0]  # the epoch of each committed record's leader; the current one is last
        self.committed: list[int] = []  # the epoch of each record
        self.written: list[CountReport] = []
        self.late: list[CountReport] = []  # reports of slow writers
        self.counter = 0

    def append(self) -> None:
        self.committed += [self.epochs[-1]] * self.rng.randint(1, 5)

    def elect(self) -> None:
        self.epochs.append(self.epochs[-1] + 1)

    def count(self) -> list[CountReport]:
        """Return the reports that the current leader finds missing in the tier_counts."""
        position = self.tier_counts().position("orders", "broker", 0)
        first = 0 if position is None else position.end
        reports: list[CountReport] = []
        self.counter += 1  # always another process, in the same epoch or a later one
        while first < len(self.committed):
            epoch = self.committed[first]
            of_epoch = next(
                (at for at in range(first, len(self.committed)) if self.committed[at] != epoch),
                len(self.committed),
            )
            end = min(of_epoch, first + self.rng.randint(1, 6))
            report = CountReport("orders", "broker", 0, first, end, 1, "here", BUCKET)
            report.epoch, report.counted_in, report.counter = epoch, self.epochs[-1], self.counter
            for offset in range(first, end):
                report.note(0, None, b"%d" % offset)
            reports.append(report)
            first = end
        return reports

    def write(self, reports: list[CountReport]) -> None:
        """Write all reports or only the first ones; repeat some, as after a lost response."""
        for report in reports[: self.rng.randint(0, len(reports))]:
            self.written += [report] * self.rng.choice([1, 1, 2])

    def step(self) -> None:
        deed = self.rng.choice(["append", "append", "elect", "round", "round", "count", "late"])
        if deed == "append":
            self.append()
        elif deed == "elect":
            self.elect()
        elif deed == "round":
            self.write(self.count())
        elif deed == "count" and not self.late:
            self.late = self.count()
        elif deed == "late":
            self.write(self.late)
            self.late = []

    def tier_counts(self) -> TierCounts:
        tier_counts = TierCounts()
        for report in self.written:
            tier_counts.add(report)
        return tier_counts


def test_every_committed_record_counts_once() -> None:
    for seed in range(400):
        model = Model(seed)
        for _ in range(40):
            model.step()
        model.elect()  # the late writer is no longer the leader
        model.append()
        model.written += model.count()
        model.written += model.late
        expected = CountReport("orders", "expected", 0, 0, 0, 1, "here", BUCKET)
        for offset in range(len(model.committed)):
            expected.note(0, None, b"%d" % offset)
        assert model.tier_counts().counts[TIER] == expected.buckets, seed
