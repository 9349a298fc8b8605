"""Interface to owners of wrapping keys, and its errors. `ottla.client.encryption` has the implementations."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol


class EncryptionError(Exception):
    pass


class BadValue(EncryptionError):
    """The value was changed, or encrypted for someone else. It cannot be decrypted."""


class KeysUnavailable(EncryptionError):
    """Keys are unavailable now, or with these settings. This does not indicate a bad value."""


@dataclass(frozen=True, slots=True)
class NewDataKey:
    """A data key, plain and wrapped by the named key."""

    key_name: str
    wrapped: bytes
    key: bytes = field(repr=False)


class KeyProvider(Protocol):
    """A key file or a key management service. Thread-safe.

    Raises KeysUnavailable if keys are unavailable, and BadValue for a foreign wrapped key.
    """

    def new_data_key(self) -> NewDataKey: ...

    def unwrap(self, key_name: str, wrapped: bytes) -> bytes:
        """Return the data key, wrapped by any existing version of the named key."""

    def rewrap(self, key_name: str, wrapped: bytes) -> bytes:
        """Return the same data key, wrapped by the latest version of the named key."""
