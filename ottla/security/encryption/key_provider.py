"""Who owns the keys that wrap data keys. `ottla.client.encryption` has those there are."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol


@dataclass(frozen=True, slots=True)
class NewDataKey:
    """A data key, plain and wrapped by the key of this name."""

    key_name: str
    wrapped: bytes
    key: bytes = field(repr=False)


class KeyProvider(Protocol):
    """A key file or a key management service. May be called by several threads.

    Raises KeysUnavailable where keys cannot be had, and BadValue where a wrapped key is not one of its own.
    """

    def new_data_key(self) -> NewDataKey: ...

    def unwrap(self, key_name: str, wrapped: bytes) -> bytes:
        """The data key. Every version that the named key has had will do, if it still exists."""

    def rewrap(self, key_name: str, wrapped: bytes) -> bytes:
        """The same data key, wrapped by the latest version of the named key."""
