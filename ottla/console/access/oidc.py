"""Login through a provider: OpenID Connect's authorization code flow, with PKCE, state and nonce.

The provider sends the browser back with a code, which the console exchanges for a signed token. A signed cookie in the
same browser ties the steps together.
"""

from __future__ import annotations

import base64
import hashlib
import json
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode, urlsplit

from ottla.console.settings import OidcSettings
from ottla.security.bearer_tokens import BadKeys, Key, Rules, UnknownKey, parse_keys, validate
from ottla.security.oauth import EndpointError, fetch, shown
from ottla.security.sasl.oauthbearer import TokenRefused

_LOOPBACK = ("127.0.0.1", "localhost", "::1")


class LoginFailed(Exception):
    """A failed login. The message is one sentence for the user."""


@dataclass(frozen=True)
class Attempt:
    """Values that must match when the browser returns."""

    state: str
    nonce: str
    verifier: str
    target: str  # requested page

    @classmethod
    def begin(cls, target: str) -> Attempt:
        return cls(secrets.token_urlsafe(24), secrets.token_urlsafe(24), secrets.token_urlsafe(48), target)

    @property
    def challenge(self) -> str:
        digest = hashlib.sha256(self.verifier.encode()).digest()
        return base64.urlsafe_b64encode(digest).decode().rstrip("=")


class Provider:
    """Client of a provider. Blocks, so use it in threads. Keys and addresses are cached; an unknown key is fetched
    again.
    """

    def __init__(self, settings: OidcSettings) -> None:
        self._settings = settings
        self._addresses: dict[str, str] = {}
        self._keys: tuple[Key, ...] = ()

    def authorization_url(self, attempt: Attempt, redirect_uri: str) -> str:
        query = {
            "response_type": "code",
            "client_id": self._settings.client_id,
            "redirect_uri": redirect_uri,
            "scope": self._settings.scopes,
            "state": attempt.state,
            "nonce": attempt.nonce,
            "code_challenge": attempt.challenge,
            "code_challenge_method": "S256",
        }
        endpoint = self._address("authorization_endpoint")
        return f"{endpoint}{'&' if '?' in endpoint else '?'}{urlencode(query)}"

    def exchange(self, code: str, attempt: Attempt, redirect_uri: str) -> tuple[str, tuple[str, ...]]:
        """Return name and roles of the user. Raises LoginFailed."""
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": redirect_uri,
            "client_id": self._settings.client_id,
            "code_verifier": attempt.verifier,
        }
        headers = {"Content-Type": "application/x-www-form-urlencoded", "Accept": "application/json"}
        if self._settings.client_secret:
            pair = f"{self._settings.client_id}:{self._settings.client_secret}"
            headers["Authorization"] = f"Basic {base64.b64encode(pair.encode()).decode()}"
        answer = self._fetch(self._address("token_endpoint"), urlencode(form).encode(), headers)
        token = answer.get("id_token")
        if not isinstance(token, str):
            raise LoginFailed("The provider gave no id_token.")
        claims = self._claims(token)
        if not secrets.compare_digest(str(claims.get("nonce", "")), attempt.nonce):
            raise LoginFailed("The token of the provider is not for this login.")
        return self._who(claims)

    def _who(self, claims: Mapping[str, Any]) -> tuple[str, tuple[str, ...]]:
        name = claims.get(self._settings.name_claim) or claims.get("email") or claims.get("sub")
        found: Any = claims
        for part in self._settings.roles_claim.split("."):
            found = found.get(part) if isinstance(found, dict) else None
        roles = [found] if isinstance(found, str) else found if isinstance(found, list) else []
        return str(name), tuple(each for each in roles if isinstance(each, str))

    def _claims(self, token: str) -> Mapping[str, Any]:
        rules = Rules(self._settings.issuer, (self._settings.client_id,))
        try:
            try:
                validate(token, self._known_keys(), rules)
            except UnknownKey:
                self._keys = ()
                validate(token, self._known_keys(), rules)
        except TokenRefused as error:
            raise LoginFailed(f"The token of the provider is refused: {error}") from None
        payload = token.split(".")[1]
        claims: Mapping[str, Any] = json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
        return claims

    def _known_keys(self) -> tuple[Key, ...]:
        if not self._keys:
            url = self._address("jwks_uri")
            try:
                self._keys = parse_keys(fetch(url))
            except (EndpointError, BadKeys) as error:
                raise LoginFailed(
                    f"The keys of the provider at {shown(url)} cannot be had: {error}."
                ) from None
        return self._keys

    def _address(self, name: str) -> str:
        if not self._addresses:
            url = self._settings.issuer.rstrip("/") + "/.well-known/openid-configuration"
            document = self._fetch(url)
            if document.get("issuer") != self._settings.issuer:
                raise LoginFailed(f"The provider at {shown(url)} says that it is another issuer.")
            self._addresses = {key: value for key, value in document.items() if isinstance(value, str)}
        if name not in self._addresses:
            raise LoginFailed(f"The provider does not say its {name}.")
        return _checked(self._addresses[name])

    def _fetch(
        self, url: str, data: bytes | None = None, headers: Mapping[str, str] | None = None
    ) -> dict[str, Any]:
        try:
            document = json.loads(fetch(_checked(url), data=data, headers=headers))
        except EndpointError as error:
            raise LoginFailed(f"The provider at {shown(url)} does not help: {error}.") from None
        except ValueError:
            document = None
        if not isinstance(document, dict):
            raise LoginFailed(f"The provider at {shown(url)} does not answer with a JSON object.")
        return document


def _checked(url: str) -> str:
    """Require https for codes and secrets, except on this machine."""
    parts = urlsplit(url)
    if parts.scheme == "https" or (parts.scheme == "http" and parts.hostname in _LOOPBACK):
        return url
    raise LoginFailed(f"{shown(url)} is not https.")
