"""Format of encrypted values, and the data covered by their tag.

The value is AES-256-GCM: a nonce of 12 bytes, ciphertext of the same length as the plain value, and a tag of 16 bytes.
The header `ottla.encryption` contains everything else needed to decrypt it:

    version         1 byte, 1
    algorithm       1 byte, 1 is AES-256-GCM
    data key        16 bytes, the id of the key that encrypts the value
    name            1 byte for its length, then the name of the key that wraps the data key
    wrapped key     2 bytes for its length, then the data key as the owner of the wrapping key has encrypted it
    fields          1 byte for their number, then for each 2 bytes for its length and its path; none is the whole value

With fields the value is JSON, and each encrypted field is a string: nonce, ciphertext and tag of its JSON text, in
Base64.

The tag covers version, algorithm, id of the data key, topic, all paths, and the field's own path. A value cannot be
moved to another topic, nor a field to another one. The tag excludes the record's partition, offset, key and timestamp,
which producers do not know or a broker may set. It also excludes the wrapped key, to allow rewrapping. The id of a data
key is a hash of it, so no other key can pass for it, and a replaced wrapped key is noticed.

Nonces are random. A data key encrypts 2^20 values by default, and at most 2^32, the limit in NIST SP 800-38D for random
nonces. The probability of a repetition is below 2^-57 by default, and below 2^-32 at the limit. A counter would need no
such limit, but it would certainly repeat if a process is forked, restored from a snapshot, or used by two threads. One
repetition reveals both values and the means to forge more.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import re
from typing import NamedTuple, NoReturn

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from ottla.security.encryption.headers import HEADER
from ottla.security.encryption.key_provider import BadValue

#: Maximum number of values per data key.
MOST_RECORDS = 1 << 32
KEY_BYTES = 32

_VERSION = 1
_AES_256_GCM = 1
_NONCE_BYTES = 12
_TAG_BYTES = 16
_ID_BYTES = 16
_ID_LABEL = b"ottla.encryption data key id"

# Names allowed by Vault. They come from headers, which anyone may have written, and end up in URLs.
_KEY_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}")


def is_key_name(name: str) -> bool:
    return _KEY_NAME.fullmatch(name) is not None


class DataKey:
    """A key for values. It knows its id, and its repr hides the key."""

    __slots__ = ("_cipher", "id")

    def __init__(self, key: bytes) -> None:
        if len(key) != KEY_BYTES:
            raise BadValue(f"A data key has {KEY_BYTES} bytes, and this one has {len(key)}.")
        self.id = hmac.digest(key, _ID_LABEL, hashlib.sha256)[:_ID_BYTES]
        self._cipher = AESGCM(key)

    def __repr__(self) -> str:
        return f"DataKey({self.id.hex()})"

    def __reduce__(self) -> NoReturn:
        raise TypeError("A data key does not leave its process.")

    def seal(self, plain: bytes, associated: bytes) -> bytes:
        nonce = os.urandom(_NONCE_BYTES)
        return nonce + self._cipher.encrypt(nonce, plain, associated)

    def open(self, sealed: bytes, associated: bytes) -> bytes:
        if len(sealed) < _NONCE_BYTES + _TAG_BYTES:
            raise BadValue("The encrypted value is truncated.")
        try:
            return self._cipher.decrypt(sealed[:_NONCE_BYTES], sealed[_NONCE_BYTES:], associated)
        except InvalidTag:
            pass
        raise BadValue("The encrypted value was changed, or it was encrypted for another topic.")


class Envelope(NamedTuple):
    """The header, shared by all values of a data key and topic."""

    data_key_id: bytes
    key_name: str
    wrapped_key: bytes
    fields: tuple[str, ...] = ()

    def encode(self) -> bytes:
        name = self.key_name.encode()
        return b"".join(
            (
                bytes((_VERSION, _AES_256_GCM)),
                self.data_key_id,
                bytes((len(name),)),
                name,
                _sized(self.wrapped_key),
                bytes((len(self.fields),)),
                *(_sized(field.encode()) for field in self.fields),
            )
        )

    def associated_data(self, topic: str, field: str | None = None) -> bytes:
        """Return the additional data covered by the tag. Lengths precede texts, so that the encoding is unambiguous."""
        return b"".join(
            (
                HEADER.encode(),
                bytes((_VERSION, _AES_256_GCM)),
                self.data_key_id,
                _sized(topic.encode()),
                bytes((len(self.fields),)),
                *(_sized(each.encode()) for each in self.fields),
                b"" if field is None else _sized(field.encode()),
            )
        )


def parse(header: bytes) -> Envelope:
    """Parse a record's header. Raises BadValue unless `Envelope.encode` made it."""
    if len(header) < 2:
        raise BadValue(f"The header {HEADER} is truncated.")
    if header[0] != _VERSION or header[1] != _AES_256_GCM:
        raise BadValue(
            f"The header {HEADER} has version {header[0]} and algorithm {header[1]}, which are not known here."
        )
    try:
        return _parse(header)
    except (IndexError, ValueError):
        pass
    raise BadValue(f"The header {HEADER} is truncated or was changed.")


def _parse(header: bytes) -> Envelope:
    reader = _Reader(header, 2)
    data_key_id = reader.take(_ID_BYTES)
    name = reader.take(reader.number(1)).decode("ascii")
    wrapped = reader.take(reader.number(2))
    fields = tuple(reader.take(reader.number(2)).decode() for _ in range(reader.number(1)))
    if reader.position != len(header) or not is_key_name(name):
        raise ValueError
    return Envelope(data_key_id, name, wrapped, fields)


class _Reader:
    def __init__(self, data: bytes, position: int) -> None:
        self._data = data
        self.position = position

    def take(self, size: int) -> bytes:
        start, self.position = self.position, self.position + size
        if self.position > len(self._data):
            raise IndexError
        return self._data[start : self.position]

    def number(self, size: int) -> int:
        return int.from_bytes(self.take(size), "big")


def _sized(data: bytes) -> bytes:
    return len(data).to_bytes(2, "big") + data
