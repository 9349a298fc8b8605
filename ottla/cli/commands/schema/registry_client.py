"""Client for any schema registry with Confluent's API."""

from __future__ import annotations

from typing import Any

from ottla.cli.errors import JobError
from ottla.cli.http_services import Refused, check_url, service_options

DEFAULT_URL = "http://localhost:8081"


class RegistryClient:
    def __init__(self, url: str, user: str | None, ca: str | None, timeout: float) -> None:
        from ottla.client.errors import ClientError
        from ottla.client.schema_registry import RegistrySettings, SchemaRegistry

        check_url(url, "a registry", DEFAULT_URL)
        given = {"schema.registry.url": url, "schema.registry.request.timeout.ms": str(int(timeout * 1000))}
        if user is not None:
            given["schema.registry.basic.auth.user.info"] = user
        if ca is not None:
            given["schema.registry.ssl.truststore.location"] = ca
        try:
            self._registry = SchemaRegistry(RegistrySettings.from_properties(given))
        except ClientError as error:
            raise JobError(error.message) from None

    def get(self, *path: str, query: str = "") -> Any:
        return self._ask("GET", path, query)

    def post(self, body: object, *path: str, query: str = "") -> Any:
        return self._ask("POST", path, query, body)

    def put(self, body: object, *path: str) -> Any:
        return self._ask("PUT", path, "", body)

    def delete(self, *path: str, query: str = "") -> Any:
        return self._ask("DELETE", path, query)

    def _ask(self, method: str, path: tuple[str, ...], query: str, body: object = None) -> Any:
        from ottla.client.errors import ClientError, Unreachable
        from ottla.client.json_server import path_of
        from ottla.client.schema_registry import RegistryError

        where = path_of(*path) + (f"?{query}" if query else "")
        try:
            return self._registry.request(method, where, body)
        except RegistryError as error:
            raise (
                Refused(error.error_code, error.reason) if error.reason else JobError(error.message)
            ) from None
        except Unreachable as error:
            raise JobError(
                f"{error.message} Start one with 'ottla start --registry', or name another with --registry-url."
            ) from None
        except ClientError as error:
            raise JobError(error.message) from None


#: How to reach the registry; the command gets a `registry` in their place.
registry_options = service_options(
    "registry",
    RegistryClient,
    url_option=("--registry-url", "-r"),
    environment="OTTLA_SCHEMA_REGISTRY",
    default_url=DEFAULT_URL,
    what="a registry",
    named="the schema registry",
    timeout=30.0,
)
