"""Kafka 3.9's password encryption in ZooKeeper, with a key derived from `password.encoder.secret`.

A value lists all parameters for decryption, and each value has its own salt:

    cipherAlgorithm:AES/CBC/PKCS5Padding,keyFactoryAlgorithm:PBKDF2WithHmacSHA512,keyLength:128,iterations:4096,
    salt:…,initializationVector:…,encryptedPassword:…,passwordLength:6
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import os

DEFAULT_KEY_FACTORY = "PBKDF2WithHmacSHA512"
DEFAULT_CIPHER = "AES/CBC/PKCS5Padding"

_SALT_BYTES = 256
_TAG_BITS = 128
_GCM_VECTOR_BYTES = 12
_BLOCK_BITS = 128
# Java's names → hashlib's.
_KEY_FACTORIES = {
    "PBKDF2WithHmacSHA1": "sha1",
    "PBKDF2WithHmacSHA224": "sha224",
    "PBKDF2WithHmacSHA256": "sha256",
    "PBKDF2WithHmacSHA384": "sha384",
    "PBKDF2WithHmacSHA512": "sha512",
}
_CBC, _GCM = "AES/CBC/PKCS5Padding", "AES/GCM/NoPadding"
_KEY_LENGTHS = (128, 192, 256)
_MAX_ITERATIONS = 10_000_000  # a stored value must not stall the broker that reads it


class PasswordEncoderError(Exception):
    """A value cannot be decoded, or settings are invalid. The message contains no secret."""


class PasswordEncoder:
    """Encodes with its own settings, and decodes any value encoded with the same secret."""

    def __init__(
        self,
        secret: str,
        *,
        key_factory: str | None = None,
        cipher: str = DEFAULT_CIPHER,
        key_length: int = 128,
        iterations: int = 4096,
    ) -> None:
        self._secret = secret.encode()
        self._key_factory = key_factory or DEFAULT_KEY_FACTORY
        self._cipher = cipher
        self._key_length = key_length
        self._iterations = iterations
        _check(self._key_factory, cipher, key_length, iterations)

    def __repr__(self) -> str:
        return f"PasswordEncoder({self._cipher!r}, key_length={self._key_length})"

    def encode(self, password: str) -> str:
        salt = os.urandom(_SALT_BYTES)
        key = self._key(self._key_factory, salt, self._iterations, self._key_length)
        vector, encrypted = _encrypt(self._cipher, key, password.encode())
        fields: dict[str, object] = {
            "cipherAlgorithm": self._cipher,
            "keyFactoryAlgorithm": self._key_factory,
            "keyLength": self._key_length,
            "iterations": self._iterations,
            "salt": _to_base64(salt),
            "initializationVector": _to_base64(vector),
            "encryptedPassword": _to_base64(encrypted),
            "passwordLength": _java_length(password),
        }
        if self._cipher == _GCM:
            fields["authenticationTagLength"] = _TAG_BITS
        return ",".join(f"{name}:{value}" for name, value in fields.items())

    def decode(self, text: str) -> str:
        fields = _fields(text)
        try:
            key_factory, cipher = fields["keyFactoryAlgorithm"], fields["cipherAlgorithm"]
            iterations, key_length = int(fields["iterations"]), int(fields["keyLength"])
            salt, vector, encrypted = (
                base64.b64decode(fields[name], validate=True)
                for name in ("salt", "initializationVector", "encryptedPassword")
            )
            length = int(fields["passwordLength"])
        except (KeyError, ValueError, binascii.Error):
            raise PasswordEncoderError("It is not a password that was encoded by Kafka") from None
        _check(key_factory, cipher, key_length, iterations)
        key = self._key(key_factory, salt, iterations, key_length)
        if cipher == _GCM and fields.get("authenticationTagLength") != str(_TAG_BITS):
            raise PasswordEncoderError("Its authentication tag has a length that is not known")
        try:
            password = _decrypt(cipher, key, vector, encrypted).decode()
        except ValueError:
            raise PasswordEncoderError("It was encoded with another secret") from None
        if _java_length(password) != length:
            raise PasswordEncoderError("It was encoded with another secret")
        return password

    def _key(self, key_factory: str, salt: bytes, iterations: int, key_length: int) -> bytes:
        return hashlib.pbkdf2_hmac(
            _KEY_FACTORIES[key_factory], self._secret, salt, iterations, key_length // 8
        )


def _check(key_factory: str, cipher: str, key_length: int, iterations: int) -> None:
    if key_factory not in _KEY_FACTORIES:
        raise PasswordEncoderError(f"The key factory {key_factory} is not known")
    if cipher not in (_CBC, _GCM):
        raise PasswordEncoderError(f"The cipher {cipher} is not known; there are {_CBC} and {_GCM}")
    if key_length not in _KEY_LENGTHS:
        raise PasswordEncoderError(f"A key cannot have {key_length} bits")
    if not 0 < iterations <= _MAX_ITERATIONS:
        raise PasswordEncoderError(f"A key cannot be made with {iterations} iterations")


# Imported on demand, so that brokers without passwords do not need it.


def _encrypt(cipher: str, key: bytes, password: bytes) -> tuple[bytes, bytes]:
    from cryptography.hazmat.primitives.ciphers import Cipher
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM
    from cryptography.hazmat.primitives.ciphers.algorithms import AES
    from cryptography.hazmat.primitives.ciphers.modes import CBC
    from cryptography.hazmat.primitives.padding import PKCS7

    if cipher == _GCM:
        vector = os.urandom(_GCM_VECTOR_BYTES)
        return vector, AESGCM(key).encrypt(vector, password, None)
    vector = os.urandom(_BLOCK_BITS // 8)
    padder, encryptor = PKCS7(_BLOCK_BITS).padder(), Cipher(AES(key), CBC(vector)).encryptor()
    padded = padder.update(password) + padder.finalize()
    return vector, encryptor.update(padded) + encryptor.finalize()


def _decrypt(cipher: str, key: bytes, vector: bytes, encrypted: bytes) -> bytes:
    """Raises ValueError if the data was not encrypted with this key."""
    from cryptography.exceptions import InvalidTag
    from cryptography.hazmat.primitives.ciphers import Cipher
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM
    from cryptography.hazmat.primitives.ciphers.algorithms import AES
    from cryptography.hazmat.primitives.ciphers.modes import CBC
    from cryptography.hazmat.primitives.padding import PKCS7

    if cipher == _GCM:
        try:
            return AESGCM(key).decrypt(vector, encrypted, None)
        except InvalidTag:
            raise ValueError("the tag is wrong") from None
    unpadder, decryptor = PKCS7(_BLOCK_BITS).unpadder(), Cipher(AES(key), CBC(vector)).decryptor()
    padded = decryptor.update(encrypted) + decryptor.finalize()
    return unpadder.update(padded) + unpadder.finalize()


def _fields(text: str) -> dict[str, str]:
    pairs = (each.strip().rpartition(":") for each in text.split(","))
    return {name.strip(): value.strip() for name, _, value in pairs}


def _to_base64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _java_length(text: str) -> int:
    """Count like Java: characters beyond the basic plane count twice."""
    return len(text.encode("utf-16-le")) // 2
