"""Promise: whatever happens to leaders and to their pages, a committed record counts once."""

from __future__ import annotations

import random

from ottla.monitoring.audit.books import Books
from ottla.monitoring.audit.pages import Page

BUCKET = 1000
TIER = ("orders", "broker")


class Model:
    """One partition: its committed records, their epochs, and counters that may be late, crash, or write twice."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.epochs = [0]  # the epoch of each committed record's leader; the current one is last
        self.committed: list[int] = []  # the epoch of each record
        self.written: list[Page] = []
        self.late: list[Page] = []  # pages of slow writers
        self.counter = 0

    def append(self) -> None:
        self.committed += [self.epochs[-1]] * self.rng.randint(1, 5)

    def elect(self) -> None:
        self.epochs.append(self.epochs[-1] + 1)

    def count(self) -> list[Page]:
        """Return the pages that the current leader finds missing in the books."""
        position = self.books().position("orders", "broker", 0)
        first = 0 if position is None else position.end
        pages: list[Page] = []
        self.counter += 1  # always another process, in the same epoch or a later one
        while first < len(self.committed):
            epoch = self.committed[first]
            of_epoch = next(
                (at for at in range(first, len(self.committed)) if self.committed[at] != epoch),
                len(self.committed),
            )
            end = min(of_epoch, first + self.rng.randint(1, 6))
            page = Page("orders", "broker", 0, first, end, 1, "here", BUCKET)
            page.epoch, page.counted_in, page.counter = epoch, self.epochs[-1], self.counter
            for offset in range(first, end):
                page.note(0, None, b"%d" % offset)
            pages.append(page)
            first = end
        return pages

    def write(self, pages: list[Page]) -> None:
        """Write all pages or only the first ones; repeat some, as after a lost response."""
        for page in pages[: self.rng.randint(0, len(pages))]:
            self.written += [page] * self.rng.choice([1, 1, 2])

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

    def books(self) -> Books:
        books = Books()
        for page in self.written:
            books.add(page)
        return books


def test_every_committed_record_counts_once() -> None:
    for seed in range(400):
        model = Model(seed)
        for _ in range(40):
            model.step()
        model.elect()  # the late writer is no longer the leader
        model.append()
        model.written += model.count()
        model.written += model.late
        expected = Page("orders", "expected", 0, 0, 0, 1, "here", BUCKET)
        for offset in range(len(model.committed)):
            expected.note(0, None, b"%d" % offset)
        assert model.books().counts[TIER] == expected.buckets, seed
