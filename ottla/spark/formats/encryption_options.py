"""Options for encrypting values before writing and decrypting them after reading.

Options, plans, checkpoints and tasks contain the location of keys, never a key. `encrypted_columns` does the work.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ottla.security.encryption.key_provider import EncryptionError
from ottla.spark.options import OptionError, Options

if TYPE_CHECKING:
    from ottla.encryption import Decryptor, Encryptor

KEYS = "ottla.encryption.keys"
FIELDS = "ottla.encryption.fields"
PLAIN = "ottla.encryption.plain"
TOPIC = "ottla.encryption.topic"

_PLAIN_VALUES = {"refuse": False, "allow": True}


@dataclass(frozen=True)
class Encryption:
    """Encryption of values. `fields` are JSON fields; without fields the whole value is encrypted."""

    keys: str
    fields: tuple[str, ...] = ()


@dataclass(frozen=True)
class Decryption:
    """Decryption of values. `topic` is the original topic of copied values."""

    keys: str
    allow_plain: bool = False
    topic: str | None = None


def parse_encryption(given: Options) -> Encryption | None:
    keys = given.text(KEYS)
    fields = tuple(each.strip() for each in (given.text(FIELDS) or "").split(",") if each.strip())
    if keys is None:
        if given.text(FIELDS) is not None:
            raise OptionError(f"{FIELDS} needs {KEYS} with the location of the keys.")
        return None
    if given.text(FIELDS) is not None and not fields:
        raise OptionError(f"{FIELDS} is empty: name fields, or omit it to encrypt the whole value.")
    encryption = Encryption(keys, fields)
    _check(keys, lambda: make_encryptor(encryption))
    return encryption


def parse_decryption(given: Options) -> Decryption | None:
    keys = given.text(KEYS)
    if keys is None:
        for name in (PLAIN, TOPIC):
            if given.text(name) is not None:
                raise OptionError(f"{name} needs {KEYS} with the location of the keys.")
        return None
    decryption = Decryption(keys, given.choice(PLAIN, _PLAIN_VALUES, False), given.text(TOPIC))
    _check(keys, lambda: make_decryptor(decryption))
    return decryption


def _check(keys: str, make: Callable[[], object]) -> None:
    """Refuse unusable options in the driver, without requesting keys: only workers may have them."""
    from ottla.encryption import KeyFile, open_keys

    try:
        make()
        provider = open_keys(keys)
    except EncryptionError as error:
        raise OptionError(f"{KEYS} cannot be used: {error}") from None
    if isinstance(provider, KeyFile) and not provider.path.is_absolute():
        raise OptionError(
            f"{KEYS} must name the key file with its whole path, not '{provider.path}': "
            "workers run in other directories."
        )


def make_encryptor(options: Encryption) -> Encryptor:
    from ottla.encryption import Encryptor, open_keys

    return Encryptor(open_keys(options.keys), fields=options.fields)


def make_decryptor(options: Decryption) -> Decryptor:
    from ottla.encryption import Decryptor, open_keys

    return Decryptor(open_keys(options.keys), allow_plain=options.allow_plain)
