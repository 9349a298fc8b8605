"""GROUP BY, one record at a time: changes in, rows out, with all memory in the state.

As in Kafka Streams, the stream time of a partition is the latest record time so far. A window closes when stream time
reaches its end plus the grace period.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from ottla.spark.state.value_codec import encode_key
from ottla.sql.stateful.aggregates import Accumulator, AggregateCall, accumulator
from ottla.sql.stateful.entries import Deadlines, Entries, encoded

if TYPE_CHECKING:
    from ottla.spark.state import State

Group = tuple[Any, ...]
Arguments = tuple[tuple[Any, ...], ...]  # of each call

_TIME = b"t"
_PLACE = b"p"
_ENDS = b"e"
_GROUPS = b"g"
_ROWS = b"r"


@dataclass(frozen=True)
class Change:
    """An added row; for tables also a removed row, or a replacement within the same group."""

    group: Group
    time: int
    added: Arguments | None = None
    removed: Arguments | None = None


@dataclass(frozen=True)
class GroupRow:
    """`results` is None for a tombstone. `before` has the group's previous results, or None for a new group."""

    group: Group
    time: int
    results: tuple[Any, ...] | None
    before: tuple[Any, ...] | None = None
    start: int | None = None
    end: int | None = None


@dataclass(frozen=True)
class Aggregation:
    """Settings of a GROUP BY. `size_ms` is the gap of a session window."""

    calls: tuple[AggregateCall, ...]
    window: str | None = None  # TUMBLING, HOPPING or SESSION
    size_ms: int = 0
    advance_ms: int = 0
    grace_ms: int = 0
    final: bool = False
    every_change: bool = False  # otherwise only the last row of each group in a batch

    def accumulators(self) -> list[Accumulator]:
        return [accumulator(call) for call in self.calls]


class Held(NamedTuple):
    """State of a group or of one of its windows, stored as a tuple."""

    group: Group
    states: tuple[Any, ...]
    time: int
    start: int | None = None
    end: int | None = None


class Aggregator:
    """Aggregation without windows or with fixed-size windows."""

    def __init__(self, aggregation: Aggregation, state: State) -> None:
        self.aggregation = aggregation
        self.entries = Entries(state)
        self.deadlines = Deadlines(state, _ENDS)
        self.accumulators = aggregation.accumulators()

    def process(self, change: Change) -> list[GroupRow]:
        stream_time = self.observe(change.time)
        if self.aggregation.window is None:
            return [self._change(_GROUPS + key_of(change.group), change, None, None)]
        rows = []
        for start in self._starts(change.time):
            end = start + self.aggregation.size_ms
            if end <= stream_time - self.aggregation.grace_ms:
                continue  # late record
            key = _GROUPS + key_of(change.group) + encoded(start)
            rows.append(self._change(key, change, start, end))
            self.deadlines.note(end, key)
        closed = self._closed(stream_time - self.aggregation.grace_ms)
        return closed if self.aggregation.final else rows

    def _starts(self, time: int) -> list[int]:
        size, advance = self.aggregation.size_ms, self.aggregation.advance_ms or self.aggregation.size_ms
        first = max(0, time - size + advance) // advance * advance
        return list(range(first, time + 1, advance))

    def _change(self, key: bytes, change: Change, start: int | None, end: int | None) -> GroupRow:
        held = _held(self.entries.get(key))
        before = None if held is None else self.results(held.states)
        states = self.initial() if held is None else held.states
        states = self.changed(states, change)
        time = change.time if held is None else max(held.time, change.time)
        self.entries.put(key, (change.group, states, time, start, end))
        return GroupRow(change.group, time, self.results(states), before, start, end)

    def _closed(self, close_time: int) -> list[GroupRow]:
        """Remove closed windows. Return their results for EMIT FINAL."""
        rows = []
        for _, key in self.deadlines.passed(close_time + 1):
            held = _held(self.entries.get(key))
            self.entries.put(key, None)
            if held is not None:
                results = self.results(held.states)
                rows.append(GroupRow(held.group, held.time, results, None, held.start, held.end))
        return rows

    # Shared by all kinds of windows

    def flush(self) -> None:
        self.entries.flush()

    def observe(self, time: int) -> int:
        latest = self.entries.get(_TIME)
        if latest is None or time > latest:
            self.entries.put(_TIME, time)
            return time
        return int(latest)

    def place(self) -> int:
        """Return a number that increases with each record."""
        place = (self.entries.get(_PLACE) or 0) + 1
        self.entries.put(_PLACE, place)
        return int(place)

    def initial(self) -> tuple[Any, ...]:
        return tuple(each.initial() for each in self.accumulators)

    def results(self, states: Sequence[Any]) -> tuple[Any, ...]:
        return tuple(each.result(state) for each, state in zip(self.accumulators, states, strict=True))

    def changed(self, states: tuple[Any, ...], change: Change) -> tuple[Any, ...]:
        """Remove the old row before adding the new one."""
        if change.removed is not None:
            states = tuple(
                each.undo(state, values)
                for each, state, values in zip(self.accumulators, states, change.removed, strict=True)
            )
        if change.added is not None:
            place = self.place()
            states = tuple(
                each.add(state, values, place)
                for each, state, values in zip(self.accumulators, states, change.added, strict=True)
            )
        return states


class TableRows:
    """Previous rows of a table, so that a change can be removed from its old group."""

    def __init__(self, state: State) -> None:
        self._entries = Entries(state)

    def flush(self) -> None:
        self._entries.flush()

    def process(self, key: Group, time: int, now: tuple[Group, Arguments] | None) -> list[Change]:
        """Return the changes for a row. `now` is None if the row is deleted, filtered by WHERE or in no group."""
        place = _ROWS + key_of(key)
        before: tuple[Group, Arguments] | None = self._entries.get(place)
        if now is not None and any(each is None for each in now[0]):
            now = None
        self._entries.put(place, now)
        if before is not None and now is not None and before[0] == now[0]:
            return [Change(now[0], time, now[1], before[1])]
        changes = []
        if before is not None:
            changes.append(Change(before[0], time, None, before[1]))
        if now is not None:
            changes.append(Change(now[0], time, now[1], None))
        return changes


def _held(entry: tuple[Any, ...] | None) -> Held | None:
    return None if entry is None else Held(*entry)


def key_of(group: Group) -> bytes:
    """Return the same bytes for equal groups. No key is a prefix of another key."""
    return encode_key(group)


def last_of_each(rows: Sequence[GroupRow]) -> list[GroupRow]:
    """Keep only the last change of each group in a batch."""
    latest: dict[Any, GroupRow] = {}
    for row in rows:
        name = (key_of(row.group), row.start, row.end)
        latest.pop(name, None)
        latest[name] = row
    return list(latest.values())
