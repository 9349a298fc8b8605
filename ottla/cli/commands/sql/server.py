"""`ottla sql server`"""

from __future__ import annotations

import logging
import os
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ottla.cli import output
from ottla.cli.client import Client
from ottla.cli.errors import JobError
from ottla.cli.options import (
    client_options,
    file_option,
    pairs_option,
    schema_registry_options,
    spark_settings_option,
)
from ottla.cli.signals import ending_signals

if TYPE_CHECKING:
    from ottla.sql.server.settings import ServerSettings

DEFAULT_LISTEN = "127.0.0.1:8088"


@click.command(short_help="Serve ksqlDB's REST API.")
@click.option(
    "--listen",
    "-l",
    metavar="HOST:PORT",
    help=f"Address to listen on. Port 0 picks a free port. [default: {DEFAULT_LISTEN}]",
)
@file_option("--config", "-c", "config_file", help="ksql-server.properties. Other options override it.")
@pairs_option("--set", "-s", "settings", help="Setting of ksql-server.properties. May be repeated.")
@click.option("--master", metavar="URL", help="Spark master. [default: local[*]]")
@spark_settings_option
@click.option(
    "--checkpoints",
    metavar="DIR",
    help="Checkpoint directory. [default: ~/.local/state/ottla/sql-server]",
)
@click.option(
    "--functions",
    metavar="FILE",
    multiple=True,
    help="Python file or module with functions (@udf, @udaf, @udtf). May be repeated.",
)
@schema_registry_options
@client_options
def server(
    client: Client,
    listen: str | None,
    config_file: Path | None,
    settings: dict[str, str],
    master: str | None,
    conf: dict[str, str],
    checkpoints: str | None,
    functions: tuple[str, ...],
    schema_registry: dict[str, str],
) -> None:
    """Serve ksqlDB's REST API to many clients from one Spark session.

    Queries belong to the server: after a restart, even after a crash, each continues from its checkpoint.

    \b
    Examples:
      ottla sql server
      ottla sql server --listen 0.0.0.0:8088 --checkpoints /var/lib/ottla/sql
      ottla sql --server http://localhost:8088
    """
    from ottla.cli.commands.sql.sql import require_packages

    require_packages()
    given = _given(config_file, settings, listen)
    read = _read(given)
    from ottla.cli.client import DEFAULT_BOOTSTRAP_SERVER
    from ottla.cli.properties import to_librdkafka

    if read.bootstrap_servers and client.bootstrap_servers == DEFAULT_BOOTSTRAP_SERVER:
        client = Client(
            read.bootstrap_servers, {**client.properties, **to_librdkafka(read.client)}, client.timeout
        )
    client.ensure_reachable()
    _log()
    for name in read.ignored:
        logging.getLogger("ottla.sql").warning("The setting %s has no meaning here and is ignored.", name)
    import uvloop

    # The file says where the registry is, unless the command line does.
    named = click.get_current_context().get_parameter_source("schema_registry")
    registry = {**schema_registry, **read.schema_registry}
    if named is not None and named.name != "DEFAULT":
        registry = {**read.schema_registry, **schema_registry}
    uvloop.run(_serve(client, read, master, conf, checkpoints, functions, registry))


def _given(config_file: Path | None, settings: dict[str, str], listen: str | None) -> dict[str, str]:
    from ottla.cli.properties import parse_properties

    given: dict[str, str] = {}
    if config_file is not None:
        try:
            given = parse_properties(config_file.read_text("utf-8"))
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
            raise JobError(f"Cannot read {config_file}: {reason}.") from None
    given |= settings
    if listen is not None:
        given["listeners"] = f"http://{listen}"
    return given


def _read(given: dict[str, str]) -> ServerSettings:
    from ottla.sql.server.settings import BadSettings, read_settings

    try:
        return read_settings(given)
    except BadSettings as error:
        raise JobError(str(error)) from None


def _log() -> None:
    """Log to the current stderr. While Spark starts, file descriptor 2 is Java's log."""
    stream = os.fdopen(os.dup(2), "w", buffering=1)
    handler = logging.StreamHandler(stream)
    handler.setFormatter(logging.Formatter("[%(asctime)s] %(levelname)s %(message)s (%(name)s)"))
    logging.basicConfig(level=logging.WARNING, handlers=[handler], force=True)
    logging.getLogger("ottla").setLevel(logging.INFO)
    for name in ("SQLQueryContextLogger", "py4j"):
        logging.getLogger(name).setLevel(logging.CRITICAL + 1)


async def _serve(
    client: Client,
    settings: ServerSettings,
    master: str | None,
    conf: dict[str, str],
    checkpoints: str | None,
    functions: tuple[str, ...],
    schema_registry: dict[str, str],
) -> None:
    from ottla.sql import SqlError
    from ottla.sql.server.server import SqlServer

    try:
        running = SqlServer(
            lambda: _spark(master, conf),
            bootstrap_servers=client.bootstrap_servers,
            listeners=settings.listeners,
            service_id=settings.service_id,
            checkpoints=checkpoints or settings.checkpoints,
            properties=client.properties,
            functions=functions,
            authenticate=settings.authenticate,
            eager=True,
            schema_registry=schema_registry,
            names=settings.names,
            defaults=settings.defaults,
        )
        await running.start()
    except SqlError as error:
        raise JobError(str(error)) from None
    except OSError as error:
        raise JobError(f"Cannot listen: {error.strerror or error}.") from None
    import asyncio

    loop = asyncio.get_running_loop()
    for number in ending_signals(signal.SIGHUP):
        loop.add_signal_handler(number, running.ended.set)
    output.done(f"The SQL server is ready at {', '.join(running.urls)}.")
    await running.ended.wait()
    await running.stop()
    if running.has_failed:
        raise JobError("Spark has ended unexpectedly; start the server again, and its queries go on.")


def _spark(master: str | None, conf: dict[str, str]) -> Any:
    from ottla.cli.commands.sql.sql import java_log, stderr_to
    from ottla.spark.interruptible import interruptible_start
    from ottla.spark.session import session

    output.note("Starting Spark …")
    with interruptible_start(), stderr_to(java_log()):
        return session("ottla sql server", master, conf)
