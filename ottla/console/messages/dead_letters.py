"""Read dead letters, newest first, and send chosen ones back. All functions block."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from heapq import nlargest

from ottla.client.admin.offsets import Partition, earliest_offsets, latest_offsets
from ottla.client.cluster import Cluster
from ottla.client.dead_letters import REASON, TOPIC, Originals, Progress, why
from ottla.client.produce import produce
from ottla.console.messages.reading import Message, PageBounds, last_of_partition, read_range
from ottla.protocol.record_format import Record

#: Letters that a page looks at: the newest of all partitions.
MOST_READ = 5000
_AT_ONCE = 500
_BYTES_AT_ONCE = 16 << 20
_DIGITS = re.compile(r"\d+")


@dataclass(frozen=True, slots=True)
class Letter:
    message: Message
    facts: Mapping[str, str]  # from its headers
    is_done: bool

    @property
    def reason(self) -> str:
        return self.facts.get(REASON, "")

    @property
    def kind(self) -> str:
        """The reason without numbers: offsets and positions differ in each letter of the same cause."""
        return _DIGITS.sub("#", self.reason)[:200]


@dataclass(frozen=True, slots=True)
class Selection:
    """Letters to send back. `upto` are end offsets at the time of the plan: later letters are not part of it."""

    text: str = ""  # in the reason, ignoring case
    kind: str = ""
    chosen: frozenset[tuple[int, int]] = field(default_factory=frozenset)  # partition and offset
    to: str | None = None
    upto: Mapping[int, int] = field(default_factory=dict)

    def takes(self, letter: Letter) -> bool:
        if self.chosen:
            return (letter.message.partition, letter.message.offset) in self.chosen
        return self.text.lower() in letter.reason.lower() and self.kind in ("", letter.kind)

    def target(self, letter: Letter) -> str | None:
        return self.to or letter.facts.get(TOPIC)


def newest_letters(cluster: Cluster, keys: list[Partition]) -> tuple[list[Letter], bool]:
    """Return the newest letters of all partitions, and whether there are older ones."""
    starts, ends = earliest_offsets(cluster, keys), latest_offsets(cluster, keys)
    progress, page = Progress(cluster, keys[0][0]), PageBounds()
    found: list[Message] = []
    for key in keys:
        found += last_of_partition(cluster, key, starts[key], ends[key], MOST_READ, page=page)
        found = nlargest(MOST_READ, found, key=lambda each: (each.timestamp, each.offset))
    has_older = sum(ends[key] - starts[key] for key in keys) > len(found) >= MOST_READ
    return [Letter(each, why(each.headers), progress.is_done(each)) for each in found], has_older


def ends_of(cluster: Cluster, keys: list[Partition]) -> dict[int, int]:
    return {number: end for (_, number), end in latest_offsets(cluster, keys).items()}


def targets(cluster: Cluster, keys: list[Partition], selection: Selection) -> dict[str, int]:
    """Count the letters to send, by topic."""
    progress = Progress(cluster, keys[0][0])
    return dict(Counter(target for target, _ in _selected(cluster, keys, progress, selection)))


def _selected(
    cluster: Cluster, keys: list[Partition], progress: Progress, selection: Selection
) -> Iterator[tuple[str, Message]]:
    starts, ends = earliest_offsets(cluster, keys), latest_offsets(cluster, keys)
    for key in keys:
        end = min(ends[key], selection.upto.get(key[1], ends[key]))
        for first, last in _ranges(key[1], starts[key], end, selection.chosen):
            for message in read_range(cluster, key, first, last):
                letter = Letter(message, why(message.headers), progress.is_done(message))
                target = selection.target(letter)
                if target and not letter.is_done and selection.takes(letter):
                    yield target, message


def _ranges(
    partition: int, start: int, end: int, chosen: Iterable[tuple[int, int]]
) -> Iterator[tuple[int, int]]:
    offsets = sorted(offset for number, offset in chosen if number == partition)
    if not chosen:
        yield start, end
    for offset in offsets:
        if start <= offset < end:
            yield offset, offset + 1


def send_back(
    cluster: Cluster,
    keys: list[Partition],
    selection: Selection,
    may: Callable[[str], bool] = lambda topic: True,
) -> int:
    """Send letters in groups, remembering each group. `may` refuses topics that the plan did not show."""
    progress, originals = Progress(cluster, keys[0][0]), Originals(cluster)
    waiting: list[tuple[str, Message, Record]] = []
    size = sent = 0

    def send() -> None:
        for target in dict.fromkeys(each for each, _, _ in waiting):
            produce(cluster, target, [record for each, _, record in waiting if each == target])
        progress.add([message for _, message, _ in waiting])
        progress.commit()
        waiting.clear()

    for target, message in _selected(cluster, keys, progress, selection):
        if not may(target):
            continue
        record = originals.of(message)
        if record is None:
            continue  # deleted, and the letter has no copy: it stays in the list as not sent back
        waiting.append((target, message, record))
        size += len(record.value or b"")
        sent += 1
        if len(waiting) >= _AT_ONCE or size >= _BYTES_AT_ONCE:
            send()
            size = 0
    send()
    return sent


def mark_done(cluster: Cluster, message: Message) -> None:
    """Remember that a corrected copy of a letter was sent."""
    progress = Progress(cluster, message.topic)
    progress.add([message])
    progress.commit()
