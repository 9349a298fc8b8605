"""`ottla start`"""

from __future__ import annotations

import gc
import os
import shlex
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

import click

from ottla.cli import output
from ottla.cli.commands.servers.beside import ServersBeside
from ottla.cli.errors import JobError
from ottla.cli.jobs.secured_data import private_files
from ottla.cli.notify import notify
from ottla.cli.options import directory_option, file_option, pairs_option
from ottla.cli.signals import end_at_once, ending_signals

if TYPE_CHECKING:
    from ottla.broker.lifecycle.server import Server
    from ottla.cli.commands.servers.secure_start import SecureStart

    Hook = Callable[[Server], None] | None

DEFAULT_LISTEN = "127.0.0.1:9092"
DEFAULT_DATA = Path("ottla-data")
DEFAULT_REGISTRY_LISTEN = "127.0.0.1:8081"
DEFAULT_REST_LISTEN = "127.0.0.1:8082"
DEFAULT_CONNECT_LISTEN = "127.0.0.1:8083"
DEFAULT_METRICS_LISTEN = "127.0.0.1:9404"
DEFAULT_CONSOLE_LISTEN = "127.0.0.1:8080"

DEFAULT_TABLES = "ottla-tables"

_LOG_LEVELS = ("debug", "info", "warning", "error")
LOG_FORMATS = ("text", "json")
LOG_FORMAT_VARIABLE = "OTTLA_LOG_FORMAT"

log_format_option = click.option(
    "--log-format",
    type=click.Choice(LOG_FORMATS, case_sensitive=False),
    default="text",
    show_default=True,
    envvar=LOG_FORMAT_VARIABLE,
    show_envvar=True,
    help="Log format: lines like Kafka's, or one JSON object per line.",
)


def _beside_option(
    name: str, default: str, text: str
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Option for a service beside the broker. Without a value the service uses its default address."""
    return click.option(
        name, metavar="[HOST:PORT]", is_flag=False, flag_value=default, help=f"{text} [default: {default}]"
    )


@click.command(short_help="Start a broker.")
@click.option(
    "--listen",
    "-l",
    metavar="HOST:PORT",
    help=f"Address to listen on. Port 0 picks a free port. [default: {DEFAULT_LISTEN}]",
)
@directory_option("--data", "-d", help=f"Data directory. [default: ./{DEFAULT_DATA}]")
@file_option(
    "--config",
    "-c",
    "config_file",
    help="Kafka's server.properties. Other options override it.",
)
@pairs_option("--set", "-s", "settings", help="Setting of server.properties. May be repeated.")
@click.option(
    "--env",
    "from_environment",
    is_flag=True,
    help="Read settings from KAFKA_… and OTTLA_… variables, as Kafka's container images do.",
)
@click.option(
    "--brokers",
    type=click.IntRange(1),
    metavar="N",
    help="Start ZooKeeper and a cluster of N brokers on PORT, PORT+1, …, one process each.",
)
@click.option(
    "--secure/--insecure",
    default=None,
    help=(
        "Require TLS, logins and ACLs. The first start creates certificates and an admin, and "
        "prints the admin's password."
    ),
)
@file_option("--certificate", help="With --secure: certificate and chain (PEM).")
@file_option("--key", help="Private key (PEM). [default: in the certificate file]")
@file_option("--ca", help="CA certificates (PEM) for the client files.")
@_beside_option("--registry", DEFAULT_REGISTRY_LISTEN, "Run a schema registry.")
@_beside_option("--rest", DEFAULT_REST_LISTEN, "Run a REST proxy.")
@_beside_option("--connect", DEFAULT_CONNECT_LISTEN, "Run a Connect worker, which starts Spark.")
@click.option(
    "--connect-files",
    multiple=True,
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Allow connectors to use files below this directory. May be repeated. [default: no local files]",
)
@click.option(
    "--tables",
    metavar="[DIR]",
    is_flag=False,
    flag_value=DEFAULT_TABLES,
    help=f"Keep topics as tables below this directory, which starts Spark. [default: {DEFAULT_TABLES}]",
)
@_beside_option(
    "--metrics",
    DEFAULT_METRICS_LISTEN,
    "Show metrics to Prometheus at /metrics; with --brokers on PORT, PORT+1, …",
)
@click.option(
    "--otlp",
    metavar="URL",
    help="Push metrics to an OpenTelemetry collector, such as http://localhost:4318.",
)
@_beside_option("--console", DEFAULT_CONSOLE_LISTEN, "Run the console in the browser.")
@click.option("--all", "everything", is_flag=True, help="Run all services except --connect and --tables.")
@click.option("--quiet", "-q", is_flag=True, help="Print nothing but warnings and errors.")
@click.option(
    "--log-level",
    type=click.Choice(_LOG_LEVELS, case_sensitive=False),
    help="Log level. [default: warning; with --brokers info, in files]",
)
@log_format_option
@file_option("--secured-by", hidden=True)
@file_option("--initial-users", hidden=True)
def start(**options: Any) -> None:
    """Start a broker, or with --brokers a cluster. No setup is needed; Ctrl-C stops it cleanly.

    \b
    Examples:
      ottla start
      ottla start --listen 0.0.0.0:9092 --data /var/lib/ottla
      ottla start --config server.properties --set log.retention.hours=24
      ottla start --brokers 3
      ottla start --all
      ottla start --secure --listen 0.0.0.0:9093
    """
    given = StartOptions(**options)
    secured = _secure(given)
    settings = _service_settings(given, secured)
    beside = ServersBeside(
        given.registry,
        given.rest,
        given.console,
        secured,
        given.connect,
        given.connect_files,
        given.tables,
    )
    if given.brokers is None:
        _start_broker(given, settings, secured, beside)
    else:
        _start_cluster(given.brokers, given, settings, secured, beside)
    if not given.quiet:
        click.echo("\rStopped cleanly." if sys.stdout.isatty() else "Stopped cleanly.")


@dataclass
class StartOptions:
    """What the user gave to `ottla start`. `--all` is replaced by the services it stands for."""

    listen: str | None
    data: Path | None
    config_file: Path | None
    settings: dict[str, str]
    from_environment: bool
    brokers: int | None
    secure: bool | None
    certificate: Path | None
    key: Path | None
    ca: Path | None
    registry: str | None
    rest: str | None
    connect: str | None
    connect_files: tuple[Path, ...]
    tables: str | None
    metrics: str | None
    otlp: str | None
    console: str | None
    everything: bool
    quiet: bool
    log_level: str | None
    log_format: str
    secured_by: Path | None
    initial_users: Path | None

    def __post_init__(self) -> None:
        if self.everything:
            self.registry = self.registry or DEFAULT_REGISTRY_LISTEN
            self.rest = self.rest or DEFAULT_REST_LISTEN
            self.console = self.console or DEFAULT_CONSOLE_LISTEN
        if self.from_environment:
            self.settings = {**self._environment(), **self.settings}

    def _environment(self) -> dict[str, str]:
        """Return the settings in the environment, except those that options replace."""
        from ottla.broker.configuration import ConfigError
        from ottla.broker.environment import settings_from_environment

        if self.brokers is not None:
            raise click.UsageError("--env is for one broker, and --brokers starts several: leave one out.")
        try:
            found = settings_from_environment(os.environ)
        except ConfigError as error:
            raise JobError(str(error)) from None
        replaced = [] if self.listen is None else ["listeners", "advertised.listeners"]
        replaced += [] if self.data is None else ["log.dirs", "log.dir"]
        return {name: value for name, value in found.items() if name not in replaced}

    @property
    def address(self) -> str:
        return parse_listen(self.listen or DEFAULT_LISTEN)


def _secure(given: StartOptions) -> SecureStart | None:
    """Prepare certificates and users for --secure. Without it, refuse to open data that was secured before."""
    from ottla.cli.commands.servers import secure_start

    files = secure_start.Given(given.certificate, given.key, given.ca)
    if not given.secure:
        unless = given.secure is False or (given.data is None and given.config_file is not None)
        secure_start.refuse_to_open(given.data or DEFAULT_DATA, files, unless=unless)
        return None
    known = {**secure_start.settings_of(given.config_file), **given.settings}
    directories = [given.data] if given.data is not None else secure_start.data_of(known) or [DEFAULT_DATA]
    click.get_current_context().with_resource(private_files())
    secured = secure_start.SecureStart(directories, given.address, known, files, given.brokers or 0)
    for each in secured.closed:
        output.warn(f"Other users could open {_relative(each)} until now: only its owner can from now on.")
    if given.registry is not None:
        secured.log_in_to_registry()
    return secured


def _service_settings(given: StartOptions, secured: SecureStart | None) -> dict[str, str]:
    """Return the broker's settings with those that the services beside it need. The user's settings win."""
    settings: dict[str, str] = {}
    if given.otlp is not None:
        settings["metrics.otlp.endpoint"] = given.otlp
    if given.metrics is not None:
        settings |= _metrics_settings(given.metrics)
        if secured is not None:
            settings["metrics.authentication.method"] = "KAFKA"
    if given.registry is not None and not http_listener(given.registry, 8081).endswith(":0"):
        # So that topics can ask for schemas (confluent.value.schema.validation) without another setting.
        settings["confluent.schema.registry.url"] = _reachable_url(http_listener(given.registry, 8081))
    return settings | given.settings


def _start_broker(
    given: StartOptions, settings: dict[str, str], secured: SecureStart | None, beside: ServersBeside
) -> None:
    from ottla.cli.commands.servers import secure_start

    protocol = "SASL_SSL" if secured or given.secured_by else "PLAINTEXT"
    with_file = given.config_file is not None
    overrides = broker_settings(given.listen, given.data, settings, with_file=with_file, protocol=protocol)
    if secured is not None:
        listeners = settings.get("listeners", f"{protocol}://{given.address}")
        overrides = {**secured.settings, **overrides, "listeners": listeners}
    if given.secured_by is not None:
        overrides = {**secure_start.read_settings(given.secured_by), **overrides}

    def announce(server: Server) -> None:
        if not given.quiet:
            _print_welcome(server, secured, beside.urls)

    def prepare(server: Server) -> None:
        if secured is not None:
            secured.write_clients(list(server.listen_addresses))
        beside.start(list(server.listen_addresses))

    serve(
        given.config_file,
        overrides,
        announce=announce,
        prepare=prepare,
        finish=beside.stop,
        log_level=given.log_level or "warning",
        log_format=given.log_format,
        initial_users=secured.users if secured else secure_start.read_users(given.initial_users),
    )


def _start_cluster(
    brokers: int,
    given: StartOptions,
    settings: dict[str, str],
    secured: SecureStart | None,
    beside: ServersBeside,
) -> None:
    from ottla.cli.commands.servers.local_cluster import LocalCluster, run_cluster

    def announce(cluster: LocalCluster) -> None:
        if secured is not None:
            secured.write_clients(cluster.addresses)
        beside.start(cluster.addresses)
        if not given.quiet:
            more = {**beside.urls, **_shown_metrics(cluster.metrics_urls)}
            _print_cluster_welcome(cluster.addresses, cluster.zookeeper, cluster.data, secured, more)

    options = ["--log-level", given.log_level or "info", "--log-format", given.log_format]
    if given.config_file is not None:
        options += ["--config", str(given.config_file)]
    directory = (given.data or DEFAULT_DATA).absolute()
    if secured is None:
        run_cluster(
            brokers, given.address, directory, settings, options, announce=announce, finish=beside.stop
        )
        return
    with secured.options_of_brokers() as more:
        run_cluster(
            brokers,
            given.address,
            directory,
            {**secured.settings, **settings},
            [*options, *more],
            announce=announce,
            finish=beside.stop,
            protection=secured.protect_zookeeper(),
        )


def serve(
    config_file: Path | None,
    overrides: dict[str, str],
    *,
    announce: Callable[[Server], None] | None,
    prepare: Callable[[Server], None] | None = None,
    finish: Callable[[], None] | None = None,
    log_level: str = "warning",
    log_format: str = "text",
    log_to: TextIO | None = None,
    listen_elsewhere: str = "with --listen HOST:PORT",
    initial_users: Mapping[str, Mapping[str, str]] | None = None,
) -> None:
    """Run a broker until Ctrl-C or SIGTERM; `announce` is called when it is ready. It logs to stderr, or `log_to`.

    `listen_elsewhere` is the option of the user's command for another port. `initial_users` are stored before anybody
    can log in, with their credentials by mechanism. `prepare` runs in a thread before `announce` and may use the
    broker; `finish` runs in one before the broker stops.
    """
    import asyncio

    import uvloop

    from ottla.broker.lifecycle import server_log

    server_log.configure(log_level, log_to or sys.stderr, log_format)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        hooks = (prepare, announce, finish)
        runner.run(_serve(config_file, overrides, hooks, listen_elsewhere, initial_users or {}))


def broker_settings(
    listen: str | None,
    data: Path | None,
    settings: dict[str, str],
    *,
    with_file: bool,
    protocol: str = "PLAINTEXT",
) -> dict[str, str]:
    """Return the options as broker settings. Ottla's own defaults apply only without a settings file."""
    overrides: dict[str, str] = {}
    if listen is not None or not with_file:
        overrides["listeners"] = f"{protocol}://{parse_listen(listen or DEFAULT_LISTEN)}"
    if data is not None or not with_file:
        overrides["log.dirs"] = str((data or DEFAULT_DATA).absolute())
    return {**overrides, **settings}


def parse_listen(text: str) -> str:
    """Parse HOST:PORT. PORT alone is on the loopback interface, :PORT on every interface; IPv6 is [ADDRESS]:PORT."""
    host, separator, port = text.rpartition(":")
    if not separator:
        host, port = ("127.0.0.1", text) if text.isdecimal() else (text, "9092")
    if not port.isdecimal() or int(port) > 65535 or (":" in host and not host.startswith("[")):
        raise click.UsageError(f"'{text}' is not an address: write HOST:PORT, for example {DEFAULT_LISTEN}.")
    return f"{host}:{port}"


def http_listener(text: str, port: int) -> str:
    """Return the URL of an HTTP server. A host without a port gets the service's default port."""
    has_port = text.isdecimal() or text.rpartition(":")[2].isdecimal()
    return f"http://{parse_listen(text if has_port else f'{text}:{port}')}"


def _metrics_settings(text: str) -> dict[str, str]:
    has_port = text.isdecimal() or text.rpartition(":")[2].isdecimal()
    host, _, port = parse_listen(text if has_port else f"{text}:9404").rpartition(":")
    return {"metrics.host": host.strip("[]"), "metrics.port": port}


def _shown_metrics(urls: list[str]) -> dict[str, str]:
    return {"Metrics": ", ".join(urls)} if urls else {}


def _reachable_url(url: str) -> str:
    return url.replace("//0.0.0.0:", "//localhost:").replace("//[::]:", "//localhost:")


async def _serve(
    config_file: Path | None,
    overrides: dict[str, str],
    hooks: tuple[Hook, Hook, Callable[[], None] | None],
    listen_elsewhere: str,
    initial_users: Mapping[str, Mapping[str, str]],
) -> None:
    import asyncio

    from ottla.broker.lifecycle.server import PortTaken, Server, StartupError

    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()

    heeded = ending_signals()

    def stop() -> None:
        stopping.set()
        for number in heeded:
            loop.remove_signal_handler(number)  # a second signal kills

    for number in heeded:
        loop.add_signal_handler(number, stop)
    try:
        server = Server.from_options(config_file, overrides)
        server.initial_users = initial_users
        await server.start()
    except PortTaken as error:
        raise JobError(f"{error} {listen_elsewhere}.") from None
    except StartupError as error:
        raise JobError(f"{str(error).rstrip('.')}.") from None
    _spare_the_collector()
    prepare, announce, finish = hooks
    try:
        if prepare is not None:
            preparing = asyncio.ensure_future(asyncio.to_thread(prepare, server))
            asked = asyncio.ensure_future(stopping.wait())
            await asyncio.wait((preparing, asked), return_when=asyncio.FIRST_COMPLETED)
            if not preparing.done():
                click.echo("Stopping…", err=True)
                await server.stop()
                end_at_once(0)  # the start of Spark cannot be interrupted
            asked.cancel()
            await preparing
        if announce is not None:
            announce(server)
        notify("READY=1")
        asked = asyncio.ensure_future(stopping.wait())
        failed = asyncio.ensure_future(server.failed())
        await asyncio.wait((asked, failed), return_when=asyncio.FIRST_COMPLETED)
    finally:
        notify("STOPPING=1")
        with _bounded_stop(server.shutdown_seconds):
            if finish is not None:
                await asyncio.to_thread(finish)
            await server.stop()
    if failed.done():
        raise JobError(failed.result())
    failed.cancel()


@contextmanager
def _bounded_stop(seconds: float) -> Iterator[None]:
    """End the process if the shutdown hangs, for example in a disk that no longer answers.

    Acknowledged records are safe: they are with the operating system, and the next start checks the logs.
    """

    def give_up() -> None:
        click.echo(
            f"Error: The broker has not stopped in {seconds:g} s (ottla.shutdown.timeout.ms) and ends now. The next "
            "start checks its logs.",
            err=True,
        )
        end_at_once(1)

    timer = threading.Timer(seconds, give_up)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _spare_the_collector() -> None:
    """Exclude the existing objects from garbage collection: they live until the end, and pauses stay short."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 50)


def _print_welcome(server: Server, secured: SecureStart | None, beside: Mapping[str, str]) -> None:
    addresses = list(server.listen_addresses)
    directories = [_relative(Path(directory)) for directory in server.data_dirs]
    _say_ready(addresses, secured)
    _line("Data", ", ".join(directories))
    _print_beside({**beside, **_shown_metrics([] if server.metrics_url is None else [server.metrics_url])})
    _print_what_to_try(addresses, "Ctrl-C stops the broker.", secured)


def _print_cluster_welcome(
    addresses: list[str], zookeeper: str, data: Path, secured: SecureStart | None, beside: Mapping[str, str]
) -> None:
    _say_ready(addresses, secured)
    _line("ZooKeeper", zookeeper)
    _line("Data", _relative(data))
    _print_beside(beside)
    _print_what_to_try(addresses, "Ctrl-C stops the cluster.", secured)


def _say_ready(addresses: list[str], secured: SecureStart | None) -> None:
    click.secho("Ottla is ready.", fg="green", bold=True)
    how = " (SASL_SSL)" if secured else ""
    _line("Listening", click.style(", ".join(addresses), fg="cyan") + how)


def _print_beside(urls: Mapping[str, str]) -> None:
    for name, url in urls.items():
        _line(name, click.style(url, fg="cyan"))


def _line(label: str, text: str) -> None:
    click.echo(click.style(label.ljust(10), dim=True) + text)


def _print_what_to_try(addresses: list[str], farewell: str, secured: SecureStart | None) -> None:
    # The client commands know the default address.
    server_option = "" if secured or _is_default(addresses) else f" -b {_reachable(addresses[0])}"
    if secured is not None:
        files = (_relative(each) for each in (secured.data.client, secured.data.java_client))
        _line("Clients", " and ".join(files))
        if secured.password:
            _line(
                "Admin", f"admin, password {click.style(secured.password, bold=True)} (it is not shown again)"
            )
    click.echo("\nTry in another terminal:")
    commands = [
        f"echo hello | ottla produce greetings{server_option}",
        f"ottla consume greetings --from-beginning{server_option}",
        f"ottla topics list{server_option}",
    ]
    if secured is not None:
        commands.insert(0, f"export OTTLA_COMMAND_CONFIG={shlex.quote(str(secured.data.client))}")
        commands[3:] = ["ottla users add ann", "ottla acls add ann --read greetings --group '*'"]
    for command in commands:
        click.echo("  " + click.style(command, bold=True))
    click.echo(f"\n{farewell}")
    sys.stdout.flush()


def _is_default(addresses: list[str]) -> bool:
    return any(address in (DEFAULT_LISTEN, "localhost:9092", "0.0.0.0:9092") for address in addresses)


def _reachable(address: str) -> str:
    """Return an address to connect to, instead of a wildcard such as 0.0.0.0."""
    host, _, port = address.rpartition(":")
    return f"localhost:{port}" if host in ("", "0.0.0.0", "[::]", "::") else address


def _relative(directory: Path) -> str:
    try:
        return f"./{directory.absolute().relative_to(Path.cwd())}"
    except ValueError:
        return str(directory)
