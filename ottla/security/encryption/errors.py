"""What can go wrong, as one sentence each. No message and no repr has a key or a part of a value in it."""

from __future__ import annotations


class EncryptionError(Exception):
    pass


class BadValue(EncryptionError):
    """The value is not what its producer encrypted, or not for us: there is nothing that could be returned."""


class KeysUnavailable(EncryptionError):
    """Keys cannot be had now, or not with these settings: it says nothing about any value."""
