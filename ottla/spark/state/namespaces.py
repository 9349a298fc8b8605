"""The view that an operator has of its state, and parts of one state for several uses."""

from __future__ import annotations

from typing import Protocol


class State(Protocol):
    """A map from bytes to bytes, ordered by key. Keys are not empty."""

    def get(self, key: bytes) -> bytes | None: ...

    def put(self, key: bytes, value: bytes) -> None: ...

    def delete(self, key: bytes) -> None: ...

    def scan(
        self, prefix: bytes = b"", start: bytes = b"", stop: bytes | None = None, limit: int | None = None
    ) -> list[tuple[bytes, bytes]]:
        """Entries whose keys begin with `prefix` and lie in start ≤ key < stop, in the order of keys."""
        ...


class Namespace:
    """The part of a state whose keys begin with a prefix, which is not seen inside."""

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
