"""One-line references to keys. They contain no secrets and may appear in options, plans and logs.

    file:/etc/secrets/keys.json                                      a key file; the word file: may be omitted
    file:/etc/secrets/keys.json#orders                               only the key of this name
    vault:https://vault.example:8200#orders                        Vault's transit engine, and the key in it
    vault:https://vault.example:8200/mount?token-file=/run/token&ca-file=/etc/ca.pem&namespace=team#orders,old

The first of several names encrypts, and all of them decrypt.
"""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import SplitResult, parse_qsl, urlsplit

from ottla.client.encryption.key_file import KeyFile
from ottla.client.encryption.vault import VaultAddress, VaultTransit
from ottla.security.encryption.envelope import is_key_name
from ottla.security.encryption.key_provider import EncryptionError, KeyProvider

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
