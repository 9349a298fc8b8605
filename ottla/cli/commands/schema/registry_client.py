"""The schema registry as the command line reaches it: any that has Confluent's API."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar
from urllib.parse import quote, urlsplit

import click

from ottla.cli.errors import JobError

DEFAULT_URL = "http://localhost:8081"

Command = TypeVar("Command", bound=Callable[..., Any])


class Refused(JobError):
    """The registry's own words, with its code."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(f"{message.rstrip('.')} ({code}).")
        self.registry_code = code


class RegistryClient:
    def __init__(self, url: str, user: str | None, ca: str | None, timeout: float) -> None:
        if urlsplit(url).scheme not in ("http", "https"):
            raise click.UsageError(f"'{url}' is not the URL of a registry: write {DEFAULT_URL}.")
        from ottla.client.errors import ClientError
        from ottla.client.schema_registry import RegistrySettings, SchemaRegistry

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
        from ottla.client.schema_registry import RegistryError

        where = "/" + "/".join(quote(part, safe="") for part in path) + (f"?{query}" if query else "")
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


def registry_options(command: Command) -> Command:
    """How to reach the registry; the command gets a `registry` in their place."""
    import functools

    @functools.wraps(command)
    def with_registry(
        *args: Any, registry_url: str, user: str | None, ca: str | None, timeout: float, **kwargs: Any
    ) -> Any:
        return command(*args, registry=RegistryClient(registry_url, user, ca, timeout), **kwargs)

    decorated: Any = with_registry
    for option in (
        click.option("--timeout", type=float, default=30.0, show_default=True, help="In seconds."),
        click.option(
            "--ca", type=click.Path(exists=True, dir_okay=False), help="Whom to trust with https: PEM."
        ),
        click.option(
            "--user",
            metavar="NAME:PASSWORD",
            envvar="OTTLA_SCHEMA_REGISTRY_USER",
            show_envvar=True,
            help="For a registry that asks for a password.",
        ),
        click.option(
            "--registry-url",
            "-r",
            metavar="URL",
            envvar="OTTLA_SCHEMA_REGISTRY_URL",
            show_envvar=True,
            default=DEFAULT_URL,
            show_default=True,
            help="Where to find the schema registry.",
        ),
    ):
        decorated = option(decorated)
    return decorated  # type: ignore[no-any-return]
