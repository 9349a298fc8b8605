"""HTTP client with retries, authentication and one-sentence errors."""

from __future__ import annotations

import functools
import ssl
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any
from urllib.parse import urlsplit

import httpx

from ottla.connect.errors import ConnectError, DataError

#: Statuses worth retrying.
_TRY_AGAIN = frozenset({408, 425, 429, 500, 502, 503, 504})
_LONGEST_BODY = 200
_LONGEST_BACKOFF = 60.0


class Refused(DataError):
    """The server rejected the request."""


@dataclass(frozen=True)
class OAuth2:
    token_url: str
    client_id: str
    client_secret: str
    scope: str = ""
    #: Whether the client id and secret go into the body instead of the header.
    in_body: bool = False
    token_property: str = "access_token"


@dataclass(frozen=True)
class Access:
    """Headers, credentials and retry settings for a server."""

    headers: Mapping[str, str] = field(default_factory=dict)
    basic: tuple[str, str] | None = None
    oauth2: OAuth2 | None = None
    timeout: float = 30.0
    verify: bool = True
    retries: int = 1
    backoff: float = 3.0
    retry_statuses: frozenset[int] = _TRY_AGAIN


@functools.cache
def _trusted() -> ssl.SSLContext:
    """Load the CA certificates once, because loading takes a tenth of a second."""
    context: ssl.SSLContext = httpx.create_ssl_context()
    return context


class HttpClient:
    def __init__(self, access: Access, sleep: Callable[[float], None] = time.sleep) -> None:
        self._access, self._sleep = access, sleep
        self._token: str | None = None
        self._client = httpx.Client(
            timeout=access.timeout,
            verify=_trusted() if access.verify else False,
            headers=dict(access.headers),
            auth=access.basic,
        )

    def close(self) -> None:
        self._client.close()

    def send(
        self,
        method: str,
        url: str,
        *,
        content: bytes | None = None,
        extra_headers: Mapping[str, str] = MappingProxyType({}),
        **more: Any,
    ) -> httpx.Response:
        """Send a request.

        Raises Refused for a 4xx status, and ConnectError if the server is unreachable or denies access.
        """
        attempt = 0
        renewed = False
        while True:
            try:
                response = self._client.request(
                    method, url, content=content, headers={**extra_headers, **self._authorization()}, **more
                )
            except (httpx.InvalidURL, httpx.UnsupportedProtocol) as error:
                raise ConnectError(f"{url!r} is not an address such as https://host/path: {error}.") from None
            except httpx.HTTPError as error:
                why = f"Cannot reach {_server(url)}: {_text(error)}. Check the address and whether it is running."
            else:
                if response.status_code == 401 and self._access.oauth2 is not None and not renewed:
                    # The token has expired.
                    self._token, renewed = None, True
                    continue
                if response.status_code not in self._access.retry_statuses:
                    return self._checked(response, url)
                why = f"{_server(url)} answers {_answer(response)} again and again."
            if attempt >= self._access.retries:
                raise ConnectError(why)
            self._sleep(min(self._access.backoff * 2**attempt, _LONGEST_BACKOFF))
            attempt += 1

    def _checked(self, response: httpx.Response, url: str) -> httpx.Response:
        status = response.status_code
        if status in (401, 403):
            raise ConnectError(
                f"{_server(url)} refuses the login: {_answer(response)}. Check user, password or token."
            )
        if status in (301, 302, 307, 308):
            raise ConnectError(
                f"{url} has moved to {response.headers.get('location', 'nowhere')}: correct the address."
            )
        if status >= 400:
            raise Refused(
                f"{_server(url)} refuses the request to {urlsplit(url).path or '/'}: {_answer(response)}."
            )
        return response

    def _authorization(self) -> dict[str, str]:
        oauth2 = self._access.oauth2
        if oauth2 is None:
            return {}
        if self._token is None:
            self._token = self._new_token(oauth2)
        return {"Authorization": f"Bearer {self._token}"}

    def _new_token(self, oauth2: OAuth2) -> str:
        form = {"grant_type": "client_credentials"}
        if oauth2.scope:
            form["scope"] = oauth2.scope
        login: tuple[str, str] | None = (oauth2.client_id, oauth2.client_secret)
        if oauth2.in_body:
            form |= {"client_id": oauth2.client_id, "client_secret": oauth2.client_secret}
            login = None
        try:
            response = httpx.post(
                oauth2.token_url,
                data=form,
                auth=login,
                timeout=self._access.timeout,
                verify=self._access.verify,
            )
            if response.status_code >= 400:
                raise ConnectError(f"{_server(oauth2.token_url)} gives no token: {_answer(response)}.")
            return str(response.json()[oauth2.token_property])
        except httpx.HTTPError as error:
            raise ConnectError(
                f"Cannot reach {_server(oauth2.token_url)} for a token: {_text(error)}."
            ) from None
        except (ValueError, KeyError, TypeError):
            raise ConnectError(
                f"{_server(oauth2.token_url)} answers without {oauth2.token_property!r}: it is no token."
            ) from None


def check_url(setting: str, url: str) -> None:
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.netloc:
        raise ConnectError(f"{setting} {url!r} is not an address such as https://host/path.")


def _server(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}"


def _answer(response: httpx.Response) -> str:
    body = " ".join(response.text.split())[:_LONGEST_BODY]
    return f"{response.status_code} {response.reason_phrase}" + (f", {body!r}" if body else "")


def _text(error: Exception) -> str:
    return " ".join(str(error).split()).rstrip(".") or type(error).__name__


def header_list(setting: str, lines: list[str]) -> dict[str, str]:
    found = {}
    for line in lines:
        name, colon, value = line.partition(":")
        if not colon or not name.strip():
            raise ConnectError(f"{setting}: {line!r} is not of the form name:value.")
        found[name.strip()] = value.strip()
    return found


def statuses(text: str) -> frozenset[int]:
    """Parse Confluent's status ranges, such as `400-` and `400-404,500`."""
    found: set[int] = set()
    for part in filter(None, (each.strip() for each in text.split(","))):
        first, dash, last = part.partition("-")
        if not first.isdigit() or (last and not last.isdigit()):
            raise ConnectError(
                f"retry.on.status.codes: {part!r} is neither a code nor a range such as 500-599."
            )
        found.update(range(int(first), (int(last) if last else 599 if dash else int(first)) + 1))
    return frozenset(found)
