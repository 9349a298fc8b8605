"""Decrypt values, with a temporary cache of data keys."""

from __future__ import annotations

import base64
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import NamedTuple, NoReturn

from ottla.security.encryption.envelope import DataKey, Envelope, parse
from ottla.security.encryption.fields import FieldPaths, NotAnObject
from ottla.security.encryption.headers import HEADER, GivenHeaders, Headers, split
from ottla.security.encryption.key_provider import BadValue, EncryptionError, KeyProvider


class Decrypted(NamedTuple):
    value: bytes | None
    headers: Headers


class Decryptor:
    """Decrypts values. Thread-safe.

    A data key is used for at most `seconds_per_key` after it was unwrapped, so revoking a key takes effect within that
    time. At most `most_keys` are kept. Failures to unwrap are cached as well, so that bad records do not each cause a
    request to a key management service.
    """

    def __init__(
        self,
        keys: KeyProvider,
        *,
        allow_plain: bool = False,
        seconds_per_key: float = 600.0,
        most_keys: int = 1000,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._keys = keys
        self._allow_plain = allow_plain
        self._seconds_per_key = seconds_per_key
        self._most_keys = most_keys
        self._clock = clock
        self._lock = threading.Lock()
        # Keyed by the whole header, so that no bit of it can be changed for a cached key.
        self._known: dict[tuple[str, bytes], _Known] = {}

    def __repr__(self) -> str:
        return f"Decryptor({self._keys!r})"

    def __reduce__(self) -> NoReturn:
        raise TypeError("A Decryptor does not leave its process: make one where it is used.")

    def decrypt(self, topic: str, value: bytes | None, headers: GivenHeaders = None) -> Decrypted:
        """Return the plain value, and the headers without the encryption header.

        `topic` is the topic for which the value was encrypted. A null value stays null.
        """
        own, others = split(headers)
        return Decrypted(self.open(topic, value, own), others)

    def open(self, topic: str, value: bytes | None, header: bytes | None) -> bytes | None:
        if value is None:
            return None
        if header is None:
            if self._allow_plain:
                return value
            raise BadValue(f"The value is not encrypted: the record has no header {HEADER}.")
        known = self._known.get((topic, header))
        if known is None or self._clock() >= known.until:
            known = self._unwrap(topic, header)
        if isinstance(known.opener, str):
            raise BadValue(known.opener)
        return known.opener.open(value)

    def forget(self) -> None:
        with self._lock:
            self._known.clear()

    def _unwrap(self, topic: str, header: bytes) -> _Known:
        with self._lock:
            known = self._known.get((topic, header))
            now = self._clock()
            if known is not None and now < known.until:  # another thread was faster
                return known
            self._make_room(now)
            opener: _Opener | str
            try:
                opener = self._opener(topic, parse(header))
            except BadValue as error:
                opener = str(error)
            known = self._known[topic, header] = _Known(opener, now + self._seconds_per_key)
            return known

    def _opener(self, topic: str, envelope: Envelope) -> _Opener:
        data_key = DataKey(self._keys.unwrap(envelope.key_name, envelope.wrapped_key))
        if data_key.id != envelope.data_key_id:
            raise BadValue(f"The header {HEADER} was changed: its data key does not match its header.")
        return _Opener(data_key, envelope, topic)

    def _make_room(self, now: float) -> None:
        self._known = {which: each for which, each in self._known.items() if now < each.until}
        while len(self._known) >= self._most_keys:
            del self._known[next(iter(self._known))]


class _Known(NamedTuple):
    #: An error message replaces a missing opener.
    opener: _Opener | str
    until: float


class _Opener:
    """Decrypts values of one topic with one header."""

    __slots__ = ("_associated", "_associated_of", "_data_key", "_fields")

    def __init__(self, data_key: DataKey, envelope: Envelope, topic: str) -> None:
        self._data_key = data_key
        self._associated = envelope.associated_data(topic)
        self._associated_of = {path: envelope.associated_data(topic, path) for path in envelope.fields}
        try:
            self._fields = FieldPaths(envelope.fields) if envelope.fields else None
        except EncryptionError:
            raise BadValue(f"The header {HEADER} names fields that cannot be.") from None

    def open(self, value: bytes) -> bytes:
        if self._fields is None:
            return self._data_key.open(value, self._associated)
        reason = "it is not UTF-8"
        try:
            return self._fields.change(value.decode(), self._open_field).encode()
        except NotAnObject as error:
            reason = str(error)
        except ValueError:
            pass
        raise BadValue(f"The encrypted fields of the value cannot be read: {reason}.")

    def _open_field(self, path: str, text: str) -> str:
        sealed = b""
        with suppress(ValueError):
            sealed = base64.b64decode(text[1:-1])
        # Base64 can encode the same bytes in several ways; only the canonical one is accepted.
        if text != f'"{base64.b64encode(sealed).decode()}"':
            raise BadValue(f"The field {path} is not encrypted.")
        return self._data_key.open(sealed, self._associated_of[path]).decode()


def rewrap(keys: KeyProvider, headers: GivenHeaders) -> Headers:
    """Return headers with the data key wrapped by the latest version of its key; the value stays the same.

    For rewriting records to the same topic before an old key version is destroyed.
    """
    own, others = split(headers)
    if own is None:
        return others
    envelope = parse(own)
    wrapped = keys.rewrap(envelope.key_name, envelope.wrapped_key)
    return [*others, (HEADER, envelope._replace(wrapped_key=wrapped).encode())]
