"""The schema registry as the command line reaches it: any that has Confluent's API."""

from __future__ import annotations

import base64
import json
import ssl
import urllib.error
import urllib.request
from collections.abc import Callable
from typing import Any, TypeVar
from urllib.parse import quote, urlsplit

import click

from ottla.cli.errors import JobError

DEFAULT_URL = "http://localhost:8081"
_CONTENT_TYPE = "application/vnd.schemaregistry.v1+json"

Command = TypeVar("Command", bound=Callable[..., Any])


class Refused(JobError):
    """The registry's own words, with its code."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(f"{message.rstrip('.')} ({code}).")
        self.registry_code = code


class RegistryClient:
    def __init__(self, url: str, user: str | None, ca: str | None, timeout: float) -> None:
        self.url = url.rstrip("/")
        if urlsplit(self.url).scheme not in ("http", "https"):
            raise click.UsageError(f"'{url}' is not the URL of a registry: write {DEFAULT_URL}.")
        self._timeout = timeout
        self._headers = {"Content-Type": _CONTENT_TYPE, "Accept": _CONTENT_TYPE}
        if user is not None:
            self._headers["Authorization"] = "Basic " + base64.b64encode(user.encode()).decode()
        self._tls = None
        if self.url.startswith("https"):
            try:
                self._tls = ssl.create_default_context(cafile=ca)
            except OSError as error:
                raise JobError(f"The certificates in {ca} cannot be read: {error}.") from None

    def get(self, *path: str, query: str = "") -> Any:
        return self._ask("GET", path, query, None)

    def post(self, body: object, *path: str, query: str = "") -> Any:
        return self._ask("POST", path, query, body)

    def put(self, body: object, *path: str) -> Any:
        return self._ask("PUT", path, "", body)

    def delete(self, *path: str, query: str = "") -> Any:
        return self._ask("DELETE", path, query, None)

    def _ask(self, method: str, path: tuple[str, ...], query: str, body: object) -> Any:
        url = "/".join([self.url, *(quote(part, safe="") for part in path)]) + (f"?{query}" if query else "")
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(url, data, self._headers, method=method)
        try:
            with urllib.request.urlopen(request, timeout=self._timeout, context=self._tls) as answer:
                text = answer.read()
        except urllib.error.HTTPError as error:
            raise _refusal(error.code, error.read(), self.url) from None
        except (urllib.error.URLError, OSError) as error:
            reason = getattr(error, "reason", error)
            raise JobError(
                f"Cannot reach a schema registry at {self.url}: {reason}. Start one with "
                "'ottla start --registry', or name another with --registry-url."
            ) from None
        try:
            return json.loads(text) if text else None
        except ValueError:
            raise JobError(f"What answers at {self.url} is not a schema registry.") from None


def _refusal(status: int, body: bytes, url: str) -> JobError:
    try:
        fields = json.loads(body)
        return Refused(int(fields["error_code"]), str(fields["message"]))
    except (ValueError, KeyError, TypeError):
        return JobError(f"What answers at {url} is not a schema registry: HTTP {status}.")


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
