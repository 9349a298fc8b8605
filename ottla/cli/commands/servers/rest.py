"""`ottla rest` and `kafka-rest-start`"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ottla.cli.client import DEFAULT_BOOTSTRAP_SERVER
from ottla.cli.commands.servers.registry import check_loopback, file_properties
from ottla.cli.commands.servers.start import DEFAULT_REST_LISTEN, http_listener, log_format_option
from ottla.cli.errors import JobError
from ottla.cli.options import bootstrap_server_option, file_option, pairs_option
from ottla.cli.signals import ending_signals

if TYPE_CHECKING:
    from ottla.http.background import InBackground
    from ottla.rest.settings import RestSettings


@click.group(short_help="Run the REST proxy.")
def rest() -> None:
    """Run the REST proxy: Kafka over HTTP, with Confluent's paths, for any Kafka cluster.

    `ottla start --rest` runs one beside a broker.
    """


@rest.command(short_help="Start a REST proxy.")
@click.option(
    "--listen",
    "-l",
    metavar="HOST:PORT",
    help=f"Where to listen; port 0 takes a free one. [default: {DEFAULT_REST_LISTEN}]",
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
    help="A kafka-rest.properties as Confluent's proxy knows it. The other options win over it.",
)
@pairs_option("--set", "-s", "settings", help="A setting as in kafka-rest.properties. May be repeated.")
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
    """Start a REST proxy; Ctrl-C stops it.

    \b
    Examples:
      ottla rest start
      ottla rest start --bootstrap-server kafka1:9092 --listen 0.0.0.0:8082
      ottla rest start --config kafka-rest.properties
    """
    properties = file_properties(config_file)
    if command_config is not None:
        properties |= {f"client.{name}": value for name, value in file_properties(command_config).items()}
    if bootstrap_server != DEFAULT_BOOTSTRAP_SERVER or "bootstrap.servers" not in properties:
        properties["bootstrap.servers"] = bootstrap_server
    if listen is not None or "listeners" not in properties:
        properties["listeners"] = http_listener(listen or DEFAULT_REST_LISTEN, 8082)
    serve({**properties, **settings}, quiet=quiet, log_format=log_format)


def read_settings(properties: Mapping[str, str]) -> RestSettings:
    from importlib.util import find_spec

    if find_spec("httptools") is None or find_spec("aiokafka") is None:
        raise JobError("The REST proxy needs packages that are not installed: pip install 'ottla[rest]'.")
    from ottla.client.errors import ClientError
    from ottla.rest.settings import BadSettings, RestSettings

    try:
        settings = RestSettings.parse(properties)
        _ = settings.cluster  # what is wrong with it is found now, and not with the first request
    except BadSettings as error:
        raise JobError(str(error)) from None
    except ClientError as error:
        raise JobError(error.message) from None
    return settings


def serve(properties: Mapping[str, str], *, quiet: bool = False, log_format: str = "text") -> None:
    """Run a proxy until Ctrl-C or SIGTERM."""
    import asyncio

    import uvloop

    from ottla.broker.lifecycle import server_log

    server_log.configure("warning" if quiet else "info", sys.stderr, log_format)
    settings = read_settings(properties)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_serve(settings, quiet=quiet))


async def _serve(settings: RestSettings, *, quiet: bool) -> None:
    import asyncio

    from ottla.rest.server import RestProxy

    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in ending_signals():
        loop.add_signal_handler(number, stopping.set)
    with _sentences(settings):
        proxy = RestProxy(settings)
        await proxy.start()
    if not quiet:
        click.secho("The REST proxy is ready.", fg="green", bold=True)
        click.echo(click.style("Listening ", dim=True) + click.style(", ".join(proxy.urls), fg="cyan"))
        click.echo(click.style("Cluster   ", dim=True) + settings.cluster.servers)
        click.echo("\nTry in another terminal:")
        click.secho(f"  curl {proxy.urls[0]}/topics\n", bold=True)
        click.echo("Ctrl-C stops the proxy.")
        sys.stdout.flush()
    try:
        await stopping.wait()
    finally:
        await proxy.stop()
    if not quiet:
        click.echo("Stopped cleanly.")


def start_beside(
    listen: str, brokers: Sequence[str], client_file: Path | None, registry: str | None
) -> InBackground:
    """A proxy in this process, for the brokers that were just started.

    Of the admin's `client_file` it takes how to reach secured brokers, and not the login: each user logs in as himself.
    """
    from ottla.http.background import InBackground
    from ottla.rest.server import RestProxy

    if client_file is not None:
        check_loopback(listen, "--rest", "ottla rest start")
    properties = {
        f"client.{name}": value
        for name, value in file_properties(client_file).items()
        if name not in ("sasl.username", "sasl.password")
    }
    properties |= {"bootstrap.servers": ",".join(brokers), "listeners": http_listener(listen, 8082)}
    if client_file is not None:
        properties["authentication.method"] = "PROPAGATE"
    if registry is not None:
        properties["schema.registry.url"] = registry
    settings = read_settings(properties)
    with _sentences(settings):
        return InBackground(lambda: RestProxy(settings), "rest-proxy").start()


@contextmanager
def _sentences(settings: RestSettings) -> Iterator[None]:
    """What goes wrong at the start, as one sentence."""
    from ottla.http.authentication import BadPasswordFile
    from ottla.http.tls import BadTlsSettings

    try:
        yield
    except (BadPasswordFile, BadTlsSettings) as error:
        raise JobError(str(error)) from None
    except OSError as error:
        raise JobError(
            f"Cannot listen on {settings.host}:{settings.port}: {error.strerror or error}. Choose another address "
            "with --listen HOST:PORT."
        ) from None


def main() -> None:
    """`kafka-rest-start kafka-rest.properties`"""
    from ottla.cli.kafka import tool

    @tool.entry_point()
    def run(argv: list[str]) -> int | None:
        parser = tool.Parser(
            "kafka-rest-start",
            "Run a REST proxy from a kafka-rest.properties.",
            without_any="USAGE: kafka-rest-start [-daemon] kafka-rest.properties",
        )
        parser.add_argument("-daemon", action="store_true", help="run it in the background")
        parser.add_argument(
            "properties", type=Path, metavar="kafka-rest.properties", help="the settings of the proxy"
        )
        args = parser.parse_args(argv)
        if not args.properties.is_file():
            raise JobError(f"There is no file {args.properties}: name the kafka-rest.properties.")
        if args.daemon:
            from ottla.cli.kafka.servers.start_stop import run_in_background

            return run_in_background(argv, "kafkaRest.out", "is ready.")
        serve(file_properties(args.properties))
        return 0

    run()
