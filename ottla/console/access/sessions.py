"""Sessions in signed cookies: the server stores nothing, and rejects modified cookies."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import json
import secrets
import time
from dataclasses import dataclass
from typing import Any

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
        return f"{data}.{self._mac(purpose, data)}"

    def read(self, purpose: str, text: str | None) -> Any:
        """Return None without a valid signature."""
        data, _, mac = (text or "").rpartition(".")
        if not data or not hmac.compare_digest(mac.encode(), self._mac(purpose, data).encode()):
            return None
        try:
            return json.loads(base64.urlsafe_b64decode(data))
        except (binascii.Error, ValueError):
            return None

    def _mac(self, purpose: str, data: str) -> str:
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
