"""Options that several commands share."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from ottla.cli.client import DEFAULT_BOOTSTRAP_SERVER, DEFAULT_TIMEOUT, Client

_WATCH_SECONDS = 2.0

Command = TypeVar("Command", bound=Callable[..., Any])


def client_options(command: Command) -> Command:
    """Add the connection options. The command gets a `client` instead."""

    @functools.wraps(command)
    def with_client(
        *args: Any, bootstrap_server: str, command_config: Path | None, timeout: float, **kwargs: Any
    ) -> Any:
        client = make_client(bootstrap_server, command_config, timeout)
        try:
            return command(*args, client=client, **kwargs)
        finally:
            # A socket's finalizer would swallow a Ctrl-C.
            client.close()

    decorated: Any = with_client
    for option in (
        seconds_option("--timeout", default=DEFAULT_TIMEOUT, help="Time to wait for the broker's answer."),
        file_option(
            "--command-config",
            envvar="OTTLA_COMMAND_CONFIG",
            show_envvar=True,
            help="Client properties: security.protocol, sasl.mechanism, …",
        ),
        bootstrap_server_option,
    ):
        decorated = option(decorated)
    return decorated  # type: ignore[no-any-return]


def make_client(bootstrap_server: str, command_config: Path | None, timeout: float) -> Client:
    """The file may name the brokers, but --bootstrap-server takes precedence."""
    from ottla.cli.properties import read_client_properties

    properties = read_client_properties(command_config) if command_config else {}
    named = properties.pop("bootstrap.servers", None)
    if named and bootstrap_server == DEFAULT_BOOTSTRAP_SERVER:
        bootstrap_server = named
    return Client(bootstrap_server, properties, timeout)


DEFAULT_REGISTRY_URL = "http://localhost:8081"


def schema_registry_options(command: Command) -> Command:
    """Add the options for the schema registry. The command gets its properties as `schema_registry`."""

    @functools.wraps(command)
    def with_registry(
        *args: Any, schema_registry: str, schema_registry_user: str | None, **kwargs: Any
    ) -> Any:
        properties = {"schema.registry.url": schema_registry}
        if schema_registry_user:
            properties["schema.registry.basic.auth.user.info"] = schema_registry_user
        return command(*args, schema_registry=properties, **kwargs)

    decorated: Any = with_registry
    for option in (
        click.option(
            "--schema-registry-user",
            metavar="NAME:PASSWORD",
            envvar="OTTLA_SCHEMA_REGISTRY_USER",
            show_envvar=True,
            help="User and password for the registry.",
        ),
        click.option(
            "--schema-registry",
            metavar="URL",
            envvar="OTTLA_SCHEMA_REGISTRY_URL",
            show_envvar=True,
            default=DEFAULT_REGISTRY_URL,
            show_default=True,
            help="URL of the schema registry.",
        ),
    ):
        decorated = option(decorated)
    return decorated  # type: ignore[no-any-return]


def json_option(help_text: str = "Print JSON instead of a table.") -> Callable[[Command], Command]:
    return click.option("--json", "as_json", is_flag=True, help=help_text)


def watch_option(command: Command) -> Command:
    """Apply it outermost, so that every refresh uses a new client and sees new brokers."""

    @functools.wraps(command)
    def watching(*args: Any, watch: bool, **kwargs: Any) -> None:
        import sys
        import time

        if not watch:
            command(*args, **kwargs)
            return
        try:
            while True:
                if sys.stdout.isatty():
                    click.clear()
                command(*args, **kwargs)
                sys.stdout.flush()
                time.sleep(_WATCH_SECONDS)
        except KeyboardInterrupt:
            return

    described = click.option("--watch", "-w", is_flag=True, help="Refresh until Ctrl-C.")
    return described(watching)  # type: ignore[return-value]


def yes_option(command: Command) -> Command:
    return click.option("--yes", "-y", is_flag=True, help="Do not ask for confirmation.")(command)


def confirm_or_exit(question: str, yes: bool) -> None:
    """Ask for confirmation; refuse without a terminal."""
    import sys

    from ottla.cli.errors import JobError

    if yes:
        return
    if not sys.stdin.isatty():
        raise JobError("This needs a confirmation. Pass --yes to skip it.")
    if not click.confirm(question, err=True):
        raise JobError("Nothing was changed.")


def key_value_pairs(
    _context: click.Context, parameter: click.Parameter, values: tuple[str, ...]
) -> dict[str, str]:
    pairs: dict[str, str] = {}
    for text in values:
        key, separator, value = text.partition("=")
        if not separator or not key.strip():
            raise click.BadParameter(f"'{text}' is not of the form key=value", param=parameter)
        pairs[key.strip()] = value
    return pairs


# The largest numbers that fit into Kafka's requests, of partitions and of offsets.
MOST_PARTITIONS = (1 << 31) - 1
MOST_OFFSETS = (1 << 63) - 1


def count_option(
    *names: str, at_least: int = 1, at_most: int = MOST_PARTITIONS, **settings: Any
) -> Callable[[Command], Command]:
    return click.option(*names, type=click.IntRange(at_least, at_most), metavar="N", **settings)


def seconds_option(*names: str, **settings: Any) -> Callable[[Command], Command]:
    kind = click.FloatRange(min=0.1)
    return click.option(*names, type=kind, metavar="SECONDS", show_default=True, **settings)


def file_option(*names: str, **settings: Any) -> Callable[[Command], Command]:
    return click.option(*names, type=click.Path(dir_okay=False, path_type=Path), metavar="FILE", **settings)


def directory_option(*names: str, **settings: Any) -> Callable[[Command], Command]:
    return click.option(*names, type=click.Path(file_okay=False, path_type=Path), metavar="DIR", **settings)


def pairs_option(*names: str, **settings: Any) -> Callable[[Command], Command]:
    """May be repeated; the command gets a dict."""
    return click.option(*names, multiple=True, callback=key_value_pairs, metavar="KEY=VALUE", **settings)


spark_settings_option = pairs_option("--conf", "conf", help="Spark setting. May be repeated.")

bootstrap_server_option = click.option(
    "--bootstrap-server",
    "-b",
    envvar="OTTLA_BOOTSTRAP_SERVER",
    show_envvar=True,
    default=DEFAULT_BOOTSTRAP_SERVER,
    show_default=True,
    metavar="HOST:PORT[,…]",
    help="Brokers of the cluster.",
)

command_config_option = file_option(
    "--command-config",
    envvar="OTTLA_COMMAND_CONFIG",
    show_envvar=True,
    help="Client properties for a secured cluster.",
)

raw_property_option = pairs_option(
    "--property",
    "-X",
    "raw_properties",
    help="Setting of the client library (librdkafka). May be repeated.",
)
