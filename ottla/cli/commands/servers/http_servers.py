"""Shared parts of the HTTP server commands: options, running until Ctrl-C, starting from a file."""

from __future__ import annotations

import functools
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import click

from ottla.cli.client import DEFAULT_BOOTSTRAP_SERVER
from ottla.cli.commands.servers.start import http_listener, log_format_option
from ottla.cli.errors import JobError
from ottla.cli.options import bootstrap_server_option, command_config_option, file_option, pairs_option
from ottla.cli.signals import end_at_once, ending_signals

if TYPE_CHECKING:
    import asyncio


class Server(Protocol):
    async def start(self) -> None: ...

    async def stop(self) -> None: ...

    @property
    def urls(self) -> Sequence[str]: ...


def takes_properties(
    file: str,
    product: str,
    *,
    default_listen: str,
    port: int,
    bootstrap_name: str = "bootstrap.servers",
    for_clients: Callable[[Mapping[str, str]], Mapping[str, str]],
    defaults: Mapping[str, str] | None = None,
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Add the options for address, cluster, settings and logging, in this order.

    The command gets the server's settings as `properties`, and `quiet` and `log_format`. `for_clients` names the
    properties of --command-config as the server does. `defaults` hold if there is no `file`.
    """
    options = (
        click.option(
            "--listen",
            "-l",
            metavar="HOST:PORT",
            help=f"Address to listen on. Port 0 picks a free port. [default: {default_listen}]",
        ),
        bootstrap_server_option,
        command_config_option,
        file_option(
            "--config",
            "-c",
            "config_file",
            help=f"{product}'s {file}. Other options override it.",
        ),
        pairs_option("--set", "-s", "settings", help=f"Setting of {file}. May be repeated."),
        click.option("--quiet", "-q", is_flag=True, help="Print nothing but warnings and errors."),
        log_format_option,
    )

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(command)
        def with_properties(
            listen: str | None,
            bootstrap_server: str,
            command_config: Path | None,
            config_file: Path | None,
            settings: Mapping[str, str],
            **logging: Any,
        ) -> None:
            properties = file_properties(config_file) if config_file is not None else dict(defaults or {})
            if command_config is not None:
                properties |= for_clients(file_properties(command_config))
            if bootstrap_server != DEFAULT_BOOTSTRAP_SERVER or bootstrap_name not in properties:
                properties[bootstrap_name] = bootstrap_server
            if listen is not None or "listeners" not in properties:
                properties["listeners"] = http_listener(listen or default_listen, port)
            command({**properties, **settings}, **logging)

        decorated: Callable[..., None] = with_properties
        for option in reversed(options):
            decorated = option(decorated)
        return decorated

    return decorate


#: For servers of metrics, which have no file of settings.
allowed_hosts_option = click.option(
    "--allowed-host",
    "allowed_hosts",
    multiple=True,
    metavar="NAME",
    help="Accept requests for this host name as well; '*' is any name. May be repeated.",
)


def serve_until_stopped(
    make: Callable[[], Server],
    *,
    name: str,
    about: Mapping[str, str],
    example: str,
    sentences: Callable[[], AbstractContextManager[None]],
    quiet: bool,
) -> None:
    """Run a server until Ctrl-C or SIGTERM. `name` is as in "The schema registry is ready.".

    `about` is shown below the addresses; `example` is a command to try, with {url} in it. `sentences` turns start-up
    errors into one sentence.
    """
    import asyncio

    import uvloop

    async def run() -> None:
        stopping = asyncio.Event()
        loop = asyncio.get_running_loop()
        for number in ending_signals():
            loop.add_signal_handler(number, stopping.set)
        with sentences():
            server = make()
            await _unless_stopped(server.start(), stopping)
        if not quiet:
            _announce(server, name, about, example)
        try:
            await stopping.wait()
        finally:
            await server.stop()
        if not quiet:
            click.echo("Stopped cleanly.")

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(run())


async def _unless_stopped(start: Awaitable[None], stopping: asyncio.Event) -> None:
    """Wait for the start. A signal before its end ends the process: the start of Spark cannot be interrupted."""
    import asyncio

    starting, asked = asyncio.ensure_future(start), asyncio.ensure_future(stopping.wait())
    await asyncio.wait((starting, asked), return_when=asyncio.FIRST_COMPLETED)
    if not starting.done():
        click.echo("Stopping…", err=True)
        end_at_once(130)
    asked.cancel()
    await starting


def configure_log(quiet: bool, log_format: str) -> None:
    from ottla.broker.lifecycle import server_log

    server_log.configure("warning" if quiet else "info", sys.stderr, log_format)


def _announce(server: Server, name: str, about: Mapping[str, str], example: str) -> None:
    click.secho(f"The {name} is ready.", fg="green", bold=True)
    shown = {"Listening": click.style(", ".join(server.urls), fg="cyan"), **about}
    for label, text in shown.items():
        click.echo(click.style(f"{label:<10}", dim=True) + text)
    click.echo("\nTry in another terminal:")
    click.secho(f"  {example.format(url=server.urls[0])}\n", bold=True)
    click.echo(f"Ctrl-C stops the {name.split()[-1]}.")
    sys.stdout.flush()


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
    """Services beside a secured broker have no TLS, so they must listen on the loopback interface."""
    host = listen.rpartition(":")[0] or ("127.0.0.1" if listen.isdecimal() else listen)
    if host not in ("127.0.0.1", "localhost", "[::1]"):
        raise JobError(
            f"Beside a secured broker {option} listens on this machine only: give it an address such as "
            f"127.0.0.1:PORT, or run '{alone}' with an https listener and authentication.method."
        )


def cannot_listen(where: str, error: OSError, option: str = "--listen") -> JobError:
    return JobError(
        f"Cannot listen on {where}: {error.strerror or error}. Choose another address with {option} HOST:PORT."
    )


def start_tool(
    name: str, properties: str, what: str, output: str, serve: Callable[[Mapping[str, str]], None]
) -> None:
    """`schema-registry-start [-daemon] schema-registry.properties` and its like. `what` is as in "schema registry"."""
    from ottla.cli.kafka import tool

    @tool.entry_point()
    def run(argv: list[str]) -> int | None:
        parser = tool.Parser(
            name, f"Run a {what} from a {properties}.", without_any=f"USAGE: {name} [-daemon] {properties}"
        )
        parser.add_argument("-daemon", action="store_true", help="run in the background")
        parser.add_argument(
            "properties", type=Path, metavar=properties, help=f"the settings of the {what.split()[-1]}"
        )
        args = parser.parse_args(argv)
        if not args.properties.is_file():
            raise JobError(f"There is no file {args.properties}: name the {properties}.")
        if args.daemon:
            from ottla.cli.kafka.servers.start_stop import run_in_background

            return run_in_background(argv, output, "is ready.")
        serve(file_properties(args.properties))
        return 0

    run()
