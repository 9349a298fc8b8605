"""`ottla console`"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ottla.cli.client import DEFAULT_BOOTSTRAP_SERVER
from ottla.cli.commands.servers.http_servers import (
    cannot_listen,
    configure_log,
    file_properties,
    serve_until_stopped,
)
from ottla.cli.commands.servers.start import DEFAULT_CONSOLE_LISTEN, log_format_option
from ottla.cli.errors import JobError, require
from ottla.cli.options import bootstrap_server_option, command_config_option, file_option

if TYPE_CHECKING:
    from ottla.cli.jobs.secured_data import SecuredData
    from ottla.console.settings import ConsoleSettings
    from ottla.http.background import InBackground


def cluster_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the addresses of a cluster and of the services beside it."""
    for option in (
        click.option("--sql", metavar="URL", help="URL of an `ottla sql server`, or of ksqlDB."),
        click.option("--connect", metavar="URL", help="URL of a Connect worker."),
        click.option("--registry", metavar="URL", help="URL of the cluster's schema registry."),
        command_config_option,
        bootstrap_server_option,
    ):
        command = option(command)
    return command


@click.command(short_help="Show and change a cluster in the browser.")
@click.option(
    "--listen",
    "-l",
    metavar="HOST:PORT",
    help=f"Address to listen on. Port 0 picks a free port. [default: {DEFAULT_CONSOLE_LISTEN}]",
)
@cluster_options
@click.option("--read-only", is_flag=True, help="Refuse all changes.")
@click.option(
    "--no-login",
    is_flag=True,
    help="Allow everyone who reaches the address to change everything.",
)
@file_option("--config", "-c", "config_file", help="console.toml with logins, roles and clusters.")
@click.option(
    "--hash-password", is_flag=True, help="Ask for a password, print its line for the users file, and exit."
)
@click.option("--quiet", "-q", is_flag=True, help="Print nothing but warnings and errors.")
@log_format_option
def console(
    listen: str | None,
    bootstrap_server: str,
    command_config: Path | None,
    registry: str | None,
    connect: str | None,
    sql: str | None,
    read_only: bool,
    no_login: bool,
    config_file: Path | None,
    hash_password: bool,
    quiet: bool,
    log_format: str,
) -> None:
    """Show and change any Kafka cluster in the browser. Ctrl-C stops the console.

    \b
    Examples:
      ottla console
      ottla console --bootstrap-server kafka1:9092 --registry http://kafka1:8081
      ottla console --config console.toml

    `ottla start --console` runs one beside a broker.
    """
    require("console")
    if hash_password:
        _print_hash()
        return
    configure_log(quiet, log_format)
    with console_sentences(listen or DEFAULT_CONSOLE_LISTEN):
        settings = console_settings(
            listen, bootstrap_server, command_config, registry, connect, sql, config_file
        )
        settings = replace(
            settings,
            read_only=settings.read_only or read_only,
            no_login=settings.no_login or no_login,
        )
        settings.check()
    from ottla.console.server import Console

    serve_until_stopped(
        lambda: Console(settings),
        name="console",
        about={"Clusters": ", ".join(f"{each.name} ({each.client.servers})" for each in settings.clusters)},
        example="xdg-open {url}",
        sentences=lambda: console_sentences(f"{settings.host}:{settings.port}"),
        quiet=quiet,
    )


def console_settings(
    listen: str | None,
    bootstrap_server: str,
    command_config: Path | None,
    registry: str | None,
    connect: str | None,
    sql: str | None,
    config_file: Path | None,
) -> ConsoleSettings:
    from ottla.console.settings import (
        DEFAULT_CLUSTER,
        ClusterSettings,
        ConsoleSettings,
        check_url,
        parse_address,
        read_file,
    )

    settings = ConsoleSettings(()) if config_file is None else read_file(config_file)
    if listen is not None or config_file is None:
        host, port = parse_address(listen or DEFAULT_CONSOLE_LISTEN)
        settings = replace(settings, host=host, port=port)
    if not settings.clusters or bootstrap_server != DEFAULT_BOOTSTRAP_SERVER:
        properties = {**file_properties(command_config), "bootstrap.servers": bootstrap_server}
        cluster = ClusterSettings(
            DEFAULT_CLUSTER,
            properties,
            check_url("--registry", registry),
            check_url("--connect", connect),
            check_url("--sql", sql),
        )
        settings = replace(settings, clusters=(cluster,))
    for cluster in settings.clusters:
        _ = cluster.client  # finds errors now, not with the first page
    return settings


def start_beside(
    listen: str,
    brokers: Sequence[str],
    registry: str | None,
    connect: str | None,
    secured: SecuredData | None = None,
) -> tuple[InBackground, str | None]:
    """Start a console in this process, for the brokers of `ottla start`. For secured brokers, return a one-time login
    link as well.

    The admin logs in with the admin's password. Beyond this machine the console uses TLS with the broker's certificate.
    """
    require("console")
    from ottla.console.access.login import LINK
    from ottla.console.server import Console
    from ottla.console.settings import DEFAULT_CLUSTER, ClusterSettings, ConsoleSettings, parse_address
    from ottla.http.background import InBackground

    with console_sentences(listen, "--console"):
        host, port = parse_address(listen)
        properties = file_properties(None if secured is None else secured.client)
        cluster = ClusterSettings(
            DEFAULT_CLUSTER,
            {**properties, "bootstrap.servers": ",".join(brokers)},
            registry,
            connect,
        )
        settings = ConsoleSettings((cluster,), host, port)
        if secured is None:
            return InBackground(lambda: Console(settings), "console").start(), None
        token = secrets.token_urlsafe(24)
        settings = _asking_for_login(settings, secured, token)
        running = InBackground(lambda: Console(settings), "console").start()
        return running, f"{running.urls[0]}{LINK}?token={token}"


def _asking_for_login(settings: ConsoleSettings, secured: SecuredData, token: str) -> ConsoleSettings:
    from ottla.cli.jobs.secured_data import ADMIN
    from ottla.console.settings import LOOPBACK
    from ottla.http.authentication import User, scrypt_credential

    # Without the password in the file of the clients only the link logs in.
    password = secured.admin_password() or secrets.token_urlsafe()
    keys = {"ssl.keystore.type": "PEM", "ssl.keystore.location": str(secured.server)}
    return replace(
        settings,
        users={ADMIN: User(scrypt_credential(password), frozenset({"admin"}))},
        login_token=token,
        tls=None if settings.host in LOOPBACK else keys,
        audit_file=secured.directory / "console-audit.jsonl",
    )


def _print_hash() -> None:
    from ottla.http.authentication import scrypt_credential

    name = click.prompt("Name", err=True)
    role = click.prompt("Role", default="viewer", err=True)
    password = click.prompt("Password", hide_input=True, confirmation_prompt=True, err=True)
    click.echo(f"{name}: {scrypt_credential(password)},{role}")


@contextmanager
def console_sentences(where: str, option: str = "--listen") -> Iterator[None]:
    from ottla.client.errors import ClientError
    from ottla.console.settings import BadSettings
    from ottla.http.authentication import BadPasswordFile
    from ottla.http.tls import BadTlsSettings

    try:
        yield
    except (BadSettings, BadPasswordFile, BadTlsSettings) as error:
        raise JobError(str(error)) from None
    except ClientError as error:
        raise JobError(error.message) from None
    except OSError as error:
        raise cannot_listen(where, error, option) from None
