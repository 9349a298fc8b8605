"""Encrypt values with a data key per topic, replaced after a number of values or a period."""

from __future__ import annotations

import base64
import threading
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple, NoReturn

from ottla.security.encryption.envelope import MOST_RECORDS, DataKey, Envelope
from ottla.security.encryption.fields import FieldPaths, NotAnObject
from ottla.security.encryption.headers import HEADER, GivenHeaders, Headers, split
from ottla.security.encryption.key_provider import EncryptionError, KeyProvider


class Encrypted(NamedTuple):
    value: bytes | None
    headers: Headers


class Encryptor:
    """Encrypts values. Thread-safe. Data keys exist only in this object's memory, until `forget`.

    With `fields` the values are JSON objects, and only these fields are encrypted.
    """

    def __init__(
        self,
        keys: KeyProvider,
        *,
        fields: Sequence[str] = (),
        records_per_key: int = 1 << 20,
        seconds_per_key: float = 3600.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        if not 1 <= records_per_key <= MOST_RECORDS:
            raise EncryptionError(
                f"records_per_key must be between 1 and {MOST_RECORDS}, not {records_per_key}."
            )
        if seconds_per_key <= 0:
            raise EncryptionError(f"seconds_per_key must be above 0, not {seconds_per_key:g}.")
        self._keys = keys
        self._fields = FieldPaths(fields) if fields else None
        self._records_per_key = records_per_key
        self._seconds_per_key = seconds_per_key
        self._clock = clock
        self._lock = threading.Lock()
        self._current: dict[str, _Current] = {}

    def __repr__(self) -> str:
        return f"Encryptor({self._keys!r})"

    def __reduce__(self) -> NoReturn:
        raise TypeError("An Encryptor does not leave its process: make one where it is used.")

    def encrypt(self, topic: str, value: bytes | None, headers: GivenHeaders = None) -> Encrypted:
        """Return the value and headers to produce. A null value stays null, as a tombstone."""
        own, others = split(headers)
        if own is not None:
            raise EncryptionError(
                f"The record has a header {HEADER}, so its value is already encrypted. For a decrypted record, pass "
                "the headers that `decrypt` returned."
            )
        if value is None:
            return Encrypted(None, others)
        sealed, header = self.seal(topic, value)
        return Encrypted(sealed, [*others, (HEADER, header)])

    def seal(self, topic: str, value: bytes) -> tuple[bytes, bytes]:
        with self._lock:
            current = self._current.get(topic)
            if current is None or not current.left or self._clock() >= current.until:
                current = self._renew(topic)
            current.left -= 1
        if self._fields is None:
            return current.data_key.seal(value, current.associated), current.header
        return self._seal_fields(self._fields, current, value), current.header

    def forget(self) -> None:
        """Discard the data keys; the next value of each topic gets a new one."""
        with self._lock:
            self._current.clear()

    def _renew(self, topic: str) -> _Current:
        now = self._clock()
        self._current = {name: each for name, each in self._current.items() if each.until > now and each.left}
        self._current.pop(topic, None)
        new = self._keys.new_data_key()
        data_key = DataKey(new.key)
        fields = () if self._fields is None else self._fields.paths
        envelope = Envelope(data_key.id, new.key_name, new.wrapped, fields)
        # Each field has its own nonce.
        records = max(1, self._records_per_key // max(1, len(fields)))
        current = self._current[topic] = _Current(
            data_key, envelope, topic, records, now + self._seconds_per_key
        )
        return current

    def _seal_fields(self, fields: FieldPaths, current: _Current, value: bytes) -> bytes:
        def seal(path: str, text: str) -> str:
            sealed = current.data_key.seal(text.encode(), current.associated_of[path])
            return f'"{base64.b64encode(sealed).decode()}"'

        reason = "it is not UTF-8"
        try:
            return fields.change(value.decode(), seal).encode()
        except NotAnObject as error:
            reason = str(error)
        except ValueError:  # the error contains the value and must not become the context of ours
            pass
        raise EncryptionError(
            f"The fields of a value for topic '{current.topic}' cannot be encrypted: {reason}."
        )


class _Current:
    """A topic's data key, with its remaining time and number of values."""

    __slots__ = ("associated", "associated_of", "data_key", "header", "left", "topic", "until")

    def __init__(self, data_key: DataKey, envelope: Envelope, topic: str, left: int, until: float) -> None:
        self.data_key = data_key
        self.topic = topic
        self.header = envelope.encode()
        self.associated = envelope.associated_data(topic)
        self.associated_of = {path: envelope.associated_data(topic, path) for path in envelope.fields}
        self.left = left
        self.until = until
