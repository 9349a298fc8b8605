"""Session windows: records of a group within the gap of each other. A record can merge two sessions."""

from __future__ import annotations

from typing import Any

from ottla.sql.stateful.grouped import Aggregator, Change, Group, GroupRow, key_of

_SESSIONS = b"s"

Session = tuple[int, int, tuple[Any, ...]]  # start, end, states


class SessionAggregator(Aggregator):
    """Stores the sessions of a group in one entry, ordered by time.

    Extending or merging a session changes its window. The old row is deleted before the new row is emitted, as in Kafka
    Streams.
    """

    def process(self, change: Change) -> list[GroupRow]:
        aggregation = self.aggregation
        close_time = self.observe(change.time) - aggregation.grace_ms - aggregation.size_ms
        key = _SESSIONS + key_of(change.group)
        held: tuple[Group, tuple[Session, ...]] = self.entries.get(key) or (change.group, ())
        gap = aggregation.size_ms
        near: list[Session] = []
        far: list[Session] = []
        for each in held[1]:
            is_near = each[1] >= change.time - gap and each[0] <= change.time + gap
            (near if is_near else far).append(each)
        start = min([change.time, *(each[0] for each in near)])
        end = max([change.time, *(each[1] for each in near)])
        rows: list[GroupRow] = []
        if end >= close_time:  # otherwise the record is late
            states = self.initial()
            for each in near:
                states = self._merged(states, each[2])
            before = self.results(near[0][2]) if len(near) == 1 and near[0][:2] == (start, end) else None
            if before is None:
                rows += [
                    GroupRow(change.group, each[1], None, self.results(each[2]), each[0], each[1])
                    for each in near
                ]
            states = self.changed(states, change)
            sessions = tuple(sorted([*far, (start, end, states)], key=lambda each: each[:2]))
            self.entries.put(key, (change.group, sessions))
            self.deadlines.note(end, key)
            rows.append(GroupRow(change.group, end, self.results(states), before, start, end))
        closed = self._closed_sessions(close_time)
        return closed if aggregation.final else rows

    def _merged(self, one: tuple[Any, ...], other: tuple[Any, ...]) -> tuple[Any, ...]:
        return tuple(each.merge(a, b) for each, a, b in zip(self.accumulators, one, other, strict=True))

    def _closed_sessions(self, close_time: int) -> list[GroupRow]:
        """Remove sessions that are final or that no record can join any more."""
        rows = []
        for end, key in self.deadlines.passed(close_time + 1 if self.aggregation.final else close_time):
            held: tuple[Group, tuple[Session, ...]] | None = self.entries.get(key)
            if held is None:
                continue
            over = [each for each in held[1] if each[1] == end]
            left = tuple(each for each in held[1] if each[1] != end)
            self.entries.put(key, (held[0], left) if left else None)
            rows += [
                GroupRow(held[0], each[1], self.results(each[2]), None, each[0], each[1]) for each in over
            ]
        return rows
