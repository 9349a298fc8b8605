"""HTTP Basic authentication, with password files in Jetty's format.

    alice: her password,admin,developer
    bob: MD5:5f4dcc3b5aa765d61d8327deb882cf99
    carol: SCRYPT:16384:c2FsdA==:aGFzaA==,viewer

Confluent's servers read such files; each line has a user, a password and roles. SCRYPT is Ottla's extension: a slow
hash, made by `scrypt_credential`.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import secrets
from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from ottla.http.messages import HttpError, Request
from ottla.security.principal import USER_TYPE, KafkaPrincipal

Authenticate = Callable[[Request], KafkaPrincipal | Awaitable[KafkaPrincipal]]


class BadPasswordFile(ValueError):
    """A malformed file. The message is one sentence without passwords."""


@dataclass(frozen=True)
class User:
    credential: str = field(repr=False)
    roles: frozenset[str] = frozenset()

    def has(self, password: str) -> bool:
        """Compare in constant time."""
        if self.credential.startswith("MD5:"):
            given = "MD5:" + hashlib.md5(password.encode(), usedforsecurity=False).hexdigest()
            return hmac.compare_digest(given, self.credential)
        if self.credential.startswith("SCRYPT:"):
            cost, salt, expected = _scrypt_parts(self.credential)
            return hmac.compare_digest(_scrypt(password, salt, cost), expected)
        return hmac.compare_digest(password.encode(), _plain(self.credential).encode())


# Compared if the user does not exist, so that the response takes equally long.
NOBODY = User("MD5:")

_SCRYPT_COST = 16384
_SCRYPT_BLOCK = 8


def scrypt_credential(password: str) -> str:
    """Return a hashed password for a password file."""
    salt = secrets.token_bytes(16)
    parts = (base64.b64encode(each).decode() for each in (salt, _scrypt(password, salt, _SCRYPT_COST)))
    return f"SCRYPT:{_SCRYPT_COST}:{':'.join(parts)}"


def _scrypt(password: str, salt: bytes, cost: int) -> bytes:
    return hashlib.scrypt(
        password.encode(),
        salt=salt,
        n=cost,
        r=_SCRYPT_BLOCK,
        p=1,
        maxmem=256 * cost * _SCRYPT_BLOCK,
        dklen=32,
    )


def _scrypt_parts(credential: str) -> tuple[int, bytes, bytes]:
    """Raises ValueError."""
    _, cost, salt, expected = credential.split(":")
    return int(cost), base64.b64decode(salt, validate=True), base64.b64decode(expected, validate=True)


class BasicAuthentication:
    """Requires a user from a password file with one of `roles`; `*` admits every user."""

    def __init__(
        self,
        users: Mapping[str, User],
        *,
        realm: str = "ottla",
        roles: Collection[str] = ("*",),
        skip_paths: Collection[str] = (),
    ) -> None:
        self._users = users
        self._challenge = {"WWW-Authenticate": f'Basic realm="{realm}"'}
        self._roles = frozenset(roles)
        self._skip = frozenset(skip_paths)

    def __call__(self, request: Request) -> KafkaPrincipal:
        """Raises HttpError 401 or 403."""
        if request.path in self._skip:
            return request.principal
        name, password = self._credentials(request.headers.get("authorization"))
        user = self._users.get(name, NOBODY)
        if not user.has(password) or user is NOBODY:
            raise self._unauthorized()
        if "*" not in self._roles and not self._roles & user.roles:
            raise HttpError(403, 40301, "You are forbidden from using this cluster.")
        return KafkaPrincipal(USER_TYPE, name)

    def _credentials(self, header: str | None) -> tuple[str, str]:
        credentials = basic_credentials(header)
        if credentials is None:
            raise self._unauthorized()
        return credentials

    def _unauthorized(self) -> HttpError:
        return HttpError(401, 40101, "Unauthorized", self._challenge)


def basic_credentials(header: str | None) -> tuple[str, str] | None:
    """Return name and password from the Authorization header, or None."""
    scheme, _, encoded = (header or "").partition(" ")
    if scheme.lower() != "basic":
        return None
    try:
        name, colon, password = base64.b64decode(encoded.strip(), validate=True).decode().partition(":")
    except (binascii.Error, UnicodeDecodeError):
        return None
    return (name, password) if colon else None


def read_password_file(path: str | Path) -> dict[str, User]:
    """Raises BadPasswordFile."""
    try:
        text = Path(path).read_text("utf-8")
    except OSError as error:
        raise BadPasswordFile(f"Cannot read the password file {path}: {error.strerror}.") from None
    except UnicodeDecodeError:
        raise BadPasswordFile(f"The password file {path} is not UTF-8.") from None
    users: dict[str, User] = {}
    for number, line in enumerate(text.splitlines(), 1):
        line = line.strip()
        if not line or line.startswith(("#", "!")):
            continue
        name, colon, rest = line.partition(":")
        credential, *roles = (part.strip() for part in rest.split(","))
        if not colon or not name.strip() or not credential:
            raise BadPasswordFile(f"{path}, line {number} is not 'user: password,role'.")
        if credential.startswith("CRYPT:"):
            raise BadPasswordFile(
                f"{path}, line {number}: CRYPT passwords are not supported; use MD5 or OBF."
            )
        if credential.startswith("SCRYPT:"):
            try:
                cost, _, _ = _scrypt_parts(credential)
                if cost.bit_count() != 1 or not 1024 <= cost <= 1 << 20:
                    raise ValueError
            except ValueError:
                raise BadPasswordFile(f"{path}, line {number}: the SCRYPT password cannot be read.") from None
        if credential.startswith("OBF:"):
            try:
                _plain(credential)
            except (ValueError, UnicodeDecodeError):
                raise BadPasswordFile(f"{path}, line {number}: the OBF password cannot be read.") from None
        users[name.strip()] = User(credential, frozenset(role for role in roles if role))
    return users


def _plain(credential: str) -> str:
    """Decode Jetty's obfuscation: four base 36 digits per byte, from its sum and difference with the mirrored byte."""
    if not credential.startswith("OBF:"):
        return credential
    text = credential[len("OBF:") :]
    found = bytearray()
    while text:
        if text.startswith("U"):
            found.append(int(text[1:5], 36) >> 8)
            text = text[5:]
        else:
            high, low = divmod(int(text[:4], 36), 256)
            found.append((high + low - 254) // 2)
            text = text[4:]
    return found.decode()
