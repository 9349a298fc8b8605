"""Dead letters: records that a pipeline or a sink of Connect could not read. List them, and send them back.

Which ones have been sent back is in the offsets of a consumer group: all before the committed offset of a partition,
and beyond it those that the commit's metadata lists, because not all need be sent back at once.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from ottla.cli.client import Client
from ottla.cli.errors import JobError
from ottla.cli.jobs.consume import ConsumeOptions, Consumption, Start
from ottla.cli.jobs.messages import ConsumedMessage, OutgoingMessage
from ottla.cli.jobs.produce import ProduceOptions, Production
from ottla.client.admin.groups import CommittedOffset, committed
from ottla.client.admin.offsets import Partition, earliest_offsets
from ottla.client.admin.topics import partitions_of
from ottla.client.cluster import TopicPartition
from ottla.client.dead_letters import (
    CONNECT_NAMES,
    CONNECT_PREFIX,
    ERROR,
    OFFSET,
    PARTITION,
    PREFIX,
    REASON,
    TIMESTAMP,
    TOPIC,
)
from ottla.client.offsets import commit_offsets

#: Brokers keep no more with an offset, by default (offset.metadata.max.bytes).
_MOST_METADATA = 4096


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """`from_*` and the rest say what the headers say; None where a record has none of them."""

    partition: int
    offset: int
    from_topic: str | None
    from_partition: str | None
    from_offset: str | None
    error: str | None
    reason: str | None
    replayed: bool


@dataclass(slots=True)
class ReplaySummary:
    replayed: int = 0
    filtered: int = 0
    unknown: int = 0  # records without the headers of a dead letter


def group_of(topic: str) -> str:
    return f"ottla-deadletter-{topic}"


def list_dead_letters(client: Client, topic: str, reason: re.Pattern[str] | None) -> list[DeadLetter]:
    progress = Progress(client, topic)
    letters = [
        _letter(message, progress.is_done(message)) for batch in _batches(client, topic) for message in batch
    ]
    letters.sort(key=lambda letter: (letter.partition, letter.offset))
    return [letter for letter in letters if reason is None or reason.search(letter.reason or "")]


def replay(
    client: Client, topic: str, to: str | None, reason: re.Pattern[str] | None, *, dry_run: bool
) -> ReplaySummary:
    """Send back every dead letter that was not sent back before. If this is interrupted, some may be sent twice."""
    summary = ReplaySummary()
    progress = Progress(client, topic)
    productions: dict[str, Production] = {}
    for batch in _batches(client, topic):
        wanted, passed = _choose(batch, progress, to, reason, summary)
        progress.add([*(message for _, message in wanted), *passed])
        summary.replayed += len(wanted)
        if dry_run:
            continue
        for target, message in wanted:
            if target not in productions:
                productions[target] = Production(client, target, ProduceOptions(idempotent=True))
            productions[target].send(_revived(message))
        for production in productions.values():
            production.flush()
            if production.summary.failed:
                raise JobError(
                    f"Not every record was taken back by '{production.topic}': "
                    f"{production.summary.first_error} Those not taken will be sent again next time."
                )
        progress.commit()
    return summary


def _choose(
    batch: Iterable[ConsumedMessage],
    progress: Progress,
    to: str | None,
    reason: re.Pattern[str] | None,
    summary: ReplaySummary,
) -> tuple[list[tuple[str, ConsumedMessage]], list[ConsumedMessage]]:
    """What to send and where to; and what is not a dead letter, to be skipped from now on."""
    wanted, passed = [], []
    for message in batch:
        if progress.is_done(message):
            continue
        headers = _why(message)
        target = to or headers.get(TOPIC)
        if target is None:
            summary.unknown += 1
            passed.append(message)
        elif reason is not None and not reason.search(headers.get(REASON, "")):
            summary.filtered += 1
        else:
            wanted.append((target, message))
    return wanted, passed


def _batches(client: Client, topic: str) -> Iterator[list[ConsumedMessage]]:
    """Up to the present end of the topic: what fails again after being sent back is for the next run."""
    consumption = Consumption(client, [topic], ConsumeOptions(start=Start("earliest"), until_end=True))
    try:
        yield from consumption.batches()
    finally:
        consumption.close()


def _why(message: ConsumedMessage) -> dict[str, str]:
    """By the names of our own headers, also where Kafka Connect has written its."""
    return {
        CONNECT_NAMES.get(name, name): (value or b"").decode("utf-8", "replace")
        for name, value in message.headers
        if name.startswith(PREFIX) or name in CONNECT_NAMES
    }


def _letter(message: ConsumedMessage, replayed: bool) -> DeadLetter:
    headers = _why(message)
    return DeadLetter(
        message.partition,
        message.offset,
        headers.get(TOPIC),
        headers.get(PARTITION),
        headers.get(OFFSET),
        headers.get(ERROR),
        headers.get(REASON),
        replayed,
    )


def _revived(message: ConsumedMessage) -> OutgoingMessage:
    """As it was before it failed: its own headers and its own time."""
    timestamp = _why(message).get(TIMESTAMP, "")
    return OutgoingMessage(
        message.value,
        message.key,
        [(name, value) for name, value in message.headers if not name.startswith((PREFIX, CONNECT_PREFIX))],
        None,
        int(timestamp) if timestamp.isdigit() else message.timestamp,
    )


class Progress:
    """Which offsets of a dead-letter topic are done."""

    def __init__(self, client: Client, topic: str) -> None:
        self._cluster = client.cluster
        self._group = group_of(topic)
        positions = committed(self._cluster, self._group)
        self._done: dict[Partition, list[range]] = {}
        for key, first in earliest_offsets(self._cluster, partitions_of(self._cluster, [topic])).items():
            position = positions.get(key, CommittedOffset(0, None, ""))
            self._done[key] = merge([range(max(position.offset, first)), *parse_ranges(position.metadata)])
        self._changed: set[Partition] = set()

    def is_done(self, message: ConsumedMessage) -> bool:
        return any(message.offset in each for each in self._done[message.topic, message.partition])

    def add(self, messages: Iterable[ConsumedMessage]) -> None:
        """Mark these as done; JobError if there are more gaps than the metadata can hold."""
        for message in messages:
            key = (message.topic, message.partition)
            self._done[key] = merge([*self._done[key], range(message.offset, message.offset + 1)])
            self._changed.add(key)
        for key in self._changed:
            if len(format_ranges(self._done[key][1:])) > _MOST_METADATA:
                raise JobError(
                    f"Partition {key[1]} of '{key[0]}' would have too many gaps to remember: "
                    "replay the others first, without --reason."
                )

    def commit(self) -> None:
        offsets, metadata = {}, {}
        for key in sorted(self._changed):
            first, *others = self._done[key]
            partition = TopicPartition(*key)
            offsets[partition] = first.stop if first.start == 0 else 0
            metadata[partition] = format_ranges(others if first.start == 0 else [first, *others])
        self._changed.clear()
        if offsets:
            commit_offsets(self._cluster, self._group, offsets, metadata=metadata)


# Ranges of offsets, in order and apart from each other


def merge(ranges: Iterable[range]) -> list[range]:
    merged: list[range] = []
    for each in sorted((each for each in ranges if each), key=lambda each: each.start):
        if merged and each.start <= merged[-1].stop:
            merged[-1] = range(merged[-1].start, max(merged[-1].stop, each.stop))
        else:
            merged.append(each)
    return merged


def parse_ranges(text: str) -> list[range]:
    """ "3-5,9" is 3, 4, 5 and 9. Other metadata is ignored."""
    found = []
    for part in text.split(",") if text else ():
        first, _, last = part.partition("-")
        if not first.isdigit() or not (last or first).isdigit():
            return []
        found.append(range(int(first), int(last or first) + 1))
    return found


def format_ranges(ranges: Iterable[range]) -> str:
    return ",".join(str(each.start) if len(each) == 1 else f"{each.start}-{each.stop - 1}" for each in ranges)
