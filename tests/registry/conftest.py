"""A registry beside a broker, and a client that returns status, code and body of every response."""

from __future__ import annotations

import itertools
import json
import urllib.error
import urllib.request
from typing import Any, NamedTuple

import pytest

from ottla.http.background import InBackground
from ottla.registry.server import RegistryServer
from ottla.registry.settings import RegistrySettings
from ottla.testing import Broker

V1 = "application/vnd.schemaregistry.v1+json"
_numbers = itertools.count(1)


class Answer(NamedTuple):
    status: int
    body: Any
    headers: Any = None

    @property
    def code(self) -> int:
        return self.body["error_code"]

    @property
    def message(self) -> str:
        return self.body["message"]


class Api:
    """Requests to one registry. Bodies are JSON or raw bytes."""

    def __init__(self, url: str, **headers: str) -> None:
        self.url = url
        self.headers = {"Content-Type": V1, **headers}

    def __call__(self, method: str, path: str, body: Any = None, **headers: str) -> Answer:
        data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        given = {name.replace("_", "-"): value for name, value in headers.items()}
        request = urllib.request.Request(self.url + path, data, {**self.headers, **given}, method=method)
        try:
            with urllib.request.urlopen(request, timeout=30) as answer:
                return Answer(answer.status, _read(answer.read()), answer.headers)
        except urllib.error.HTTPError as error:
            return Answer(error.code, _read(error.read()), error.headers)

    def get(self, path: str, **headers: str) -> Any:
        return self("GET", path, **headers).body

    def register(self, subject: str, schema: Any, **fields: Any) -> Answer:
        return self("POST", f"/subjects/{subject}/versions", {"schema": text(schema), **fields})

    def id_of(self, subject: str, schema: Any, **fields: Any) -> int:
        answer = self.register(subject, schema, **fields)
        assert answer.status == 200, answer
        return answer.body["id"]


def text(schema: Any) -> str:
    return schema if isinstance(schema, str) else json.dumps(schema)


def _read(data: bytes) -> Any:
    try:
        return json.loads(data) if data else None
    except ValueError:
        return data.decode()


def record(name: str, *fields: str, **defaults: Any) -> dict[str, Any]:
    """Return an Avro record of strings; fields in `defaults` have a default."""
    return {
        "type": "record",
        "name": name,
        "fields": [{"name": each, "type": "string"} for each in fields]
        + [{"name": each, "type": "string", "default": value} for each, value in defaults.items()],
    }


@pytest.fixture(scope="module")
def broker():
    with Broker(registry=True) as started:
        yield started


@pytest.fixture
def api(broker):
    return Api(broker.schema_registry_url)


@pytest.fixture
def subject() -> str:
    """A unique subject."""
    return f"subject-{next(_numbers)}-value"


def in_background(settings: RegistrySettings) -> InBackground:
    """Start a registry in its own thread."""
    return InBackground(lambda: RegistryServer(settings), "schema-registry")
