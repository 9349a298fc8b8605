"""OAuth providers: requests to their endpoints, and tokens fetched from them."""

from __future__ import annotations

import base64
import binascii
import json
import os
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from http.client import HTTPException
from typing import IO, Any
from urllib.parse import unquote, urlencode, urlsplit

from ottla.security.jaas import ALLOWED_URLS, ENVIRONMENT_VARIABLE, allowed_urls, system_properties
from ottla.security.sasl import oauthbearer
from ottla.security.sasl.plain import AuthenticationFailed, ClientExchange
from ottla.security.tls.settings import Given, StoreSettings, Versions

# Requests to an OAuth provider's endpoints for keys and tokens.
#
# The right to write a setting must not grant access to local files or the internal network. Without a list of allowed
# URLs only https is permitted; with a list, only its URLs. Redirects are never followed.

_MOST_BYTES = 1024 * 1024
_SCHEMES = ("https", "http", "file")


class EndpointError(Exception):
    """A failed request. The message follows "…: " and contains no sent data."""


class UrlNotAllowed(EndpointError):
    """The setting is wrong; a retry is useless."""


def check_url(url: str, allowed: Collection[str]) -> None:
    """Raises UrlNotAllowed."""
    try:
        scheme = urlsplit(url).scheme.lower()
        urlsplit(url).port  # noqa: B018  reading the port validates it
    except ValueError:
        raise UrlNotAllowed("it is not a URL") from None
    if scheme not in _SCHEMES:
        raise UrlNotAllowed("it is not a URL with https, http or file")
    if url in allowed or (scheme == "https" and not allowed):
        return
    raise UrlNotAllowed(
        f"it is not allowed: add it to {ALLOWED_URLS}, for example "
        f'{ENVIRONMENT_VARIABLE}="-D{ALLOWED_URLS}={shown(url)}"'
    )


class _NoRedirections(urllib.request.HTTPRedirectHandler):
    def redirect_request(
        self, req: urllib.request.Request, fp: IO[bytes], code: int, msg: str, headers: Any, newurl: str
    ) -> None:
        return None  # makes urllib raise an error


def trust_of(options: Mapping[str, str]) -> StoreSettings | None:
    """Return the certificate settings for the endpoints, from OAUTHBEARER login options as in Java."""
    if "ssl.truststore.location" not in options:
        return None
    password = options.get("ssl.truststore.password")
    return StoreSettings(
        truststore_location=Given("ssl.truststore.location", options["ssl.truststore.location"]),
        truststore_password=None if password is None else Given("ssl.truststore.password", password),
    )


def shown(url: str) -> str:
    """Return a URL for logs and messages, without password and query."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return "…"
    return parts._replace(netloc=parts.netloc.rpartition("@")[2], query="", fragment="").geturl()


def fetch(
    url: str,
    *,
    data: bytes | None = None,
    headers: Mapping[str, str] | None = None,
    timeout: float = 10.0,
    trust: StoreSettings | None = None,
) -> bytes:
    """Fetch a URL approved by `check_url`; `data` makes it a POST. Raises EndpointError.

    `trust` replaces the system's trusted certificates.
    """
    if urlsplit(url).scheme.lower() == "file":
        return _read_file(unquote(urlsplit(url).path))
    request = urllib.request.Request(url, data=data, headers=dict(headers or {}))
    try:
        with _opener(url, trust).open(request, timeout=timeout) as answer:
            document: bytes = answer.read(_MOST_BYTES + 1)
    except urllib.error.HTTPError as error:
        error.close()
        raise EndpointError(f"it answers with status {error.code}") from None
    except urllib.error.URLError as error:
        unverified = getattr(error.reason, "verify_message", None)
        raise EndpointError(
            f"its certificate is not accepted ({unverified.rstrip('.')})" if unverified else str(error.reason)
        ) from None
    except (OSError, HTTPException, ValueError) as error:
        raise EndpointError(str(error) or type(error).__name__) from None
    return _bounded(document)


def _opener(url: str, trust: StoreSettings | None) -> urllib.request.OpenerDirector:
    handlers: list[urllib.request.BaseHandler] = [_NoRedirections()]
    if url.lower().startswith("https") and trust is not None:
        from ottla.security.tls.contexts import client_context
        from ottla.security.tls.stores import read_trust_store

        context = client_context(None, read_trust_store(trust), Versions(), check_host=True, verify=True)
        handlers.append(urllib.request.HTTPSHandler(context=context))
    return urllib.request.build_opener(*handlers)


def _read_file(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return _bounded(file.read(_MOST_BYTES + 1))
    except OSError as error:
        raise EndpointError(error.strerror or str(error)) from None


def _bounded(document: bytes) -> bytes:
    if len(document) > _MOST_BYTES:
        raise EndpointError(f"the document is larger than {_MOST_BYTES} bytes")
    return document


# Sources of OAUTHBEARER tokens: an endpoint, a file, the settings, or a locally made unsecured token.

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
