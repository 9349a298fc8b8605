"""Allowed losses after unclean elections. The other checker allows no loss at all.

The rule: after the election of an out-of-sync replica, records may be lost that were acknowledged or read between its
departure from the ISR and the end of the previous leader. Records of the same or a later epoch take their place. All
other records exist once, in order and without gaps.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from tests.history.checker import Anomaly, Outcome, Poll, Reposition, Send, Transaction

# On a busy machine, a client may learn of an event slightly later.
_LATE_SECONDS = 2.0
_CLOCK_SECONDS = 0.002  # ZooKeeper counts in milliseconds


class Loss(NamedTuple):
    """An unclean election. `ended` is the latest time at which the previous leader can have responded."""

    partition: int
    epoch: int
    left_isr: float
    ended: float


class Final(NamedTuple):
    """A record in the final log, with its leader epoch."""

    offset: int
    value: str
    epoch: int


Event = Send | Poll | Reposition | Transaction
FinalLogs = Mapping[int, Sequence[Final]]


def check_losses(
    events: Sequence[tuple[float, Event]], logs: FinalLogs, losses: Sequence[Loss]
) -> tuple[list[Anomaly], int]:
    """Return the unexplained losses and the number of lost acknowledged records. Events carry wall clock times."""
    epochs = {(partition, record.offset): record.epoch for partition, log in logs.items() for record in log}

    def may_be_gone(partition: int, offset: int, when: float) -> bool:
        epoch = epochs.get((partition, offset))
        return any(
            loss.partition == partition
            and loss.left_isr - _CLOCK_SECONDS <= when <= loss.ended + _LATE_SECONDS
            and (epoch is None or epoch >= loss.epoch)
            for loss in losses
        )

    wrong = list(_log_faults(logs, losses))
    there = {(partition, record.value) for partition, log in logs.items() for record in log}
    values = {(partition, record.offset): record.value for partition, log in logs.items() for record in log}
    gone = 0
    for when, event in events:
        if isinstance(event, Send) and event.outcome is Outcome.OK:
            if (event.partition, event.value) not in there:
                gone += 1
                if event.offset is None or not may_be_gone(event.partition, event.offset, when):
                    wrong.append(
                        Anomaly(
                            "lost-write", f"{event.value}, acknowledged at {event.partition}/{event.offset}"
                        )
                    )
        elif isinstance(event, Poll):
            for partition, offset, value in event.records:
                if values.get((partition, offset)) != value and not may_be_gone(partition, offset, when):
                    wrong.append(
                        Anomaly("lost-read", f"{event.consumer} read {value} at {partition}/{offset}")
                    )
    return wrong, gone


def _log_faults(logs: FinalLogs, losses: Sequence[Loss]) -> Iterator[Anomaly]:
    for partition, log in logs.items():
        seen: dict[str, Final] = {}
        newest: dict[str, tuple[int, Final]] = defaultdict(lambda: (-1, Final(-1, "", -1)))
        for expected, record in enumerate(log):
            if record.offset != expected:
                yield Anomaly("hole", f"partition {partition} has {record.offset} where {expected} should be")
                break
            first = seen.setdefault(record.value, record)
            if first is not record:
                # Only the loss of that state can make the broker forget that it has this record.
                if not any(
                    loss.partition == partition and first.epoch < loss.epoch <= record.epoch
                    for loss in losses
                ):
                    yield Anomaly(
                        "duplicate", f"{record.value} at {partition}/{first.offset}, {record.offset}"
                    )
                continue
            producer, _, number = record.value.rpartition("-")
            last, before = newest[producer]
            if int(number) < last:
                yield Anomaly(
                    "reordered", f"{record.value} at {partition}/{record.offset} after {before.value}"
                )
            newest[producer] = (int(number), record)
