"""Listing and replaying of dead letters: records that a pipeline or a Connect sink could not read."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from ottla.cli.client import Client
from ottla.cli.errors import JobError
from ottla.cli.jobs.consume import ConsumeOptions, Consumption, Start
from ottla.cli.jobs.messages import ConsumedMessage, OutgoingMessage
from ottla.cli.jobs.produce import ProduceOptions, Production
from ottla.client.dead_letters import (
    ERROR,
    OFFSET,
    PARTITION,
    REASON,
    TOPIC,
    Originals,
    Progress,
    why,
)


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """Fields come from the headers; None if a header is missing."""

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
    gone: int = 0  # letters without a copy whose records have been deleted


def list_dead_letters(client: Client, topic: str, reason: re.Pattern[str] | None) -> list[DeadLetter]:
    progress = Progress(client.cluster, topic)
    letters = [
        _letter(message, progress.is_done(message)) for batch in _batches(client, topic) for message in batch
    ]
    letters.sort(key=lambda letter: (letter.partition, letter.offset))
    return [letter for letter in letters if reason is None or reason.search(letter.reason or "")]


def replay(
    client: Client, topic: str, to: str | None, reason: re.Pattern[str] | None, *, dry_run: bool
) -> ReplaySummary:
    """Send back every new dead letter. After an interruption, some may be sent twice."""
    summary = ReplaySummary()
    progress = Progress(client.cluster, topic)
    originals = Originals(client.cluster)
    productions: dict[str, Production] = {}
    for batch in _batches(client, topic):
        wanted, passed = _choose(batch, progress, to, reason, summary)
        found = [(target, message, originals.of(message)) for target, message in wanted]
        revived = [(target, message, original) for target, message, original in found if original is not None]
        progress.add([*(message for _, message, _ in revived), *passed])
        summary.replayed += len(revived)
        summary.gone += len(found) - len(revived)
        if dry_run:
            continue
        for target, _, original in revived:
            if target not in productions:
                productions[target] = Production(client, target, ProduceOptions(idempotent=True))
            productions[target].send(
                OutgoingMessage(original.value, original.key, original.headers, None, original.timestamp)
            )
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
    """Return the records to send with their topics, and the records to skip because they are no dead letters."""
    wanted, passed = [], []
    for message in batch:
        if progress.is_done(message):
            continue
        headers = why(message.headers)
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
    """Read to the current end of the topic. Records that fail again belong to the next run."""
    consumption = Consumption(client, [topic], ConsumeOptions(start=Start("earliest"), until_end=True))
    try:
        yield from consumption.batches()
    finally:
        consumption.close()


def _letter(message: ConsumedMessage, replayed: bool) -> DeadLetter:
    headers = why(message.headers)
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
