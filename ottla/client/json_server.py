"""A blocking client for Ottla's JSON servers (Connect, SQL), for tools and threads."""

from __future__ import annotations

import base64
import json
import ssl
from contextlib import closing
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from typing import Any
from urllib.parse import quote, unquote, urlencode, urlsplit

from ottla.client.errors import ClientError, Unreachable

_MOST_BYTES = 32 << 20


class Refused(ClientError):
    """The server's refusal, with its HTTP status."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class JsonServer:
    """A server. Each request opens its own connection. `user` is NAME:PASSWORD, which the URL may contain as well."""

    def __init__(
        self, url: str, name: str, *, user: str | None = None, ca: str | None = None, timeout: float = 20.0
    ) -> None:
        self._parts = urlsplit(url)
        self._name = name
        self._ca = ca
        self._timeout = timeout
        if user is None and self._parts.username:
            user = f"{unquote(self._parts.username)}:{unquote(self._parts.password or '')}"
        self._login = None if user is None else base64.b64encode(user.encode()).decode()

    @property
    def where(self) -> str:
        """The URL without a login."""
        return f"{self._parts.scheme}://{self._parts.netloc.rpartition('@')[2]}{self._parts.path.rstrip('/')}"

    def request(self, method: str, path: str, body: object = None) -> Any:
        """Return the parsed response, or None if empty. Raises Refused, or Unreachable without an answer."""
        headers = {"Accept": "application/json"}
        if self._login is not None:
            headers["Authorization"] = f"Basic {self._login}"
        data = None
        if body is not None:
            data = json.dumps(body).encode()
            headers["Content-Type"] = "application/json"
        try:
            with closing(self._connect()) as connection:
                connection.request(method, self._parts.path.rstrip("/") + path, data, headers)
                response = connection.getresponse()
                answer = response.read(_MOST_BYTES + 1)
        except (OSError, HTTPException, ValueError) as error:
            reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
            raise Unreachable(f"Cannot reach {self._name} at {self.where}: {reason}.") from None
        if len(answer) > _MOST_BYTES:
            raise ClientError(
                f"The server at {self.where} sent more than {_MOST_BYTES} bytes. Is it {self._name}?"
            )
        found = _parsed(answer)
        if response.status >= 400:
            said = found.get("message") if isinstance(found, dict) else None
            raise Refused(response.status, said or f"{method} {path} was refused: {response.reason}")
        if found is None and answer:
            raise ClientError(f"The server at {self.where} is not {self._name}: its answer is not JSON.")
        return found

    def _connect(self) -> HTTPConnection:
        host, port = self._parts.hostname or "", self._parts.port
        if self._parts.scheme == "https":
            context = ssl.create_default_context(cafile=self._ca)
            return HTTPSConnection(host, port, timeout=self._timeout, context=context)
        return HTTPConnection(host, port, timeout=self._timeout)


def path_of(*parts: str, **query: str) -> str:
    path = "/" + "/".join(quote(part, safe="") for part in parts)
    return f"{path}?{urlencode(query)}" if query else path


def _parsed(answer: bytes) -> Any:
    try:
        return json.loads(answer) if answer else None
    except ValueError:
        return None
