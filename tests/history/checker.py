"""Find violations of a log's guarantees in a history of sends and polls.

The anomalies are Jepsen's for Kafka-like systems, plus partially visible transactions. A history holds the clients'
observations, ordered per client; the checker knows nothing about brokers.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum


class Outcome(Enum):
    OK = "acknowledged"
    FAILED = "refused: it must not be there"
    UNKNOWN = "no answer: it may be there or not"


@dataclass(frozen=True, slots=True)
class Send:
    """A record sent by a producer, with its `offset` if acknowledged. Values are unique within the history."""

    producer: str
    partition: int
    value: str
    outcome: Outcome
    offset: int | None = None
    transaction: str | None = None


@dataclass(frozen=True, slots=True)
class Poll:
    """The result of one consumer poll, in order: (partition, offset, value)."""

    consumer: str
    records: tuple[tuple[int, int, str], ...]


@dataclass(frozen=True, slots=True)
class Reposition:
    """A new assignment or a seek of the consumer: its position may jump."""

    consumer: str


@dataclass(frozen=True, slots=True)
class Transaction:
    name: str
    outcome: Outcome  # OK: committed; FAILED: aborted; UNKNOWN: either


@dataclass(frozen=True, slots=True)
class Anomaly:
    kind: str
    detail: str


@dataclass(slots=True)
class History:
    """Events in recording order. Only the order of each client's own events counts."""

    events: list[Send | Poll | Reposition | Transaction] = field(default_factory=list)

    def of_kind(self, kind: type) -> Iterator[object]:
        return (event for event in self.events if isinstance(event, kind))


class _Facts:
    """The history, indexed for the checks below."""

    def __init__(self, history: History) -> None:
        self.sends = [event for event in history.events if isinstance(event, Send)]
        self.polls = [event for event in history.events if isinstance(event, Poll)]
        self.transactions = {
            event.name: event.outcome for event in history.events if isinstance(event, Transaction)
        }
        self.seen: dict[tuple[int, str], set[int]] = defaultdict(set)  # (partition, value) → offsets
        self.at: dict[tuple[int, int], set[str]] = defaultdict(set)  # (partition, offset) → values
        self.polled: set[tuple[int, str]] = set()
        for poll in self.polls:
            for partition, offset, value in poll.records:
                self.seen[partition, value].add(offset)
                self.at[partition, offset].add(value)
                self.polled.add((partition, value))
        for send in self.sends:
            if self.outcome_of(send) is Outcome.OK and send.offset is not None:
                self.seen[send.partition, send.value].add(send.offset)
                self.at[send.partition, send.offset].add(send.value)

    def outcome_of(self, send: Send) -> Outcome:
        """Return the outcome of a record. A transactional record exists if it was written and the transaction
        committed.
        """
        if send.transaction is None or send.outcome is Outcome.FAILED:
            return send.outcome
        ended = self.transactions.get(send.transaction, Outcome.UNKNOWN)
        if ended is Outcome.FAILED:
            return Outcome.FAILED
        return send.outcome if ended is Outcome.OK else Outcome.UNKNOWN


def check(history: History) -> list[Anomaly]:
    """Return every anomaly of the history.

    The last polls must have read every partition to its end; otherwise unread records count as lost.
    """
    facts = _Facts(history)
    return [
        *_inconsistent_offsets(facts),
        *_duplicates(facts),
        *_missing(facts),
        *_aborted_reads(facts),
        *_torn_transactions(facts),
        *_nonmonotonic_sends(facts),
        *_poll_order(history, facts),
    ]


def _inconsistent_offsets(facts: _Facts) -> Iterator[Anomaly]:
    for (partition, offset), values in facts.at.items():
        if len(values) > 1:
            yield Anomaly(
                "inconsistent-offsets", f"partition {partition} offset {offset} is {sorted(values)}"
            )


def _duplicates(facts: _Facts) -> Iterator[Anomaly]:
    for (partition, value), offsets in facts.seen.items():
        if len(offsets) > 1:
            yield Anomaly("duplicate", f"{value} is in partition {partition} at {sorted(offsets)}")


def _missing(facts: _Facts) -> Iterator[Anomaly]:
    """Return acknowledged records that were never read: lost if a consumer read past them, otherwise unseen."""
    furthest: dict[int, int] = defaultdict(lambda: -1)
    for poll in facts.polls:
        for partition, offset, _ in poll.records:
            furthest[partition] = max(furthest[partition], offset)
    for send in facts.sends:
        if facts.outcome_of(send) is not Outcome.OK or (send.partition, send.value) in facts.polled:
            continue
        passed = send.offset is None or send.offset < furthest[send.partition]
        kind = "lost-write" if passed else "unseen"
        yield Anomaly(kind, f"{send.value} was acknowledged at {send.partition}/{send.offset}")


def _aborted_reads(facts: _Facts) -> Iterator[Anomaly]:
    for send in facts.sends:
        if facts.outcome_of(send) is Outcome.FAILED and (send.partition, send.value) in facts.polled:
            yield Anomaly("aborted-read", f"{send.value} was refused or aborted, and read")


def _torn_transactions(facts: _Facts) -> Iterator[Anomaly]:
    """Check that each transaction is visible as a whole or not at all."""
    written: dict[str, list[Send]] = defaultdict(list)
    for send in facts.sends:
        if send.transaction is not None and send.outcome is Outcome.OK:
            written[send.transaction].append(send)
    for name, sends in written.items():
        if facts.transactions.get(name, Outcome.UNKNOWN) is not Outcome.UNKNOWN:
            continue  # reported as a lost write or an aborted read
        missing = [send.value for send in sends if (send.partition, send.value) not in facts.polled]
        if missing and len(missing) < len(sends):
            yield Anomaly("torn-transaction", f"{name} is there without {missing}")


def _nonmonotonic_sends(facts: _Facts) -> Iterator[Anomaly]:
    last: dict[tuple[str, int], int] = {}
    for send in facts.sends:
        if send.outcome is not Outcome.OK or send.offset is None:
            continue
        key = (send.producer, send.partition)
        if send.offset <= last.get(key, -1):
            yield Anomaly(
                "nonmonotonic-send",
                f"{send.producer} sent {send.value} to partition {send.partition}: {send.offset} after {last[key]}",
            )
        last[key] = max(last.get(key, -1), send.offset)


def _poll_order(history: History, facts: _Facts) -> Iterator[Anomaly]:
    """Check that each consumer reads forwards and skips no known record."""
    known: dict[int, list[int]] = defaultdict(list)
    for partition, offset in facts.at:
        known[partition].append(offset)
    ordered = {partition: sorted(offsets) for partition, offsets in known.items()}
    index = {
        (partition, offset): place
        for partition, offsets in ordered.items()
        for place, offset in enumerate(offsets)
    }
    position: dict[tuple[str, int], int] = {}
    for event in history.events:
        if isinstance(event, Reposition):
            for key in [key for key in position if key[0] == event.consumer]:
                del position[key]
        if not isinstance(event, Poll):
            continue
        for partition, offset, value in event.records:
            key = (event.consumer, partition)
            before = position.get(key)
            if before is not None:
                if offset <= before:
                    yield Anomaly(
                        "nonmonotonic-poll",
                        f"{event.consumer} read {value} at {partition}/{offset} after {before}",
                    )
                elif index[partition, offset] != index[partition, before] + 1:
                    skipped = ordered[partition][index[partition, before] + 1 : index[partition, offset]]
                    yield Anomaly("poll-skip", f"{event.consumer} read past {partition}/{skipped}")
            position[key] = offset
