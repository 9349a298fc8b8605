"""Keys in a JSON file, readable only by its owner (and, if necessary, its group).

    {"keys": {"default": {"1": "Base64 of 32 bytes", "2": "…"}}}

A key has a name and versions. The latest version wraps new data keys; earlier ones unwrap existing data keys until they
are removed from the file. The file is read for each new data key, and not kept in memory.
"""

from __future__ import annotations

import base64
import json
import os
import stat
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from ottla.security.encryption.envelope import KEY_BYTES, is_key_name
from ottla.security.encryption.key_provider import BadValue, KeysUnavailable, NewDataKey

DEFAULT_NAME = "default"

_NONCE_BYTES = 12
_VERSION_BYTES = 4
_LABEL = b"ottla.encryption wrapped key"
_MOST_BYTES = 1 << 20

#: By name and version.
Keys = dict[str, dict[int, bytes]]


class KeyFile:
    """`names` are the permitted keys, the first one for new data keys; by default all keys."""

    def __init__(self, path: str | Path, names: Sequence[str] = ()) -> None:
        self.path = Path(path)
        self._names = tuple(names)

    def __repr__(self) -> str:
        return f"KeyFile({str(self.path)!r})"

    def new_data_key(self) -> NewDataKey:
        keys = read_key_file(self.path)
        name = self._default_name(keys)
        if name not in keys:
            raise KeysUnavailable(f"The key file {self.path} has no key '{name}'.")
        key = os.urandom(KEY_BYTES)
        return NewDataKey(name, _wrap(keys[name], name, key), key)

    def unwrap(self, key_name: str, wrapped: bytes) -> bytes:
        versions = self._versions(key_name)
        version = int.from_bytes(wrapped[:_VERSION_BYTES], "big")
        if version not in versions:
            raise BadValue(f"The key file {self.path} has no version {version} of the key '{key_name}'.")
        nonce, sealed = wrapped[_VERSION_BYTES:][:_NONCE_BYTES], wrapped[_VERSION_BYTES + _NONCE_BYTES :]
        with suppress(InvalidTag, ValueError):
            return AESGCM(versions[version]).decrypt(nonce, sealed, _associated(key_name, version))
        raise BadValue(
            f"The data key was not wrapped by the key '{key_name}' of {self.path}, or was changed."
        )

    def rewrap(self, key_name: str, wrapped: bytes) -> bytes:
        return _wrap(self._versions(key_name), key_name, self.unwrap(key_name, wrapped))

    def _default_name(self, keys: Keys) -> str:
        if self._names:
            return self._names[0]
        return next(iter(keys)) if len(keys) == 1 else DEFAULT_NAME

    def _versions(self, name: str) -> dict[int, bytes]:
        keys = read_key_file(self.path)
        if self._names and name not in self._names:
            raise BadValue(
                f"The value is encrypted with the key '{name}', which is not one of those to be used."
            )
        if name not in keys:
            raise BadValue(
                f"The value is encrypted with the key '{name}', which the key file {self.path} lacks."
            )
        return keys[name]


def _wrap(versions: dict[int, bytes], name: str, key: bytes) -> bytes:
    version = max(versions)
    nonce = os.urandom(_NONCE_BYTES)
    sealed = AESGCM(versions[version]).encrypt(nonce, key, _associated(name, version))
    return version.to_bytes(_VERSION_BYTES, "big") + nonce + sealed


def _associated(name: str, version: int) -> bytes:
    return b"\0".join((_LABEL, name.encode(), str(version).encode()))


# -- the file -----------------------------------------------------------------------------------------------


def read_key_file(path: Path) -> Keys:
    text = _read(path)
    keys: Keys = {}
    # The parser's error contains the whole text and must not become the context of ours.
    with suppress(ValueError, TypeError, AttributeError, LookupError):
        keys = {
            name: {int(version): base64.b64decode(key, validate=True) for version, key in versions.items()}
            for name, versions in json.loads(text)["keys"].items()
        }
    if not keys:
        raise KeysUnavailable(
            f'{path} is not a key file: {{"keys": {{"default": {{"1": "…"}}}}}} is expected.'
        )
    for name, versions in keys.items():
        if not is_key_name(name):
            raise KeysUnavailable(
                f"The key file {path} has a key whose name is not letters, digits, '_', '.', '-'."
            )
        if not versions or any(len(key) != KEY_BYTES for key in versions.values()):
            raise KeysUnavailable(f"A version of the key '{name}' in {path} has not {8 * KEY_BYTES} bits.")
        if min(versions) < 1 or max(versions) >> 8 * _VERSION_BYTES:
            raise KeysUnavailable(f"The versions of the key '{name}' in {path} must be numbers from 1 on.")
    return keys


def _read(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            check_private(path, os.fstat(file.fileno()))
            return file.read(_MOST_BYTES)
    except OSError as error:
        raise KeysUnavailable(f"Cannot read the key file {path}: {error.strerror}.") from None


def check_private(path: Path, found: os.stat_result) -> None:
    mode = stat.S_IMODE(found.st_mode)
    if mode & (stat.S_IRWXO | stat.S_IWGRP):
        raise KeysUnavailable(
            f"The key file {path} is open to others (mode {mode:04o}), so it is not used: chmod 600 {path}"
        )
    if found.st_uid not in (0, os.geteuid()):
        raise KeysUnavailable(
            f"The key file {path} belongs to somebody else (uid {found.st_uid}): it is not used."
        )


def make_key_file(path: Path, name: str = DEFAULT_NAME) -> None:
    _check_name(name)
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        raise KeysUnavailable(
            f"{path} exists already and is not replaced: what its keys have encrypted could not be read any more."
        ) from None
    except OSError as error:
        raise KeysUnavailable(f"Cannot write the key file {path}: {error.strerror}.") from None
    _write(descriptor, {name: {1: os.urandom(KEY_BYTES)}})


def add_key_version(path: Path, name: str | None = None) -> tuple[str, int]:
    """Add a version to a key, or a new key. Return name and version. Replaces the file atomically."""
    keys = read_key_file(path)
    if name is None:
        name = next(iter(keys)) if len(keys) == 1 else DEFAULT_NAME
    _check_name(name)
    versions = keys.setdefault(name, {})
    version = max(versions, default=0) + 1
    versions[version] = os.urandom(KEY_BYTES)
    new = path.with_name(f".{path.name}.{os.getpid()}.new")
    try:
        mode = stat.S_IMODE(path.stat().st_mode)
        descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        _write(descriptor, keys, mode)
        new.replace(path)
    except OSError as error:
        with suppress(OSError):
            new.unlink()
        raise KeysUnavailable(f"Cannot write the key file {path}: {error.strerror}.") from None
    return name, version


def _check_name(name: str) -> None:
    if not is_key_name(name):
        raise KeysUnavailable(f"'{name}' is not a name for a key: use letters, digits, '_', '.' and '-'.")


def _write(descriptor: int, keys: Keys, mode: int = 0o600) -> None:
    document = {
        name: {str(version): base64.b64encode(key).decode() for version, key in versions.items()}
        for name, versions in keys.items()
    }
    with os.fdopen(descriptor, "w") as file:
        os.fchmod(file.fileno(), mode)
        json.dump({"keys": document}, file, indent=2)
        file.write("\n")
        file.flush()
        os.fsync(file.fileno())
