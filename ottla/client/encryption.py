"""Wrapping keys for the encryption of values: key files, Vault, and one-line references to keys."""

from __future__ import annotations

import base64
import http.client
import json
import os
import re
import ssl
import stat
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import SplitResult, parse_qsl, urlsplit

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from ottla.security.encryption.envelope import KEY_BYTES, is_key_name
from ottla.security.encryption.key_provider import (
    BadValue,
    EncryptionError,
    KeyProvider,
    KeysUnavailable,
    NewDataKey,
)

# Keys in a JSON file, readable only by its owner (and, if necessary, its group).
#
#     {"keys": {"default": {"1": "Base64 of 32 bytes", "2": "…"}}}
#
# A key has a name and versions. The latest version wraps new data keys; earlier ones unwrap existing data
# keys until they are removed from the file. The file is read for each new data key, and not kept in memory.

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


# Keys in HashiCorp Vault: its transit engine wraps and unwraps data keys, and its keys never leave it.

_TRIES = 4
_FIRST_PAUSE = 0.25
_MOST_REASON = 200
#: Busy, sealed or changing its leader: a retry may succeed.
_RETRIED = frozenset({412, 429, 472, 473, 500, 502, 503, 504})
_BAD_REQUEST, _FORBIDDEN, _NOT_FOUND = 400, 403, 404


class VaultAddress(NamedTuple):
    host: str
    port: int
    tls: bool = True
    #: Mount point of the transit engine.
    mount: str = "transit"

    def __str__(self) -> str:
        return f"{'https' if self.tls else 'http'}://{self.host}:{self.port}"


class VaultTransit:
    """`names` are the permitted keys, the first one for new data keys.

    The token is in `token_file`, else in VAULT_TOKEN or ~/.vault-token, as for Vault's own command. It is reread for
    every request, so that it can be renewed. Certificates are checked, with VAULT_CACERT if `ca_file` is missing.
    """

    def __init__(
        self,
        address: VaultAddress,
        names: Sequence[str],
        *,
        token_file: str | None = None,
        ca_file: str | None = None,
        namespace: str | None = None,
        timeout: float = 5.0,
    ) -> None:
        self._address = address
        self._names = tuple(names)
        self._token_file = token_file
        self._ca_file = ca_file or os.environ.get("VAULT_CACERT")
        self._namespace = namespace or os.environ.get("VAULT_NAMESPACE")
        self._timeout = timeout

    def __repr__(self) -> str:
        return f"VaultTransit({str(self._address)!r})"

    def new_data_key(self) -> NewDataKey:
        name = self._names[0]
        answer = self._post(f"datakey/plaintext/{name}", {"bits": 8 * KEY_BYTES}, name)
        if isinstance(answer, _Refusal):
            raise KeysUnavailable(f"{self._who} makes no data key with the key '{name}': {answer.reason}.")
        return NewDataKey(name, self._text(answer, "ciphertext").encode(), self._key(answer))

    def unwrap(self, key_name: str, wrapped: bytes) -> bytes:
        return self._key(self._transform("decrypt", key_name, wrapped))

    def rewrap(self, key_name: str, wrapped: bytes) -> bytes:
        return self._text(self._transform("rewrap", key_name, wrapped), "ciphertext").encode()

    def _transform(self, verb: str, name: str, wrapped: bytes) -> dict[str, Any]:
        # The name comes from a record: without this check its writer could choose the key.
        if name not in self._names:
            raise BadValue(
                f"The value is encrypted with the key '{name}', which is not one of those to be used."
            )
        answer = self._post(f"{verb}/{name}", {"ciphertext": wrapped.decode("latin-1")}, name)
        if isinstance(answer, _Refusal):
            raise BadValue(
                f"{self._who} does not {verb} the data key with the key '{name}': {answer.reason}."
            )
        return answer

    @property
    def _who(self) -> str:
        return f"Vault at {self._address}"

    def _text(self, answer: dict[str, Any], name: str) -> str:
        text = answer.get(name)
        if not isinstance(text, str):
            raise KeysUnavailable(f"{self._who} did not answer as its transit API does: no {name}.")
        return text

    def _key(self, answer: dict[str, Any]) -> bytes:
        text = self._text(answer, "plaintext")
        key = b""
        with suppress(ValueError):
            key = base64.b64decode(text, validate=True)
        if len(key) != KEY_BYTES:
            raise KeysUnavailable(f"{self._who} answered with an invalid key of {8 * KEY_BYTES} bits.")
        return key

    # -- HTTP -----------------------------------------------------------------------------------------------

    def _post(self, path: str, body: dict[str, Any], name: str) -> dict[str, Any] | _Refusal:
        """Return "data" of the response. Retries for a few seconds while that may help."""
        reason = ""
        what = "cannot be used"
        for attempt in range(_TRIES):
            if attempt:
                time.sleep(_FIRST_PAUSE * 2 ** (attempt - 1))
            try:
                status, document = self._request(path, body)
            except ssl.SSLCertVerificationError as error:
                raise KeysUnavailable(
                    f"{self._who} has a certificate that is not trusted: {error.verify_message}."
                ) from None
            except (OSError, http.client.HTTPException) as error:
                reason = (
                    (error.strerror if isinstance(error, OSError) else None)
                    or str(error)
                    or type(error).__name__
                )
                what = "cannot be reached"
                continue
            if status == 200:
                return document["data"] if isinstance(document.get("data"), dict) else {}
            reason, what = _reason(status, document), "cannot be used"
            if status in _RETRIED:
                continue
            if status in (_BAD_REQUEST, _NOT_FOUND):
                return _Refusal(reason)
            if status == _FORBIDDEN:
                raise KeysUnavailable(f"{self._who} does not let this token use the key '{name}': {reason}.")
            break
        raise KeysUnavailable(f"{self._who} {what}: {reason.rstrip('.')}.")

    def _request(self, path: str, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        # Not urllib, which would send the token to the target of a redirect.
        headers = {
            "X-Vault-Token": self._token(),
            "X-Vault-Request": "true",
            "Content-Type": "application/json",
        }
        if self._namespace:
            headers["X-Vault-Namespace"] = self._namespace
        connection = self._connection()
        try:
            connection.request("POST", f"/v1/{self._address.mount}/{path}", json.dumps(body), headers)
            response = connection.getresponse()
            data = response.read(_MOST_BYTES)
        finally:
            connection.close()
        document = None
        with suppress(ValueError):
            document = json.loads(data)
        return response.status, document if isinstance(document, dict) else {}

    def _connection(self) -> http.client.HTTPConnection:
        host, port, tls, _ = self._address
        if not tls:
            return http.client.HTTPConnection(host, port, timeout=self._timeout)
        try:
            context = ssl.create_default_context(cafile=self._ca_file)
        except (OSError, ssl.SSLError) as error:
            raise KeysUnavailable(
                f"The certificates in {self._ca_file} cannot be read: {error.strerror or error}."
            ) from None
        return http.client.HTTPSConnection(host, port, timeout=self._timeout, context=context)

    def _token(self) -> str:
        token = os.environ.get("VAULT_TOKEN", "")
        file = Path(self._token_file) if self._token_file is not None else Path.home() / ".vault-token"
        if self._token_file is not None or (not token and file.exists()):
            try:
                token = file.read_text("ascii")
            except (OSError, UnicodeDecodeError) as error:
                reason = error.strerror if isinstance(error, OSError) else "it is not text"
                raise KeysUnavailable(f"Cannot read Vault's token in {file}: {reason}.") from None
        token = token.strip()
        if not token:
            raise KeysUnavailable(
                "There is no token for Vault: set VAULT_TOKEN, or name a file with ?token-file=/path."
            )
        if not token.isascii() or not token.isprintable():
            raise KeysUnavailable("The token for Vault is not a line of ASCII.")
        return token


class _Refusal(NamedTuple):
    reason: str


def _reason(status: int, document: dict[str, Any]) -> str:
    errors = document.get("errors")
    if isinstance(errors, list) and errors and isinstance(errors[0], str):
        text = " ".join(errors[0].split())[:_MOST_REASON]
        return f"{text.rstrip('.')} (HTTP {status})"
    return f"HTTP {status}"


# One-line references to keys. They contain no secrets and may appear in options, plans and logs.
#
#     file:/etc/secrets/keys.json                                      a key file; the word file: may be omitted
#     file:/etc/secrets/keys.json#orders                               only the key of this name
#     vault:https://vault.example:8200#orders                        Vault's transit engine, and the key in it
#     vault:https://vault.example:8200/mount?token-file=/run/token&ca-file=/etc/ca.pem&namespace=team#orders,old
#
# The first of several names encrypts, and all of them decrypt.

_DEFAULT_PORT = 8200
_SCHEME = re.compile(r"([a-z][a-z0-9+.-]*):(.*)", re.DOTALL)
_MOUNT = re.compile(r"[A-Za-z0-9_-]+(/[A-Za-z0-9_-]+)*")
_PARAMETERS = ("token-file", "ca-file", "namespace")
_THIS_MACHINE = ("localhost", "127.0.0.1", "::1")


def open_keys(reference: str) -> KeyProvider:
    """Return the keys of a reference. Nothing is read or requested before the first use."""
    text, _, fragment = reference.strip().partition("#")
    names = tuple(name.strip() for name in fragment.split(",") if name.strip())
    for name in names:
        if not is_key_name(name):
            raise EncryptionError(
                f"'{name}' is not the name of a key: use letters, digits, '_', '.' and '-'."
            )
    found = _SCHEME.fullmatch(text)
    scheme, rest = found.groups() if found is not None else ("file", text)
    if scheme == "file":
        path = rest.removeprefix("//") if rest.startswith("///") else rest
        if not path:
            raise EncryptionError("Which key file? Write file:/path/to/keys.json.")
        return KeyFile(Path(path), names)
    if scheme == "vault":
        return _vault(rest, names)
    raise EncryptionError(
        f"Keys are in file:/path/to/keys.json or in vault:https://host:{_DEFAULT_PORT}#name, not in '{scheme}:'."
    )


def _vault(text: str, names: tuple[str, ...]) -> VaultTransit:
    url = urlsplit(text)
    if not names:
        raise EncryptionError(
            "Which key of Vault? Write its name behind a #, as in vault:https://host:8200#orders."
        )
    given = dict(parse_qsl(url.query, keep_blank_values=True))
    # References appear in plans and logs.
    if url.username is not None or url.password is not None or "token" in given:
        raise EncryptionError(
            "A token does not belong here: set VAULT_TOKEN, or name a file with ?token-file=/path."
        )
    for name in given:
        if name not in _PARAMETERS:
            raise EncryptionError(f"There is no parameter '{name}' for Vault, only {', '.join(_PARAMETERS)}.")
    address = _address(url)
    return VaultTransit(
        address,
        names,
        token_file=given.get("token-file"),
        ca_file=given.get("ca-file"),
        namespace=given.get("namespace"),
    )


def _address(url: SplitResult) -> VaultAddress:
    try:
        host, port = url.hostname, url.port
    except ValueError:
        host, port = None, None
    if url.scheme not in ("https", "http") or not host:
        raise EncryptionError(f"Where is Vault? Write vault:https://host:{_DEFAULT_PORT}#name.")
    if url.scheme == "http" and host not in _THIS_MACHINE:
        raise EncryptionError(
            "Vault is reached with https only, unless it is on this machine: keys come from it."
        )
    mount = url.path.strip("/") or "transit"
    if not _MOUNT.fullmatch(mount):
        raise EncryptionError(f"'{mount}' is not where a transit engine is mounted.")
    return VaultAddress(host, port or _DEFAULT_PORT, url.scheme == "https", mount)
