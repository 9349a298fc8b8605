"""Requests to an OAuth provider's endpoints for keys and tokens.

The right to write a setting must not grant access to local files or the internal network. Without a list of allowed
URLs only https is permitted; with a list, only its URLs. Redirects are never followed.
"""

from __future__ import annotations

import urllib.error
import urllib.request
from collections.abc import Collection, Mapping
from http.client import HTTPException
from typing import IO, Any
from urllib.parse import unquote, urlsplit

from ottla.security.java_options import ALLOWED_URLS, ENVIRONMENT_VARIABLE
from ottla.security.tls.settings import Given, StoreSettings, Versions

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
