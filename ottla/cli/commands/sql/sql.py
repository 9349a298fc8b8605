"""`ottla sql`"""

from __future__ import annotations

import contextlib
import json
import signal
import sys
from collections.abc import Iterable, Iterator
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ottla.cli import output
from ottla.cli.client import Client
from ottla.cli.commands.sql.server import server as server_command
from ottla.cli.errors import JobError
from ottla.cli.options import client_options, file_option, schema_registry_options, spark_settings_option
from ottla.cli.signals import stop_requested

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from ottla.sql import Result, SqlSession
    from ottla.sql.client import SqlClient

# Rows of SQL on a terminal, in a pipe, and as JSON.

_NARROWEST = 12


def print_result(result: Result, as_json: bool) -> None:
    if as_json:
        if result.message:
            output.note(result.message)
        for row in result.rows:
            click.echo(_json(dict(zip(result.columns, row, strict=True))))
        return
    if result.columns and result.is_push:
        _print_coming(result.columns, result.rows)
    elif result.columns:
        rows = [[shown(value) for value in row] for row in result.rows]
        output.print_table(result.columns, rows)
    if result.message:
        output.done(result.message)


def _print_coming(columns: tuple[str, ...], rows: Iterable[tuple[Any, ...]]) -> None:
    widths = [max(len(column), _NARROWEST) for column in columns]
    line = "  ".join(column.ljust(width) for column, width in zip(columns, widths, strict=True)).rstrip()
    click.secho(line, bold=output.colour_wanted() or None)
    for row in rows:
        cells = [str(shown(value)) for value in row]
        # Columns grow with their widest value, so that later rows are aligned again.
        widths = [max(width, min(len(cell), 40)) for width, cell in zip(widths, cells, strict=True)]
        click.echo("  ".join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True)).rstrip())


def shown(value: Any) -> int | str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | str):
        return value
    if isinstance(value, list | dict):
        return _json(value)
    return str(_plain(value))


def _json(value: Any) -> str:
    return json.dumps(value, default=_plain, ensure_ascii=False)


def _plain(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.isoformat(timespec="milliseconds")
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, Decimal):
        return float(value)
    return str(value)


# `ottla sql`

_LOOK_EVERY = 0.3


@click.group(short_help="Query topics with ksqlDB's SQL, on Spark.", invoke_without_command=True)
@click.option("--execute", "-e", "statements", metavar="STATEMENTS", help="Run these statements and exit.")
@file_option(
    "--file",
    "-f",
    "file",
    help="Run a script and exit. Queries of a repeated run continue from their checkpoints.",
)
@click.option("--master", metavar="URL", help="Spark master. [default: local[*]]")
@spark_settings_option
@click.option(
    "--checkpoints",
    metavar="DIR",
    help="Checkpoint directory. [default: ~/.local/state/ottla/sql]",
)
@click.option(
    "--functions",
    metavar="FILE",
    multiple=True,
    help="Python file or module with functions (@udf, @udaf, @udtf). May be repeated.",
)
@click.option("--json", "as_json", is_flag=True, help="Print each row as a line of JSON.")
@click.option(
    "--server", metavar="URL", help="Connect to a SQL server, or to ksqlDB, instead of running Spark here."
)
@click.option(
    "--user",
    metavar="NAME:PASSWORD",
    help="With --server: user and password.",
    envvar="OTTLA_SQL_USER",
    show_envvar=True,
)
@schema_registry_options
@client_options
@click.pass_context
def sql(
    context: click.Context,
    client: Client,
    statements: str | None,
    file: Path | None,
    master: str | None,
    conf: dict[str, str],
    checkpoints: str | None,
    functions: tuple[str, ...],
    as_json: bool,
    server: str | None,
    user: str | None,
    schema_registry: dict[str, str],
) -> None:
    """Query streams and tables over topics with ksqlDB's statements.

    Without -e or -f, starts a shell. Spark starts with the first statement that needs it. Queries of CREATE … AS
    SELECT end with this command; with -e and -f it waits for Ctrl-C.

    \b
    Examples:
      ottla sql
      ottla sql -e "CREATE STREAM tweets (id BIGINT KEY, text STRING) WITH (kafka_topic='tweets');"
      ottla sql -e "SELECT * FROM tweets EMIT CHANGES LIMIT 3;" --json
      ottla sql -f trending.sql
      ottla sql server
      ottla sql --server http://localhost:8088
    """
    if context.invoked_subcommand is not None:
        return
    if statements is not None and file is not None:
        raise click.UsageError("Choose one of -e and -f.")
    require_packages()
    session: SqlSession | SqlClient
    if server is not None:
        session = _connect(server, user, client.timeout)
    else:
        client.ensure_reachable()
        session = _open(client, master, conf, checkpoints, functions, schema_registry)
        if sys.stderr.isatty():
            session.progress = output.note
    try:
        if statements is None and file is None and sys.stdin.isatty():
            from ottla.cli.commands.sql.shell import Shell

            Shell(session, as_json).run()
            return
        script = statements if statements is not None else _read(file)
        with _sentences(file, script):
            _run(session, script, as_json, resume=file is not None)
    finally:
        _end(session)


def _open(
    client: Client,
    master: str | None,
    conf: dict[str, str],
    checkpoints: str | None,
    functions: tuple[str, ...],
    schema_registry: dict[str, str],
) -> SqlSession:
    from ottla.sql import SqlSession

    with _sentences(None):
        return SqlSession(
            lambda: _start_spark(master, conf),
            bootstrap_servers=client.bootstrap_servers,
            checkpoints=checkpoints,
            properties=client.properties,
            functions=functions,
            schema_registry=schema_registry,
        )


def _connect(url: str, user: str | None, timeout: float) -> SqlClient:
    from ottla.sql.client import SqlClient

    with _sentences(None):
        client = SqlClient(url, user=user, connect_timeout=timeout)
        client.info()
    return client


def require_packages() -> None:
    from importlib.util import find_spec

    if any(find_spec(name) is None for name in ("pyspark", "sqlglot", "prompt_toolkit")):
        raise JobError("SQL runs on PySpark, which is not installed: pip install 'ottla[spark]'.")


def _read(file: Path | None) -> str:
    if file is None:
        return sys.stdin.read()
    try:
        return file.read_text()
    except OSError as error:
        raise JobError(f"The file {file} cannot be read: {error.strerror}.") from None
    except UnicodeDecodeError:
        raise JobError(f"The file {file} is not text in UTF-8.") from None


@contextlib.contextmanager
def _sentences(file: Path | None, script: str = "") -> Iterator[None]:
    from ottla.sql import SqlError

    try:
        yield
    except SqlError as error:
        message = error.pointed(script) if sys.stderr.isatty() else str(error)
        raise JobError(message if file is None else f"{file}: {message}") from None


def _run(session: SqlSession | SqlClient, script: str, as_json: bool, *, resume: bool) -> None:
    from ottla.sql.client import SqlClient

    for result in session.results(script, resume=resume):
        try:
            print_result(result, as_json)
        except KeyboardInterrupt:
            if not result.is_push:
                raise
            return  # the usual end of following changes
    # Those of a server live with it.
    if not isinstance(session, SqlClient) and session.queries.all():
        _wait(session)


def _wait(session: SqlSession) -> None:
    """Queries end with this process, so wait for them or for Ctrl-C."""
    running = session.queries.all()
    output.note(f"Running {', '.join(each.query_id for each in running)}; Ctrl-C ends it.")
    with stop_requested() as stop:
        while not stop.wait(_LOOK_EVERY):
            for each in running:
                if each.state.startswith("ERROR"):
                    raise JobError(
                        f"The query {each.query_id} has failed. {each.state.removeprefix('ERROR: ')}"
                    )
            if not any(each.is_active for each in running):
                return


def _start_spark(master: str | None, conf: dict[str, str]) -> SparkSession:
    import logging

    from ottla.jvm.java import NoJava
    from ottla.spark.interruptible import interruptible_start
    from ottla.spark.session import session

    # PySpark and py4j write errors on stderr, beside raising them.
    logging.getLogger().addHandler(logging.NullHandler())
    for name in ("SQLQueryContextLogger", "py4j"):
        logging.getLogger(name).setLevel(logging.CRITICAL + 1)
    if sys.stderr.isatty():
        output.note("Starting Spark …")
    try:
        with interruptible_start(), stderr_to(java_log()):
            spark = session("ottla sql", master, conf)
    except NoJava as error:
        raise JobError(str(error)) from None
    # PySpark's own handler cancels every job on Ctrl-C, those of other queries too.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    return spark


def java_log() -> Path:
    from ottla.sql.executing.places import state_directory

    log = state_directory() / "sql" / "spark.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    return log


@contextlib.contextmanager
def stderr_to(log: Path) -> Iterator[None]:
    """Send Java's log to a file. Users see failures as errors of their statements."""
    import os

    with log.open("ab") as target:
        kept = os.dup(2)
        try:
            os.dup2(target.fileno(), 2)
            yield
        finally:
            os.dup2(kept, 2)
            os.close(kept)


def _end(session: SqlSession | SqlClient) -> None:
    """Stop the queries, then Spark if it runs. Ignore errors: nobody could act on them."""
    if not session.uses_spark:
        return
    # Threads of PySpark complain when their connections close.
    with contextlib.suppress(Exception), stderr_to(java_log()):
        session.close()


sql.add_command(server_command)
