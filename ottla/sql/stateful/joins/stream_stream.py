"""Stream-stream join within a time window."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from ottla.spark.state import Namespace, State
from ottla.spark.state.value_codec import decode, encode
from ottla.sql.stateful.joins.sides import Sides
from ottla.sql.stateful.records import Record, Values

#: State namespaces:
#: - buffers of the left and right records by key, time and number
#: - the same records by time and number, for expiry
#: - unmatched records by time, side, key and number
#: - clocks
_BUFFERS, _BY_TIME, _ALONE, _CLOCKS = (b"l", b"r"), (b"L", b"R"), b"o", b"t"
_DEFAULT_GRACE_MS = 24 * 3_600_000


@dataclass(frozen=True)
class StreamStreamJoin:
    """Joins a record with all records of the other stream within reach, at the later of both times.

    With a grace period, unmatched records are emitted once nothing can match them, judged by the record times in this
    partition. Without one, unmatched records are emitted immediately, and again if they match later.

    A right record may be up to `before` earlier than a left record, and up to `after` later.
    """

    name: str
    sides: Sides
    keeps_left: bool
    keeps_right: bool
    before: int
    after: int
    grace: int | None

    def process(self, record: Record, state: State) -> Iterable[Record]:
        clocks = _Clocks(state)
        clocks.advance(0, record.time)
        if record.key is None:
            return ()
        is_right = self.sides.is_right(record.input)
        side = 1 + is_right
        clocks.advance(side, record.time)
        self._keep(record, is_right, state, clocks)
        made: list[Record] = []
        if self.grace is not None and record.time == clocks.get(0):
            made += self._closed(state, record.time)
        made += self._matches(record, is_right, state, clocks)
        return made

    # Buffering and matching

    def _keep(self, record: Record, is_right: bool, state: State, clocks: _Clocks) -> None:
        oldest = self._oldest(clocks.get(1 + is_right))
        by_time = Namespace(state, _BY_TIME[is_right])
        for key, _ in by_time.scan(stop=_long(oldest)):
            by_time.delete(key)
            state.delete(_BUFFERS[is_right] + _key(key[16:]) + key[:16])
        if record.time < oldest:
            return
        place = _long(record.time) + _long(clocks.count())
        row = self.sides.right_of(record.values) if is_right else self.sides.left_of(record.values)
        assert record.key is not None
        state.put(_BUFFERS[is_right] + _key(record.key) + place, encode(row))
        by_time.put(place + record.key, b"")

    def _matches(self, record: Record, is_right: bool, state: State, clocks: _Clocks) -> Iterator[Record]:
        assert record.key is not None
        before, after = (self.after, self.before) if is_right else (self.before, self.after)
        first, last = max(record.time - before, 0), max(record.time + after, 0)
        first = max(first, self._oldest(clocks.get(1 + (not is_right))))
        others = Namespace(state, _BUFFERS[not is_right] + _key(record.key))
        found = others.scan(start=_long(first), stop=_long(last + 1))
        alone = Namespace(state, _ALONE)
        for place, data in found:
            time = int.from_bytes(place[:8], "big")
            for key, _ in (
                alone.scan(_alone(time, not is_right, record.key)) if self.grace is not None else ()
            ):
                alone.delete(key)
            mine = self.sides.right_of(record.values) if is_right else record.values
            other = decode(data)
            values = self.sides.joined(other, mine) if is_right else self.sides.joined(mine, other)
            yield Record(0, record.key, max(record.time, time), False, values)
        if found or not (self.keeps_right if is_right else self.keeps_left):
            return
        if self.grace is None or last < clocks.get(0):
            yield Record(0, record.key, record.time, False, self._only(record.values, is_right))
        else:
            number = _long(clocks.count())
            alone.put(
                _alone(record.time, is_right, record.key) + number,
                encode(self._only(record.values, is_right)),
            )

    # Unmatched records

    def _closed(self, state: State, now: int) -> Iterator[Record]:
        """Yield unmatched records that can no longer find a match."""
        assert self.grace is not None
        alone = Namespace(state, _ALONE)
        reach = min(self.after, self.before) + self.grace
        for key, data in alone.scan(stop=_long(max(now - reach, 0))):
            time, is_right = int.from_bytes(key[:8], "big"), key[8] == 1
            if time + (self.before if is_right else self.after) + self.grace < now:
                alone.delete(key)
                yield Record(0, _unkey(key[9:-8]), time, False, decode(data))

    def _only(self, values: Values, is_right: bool) -> Values:
        if is_right:
            return self.sides.joined(None, self.sides.right_of(values))
        return self.sides.joined(values, None)

    def _oldest(self, now: int) -> int:
        """Return the time of the oldest record that can still match. Older records are too late."""
        retention = self.before + self.after + (_DEFAULT_GRACE_MS if self.grace is None else self.grace)
        return max(now - retention + 1, 0)


class _Clocks:
    """Highest time of all records (0), of the left stream (1) and of the right stream (2), and a counter."""

    def __init__(self, state: State) -> None:
        self._state = state
        held = state.get(_CLOCKS)
        self._times: list[int] = [-1, -1, -1, 0] if held is None else list(decode(held))

    def get(self, which: int) -> int:
        return self._times[which]

    def advance(self, which: int, time: int) -> None:
        if time > self._times[which]:
            self._times[which] = time
            self._state.put(_CLOCKS, encode(tuple(self._times)))

    def count(self) -> int:
        self._times[3] += 1
        self._state.put(_CLOCKS, encode(tuple(self._times)))
        return self._times[3]


def _long(number: int) -> bytes:
    return number.to_bytes(8, "big")


def _key(key: bytes) -> bytes:
    """Add the length, so that no key is a prefix of another key."""
    return len(key).to_bytes(4, "big") + key


def _unkey(key: bytes) -> bytes:
    return key[4:]


def _alone(time: int, is_right: bool, key: bytes) -> bytes:
    return _long(time) + bytes([is_right]) + _key(key)
