"""`ottla registry`, `ottla start --registry` and `schema-registry-start`"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ottla.cli.client import DEFAULT_BOOTSTRAP_SERVER
from ottla.cli.commands.servers.start import DEFAULT_REGISTRY_LISTEN as DEFAULT_LISTEN
from ottla.cli.commands.servers.start import http_listener, log_format_option
from ottla.cli.errors import JobError
from ottla.cli.options import bootstrap_server_option, file_option, pairs_option
from ottla.cli.signals import ending_signals

if TYPE_CHECKING:
    from ottla.http.background import InBackground
    from ottla.registry.settings import RegistrySettings


@click.group(short_help="Run the schema registry.")
def registry() -> None:
    """Run the schema registry: Confluent's API, with its schemas in a topic of any Kafka cluster.

    `ottla start --registry` runs one beside a broker. `ottla schema` works with what it holds.
    """


@registry.command(short_help="Start a registry.")
@click.option(
    "--listen",
    "-l",
    metavar="HOST:PORT",
    help=f"Where to listen; port 0 takes a free one. [default: {DEFAULT_LISTEN}]",
)
@bootstrap_server_option
@file_option(
    "--command-config",
    envvar="OTTLA_COMMAND_CONFIG",
    show_envvar=True,
    help="Client properties, for a cluster that asks for a login.",
)
@file_option(
    "--config",
    "-c",
    "config_file",
    help="A schema-registry.properties as Confluent's registry knows it. The other options win over it.",
)
@pairs_option("--set", "-s", "settings", help="A setting as in schema-registry.properties. May be repeated.")
@click.option("--quiet", "-q", is_flag=True, help="Print nothing but warnings and errors.")
@log_format_option
def start(
    listen: str | None,
    bootstrap_server: str,
    command_config: Path | None,
    config_file: Path | None,
    settings: dict[str, str],
    quiet: bool,
    log_format: str,
) -> None:
    """Start a registry; Ctrl-C stops it. Several of them on one cluster elect who writes.

    \b
    Examples:
      ottla registry start
      ottla registry start --bootstrap-server kafka1:9092 --listen 0.0.0.0:8081
      ottla registry start --config schema-registry.properties
    """
    properties = file_properties(config_file)
    if command_config is not None:
        properties |= client_settings(command_config)
    if bootstrap_server != DEFAULT_BOOTSTRAP_SERVER or "kafkastore.bootstrap.servers" not in properties:
        properties["kafkastore.bootstrap.servers"] = bootstrap_server
    if listen is not None or "listeners" not in properties:
        properties["listeners"] = http_listener(listen or DEFAULT_LISTEN, 8081)
    serve({**properties, **settings}, quiet=quiet, log_format=log_format)


def serve(properties: Mapping[str, str], *, quiet: bool = False, log_format: str = "text") -> None:
    """Run a registry until Ctrl-C or SIGTERM."""
    import asyncio

    import uvloop

    from ottla.broker.lifecycle import server_log

    server_log.configure("warning" if quiet else "info", sys.stderr, log_format)
    settings = read_settings(properties)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_serve(settings, quiet=quiet))


async def _serve(settings: RegistrySettings, *, quiet: bool) -> None:
    import asyncio

    from ottla.registry.server import RegistryServer

    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in ending_signals():
        loop.add_signal_handler(number, stopping.set)
    with _sentences(settings):
        server = RegistryServer(settings)
        await server.start()
    if not quiet:
        click.secho("The schema registry is ready.", fg="green", bold=True)
        click.echo(click.style("Listening ", dim=True) + click.style(", ".join(server.urls), fg="cyan"))
        click.echo(
            click.style("Schemas   ", dim=True) + f"topic {settings.topic} on {settings.client.servers}"
        )
        click.echo("\nTry in another terminal:")
        click.secho(f"  curl {server.urls[0]}/subjects\n", bold=True)
        click.echo("Ctrl-C stops the registry.")
        sys.stdout.flush()
    try:
        await stopping.wait()
    finally:
        await server.stop()
    if not quiet:
        click.echo("Stopped cleanly.")


@contextmanager
def _sentences(settings: RegistrySettings) -> Iterator[None]:
    """What goes wrong at the start, as one sentence."""
    from ottla.client.errors import ClientError
    from ottla.registry.log.topic import UnusableTopic
    from ottla.registry.settings import BadSettings

    try:
        yield
    except (BadSettings, UnusableTopic) as error:
        raise JobError(str(error)) from None
    except ClientError as error:
        raise JobError(error.message) from None
    except TimeoutError:
        raise JobError(
            f"The schemas in topic {settings.topic} could not be read within {settings.init_timeout:g} s: raise "
            "kafkastore.init.timeout.ms if there are many."
        ) from None
    except OSError as error:
        where = ", ".join(f"{each.host}:{each.port}" for each in settings.listeners)
        raise JobError(
            f"Cannot listen on {where}: {error.strerror or error}. Choose another address with --listen HOST:PORT."
        ) from None


def read_settings(properties: Mapping[str, str]) -> RegistrySettings:
    from importlib.util import find_spec

    if find_spec("httptools") is None:
        raise JobError("The registry needs packages that are not installed: pip install 'ottla[registry]'.")
    from ottla.client.errors import ClientError
    from ottla.registry.settings import BadSettings, RegistrySettings

    try:
        return RegistrySettings.from_properties(properties)
    except BadSettings as error:
        raise JobError(str(error)) from None
    except ClientError as error:
        raise JobError(error.message) from None


def client_settings(file: Path) -> dict[str, str]:
    """The client properties in a file, as settings of a registry."""
    return {f"kafkastore.{name}": value for name, value in file_properties(file).items()}


def file_properties(file: Path | None) -> dict[str, str]:
    from ottla.cli.properties import parse_properties

    if file is None:
        return {}
    try:
        return parse_properties(file.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise JobError(f"Cannot read {file}: {reason}.") from None


def check_loopback(listen: str, option: str, alone: str) -> None:
    """What runs beside a secured broker has no TLS of its own, so it must not be reached from elsewhere."""
    host = listen.rpartition(":")[0] or ("127.0.0.1" if listen.isdecimal() else listen)
    if host not in ("127.0.0.1", "localhost", "[::1]"):
        raise JobError(
            f"Beside a secured broker {option} listens on this machine only: give it an address such as "
            f"127.0.0.1:PORT, or run '{alone}' with an https listener and authentication.method."
        )


def start_beside(listen: str, brokers: Sequence[str], client_file: Path | None) -> InBackground:
    """A registry in this process, for the brokers that were just started.

    It would let everybody in who can reach it, with the rights of the admin in `client_file`.
    """
    from ottla.http.background import InBackground
    from ottla.registry.server import RegistryServer

    if client_file is not None:
        check_loopback(listen, "--registry", "ottla registry start")
    properties = {} if client_file is None else client_settings(client_file)
    properties["kafkastore.bootstrap.servers"] = ",".join(brokers)
    properties["listeners"] = http_listener(listen, 8081)
    settings = read_settings(properties)
    with _sentences(settings):
        return InBackground(lambda: RegistryServer(settings), "schema-registry").start()


def main() -> None:
    """`schema-registry-start schema-registry.properties`"""
    from ottla.cli.kafka import tool

    @tool.entry_point()
    def run(argv: list[str]) -> int | None:
        parser = tool.Parser(
            "schema-registry-start",
            "Run a schema registry from a schema-registry.properties.",
            without_any="USAGE: schema-registry-start [-daemon] schema-registry.properties",
        )
        parser.add_argument("-daemon", action="store_true", help="run it in the background")
        parser.add_argument(
            "properties", type=Path, metavar="schema-registry.properties", help="the settings of the registry"
        )
        args = parser.parse_args(argv)
        if not args.properties.is_file():
            raise JobError(f"There is no file {args.properties}: name the schema-registry.properties.")
        if args.daemon:
            from ottla.cli.kafka.servers.start_stop import run_in_background

            return run_in_background(argv, "schemaRegistry.out", "is ready.")
        serve(file_properties(args.properties))
        return 0

    run()
