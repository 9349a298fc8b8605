"""Sources of OAUTHBEARER tokens: an endpoint, a file, the settings, or a locally made unsecured token."""

from __future__ import annotations

import base64
import binascii
import json
import os
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import urlencode, urlsplit

from ottla.oauth.endpoints import EndpointError, check_url, fetch, shown, trust_of
from ottla.security.java_options import ALLOWED_URLS, allowed_urls, system_properties
from ottla.security.sasl import oauthbearer
from ottla.security.sasl.exchange import AuthenticationFailed, ClientExchange
from ottla.security.tls.settings import Given, StoreSettings

_ENDPOINT = "sasl.oauthbearer.token.endpoint.url"
_CLAIM = "unsecuredLoginStringClaim_"
_UNSECURED_SECONDS = 3600
# Fraction of a token's lifetime during which it is used, so that no login is late.
_USED = 0.8


class NoToken(Exception):
    """No token is available. The message gives the reason in one sentence."""


@dataclass(frozen=True, slots=True)
class OAuth:
    """OAuth settings. Hashable, so that connections with equal settings share a token."""

    endpoint: str | None = None
    client_id: str = ""
    client_secret: str = field(default="", repr=False)
    scope: str = ""
    token: str = field(default="", repr=False)
    extensions: tuple[tuple[str, str], ...] = ()
    #: Claims of an unsigned token, for test brokers.
    unsecured_claims: tuple[tuple[str, str], ...] = ()
    #: Certificates accepted from the endpoint; None: the system's.
    trust: StoreSettings | None = None
    #: URLs allowed for fetching tokens; None: as in KAFKA_OPTS.
    allowed_urls: tuple[str, ...] | None = None


def oauth_settings(
    properties: Mapping[str, str], jaas: Mapping[str, str], allowed: tuple[str, ...] | None = None
) -> OAuth:
    """Accept the names of the Java client or librdkafka. Raises NoToken naming the missing setting."""

    def first(*names: str) -> str:
        return next((properties[name] for name in names if properties.get(name)), "")

    extensions = {
        name.removeprefix("extension_"): value
        for name, value in jaas.items()
        if name.startswith("extension_")
    }
    for pair in first("sasl.oauthbearer.extensions").split(","):
        if pair.strip():
            extensions[pair.partition("=")[0].strip()] = pair.partition("=")[2].strip()
    settings = OAuth(
        endpoint=first(_ENDPOINT) or None,
        client_id=first("sasl.oauthbearer.client.credentials.client.id", "sasl.oauthbearer.client.id")
        or jaas.get("clientId", ""),
        client_secret=first(
            "sasl.oauthbearer.client.credentials.client.secret", "sasl.oauthbearer.client.secret"
        )
        or jaas.get("clientSecret", ""),
        scope=first("sasl.oauthbearer.scope") or jaas.get("scope", ""),
        token=first("sasl.oauthbearer.token"),
        extensions=tuple(extensions.items()),
        unsecured_claims=tuple(
            (name.removeprefix(_CLAIM), value) for name, value in jaas.items() if name.startswith(_CLAIM)
        ),
        trust=_trust(first("https.ca.location"), jaas),
        allowed_urls=allowed,
    )
    if not (settings.endpoint or settings.token or settings.unsecured_claims):
        raise NoToken(f"OAUTHBEARER needs a token: set {_ENDPOINT}, or sasl.oauthbearer.token.")
    is_http = settings.endpoint is not None and not settings.endpoint.startswith("file:")
    if is_http and not settings.token and not settings.client_id:
        raise NoToken(
            f"{_ENDPOINT} asks who you are: set sasl.oauthbearer.client.credentials.client.id and .client.secret, or "
            "clientId and clientSecret in sasl.jaas.config."
        )
    return settings


def _trust(ca_file: str, jaas: Mapping[str, str]) -> StoreSettings | None:
    if ca_file:
        return StoreSettings(truststore_location=Given("https.ca.location", ca_file))
    return trust_of(jaas)


def log_in(settings: OAuth) -> ClientExchange:
    """Run the client's side of a login. Blocks while fetching a token. Raises AuthenticationFailed."""
    try:
        shown_to_server = token(settings)
    except NoToken as missing:
        raise AuthenticationFailed(str(missing).rstrip(".")) from None
    yield from oauthbearer.log_in(shown_to_server, dict(settings.extensions))


class _Tokens:
    """Tokens in use, shared by threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: dict[OAuth, tuple[str, float]] = {}

    def token(self, settings: OAuth) -> str:
        """Raises NoToken."""
        with self._lock:
            known = self._known.get(settings)
            if known is not None and time.monotonic() < known[1]:
                return known[0]
            token, seconds = _fresh(settings)
            self._known[settings] = token, time.monotonic() + _USED * seconds
            return token


token = _Tokens().token


def _fresh(settings: OAuth) -> tuple[str, float]:
    """Return a token and the seconds for which it may be used."""
    if settings.token:
        return settings.token, 0
    if settings.endpoint is None:
        return _unsecured(settings), _UNSECURED_SECONDS
    where = shown(settings.endpoint)
    try:
        allowed = settings.allowed_urls
        if allowed is None:
            allowed = allowed_urls(system_properties(os.environ).get(ALLOWED_URLS))
        check_url(settings.endpoint, allowed)
        if urlsplit(settings.endpoint).scheme.lower() == "file":
            # The file's writer decides when to replace the token.
            return fetch(settings.endpoint).decode("ascii").strip(), 0
        return _granted(settings, settings.endpoint)
    except EndpointError as error:
        raise NoToken(f"Cannot get a token from {_ENDPOINT}={where}: {error}.") from None
    except (ValueError, KeyError, TypeError, RecursionError):
        raise NoToken(f"What {_ENDPOINT}={where} answers is not a token.") from None


def _granted(settings: OAuth, endpoint: str) -> tuple[str, float]:
    form = {"grant_type": "client_credentials"} | ({"scope": settings.scope} if settings.scope else {})
    credentials = base64.b64encode(f"{settings.client_id}:{settings.client_secret}".encode()).decode()
    answer = json.loads(
        fetch(
            endpoint,
            data=urlencode(form).encode(),
            headers={
                "Accept": "application/json",
                "Authorization": f"Basic {credentials}",
                "Content-Type": "application/x-www-form-urlencoded",
            },
            trust=settings.trust,
        )
    )
    found = str(answer.get("access_token") or answer["id_token"])
    seconds = answer.get("expires_in")
    return found, float(seconds) if isinstance(seconds, int | float | str) else seconds_left(found)


def seconds_left(token: str) -> float:
    """Return the remaining lifetime in a JSON Web Token; 0 for any other token."""
    part = token.split(".")[1] if token.count(".") == 2 else ""
    try:
        claims = json.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)))
        return max(float(claims["exp"]) - time.time(), 0)
    except (binascii.Error, ValueError, KeyError, TypeError):
        return 0


def _unsecured(settings: OAuth) -> str:
    now = int(time.time())
    claims = {"iat": now, "exp": now + _UNSECURED_SECONDS, **dict(settings.unsecured_claims)}
    return f"{_part({'alg': 'none'})}.{_part(claims)}."


def _part(fields: Mapping[str, object]) -> str:
    return base64.urlsafe_b64encode(json.dumps(fields).encode()).decode().rstrip("=")
