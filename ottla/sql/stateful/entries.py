"""Cache of Python values over a state, for the duration of a batch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ottla.spark.state.value_codec import decode, encode

if TYPE_CHECKING:
    from ottla.spark.state import State


class Entries:
    """Reads each entry once per batch, and writes it once in `flush`."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._held: dict[bytes, Any] = {}
        self._changed: dict[bytes, None] = {}

    def get(self, key: bytes) -> Any:
        if key in self._held:
            return self._held[key]
        raw = self._state.get(key)
        value = None if raw is None else decode(raw)
        self._held[key] = value
        return value

    def put(self, key: bytes, value: Any) -> None:
        """Set the value. None removes the entry."""
        self._held[key] = value
        self._changed[key] = None

    def flush(self) -> None:
        for key in self._changed:
            value = self._held[key]
            if value is None:
                self._state.delete(key)
            else:
                self._state.put(key, encode(value))
        self._held.clear()
        self._changed.clear()


class Deadlines:
    """Keys ordered by time: finds the keys before a given time without scanning the others."""

    def __init__(self, state: State, prefix: bytes) -> None:
        self._state = state
        self._prefix = prefix
        self._noted: set[bytes] = set()
        self._first: int | None = self._earliest()

    def _earliest(self) -> int | None:
        found = self._state.scan(self._prefix, limit=1)
        return None if not found else int.from_bytes(found[0][0][len(self._prefix) :][:8], "big")

    def note(self, time: int, key: bytes) -> None:
        mark = self._prefix + encoded(time) + key
        if mark in self._noted:
            return
        self._noted.add(mark)
        self._state.put(mark, b"\x01")
        self._first = time if self._first is None else min(self._first, time)

    def passed(self, time: int) -> list[tuple[int, bytes]]:
        """Remove and return the keys before the time, with their times."""
        if self._first is None or self._first >= time:
            return []
        found = self._state.scan(self._prefix, self._prefix, self._prefix + encoded(time))
        for mark, _ in found:
            self._state.delete(mark)
            self._noted.discard(mark)
        self._first = self._earliest()
        marks = [mark[len(self._prefix) :] for mark, _ in found]
        return [(int.from_bytes(mark[:8], "big"), mark[8:]) for mark in marks]


def encoded(number: int) -> bytes:
    """Encode a number so that bytes sort like numbers. Times in Kafka are not negative."""
    return max(number, 0).to_bytes(8, "big")
