"""Options and errors of commands that call Connect or the schema registry over HTTP."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar
from urllib.parse import urlsplit

import click

from ottla.cli.errors import JobError

Command = TypeVar("Command", bound=Callable[..., Any])


class Refused(JobError):
    """Error message and code of the server."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(f"{message.rstrip('.')} ({code}).")
        self.refusal = code


def check_url(url: str, what: str, example: str) -> None:
    if urlsplit(url).scheme not in ("http", "https"):
        raise click.UsageError(f"'{url}' is not the URL of {what}: write {example}.")


def service_options(
    parameter: str,
    connect: Callable[[str, str | None, str | None, float], Any],
    *,
    url_option: tuple[str, str],
    environment: str,
    default_url: str,
    what: str,
    named: str,
    timeout: float,
) -> Callable[[Command], Command]:
    """Add the options for a server. The command gets the result of `connect` as `parameter`.

    `what` names the kind of server ("a worker"), `named` this server ("the worker").
    """

    def decorate(command: Command) -> Command:
        import functools

        @functools.wraps(command)
        def with_server(
            *args: Any,
            server_url: str,
            user: str | None,
            ca: str | None,
            timeout: float,
            **kwargs: Any,
        ) -> Any:
            return command(*args, **{parameter: connect(server_url, user, ca, timeout)}, **kwargs)

        decorated: Any = with_server
        for option in (
            click.option(
                "--timeout",
                type=float,
                default=timeout,
                show_default=True,
                help="Time to wait for an answer.",
            ),
            click.option(
                "--ca",
                type=click.Path(exists=True, dir_okay=False),
                help="CA certificates (PEM) to trust with https.",
            ),
            click.option(
                "--user",
                metavar="NAME:PASSWORD",
                envvar=f"{environment}_USER",
                show_envvar=True,
                help=f"User and password for {what}.",
            ),
            click.option(
                *url_option,
                "server_url",
                metavar="URL",
                envvar=f"{environment}_URL",
                show_envvar=True,
                default=default_url,
                show_default=True,
                help=f"URL of {named}.",
            ),
        ):
            decorated = option(decorated)
        return decorated  # type: ignore[no-any-return]

    return decorate
