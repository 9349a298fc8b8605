"""A small blocking client of a schema registry with Confluent's API.

Property names are those of Confluent's clients: schema.registry.url, schema.registry.basic.auth.user.info,
schema.registry.bearer.auth.token, and schema.registry.ssl.… followed by Kafka's names.
"""

from __future__ import annotations

import base64
import http.client
import json
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple
from urllib.parse import quote, unquote, urlencode, urlsplit

from ottla.client.errors import ClientError, Unreachable
from ottla.client.settings import Settings, Tls

PREFIX = "schema.registry."
AVRO, JSON, PROTOBUF = "AVRO", "JSON", "PROTOBUF"

_CONTENT_TYPE = "application/vnd.schemaregistry.v1+json"
#: With this header the registry adds fields that older clients do not know.
_UNKNOWN_PROPERTIES = "Confluent-Accept-Unknown-Properties"
_NOT_FOUND = (40401, 40402, 40403, 40404)


class RegistryError(ClientError):
    """A refusal: `status` is the HTTP status, `error_code` the registry's code, `reason` its message."""

    def __init__(self, message: str, status: int, error_code: int, reason: str = "") -> None:
        super().__init__(message)
        self.status = status
        self.error_code = error_code
        self.reason = reason

    @property
    def is_retriable(self) -> bool:
        return self.status >= 500

    @property
    def is_not_found(self) -> bool:
        return self.error_code in _NOT_FOUND


@dataclass(frozen=True, slots=True)
class RegistrySettings:
    """Connection settings. Hashable, so that equal settings can share a client."""

    urls: tuple[str, ...]
    username: str = ""
    password: str = field(default="", repr=False)
    token: str = field(default="", repr=False)
    tls: Tls | None = None
    timeout: float = 30.0

    @classmethod
    def from_properties(cls, properties: Mapping[str, str]) -> RegistrySettings:
        """Read the settings, ignoring other `properties`."""
        given = {
            name.removeprefix(PREFIX): value
            for name, value in properties.items()
            if name.startswith(PREFIX) and value is not None
        }
        urls = tuple(each.strip().rstrip("/") for each in given.get("url", "").split(",") if each.strip())
        if not urls:
            raise ClientError("Where is the schema registry? schema.registry.url is missing.")
        for url in urls:
            _check_url(url)
        username, _, password = given.get("basic.auth.user.info", "").partition(":")
        parts = urlsplit(urls[0])
        if not username and parts.username:
            username, password = unquote(parts.username), unquote(parts.password or "")
        tls = None
        if any(url.startswith("https:") for url in urls):
            tls = Settings.from_properties({**given, "security.protocol": "SSL"}).tls
        return cls(
            tuple(map(_without_login, urls)),
            username,
            password,
            given.get("bearer.auth.token", ""),
            tls,
            _seconds(given.get("request.timeout.ms", "30000")),
        )


class Reference(NamedTuple):
    """A schema referenced by `name`: an Avro type, a Protobuf file, a JSON Schema URI."""

    name: str
    subject: str
    version: int


class Schema(NamedTuple):
    text: str
    type: str = AVRO
    references: tuple[Reference, ...] = ()
    id: int = -1
    guid: str = ""
    subject: str = ""
    version: int = -1
    #: JSON rules for writers and readers. Not registered.
    rule_set: str = ""


class SchemaRegistry:
    """Thread-safe; requests are serialized. Schemas are cached by id."""

    def __init__(self, settings: RegistrySettings) -> None:
        self._connection: http.client.HTTPConnection | None = None
        self._settings = settings
        self._lock = threading.Lock()
        self._url = 0
        self._by_id: dict[int, Schema] = {}
        self._by_guid: dict[str, Schema] = {}
        self._versions: dict[tuple[str, int], Schema] = {}
        self._ids: dict[tuple[str, Schema], int] = {}

    def __enter__(self) -> SchemaRegistry:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        with self._lock:
            self._disconnect()

    def __del__(self) -> None:
        # Caches drop clients silently.
        self._disconnect()

    # Schemas

    def by_id(self, number: int) -> Schema:
        found = self._by_id.get(number)
        if found is None:
            answer = self.request("GET", f"/schemas/ids/{number}")
            found = self._by_id[number] = _schema(answer)._replace(id=number)
        return found

    def by_guid(self, guid: str) -> Schema:
        found = self._by_guid.get(guid)
        if found is None:
            answer = self.request("GET", f"/schemas/guids/{quote(guid, safe='')}")
            found = self._by_guid[guid] = _schema(answer)._replace(guid=guid)
        return found

    def guid(self, number: int) -> str:
        """Return the GUID of the schema with this id; empty if the registry has none."""
        answer = self.request("GET", f"/schemas/ids/{number}", headers={_UNKNOWN_PROPERTIES: "true"})
        return str(answer.get("guid") or "")

    def latest(self, subject: str) -> Schema:
        return _schema(self.request("GET", f"{_subject(subject)}/versions/latest"))

    def version(self, subject: str, version: int) -> Schema:
        found = self._versions.get((subject, version))
        if found is None:
            found = _schema(self.request("GET", f"{_subject(subject)}/versions/{version}"))
            self._versions[subject, version] = found
        return found

    def referenced(self, schema: Schema) -> dict[str, Schema]:
        """Return all directly or indirectly referenced schemas by reference name, deepest first."""
        found: dict[str, Schema] = {}
        self._add_referenced(schema, found, ())
        return found

    def _add_referenced(self, schema: Schema, found: dict[str, Schema], path: tuple[str, ...]) -> None:
        for name, subject, version in schema.references:
            if name in path:
                raise ClientError(f"The references of a schema run in a circle: {' → '.join((*path, name))}.")
            if name not in found:
                other = self.version(subject, version)
                self._add_referenced(other, found, (*path, name))
                found[name] = other

    # Writing

    def register(self, subject: str, schema: Schema, *, normalize: bool = False) -> int:
        key = (subject, _content(schema))
        if key not in self._ids:
            query = {"normalize": "true"} if normalize else None
            answer = self.request("POST", f"{_subject(subject)}/versions", _body(schema), query)
            self._ids[key] = int(answer["id"])
        return self._ids[key]

    def lookup(self, subject: str, schema: Schema, *, normalize: bool = False) -> Schema:
        """Return the schema with its id and version under the subject. Raises RegistryError if there is none."""
        query = {"normalize": "true"} if normalize else None
        found = _schema(self.request("POST", _subject(subject), _body(schema), query))
        return found._replace(text=found.text or schema.text)

    # Subjects

    def subjects(self) -> list[str]:
        return list(self.request("GET", "/subjects"))

    def versions(self, subject: str) -> list[int]:
        return [int(each) for each in self.request("GET", f"{_subject(subject)}/versions")]

    # HTTP

    def request(
        self,
        method: str,
        path: str,
        body: Any = None,
        query: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Any:
        """Return the parsed response. Raises RegistryError on refusal, Unreachable if no URL answers."""
        headers = {
            "Accept": f"{_CONTENT_TYPE}, application/json",
            **self._authorization(),
            **(headers or {}),
        }
        data = None
        if body is not None:
            data = json.dumps(body).encode()
            headers["Content-Type"] = _CONTENT_TYPE
        if query:
            path = f"{path}?{urlencode(query)}"
        with self._lock:
            status, answer = self._send(method, path, data, headers)
        return _parsed(status, answer, self._settings.urls[self._url])

    def _send(self, method: str, path: str, data: bytes | None, headers: dict[str, str]) -> tuple[int, bytes]:
        """Try each URL, starting with the last one that answered. (All requests may be repeated.)"""
        reason = ""
        if self._connection is not None:
            try:
                return self._exchange(self._connection, method, path, data, headers)
            except (OSError, http.client.HTTPException):  # idle for too long
                self._disconnect()
        for _ in self._settings.urls:
            try:
                self._connection = self._connect()
                return self._exchange(self._connection, method, path, data, headers)
            except (OSError, http.client.HTTPException) as error:
                reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
                self._disconnect()
                self._url = (self._url + 1) % len(self._settings.urls)
        raise Unreachable(f"No schema registry answers at {', '.join(self._settings.urls)}: {reason}.")

    def _exchange(
        self,
        connection: http.client.HTTPConnection,
        method: str,
        path: str,
        data: bytes | None,
        headers: dict[str, str],
    ) -> tuple[int, bytes]:
        connection.request(method, urlsplit(self._settings.urls[self._url]).path + path, data, headers)
        response = connection.getresponse()
        return response.status, response.read()

    def _connect(self) -> http.client.HTTPConnection:
        parts = urlsplit(self._settings.urls[self._url])
        timeout = self._settings.timeout
        if parts.scheme == "https":
            context = (self._settings.tls or Tls()).context()
            return http.client.HTTPSConnection(
                parts.hostname or "", parts.port, timeout=timeout, context=context
            )
        return http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=timeout)

    def _disconnect(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _authorization(self) -> dict[str, str]:
        if self._settings.token:
            return {"Authorization": f"Bearer {self._settings.token}"}
        if self._settings.username:
            login = f"{self._settings.username}:{self._settings.password}".encode()
            return {"Authorization": "Basic " + base64.b64encode(login).decode()}
        return {}


def _subject(name: str) -> str:
    return f"/subjects/{quote(name, safe='')}"


def _content(schema: Schema) -> Schema:
    return Schema(schema.text, schema.type, schema.references)


def _schema(answer: Mapping[str, Any]) -> Schema:
    references: Sequence[Mapping[str, Any]] = answer.get("references") or ()
    return Schema(
        answer.get("schema", ""),
        answer.get("schemaType") or AVRO,
        tuple(Reference(each["name"], each["subject"], int(each["version"])) for each in references),
        int(answer.get("id", -1)),
        answer.get("guid") or "",
        answer.get("subject") or "",
        int(answer.get("version", -1)),
        json.dumps(answer["ruleSet"], sort_keys=True) if answer.get("ruleSet") else "",
    )


def _body(schema: Schema) -> dict[str, Any]:
    body: dict[str, Any] = {"schema": schema.text}
    if schema.type != AVRO:
        body["schemaType"] = schema.type
    if schema.references:
        body["references"] = [each._asdict() for each in schema.references]
    return body


def _parsed(status: int, answer: bytes, url: str) -> Any:
    try:
        value = json.loads(answer) if answer else None
    except ValueError:
        value = None
    if 200 <= status < 300 and (value is not None or not answer):
        return value
    if isinstance(value, dict) and "message" in value:
        code = int(value.get("error_code", status))
        reason = str(value["message"])
        raise RegistryError(f"The schema registry refuses: {reason}", status, code, reason)
    if status in (401, 403):
        raise RegistryError(f"The schema registry at {url} does not let us in.", status, status)
    raise RegistryError(
        f"The server at {url} is not a schema registry (HTTP status {status}).",
        status,
        status,
    )


def _check_url(url: str) -> None:
    try:
        parts = urlsplit(url)
        valid = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        valid = False
    if not valid:
        raise ClientError(
            f"schema.registry.url must be like http://localhost:8081, not '{_without_login(url)}'."
        )


def _without_login(url: str) -> str:
    scheme, separator, rest = url.partition("://")
    return f"{scheme}{separator}{rest.rpartition('@')[2]}"


def _seconds(text: str) -> float:
    if not text.strip().isdigit():
        raise ClientError(f"schema.registry.request.timeout.ms must be milliseconds, not '{text}'.")
    return int(text) / 1000
