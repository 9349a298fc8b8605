"""A Connect worker as the command line reaches it: Ottla's, or Apache Kafka's."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, TypeVar
from urllib.parse import quote, urlencode, urlsplit

import click

from ottla.cli.errors import JobError

DEFAULT_URL = "http://localhost:8083"

Command = TypeVar("Command", bound=Callable[..., Any])


class Refused(JobError):
    """The worker's own words, with its code."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(f"{message.rstrip('.')} ({code}).")
        self.status = code


class ConnectClient:
    def __init__(self, url: str, user: str | None, ca: str | None, timeout: float) -> None:
        if urlsplit(url).scheme not in ("http", "https"):
            raise click.UsageError(f"'{url}' is not the URL of a worker: write {DEFAULT_URL}.")
        self._url = url.rstrip("/")
        self._user = user
        self._ca = ca
        self._timeout = timeout

    def get(self, *path: str, **query: str) -> Any:
        return self.ask("GET", *path, **query)

    def ask(self, method: str, *path: str, body: object = None, **query: str) -> Any:
        """The JSON of the answer; None if it has none. Raises Refused, or JobError."""
        import ssl
        import urllib.error
        import urllib.request

        where = "/" + "/".join(quote(part, safe="") for part in path)
        if query:
            where += "?" + urlencode(query)
        headers = {"Accept": "application/json", "Content-Type": "application/json"}
        if self._user is not None:
            import base64

            headers["Authorization"] = "Basic " + base64.b64encode(self._user.encode()).decode()
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self._url + where, data, headers, method=method)
        context = ssl.create_default_context(cafile=self._ca) if self._url.startswith("https:") else None
        try:
            with urllib.request.urlopen(request, timeout=self._timeout, context=context) as answer:
                return _json(answer.read())
        except urllib.error.HTTPError as error:
            with error:
                found = _json(error.read())
            message = found.get("message") if isinstance(found, dict) else None
            raise Refused(error.code, message or f"{method} {where} was refused: {error.reason}") from None
        except (OSError, ValueError) as error:
            reason = getattr(error, "reason", error)
            raise JobError(
                f"Cannot reach a Connect worker at {self._url}: {reason}. Start one with 'ottla connect start', or "
                "name another with --url."
            ) from None


def _json(data: bytes) -> Any:
    if not data:
        return None
    try:
        return json.loads(data)
    except ValueError:
        return None


def worker_options(command: Command) -> Command:
    """How to reach a worker; the command gets a `worker` in their place."""
    import functools

    @functools.wraps(command)
    def with_worker(
        *args: Any, url: str, user: str | None, ca: str | None, timeout: float, **kwargs: Any
    ) -> Any:
        return command(*args, worker=ConnectClient(url, user, ca, timeout), **kwargs)

    decorated: Any = with_worker
    for option in (
        click.option("--timeout", type=float, default=90.0, show_default=True, help="In seconds."),
        click.option(
            "--ca", type=click.Path(exists=True, dir_okay=False), help="Whom to trust with https: PEM."
        ),
        click.option(
            "--user",
            metavar="NAME:PASSWORD",
            envvar="OTTLA_CONNECT_USER",
            show_envvar=True,
            help="For a worker that asks for a password.",
        ),
        click.option(
            "--url",
            "-u",
            metavar="URL",
            envvar="OTTLA_CONNECT_URL",
            show_envvar=True,
            default=DEFAULT_URL,
            show_default=True,
            help="Where to find a worker.",
        ),
    ):
        decorated = option(decorated)
    return decorated  # type: ignore[no-any-return]
