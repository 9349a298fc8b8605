"""Encrypt record values before they are produced, and decrypt them after they were consumed, with any client.

    from ottla.encryption import Decryptor, Encryptor, open_keys

    keys = open_keys("file:keys.json")
    value, headers = Encryptor(keys).encrypt("orders", b"…", headers)    # before produce
    value, headers = Decryptor(keys).decrypt("orders", value, headers)   # after consume

Make one of each and keep it: it holds data keys in memory.
docs/how-to/secure-a-cluster.md lists the protected data and the attackers.
"""

from ottla.client.encryption import (
    KeyFile,
    VaultAddress,
    VaultTransit,
    add_key_version,
    make_key_file,
    open_keys,
)
from ottla.security.encryption.decryptor import Decrypted, Decryptor, rewrap
from ottla.security.encryption.encryptor import Encrypted, Encryptor
from ottla.security.encryption.headers import HEADER
from ottla.security.encryption.key_provider import (
    BadValue,
    EncryptionError,
    KeyProvider,
    KeysUnavailable,
    NewDataKey,
)

__all__ = [
    "HEADER",
    "BadValue",
    "Decrypted",
    "Decryptor",
    "Encrypted",
    "EncryptionError",
    "Encryptor",
    "KeyFile",
    "KeyProvider",
    "KeysUnavailable",
    "NewDataKey",
    "VaultAddress",
    "VaultTransit",
    "add_key_version",
    "make_key_file",
    "open_keys",
    "rewrap",
]
