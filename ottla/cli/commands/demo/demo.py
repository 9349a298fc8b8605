"""`ottla demo`: a broker, a generator of tweets and a pipeline, each in its own process."""

from __future__ import annotations

import contextlib
import signal
import socket
import sys
import tempfile
import time
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ottla.cli.commands.demo.processes import Child, Children
from ottla.cli.commands.pipeline.pipeline import require_spark
from ottla.cli.commands.servers.start import DEFAULT_CONSOLE_LISTEN, DEFAULT_LISTEN
from ottla.cli.errors import JobError
from ottla.cli.options import directory_option
from ottla.cli.shipped_files import shipped_folder
from ottla.cli.signals import StopRequest, stop_requested

if TYPE_CHECKING:
    from ottla.cli.commands.demo.view import Trending

PIPELINE = "demo"


@click.command(short_help="Run a pipeline over live events.")
@click.option(
    "--listen",
    "-l",
    default=DEFAULT_LISTEN,
    show_default=True,
    metavar="HOST:PORT",
    help="Address of the broker. Port 0 picks a free port.",
)
@directory_option(
    "--data", "-d", help="Directory for messages and checkpoints. [default: a temporary directory]"
)
@click.option(
    "--rate",
    type=click.FloatRange(min=0.1),
    default=20,
    show_default=True,
    metavar="N",
    help="Tweets per second.",
)
@click.option(
    "--console",
    metavar="HOST:PORT",
    help=f"Address of the console. [default: {DEFAULT_CONSOLE_LISTEN}, or a free port]",
)
@click.option("--master", "-m", metavar="URL", help="Spark master. [default: this machine]")
@click.option("--seconds", type=click.FloatRange(min=0), metavar="N", help="Stop after this time.")
def demo(
    listen: str,
    data: Path | None,
    rate: float,
    console: str | None,
    master: str | None,
    seconds: float | None,
) -> None:
    """Start a broker, send tweets to it, and count their hashtags per minute with a pipeline on Spark.

    The broker is a real one; use it from another terminal. Ctrl-C stops everything.

    \b
    Examples:
      ottla demo
      ottla demo --rate 500 --data demo
    """
    require_spark()
    examples = shipped_folder("examples")
    with stop_requested(signal.SIGHUP) as stop, _workplace(data) as place, Children(place) as children:
        has_console = find_spec("jinja2") and find_spec("httptools")
        beside = ("--console", console or _console_address()) if has_console else ()
        broker = children.start(
            "broker", "-m", "ottla", "start", "--listen", listen, "--data", str(place / "broker"), *beside
        )
        address = _wait_for_broker(broker, stop)
        if address is None:
            return
        _print_welcome(address, _said(broker, "Console"))
        where = ("--bootstrap-server", address)
        children.start("feed", str(examples / "feed.py"), "tweets", "--rate", str(rate), *where)
        options = [*where, "--checkpoints", str(place / "checkpoints"), "--trigger", "1 second"]
        options += ["--name", PIPELINE, "--conf", "spark.sql.shuffle.partitions=2"]
        if master is not None:
            options += ["--master", master]
        pipeline_file = str(examples / "tweets" / "pipeline.py")
        children.start("pipeline", "-m", "ottla", "pipeline", "run", pipeline_file, *options)

        from ottla.cli.commands.demo.view import Trending

        trending = Trending(address)
        try:
            _show(trending, children, stop, seconds)
        finally:
            trending.close()
            click.echo("\rStopping…" if sys.stdout.isatty() else "Stopping…")
    click.echo("Stopped cleanly.")


@contextlib.contextmanager
def _workplace(data: Path | None) -> Iterator[Path]:
    if data is not None:
        try:
            data.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise JobError(f"{data} cannot be used: {error.strerror}.") from None
        yield data.absolute()
        return
    with tempfile.TemporaryDirectory(prefix="ottla-demo-", ignore_cleanup_errors=True) as directory:
        yield Path(directory)


def _wait_for_broker(broker: Child, stop: StopRequest) -> str | None:
    """Return the broker's address, or None if the demo is stopped before the broker is ready."""
    while not stop.wait(0.05):
        lines = broker.output().splitlines()
        if any("Ctrl-C" in line for line in lines):
            return (_said(broker, "Listening") or "").split(",")[0]
        if not broker.is_running:
            raise JobError(
                f"The broker did not start: {broker.last_words()} `ottla demo --listen 127.0.0.1:0` takes a free port."
            )
    return None


def _console_address() -> str:
    host, _, port = DEFAULT_CONSOLE_LISTEN.rpartition(":")
    try:
        with socket.create_server((host, int(port))):
            return DEFAULT_CONSOLE_LISTEN
    except OSError:
        return f"{host}:0"


def _said(broker: Child, label: str) -> str | None:
    """Return the text after a label in the output of `ottla start`."""
    lines = (line.split(maxsplit=1) for line in broker.output().splitlines())
    return next((words[1] for words in lines if len(words) == 2 and words[0] == label), None)


def _print_welcome(address: str, console: str | None) -> None:
    option = "" if address == DEFAULT_LISTEN else f" -b {address}"
    click.secho("Ottla is ready.", fg="green", bold=True)
    click.echo(click.style("Listening ", dim=True) + click.style(address, fg="cyan"))
    if console is not None:
        click.echo(click.style("Console   ", dim=True) + click.style(console, fg="cyan"))
    click.echo("\nTry in another terminal:")
    for command in (
        f'ottla sql -e "SHOW TOPICS;"{option}',
        f"ottla consume tweets{option}",
        f"ottla groups describe trending{option}",
        f"ottla pipeline status {PIPELINE} --watch",
    ):
        click.echo("  " + click.style(command, bold=True))
    click.echo("\nCtrl-C ends all of it. Spark is starting…\n")
    sys.stdout.flush()


def _show(trending: Trending, children: Children, stop: StopRequest, seconds: float | None) -> None:
    from ottla.cli.commands.demo.view import screen
    from ottla.spark.pipelines.state import Pipelines

    pipelines = Pipelines()
    end = None if seconds is None else time.monotonic() + seconds
    with screen() as show:
        while not stop.is_set() and (end is None or time.monotonic() < end):
            trending.read(0.5)
            show(trending, pipelines.find(PIPELINE))
            ended = children.ended()
            if ended is not None:
                raise JobError(f"The {ended.name} ended: {ended.last_words()}")
