"""Blocking clients of other JSON servers: Connect, SQL. Use them in threads."""

from __future__ import annotations

import base64
import json
import ssl
from collections.abc import Iterator, Mapping
from contextlib import closing
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from typing import Any
from urllib.parse import quote, unquote, urlsplit

from ottla.client.errors import ClientError, Unreachable

_MOST_BYTES = 32 << 20


class NotThere(ClientError):
    """The server does not know this name (yet)."""


class Remote:
    """A server. Raises ClientError with a sentence, or Unreachable without an answer."""

    def __init__(self, url: str, name: str, *, timeout: float = 20.0) -> None:
        self._parts = urlsplit(url)
        self._name = name
        self._timeout = timeout

    @property
    def where(self) -> str:
        """The URL without a login."""
        return f"{self._parts.scheme}://{self._parts.netloc.rpartition('@')[2]}"

    def request(self, method: str, path: str, body: Any = None) -> Any:
        """Return the parsed response, or None if empty."""
        data = self._answer(method, path, body, "application/json")
        try:
            return json.loads(data) if data else None
        except (ValueError, RecursionError):
            raise ClientError(f"{self._name} at {self.where} does not answer with JSON.") from None

    def text(self, path: str) -> str:
        return self._answer("GET", path, None, "text/plain").decode("utf-8", "replace")

    def _answer(self, method: str, path: str, body: Any, accept: str) -> bytes:
        with closing(self._connect()) as connection:
            response = self._send(connection, method, path, body, accept)
            try:
                data = response.read(_MOST_BYTES + 1)
            except (OSError, HTTPException) as error:
                raise self._unreachable(error) from None
        if len(data) > _MOST_BYTES:
            raise ClientError(f"{self._name} answers with more than {_MOST_BYTES} bytes.")
        if response.status >= 400:
            kind = NotThere if response.status == 404 else ClientError
            raise kind(self._refusal(response.status, data))
        return data

    def lines(self, path: str, body: Any, accept: str, connection: HTTPConnection) -> Iterator[str]:
        """Yield lines of a streaming response; closing the connection ends it."""
        response = self._send(connection, "POST", path, body, accept)
        if response.status >= 400:
            raise ClientError(self._refusal(response.status, response.read(_MOST_BYTES)))
        try:
            for line in response:
                if line.strip():
                    yield line.decode("utf-8", "replace").rstrip("\n")
        except (OSError, HTTPException, ValueError, AttributeError):
            return  # closed by either side

    def open(self) -> HTTPConnection:
        """Open a connection for a streaming response, without a read timeout."""
        return self._connect(timeout=None)

    def _connect(self, timeout: float | None = 0.0) -> HTTPConnection:
        seconds = self._timeout if timeout == 0.0 else timeout
        host, port = self._parts.hostname or "", self._parts.port
        if self._parts.scheme == "https":
            return HTTPSConnection(host, port, timeout=seconds, context=ssl.create_default_context())
        return HTTPConnection(host, port, timeout=seconds)

    def _send(
        self, connection: HTTPConnection, method: str, path: str, body: Any, accept: str
    ) -> HTTPResponse:
        headers = {"Accept": accept, **self._login()}
        data = None
        if body is not None:
            data = json.dumps(body).encode()
            headers["Content-Type"] = "application/json"
        try:
            connection.request(method, self._parts.path.rstrip("/") + path, data, headers)
            return connection.getresponse()
        except (OSError, HTTPException) as error:
            raise self._unreachable(error) from None

    def _login(self) -> Mapping[str, str]:
        if not self._parts.username:
            return {}
        pair = f"{unquote(self._parts.username)}:{unquote(self._parts.password or '')}"
        return {"Authorization": f"Basic {base64.b64encode(pair.encode()).decode()}"}

    def _refusal(self, status: int, data: bytes) -> str:
        try:
            message = json.loads(data)["message"]
        except (ValueError, KeyError, TypeError, RecursionError):
            message = f"it answers with status {status}"
        return f"{self._name}: {message}"

    def _unreachable(self, error: Exception) -> Unreachable:
        return Unreachable(
            f"{self._name} at {self.where} cannot be reached: {error or type(error).__name__}."
        )


def part(text: str) -> str:
    return quote(text, safe="")
