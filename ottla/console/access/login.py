"""Logins: users, passwords and signed session cookies."""

from __future__ import annotations

import asyncio
import base64
import binascii
import hashlib
import hmac
import json
import secrets
import time
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from ottla.console.access.roles import ANYBODY, BUILT_IN, Role, User, resolve
from ottla.http import HttpError, Request
from ottla.http.authentication import NOBODY, basic_credentials, scrypt_credential
from ottla.http.authentication import User as FileUser

# Sessions in signed cookies: the server stores nothing, and rejects modified cookies.

COOKIE = "ottla_console"
FLASH_COOKIE = "ottla_console_flash"
LOGIN_COOKIE = "ottla_console_login"


@dataclass(frozen=True, slots=True)
class Session:
    """A session. `source` tells where the user comes from: no login, the password file, or a provider."""

    name: str
    source: str  # none, file, oidc
    roles: tuple[str, ...]
    nonce: str
    expires: int


class Signer:
    """Signs texts with a separate key for each purpose."""

    def __init__(self, secret: bytes) -> None:
        self._secret = secret

    def sign(self, purpose: str, value: Any) -> str:
        data = base64.urlsafe_b64encode(json.dumps(value, separators=(",", ":")).encode()).decode()
        return f"{data}.{self.mac(purpose, data)}"

    def read(self, purpose: str, text: str | None) -> Any:
        """Return None without a valid signature."""
        data, _, mac = (text or "").rpartition(".")
        if not data or not hmac.compare_digest(mac.encode(), self.mac(purpose, data).encode()):
            return None
        try:
            return json.loads(base64.urlsafe_b64decode(data))
        except (binascii.Error, ValueError):
            return None

    def mac(self, purpose: str, data: str) -> str:
        return hmac.new(self._secret, f"{purpose}:{data}".encode(), hashlib.sha256).hexdigest()


class Sessions:
    def __init__(self, signer: Signer, *, seconds: int, secure: bool) -> None:
        self._signer = signer
        self._seconds = seconds
        self._secure = secure

    def begin(self, name: str, source: str, roles: tuple[str, ...] = ()) -> Session:
        return Session(name, source, roles, secrets.token_urlsafe(16), int(time.time()) + self._seconds)

    def read(self, cookies: dict[str, str]) -> Session | None:
        found = self._signer.read("session", cookies.get(COOKIE))
        if not isinstance(found, dict):
            return None
        session = Session(found["u"], found["s"], tuple(found["r"]), found["n"], found["x"])
        return session if session.expires > time.time() else None

    def cookie(self, session: Session) -> str:
        value = {"u": session.name, "s": session.source, "r": session.roles, "n": session.nonce}
        return self.set_cookie(
            COOKIE, self._signer.sign("session", {**value, "x": session.expires}), self._seconds
        )

    def csrf_token(self, session: Session) -> str:
        return self._signer.sign("csrf", session.nonce)

    def is_csrf_token(self, session: Session, text: str | None) -> bool:
        found = self._signer.read("csrf", text)
        return isinstance(found, str) and hmac.compare_digest(found, session.nonce)

    # A message for the next page

    def flash(self, sentence: str) -> str:
        return self.set_cookie(FLASH_COOKIE, self._signer.sign("flash", sentence), 60)

    def read_flash(self, cookies: dict[str, str]) -> str | None:
        found = self._signer.read("flash", cookies.get(FLASH_COOKIE))
        return found if isinstance(found, str) else None

    def set_cookie(self, name: str, value: str, seconds: int, same_site: str = "Lax") -> str:
        secure = "; Secure" if self._secure else ""
        return f"{name}={value}; Path=/; Max-Age={seconds}; HttpOnly; SameSite={same_site}{secure}"

    def drop_cookie(self, name: str) -> str:
        return self.set_cookie(name, "", 0)


def cookies_of(header: str) -> dict[str, str]:
    """Parse the Cookie header, skipping malformed parts."""
    found = {}
    for part in header.split(";"):
        name, equals, value = part.strip().partition("=")
        if equals:
            found[name] = value
    return found


# Logins: by name and password, by a one-time link, or through a provider (`oidc`).
#
# If none is configured, everyone is an admin.

_FAILURES = 10
_FAILURE_SECONDS = 60.0
_MOST_ADDRESSES = 10_000
LINK_SECONDS = 3600.0
LINK = "/login/link"


class Logins:
    """Owner: the event loop; threads compare passwords, because a good hash is slow."""

    def __init__(
        self,
        sessions: Sessions,
        roles: Mapping[str, Role],
        users: Mapping[str, FileUser] | None,
        *,
        has_provider: bool,
        read_only: bool = False,
    ) -> None:
        self._sessions = sessions
        self._roles = roles
        self._users = users
        self.has_users = users is not None
        self.has_provider = has_provider
        self._nobody_logs_in = replace(ANYBODY, roles=(BUILT_IN["viewer"],)) if read_only else ANYBODY
        self._failures: dict[str, deque[float]] = {}
        # Compared for unknown users, so that the response takes equally long.
        slow = any(each.credential.startswith("SCRYPT:") for each in (users or {}).values())
        self._stranger = FileUser(scrypt_credential(secrets.token_urlsafe())) if slow else NOBODY

    @property
    def asks(self) -> bool:
        return self.has_users or self.has_provider

    async def session(self, request: Request) -> Session | None:
        """Return the session from the cookie, or from Basic credentials as scripts send them. None requires a login."""
        session = self._sessions.read(cookies_of(request.headers.get("cookie", "")))
        if not self.asks:
            if session is None or session.source != "none":
                return self._sessions.begin("anonymous", "none")
            return session
        if session is not None and session.source != "none":
            return session
        credentials = basic_credentials(request.headers.get("authorization"))
        if credentials is None or not self.has_users:
            return None
        await self.check_password(*credentials, request.peer)
        return self._sessions.begin(credentials[0], "header")

    def stranger(self, request: Request) -> Session:
        """Return a session for pages without a login, with a token for their forms."""
        found = self._sessions.read(cookies_of(request.headers.get("cookie", "")))
        return found or self._sessions.begin("", "none")

    def is_new(self, request: Request) -> bool:
        return self._sessions.read(cookies_of(request.headers.get("cookie", ""))) is None

    def user(self, session: Session) -> User:
        """Return the user with current roles. Raises HttpError 401 for a removed user."""
        if session.source == "none":
            return self._nobody_logs_in
        if session.source == "oidc":
            return User(session.name, resolve(session.roles, self._roles))
        found = (self._users or {}).get(session.name)
        if found is None:
            raise HttpError(401, 401, "This user no longer exists.")
        return User(session.name, resolve(sorted(found.roles), self._roles))

    async def check_password(self, name: str, password: str, peer: str) -> None:
        """Raises HttpError 401, and 429 after too many failures from an address."""
        address = peer.rpartition(":")[0]
        failures = self._failures.setdefault(address, deque(maxlen=_FAILURES))
        now = time.monotonic()
        while failures and now - failures[0] > _FAILURE_SECONDS:
            failures.popleft()
        if len(failures) == _FAILURES:
            raise HttpError(429, 429, "Too many failed logins: wait a minute.", {"Retry-After": "60"})
        user = (self._users or {}).get(name, self._stranger)
        if not await asyncio.to_thread(user.has, password) or user is self._stranger:
            failures.append(now)
            raise HttpError(401, 401, "The name or the password is wrong.")
        failures.clear()
        if len(self._failures) > _MOST_ADDRESSES:
            self._failures.clear()


class OneTimeLink:
    """Logs in the first visitor within its lifetime: the link may remain in a terminal or log."""

    def __init__(self, token: str | None, user: str) -> None:
        self._token = token
        self._expires = time.monotonic() + LINK_SECONDS
        self.user = user

    def take(self, token: str) -> bool:
        """Return True once."""
        if self._token is None or time.monotonic() > self._expires:
            return False
        if not hmac.compare_digest(token.encode("utf-8", "surrogatepass"), self._token.encode()):
            return False
        self._token = None
        return True
