"""Operator's view of its state, and namespaces within one state."""

from __future__ import annotations

from typing import Protocol


class State(Protocol):
    """Map from bytes to bytes, ordered by key. Keys are not empty."""

    def get(self, key: bytes) -> bytes | None: ...

    def put(self, key: bytes, value: bytes) -> None: ...

    def delete(self, key: bytes) -> None: ...

    def scan(
        self, prefix: bytes = b"", start: bytes = b"", stop: bytes | None = None, limit: int | None = None
    ) -> list[tuple[bytes, bytes]]:
        """Return entries with start ≤ key < stop whose keys begin with `prefix`, in key order."""
        ...


class Namespace:
    """Part of a state whose keys begin with a prefix. Users of the namespace do not see the prefix."""

    def __init__(self, state: State, prefix: bytes) -> None:
        self._state = state
        self._prefix = prefix

    def get(self, key: bytes) -> bytes | None:
        return self._state.get(self._prefix + key)

    def put(self, key: bytes, value: bytes) -> None:
        self._state.put(self._prefix + key, value)

    def delete(self, key: bytes) -> None:
        self._state.delete(self._prefix + key)

    def scan(
        self, prefix: bytes = b"", start: bytes = b"", stop: bytes | None = None, limit: int | None = None
    ) -> list[tuple[bytes, bytes]]:
        mine = self._prefix
        found = self._state.scan(mine + prefix, mine + start, None if stop is None else mine + stop, limit)
        return [(key[len(mine) :], value) for key, value in found]
