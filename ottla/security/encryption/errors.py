"""Encryption errors, one sentence each. Messages and reprs contain no keys and no parts of values."""

from __future__ import annotations


class EncryptionError(Exception):
    pass


class BadValue(EncryptionError):
    """The value was changed, or encrypted for someone else. It cannot be decrypted."""


class KeysUnavailable(EncryptionError):
    """Keys are unavailable now, or with these settings. This does not indicate a bad value."""
