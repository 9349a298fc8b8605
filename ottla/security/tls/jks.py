"""Java's old key store format JKS, and the DER parser that it and certificate names need."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterator
from struct import Struct
from struct import error as StructError
from typing import NamedTuple

# A minimal DER parser for names and key stores.

SEQUENCE, SET, OBJECT_IDENTIFIER, OCTET_STRING = 0x30, 0x31, 0x06, 0x04


class BadDer(ValueError):
    """Truncated or malformed DER."""


class Element(NamedTuple):
    tag: int
    content: bytes
    encoded: bytes  # including tag and length

    def children(self) -> Iterator[Element]:
        return elements(self.content)

    def expect(self, tag: int) -> Element:
        if self.tag != tag:
            raise BadDer(f"tag {self.tag:#x} where {tag:#x} was expected")
        return self


def elements(data: bytes) -> Iterator[Element]:
    position = 0
    while position < len(data):
        start = position
        if len(data) - position < 2:
            raise BadDer("an element ends early")
        tag, length = data[position], data[position + 1]
        position += 2
        if length & 0x80:
            count = length & 0x7F
            if not 1 <= count <= 4 or len(data) - position < count:
                raise BadDer("a length cannot be read")
            length = int.from_bytes(data[position : position + count])
            position += count
        end = position + length
        if end > len(data):
            raise BadDer("an element ends early")
        yield Element(tag, data[position:end], data[start:end])
        position = end


def element(data: bytes) -> Element:
    """Return the first element. Raises BadDer without one."""
    for found in elements(data):
        return found
    raise BadDer("nothing is there")


def object_identifier(content: bytes) -> str:
    numbers: list[int] = []
    number = 0
    for byte in content:
        number = number << 7 | byte & 0x7F
        if not byte & 0x80:
            numbers.append(number)
            number = 0
    if not numbers or content[-1] & 0x80:
        raise BadDer("an object identifier cannot be read")
    first = min(numbers[0] // 40, 2)
    return ".".join(map(str, (first, numbers[0] - 40 * first, *numbers[1:])))


# Java's old key store format JKS, the default of keytool before Java 9 and still written with `-storetype JKS`.
#
# The file ends with a digest of the password and all preceding bytes. A stream of SHA-1 digests, seeded
# with the password and a salt, protects the keys. The format is weak; prefer PKCS12 or PEM.

MAGIC = b"\xfe\xed\xfe\xed"
JCEKS_MAGIC = b"\xce\xce\xce\xce"

_WHITENER = b"Mighty Aphrodite"
_DIGEST_BYTES = hashlib.sha1().digest_size
_KEY_ENTRY, _CERTIFICATE_ENTRY = 1, 2
_KEY_PROTECTION = "1.3.6.1.4.1.42.2.17.1.1"
_U16, _U32 = Struct(">H").unpack_from, Struct(">I").unpack_from


class BadStore(ValueError):
    """A damaged or malformed file."""


class WrongPassword(ValueError):
    pass


class KeyEntry(NamedTuple):
    alias: str
    protected_key: bytes
    chain: list[bytes]  # DER, the key's own certificate first


class JksStore(NamedTuple):
    keys: list[KeyEntry]
    certificates: list[bytes]  # trusted certificates in DER


def read_jks(data: bytes, password: str | None) -> JksStore:
    """Parse a store. As in Java, the integrity is not checked without a password."""
    content, digest = data[:-_DIGEST_BYTES], data[-_DIGEST_BYTES:]
    if password is not None:
        expected = hashlib.sha1(_encoded(password) + _WHITENER + content).digest()
        if not hmac.compare_digest(expected, digest):
            raise WrongPassword
    try:
        return _read(_Reader(content))
    except (StructError, UnicodeDecodeError) as error:
        raise BadStore from error


def recover_key(entry: KeyEntry, password: str) -> bytes:
    """Return the private key as PKCS8."""
    try:
        algorithm, protected = element(entry.protected_key).expect(SEQUENCE).children()
        kind = next(algorithm.children(), None)
        if kind is None or object_identifier(kind.expect(OBJECT_IDENTIFIER).content) != _KEY_PROTECTION:
            raise BadStore
        text = protected.expect(OCTET_STRING).content
    except (BadDer, ValueError) as error:
        raise BadStore from error
    salt, hidden, digest = text[:_DIGEST_BYTES], text[_DIGEST_BYTES:-_DIGEST_BYTES], text[-_DIGEST_BYTES:]
    word = _encoded(password)
    stream = b"".join(_key_stream(word, salt, len(hidden)))
    key = bytes(left ^ right for left, right in zip(hidden, stream, strict=False))
    if not hmac.compare_digest(hashlib.sha1(word + key).digest(), digest):
        raise WrongPassword
    return key


def _key_stream(word: bytes, salt: bytes, size: int) -> Iterator[bytes]:
    block = salt
    for _ in range(0, size, _DIGEST_BYTES):
        block = hashlib.sha1(word + block).digest()
        yield block


def _encoded(password: str) -> bytes:
    return password.encode("utf-16-be")


def _read(reader: _Reader) -> JksStore:
    if reader.take(4) != MAGIC:
        raise BadStore
    version = reader.number()
    if version not in (1, 2):
        raise BadStore
    store = JksStore([], [])
    for _ in range(reader.number()):
        tag = reader.number()
        alias = reader.text()
        reader.take(8)  # creation time
        if tag == _KEY_ENTRY:
            protected = reader.block()
            chain = [_certificate(reader, version) for _ in range(reader.number())]
            store.keys.append(KeyEntry(alias, protected, chain))
        elif tag == _CERTIFICATE_ENTRY:
            store.certificates.append(_certificate(reader, version))
        else:
            raise BadStore
    return store


def _certificate(reader: _Reader, version: int) -> bytes:
    if version == 2:
        reader.text()  # certificate type, always X.509
    return reader.block()


class _Reader:
    def __init__(self, data: bytes) -> None:
        self._data = data
        self._position = 0

    def take(self, size: int) -> bytes:
        end = self._position + size
        if end > len(self._data):
            raise BadStore
        taken = self._data[self._position : end]
        self._position = end
        return taken

    def number(self) -> int:
        [found] = _U32(self.take(4))
        return int(found)

    def block(self) -> bytes:
        return self.take(self.number())

    def text(self) -> str:
        [size] = _U16(self.take(2))
        return self.take(size).decode("utf-8", "replace")
